"""Sums over the rows that name an element: Σ_{t, w_t = v} x_t, what a gather x_{w_t} sends back.

A row is a point of the indices that the names hold. Sorted by what they name, the rows of one element stand together:
each is read once, and no row meets an element that it does not name. `with_segments` gives such a sum one form: its
domain is only names, its body at most two values that know nothing of the element. What else the body is made of is a
value of its own for each row, and a row that is not to be counted names nothing. Non-goals: names made of positions
alone whose range algebra finds, and other folds than sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from einc.ir.domains import negation
from einc.ir.draft import unused
from einc.ir.elements import INTEGER, REAL, Element
from einc.ir.indices import DATA, SEQUENCE, Index, number
from einc.ir.plan import Buffer, Cost, SegmentSum
from einc.ir.programs import Equation, NormalProgram, Tensor, local
from einc.ir.sums import factors, product
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    conjuncts,
    const,
    free_indices,
    reads,
    substitute,
    walk,
)
from einc.planning.analysis.cost import size_of, volume
from einc.planning.analysis.wholes import keeps_whole
from einc.syntax.printing.show import equation_text

Names = tuple[tuple[Term, Index], ...]  # what a row names, and the index of the element


@dataclass(frozen=True)
class Segmented:
    """A sum in the one form. `rows` are the indices of its names, those that stand in the result first."""

    names: tuple[tuple[Read, Index], ...]
    rows: tuple[Index, ...]
    operands: tuple[Read, ...]


def segmented(equation: Equation, tensors: Mapping[str, Tensor]) -> Segmented | None:
    """The sum over sorted rows that an equation is; None where it is something else."""
    body = equation.body
    if not isinstance(body, Fold) or body.op != "sum" or body.domain == TRUE or not _plain(equation.axes):
        return None
    names: list[tuple[Read, Index]] = []
    free = equation.indices

    def _is_name(tensor: str, subs: tuple[Term, ...]) -> bool:
        return tensors[tensor].integer and _plain(subs)

    for atom in conjuncts(body.domain):
        match atom:
            case Apply("eq", (Read(tensor, subs) as read, Position(element))) if (
                _is_name(tensor, subs) and element in free
            ):
                names.append((read, element))
            case _:
                return None
    rows = tuple(dict.fromkeys(i for read, _ in names for i in _letters(read)))
    elements = {e for _, e in names}
    operands = tuple(f for f in factors(body.body) if isinstance(f, Read)) if body.body != ONE else ()
    whole = body.body == ONE or len(operands) == len(factors(body.body))
    fit = all(_plain(r.subs) and not free_indices(r) & elements for r in operands) and len(elements) == len(names)
    letters = {i for r in operands for i in free_indices(r)} | {*rows}
    if not whole or not fit or len(operands) > 2 or elements & {*rows} or not {*rows} & {*body.bound}:
        return None
    if not {*equation.indices} <= letters | elements or _pairs(equation, elements) or _grows(letters, names):
        return None
    sides = [free_indices(r) - {*rows, *body.bound} for r in operands]
    if sides[0] <= sides[-1] or sides[-1] <= sides[0] if len(sides) == 2 else not {*body.bound} <= {*rows}:
        return None
    return Segmented(tuple(names), tuple(sorted(rows, key=lambda i: i in body.bound)), operands)


def _plain(subs: Iterable[Term]) -> bool:
    letters = [s.index if isinstance(s, Position) else None for s in subs]
    return None not in letters and len(set(letters)) == len(letters)


def _letters(read: Read) -> tuple[Index, ...]:
    return tuple(s.index for s in read.subs if isinstance(s, Position))


# one form


def with_segments(program: NormalProgram) -> NormalProgram:
    """The program with sums over the rows that name an element each in their one form, which is one step."""
    program = _multiplied(program)
    made = _Sums(dict(program.tensors))
    equations = tuple(x for e in program.equations for x in made.equation(e))
    return program if equations == program.equations else replace(program, tensors=made.tensors, equations=equations)


def _multiplied(program: NormalProgram) -> NormalProgram:
    """Sums by what rows name of a product that nothing else reads, as sums of its
    factors: the product is never stored."""
    by = program.by_target
    read = Counter(r.tensor for e in program.equations for t in (e.body, e.domain) for r in reads(t))
    gone, out = {key for _, key in program.outputs}, list[Equation]()
    for equation in program.equations:
        body = equation.body
        if isinstance(body, Fold) and body.op == "sum" and isinstance(body.body, Read) and read[body.body.tensor] == 1:
            inner = by.get(body.body.tensor)
            parts = factors(inner.body) if inner is not None else ()
            letters = [free_indices(p) for p in parts if isinstance(p, Read) and _plain(p.subs)]
            named = any(isinstance(c, Apply) and c.op == "eq" for c in conjuncts(body.domain))
            apart = len(letters) == len(parts) == 2 and letters[0] - letters[1] and letters[1] - letters[0]
            if (inner is not None and named and apart and inner.target not in gone and _plain(inner.axes)
                and _plain(body.body.subs)):
                within = dict(zip(inner.indices, body.body.subs, strict=True))
                domain = both(body.domain, substitute(inner.domain, within))
                equation = replace(equation, body=replace(body, domain=domain, body=substitute(inner.body, within)))
                gone.add(inner.target)
        out.append(equation)
    gone -= {key for _, key in program.outputs}
    return replace(program, equations=tuple(e for e in out if e.target not in gone)) if gone else program


@dataclass
class _Sums:
    """The equations made so far of a program whose sums over chosen elements get names of their own."""

    tensors: dict[str, Tensor]
    made: list[Equation] = field(default_factory=list)
    known: list[Equation] = field(default_factory=list)  # made for earlier equations

    def equation(self, equation: Equation) -> list[Equation]:
        """The equation, after those that it needs. Changes `self.tensors` and `self.known`."""
        body = equation.body
        if not isinstance(body, Fold) or body.op != "sum" or not _plain(equation.axes):
            return [equation]
        if segmented(equation, self.tensors) is not None:
            return [equation]
        names = self._names(equation, body)
        if not names:
            return [equation]
        self.made, kept = [], dict(self.tensors)
        new = self._summed(equation, body, names)
        if new is None:
            self.tensors = kept
            return [equation]
        self.known += self.made
        return [*self.made, new]

    def _names(self, equation: Equation, fold: Fold) -> Names:
        """Which elements each point of the fold names: one for each index of the result that equals a whole number."""
        out: list[tuple[Term, Index]] = []
        elements: set[Index] = set()
        for atom in conjuncts(fold.domain):
            if not isinstance(atom, Apply) or atom.op != "eq":
                continue
            for term, here in (atom.args, atom.args[::-1]):
                if (isinstance(here, Position) and here.index in {*equation.indices} - elements
                    and self._names_it(term, fold)):
                    out.append((term, here.index))
                    elements.add(here.index)
                    break
        rows = {i for term, _ in out for i in free_indices(term)}
        return () if rows & elements else tuple(out)

    def _names_it(self, term: Term, fold: Fold) -> bool:
        """Whether a whole number is the data's, or of the model's own indices, or cut
        off: no interval of rows has it."""
        bound = free_indices(term) & {*fold.bound}
        cut = any(isinstance(x, Apply) and x.op in ("min", "max") for x in walk(term))
        given = [self.tensors[r.tensor].integer for r in reads(term)]
        suits = bool(given) or cut or not any(i.set.cls in DATA for i in bound)
        # A number that is given for each pair has its room already; one that is made of two positions has none.
        room = _places(bound) < 2 or (isinstance(term, Read) and _plain(term.subs))
        return bool(bound) and keeps_whole(term) and all(given) and suits and room

    def _summed(self, equation: Equation, fold: Fold, names: Names) -> Equation | None:
        """The sum over rows by the element that each names, of values that have names of their own; None where it
        has no such form. New equations are added to `made` and `tensors`, also where None comes out: the caller
        takes them back."""
        rows = {i for term, _ in names for i in free_indices(term)}
        others = tuple(b for b in fold.bound if b not in rows)
        within = {e: Apply("min", (Apply("max", (k, const(e.set.start))), _last(e))) for k, e in names}
        left = [a for a in conjuncts(fold.domain) if not any(a in _atoms(k, e) for k, e in names)]
        # A row whose number is that of no element names nothing, whatever it reads under its conditions.
        read_at = {a for a in left if any(free_indices(r) & {*within} for r in reads(a))}
        left = [substitute(a, within if a in read_at else {e: k for k, e in names}) for a in left]
        inner = both(*(a for a in left if free_indices(a) & {*others}))
        outer = both(*(a for a in left if not free_indices(a) & {*others}))
        if not free_indices(outer) <= rows:
            return None
        parts = tuple(substitute(f, within) for f in factors(fold.body))
        operands = self._operands(equation, parts, rows, others, inner, outer)
        if operands is None:
            return None
        read, rest = operands
        if any(_grows(free_indices(r), names) for r in read) or _pairs(equation, {e for _, e in names}):
            return None
        named = tuple(self._name(equation, k, e, outer if n == 0 else TRUE) for n, (k, e) in enumerate(names))
        domain = both(*(Apply("eq", (r, Position(e))) for r, (_, e) in zip(named, names, strict=True)))
        bound = tuple(b for b in fold.bound if b in rows or b in rest)
        return replace(equation, body=Fold("sum", bound, domain, product(read) if read else ONE))

    def _name(self, equation: Equation, term: Term, element: Index, kept: Term) -> Read:
        """What each row names, under a name; a row that is not kept names what is before the first element."""
        if isinstance(term, Read) and _plain(term.subs) and kept == TRUE:
            return term
        none = const(element.set.start - 1)
        body = term if kept == TRUE else Apply("add", (Where(kept, term), Where(negation(kept), none)))
        letters = [i for i in _order(equation) if i in free_indices(term) | free_indices(kept)]
        return self._value(f"{equation.target}_at", letters, body, INTEGER)

    def _operands(
        self, equation: Equation, parts: tuple[Term, ...], rows: set[Index], others: tuple[Index, ...], inner: Term,
        kept: Term
    ) -> tuple[tuple[Read, ...], tuple[Index, ...]] | None:
        """What is summed: nothing but ones, one value for each row, or two of which each has indices that the other
        lacks; and what these two are summed over beside the rows. Rows are `kept` where this holds."""
        sides = [frozenset(free_indices(p) - rows - {*others}) for p in parts]
        widest = max(sides, key=len)
        few = not any(r.set.cls in DATA for r in rows)  # rows that are the model's own: a value for each is not large
        if few or all(s <= widest for s in sides):
            if product(parts) == ONE and not others:
                return (), ()
            return (self._one(equation, parts, others, inner, kept),), ()
        first, *more = _maximal(sides)
        if len(more) != 1:
            return None
        (second,) = more
        pair: tuple[list[Term], list[Term]] = ([], [])
        for part, side in sorted(zip(parts, sides, strict=True), key=lambda p: -len(p[1])):
            fits = [n for n, s in enumerate((first, second)) if side <= s]
            near = [n for n in fits if free_indices(part) & rows <= {i for p in pair[n] for i in free_indices(p)}]
            pair[(near or fits)[0]].append(part)
        letters = [{i for p in group for i in free_indices(p)} & {*others} for group in pair]
        own = [tuple(i for i in others if i in mine and i not in letters[1 - n]) for n, mine in enumerate(letters)]
        shared = tuple(i for i in others if i not in own[0] and i not in own[1])
        if inner != TRUE and (shared or (own[0] and own[1])):
            return None
        made = [self._one(equation, tuple(group), mine, inner if mine else TRUE, kept)
                for group, mine in zip(pair, own, strict=True)]
        return tuple(made), shared

    def _one(self, equation: Equation, parts: tuple[Term, ...], others: tuple[Index, ...], inner: Term,
             kept: Term) -> Read:
        """The product as one value, summed over what is no row; it exists where rows are kept, but for what data say.
        """
        body = product(parts)
        if not others and isinstance(body, Read) and _plain(body.subs):
            return body
        letters = [i for i in _order(equation) if i in (free_indices(body) | free_indices(inner)) - {*others}]
        return self._value(f"{equation.target}_of", letters, Fold("sum", others, inner, body) if others else body,
                           domain=both(*(c for c in conjuncts(kept) if free_indices(c) <= {*letters} and not reads(c))))

    def _value(self, stem: str, letters: list[Index], body: Term, element: Element = REAL,
               domain: Term = TRUE) -> Read:
        """A read of the value with this body, which is made unless it is there."""
        known = next((e for e in (*self.made, *self.known)
                      if (e.body, e.domain, e.indices) == (body, domain, tuple(letters))), None)
        axes = tuple(map(Position, letters))
        if known is not None:
            return Read(known.target, axes)
        key = unused(stem, self.tensors)
        self.tensors[key] = local(key, letters, element)
        self.made.append(Equation(key, axes, domain, body))
        return Read(key, axes)


def _order(equation: Equation) -> tuple[Index, ...]:
    """Rows first, so that those of one element can stand together."""
    assert isinstance(equation.body, Fold)
    return (*equation.body.bound, *equation.indices)


def _last(index: Index) -> Term:
    return Size(index.set.extent + number(index.set.start - 1))


def _atoms(name: Term, element: Index) -> tuple[Term, Term]:
    return Apply("eq", (name, Position(element))), Apply("eq", (Position(element), name))


def _places(indices: Iterable[Index]) -> int:
    return sum(i.set.cls in SEQUENCE for i in {*indices})


def _grows(letters: Set[Index], names: Iterable[tuple[Term, Index]]) -> bool:
    """Whether a value would have two places that no one name has both."""
    return _places(letters) > 1 and all(_places(letters - free_indices(term)) for term, _ in names)


def _pairs(equation: Equation, elements: set[Index]) -> bool:
    """Whether a result has places beside those that are named: it may be one that is never stored."""
    return _places({*equation.indices} - elements) + min(_places(elements), 1) > 1


def _maximal(sides: Iterable[frozenset[Index]]) -> list[frozenset[Index]]:
    found = list(dict.fromkeys(sides))
    return [s for s in found if not any(s < other for other in found)]


# the step


def segment(program: NormalProgram, equation: Equation, buffers: Mapping[str, Buffer]) -> SegmentSum | None:
    """The sum as a step; None where the equation is something else."""
    found = segmented(equation, program.tensors)
    if found is None:
        return None
    given = {r.tensor for r, _ in found.names} | {r.tensor for r in found.operands}
    read = number(0)
    for name in sorted(given):
        read = read + size_of(buffers[name])
    letters = {i for r in found.operands for i in free_indices(r)} | {*found.rows}
    work = volume(i.set for i in sorted(letters, key=lambda i: i.name)) * number(max(len(found.operands), 1))
    return SegmentSum(
        reads=(*(r.tensor for r, _ in found.names), *(r.tensor for r in found.operands)),
        writes=(equation.target,),
        texts=(equation_text(program, equation),),
        axes=tuple(i.name for i in equation.indices),
        named=tuple((tuple(i.name for i in _letters(r)), e.name) for r, e in found.names),
        rows=tuple(i.name for i in found.rows),
        letters=tuple(tuple(i.name for i in _letters(r)) for r in found.operands),
        cost=Cost(work, read, size_of(buffers[equation.target]), number(0)),
    )
