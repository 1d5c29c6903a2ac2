"""A tensor as one term over what the program is given: definitions in place of names, composite indices as their parts.

A bound index of a direct sum is one of each part, one of a few known values is each of them; so is an index of the
tensor itself, for which there is then a case each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from itertools import count, product

from einc.checking.declarations.slots import standing
from einc.ir.folds import FOLDS
from einc.ir.indices import Extent, Index, IndexSet, number
from einc.ir.programs import Equation, Program
from einc.ir.terms import (
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Where,
    children,
    const,
    rebuild,
    substitute,
)

FEW = 4  # values of an index that are taken one by one
_MOST = 14_000  # nodes of both sides


class TooLong(Exception):  # noqa: N818, it is an answer
    """The term with everything in place would be too long to be worked with."""


@dataclass
class Unfolding:
    """What is put in place: the equations of a program, or those of a few keys. An index of at most so `few` values is
    each of them.
    """

    program: Program
    equations: Mapping[str, Equation]
    few: int = FEW
    fresh: Iterator[int] = field(default_factory=count)
    nodes: int = 0

    def cases(self, indices: tuple[Index, ...]) -> Iterator[dict[Index, Term]]:
        """What stands for the indices of a tensor, case by case."""
        for options in product(*(list(self._options(i)) for i in indices)):
            yield dict(zip(indices, options, strict=True))

    def _options(self, index: Index) -> Iterator[Term]:
        """What may stand for an index: packs of its parts, parts of each summand, known values, or the index itself."""
        match self._kind(index.set):
            case "parts":
                sets = self.program.splits[index.set]
                inner = [list(self._options(Index(f"{index.name}.{n + 1}", x))) for n, x in enumerate(sets)]
                yield from (Pack(parts, sets, index.set) for parts in product(*inner))
            case "sum":
                for part, wrap in self._summands(index.set):
                    yield from map(wrap, self._options(Index(f"{index.name}.{part.name}", part.set)))
            case "few":
                yield from map(const, self._values(index.set))
            case "more":
                least, ends = _more(index.set)
                yield from (Position(Index(index.name, least)), *ends)
            case _:
                yield Position(index)

    def _kind(self, over: IndexSet) -> str:
        if over in self.program.splits:
            return "parts"
        if over in self.program.sums:
            return "sum"
        fixed = over.extent.constant
        if fixed is None:
            return "more" if _more(over)[1] else ""
        return "few" if fixed <= self.few else ""

    def _values(self, over: IndexSet) -> range:
        return range(over.start, over.start + int(over.extent.constant or 0))

    def _summands(self, over: IndexSet) -> Iterator[tuple[Index, _Wrap]]:
        before = number(0)
        for part in self.program.sums[over]:
            yield part, _Wrap(part.set, before, over)
            before = before + part.set.extent

    def term(self, term: Term) -> Term:
        """The term with everything in place. Changes `self.nodes`. Raises TooLong."""
        self.nodes += 1
        if self.nodes > _MOST:
            raise TooLong
        match term:
            case Read(tensor, subs):
                subs = tuple(map(self.term, subs))
                found = self.equations.get(tensor)
                inside = None if found is None else self._opened(found, subs)
                return Read(tensor, subs) if inside is None else self.term(inside)
            case Fold(op, bound) if not FOLDS[op].ordered and len(bound) > 0:
                index = next((i for i in bound if self._kind(i.set)), None)
                if index is not None:
                    return self.term(self._split(term, index))
                return Fold(op, bound, self.term(term.domain), self.term(term.body))
            case Where(condition, then):
                return Where(self.term(condition), self.term(then))
            case Join():
                return term
        return rebuild(term, tuple(map(self.term, children(term))))

    def _opened(self, equation: Equation, subs: tuple[Term, ...]) -> Term | None:
        """The body of an equation at the place where it is read; None for part of a direct sum that is not known."""
        slots = self.program.tensors[equation.target].slots
        axes = tuple(tuple(x.index for x in _positions(axis)) for axis in equation.axes)
        body = equation.body
        if isinstance(body, Join):
            at = next(n for n, axis in enumerate(axes) if axis == (body.index,))
            found = self._part(body, subs[at])
            if found is None:
                return None
            body, by = found
            rest = [n for n in range(len(axes)) if n != at]
            axes, subs, slots = (tuple(axes[n] for n in rest), tuple(subs[n] for n in rest),
                                 tuple(slots[n] for n in rest))
        else:
            by = {}
        return substitute(body, {**standing(axes, subs, self.program.splits, tuple(x.set for x in slots)), **by})

    def _part(self, join: Join, sub: Term) -> tuple[Term, dict[Index, Term]] | None:
        before = number(0)
        for part, body in join.parts:
            match sub:
                case Part(item, of, start, _) if of == part.set and start == before:
                    return body, {part: item}
            before = before + part.set.extent
        return None

    def _split(self, fold: Fold, index: Index) -> Term:
        """The fold with other indices in place of one."""
        left = tuple(i for i in fold.bound if i != index)

        def over(bound: tuple[Index, ...], by: Term) -> Term:
            where, body = (substitute(x, {index: by}) for x in (fold.domain, fold.body))
            if left or bound:
                return Fold(fold.op, (*left, *bound), where, body)
            if FOLDS[fold.op].linear:
                return Where(where, body)
            return Fold(fold.op, (Index(f"*{next(self.fresh)}", IndexSet("feature", number(1))),), where, body)

        kind = self._kind(index.set)
        if kind == "parts":
            sets = self.program.splits[index.set]
            parts = tuple(Index(f"*{next(self.fresh)}", x) for x in sets)
            return over(parts, Pack(tuple(map(Position, parts)), sets, index.set))
        if kind == "sum":
            summands = [(Index(f"*{next(self.fresh)}", part.set), wrap) for part, wrap in self._summands(index.set)]
            made = [over((new,), wrap(Position(new))) for new, wrap in summands]
        elif kind == "more":
            least, ends = _more(index.set)
            new = Index(f"*{next(self.fresh)}", least)
            made = [over((new,), Position(new)), *(over((), end) for end in ends)]
        else:
            made = [over((), const(value)) for value in self._values(index.set)]
        return reduce(FOLDS[fold.op].merged, made)


@dataclass(frozen=True)
class _Wrap:
    """An element of one part of a direct sum as one of the sum."""

    of: IndexSet
    before: Extent
    into: IndexSet

    def __call__(self, item: Term) -> Term:
        return Part(item, self.of, self.before, self.into)


def _more(over: IndexSet) -> tuple[IndexSet, tuple[Term, ...]]:
    """Of a set of `T + 1` elements that of the first T, and the others; none of another set."""
    more = sum((part for sizes, part in over.extent.terms if not sizes), Fraction(0))
    if over.by or over.packed is not None or not (0 < more <= FEW and more.denominator == 1):
        return over, ()
    least = over.extent - number(more)
    return replace(over, extent=least), tuple(Size(least + number(over.start + n)) for n in range(int(more)))


def _positions(axis: Term) -> tuple[Position, ...]:
    return tuple(x for x in (axis.parts if isinstance(axis, Pack) else (axis,)) if isinstance(x, Position))


