"""Sums of products over intervals in a gradient -> recurrences: one value of all that comes before a position.

The slope of a product over (s, t) by its factor at u is a product over (s, u) times one over (u, t). What is summed
over s then, Σ_{s < u} x_s ∏_{v ∈ (s, u)} w_v, costs triples of positions where x or w has a letter of another one. It
is A_{u-1} with A_p = w_p A_{p-1} + x_p, which costs pairs, and is exact where w is 0. Non-goals: products over other
domains than between the two positions; values that no gradient needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from einc.checking.programs.packing import of_lengths
from einc.ir.domains import proves
from einc.ir.draft import unused
from einc.ir.indices import INDEX_CLASSES, Index
from einc.ir.programs import Equation, IndexLoop, Program, Tensor, local
from einc.ir.sums import factors, product
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Fold,
    Position,
    Read,
    Term,
    Where,
    both,
    conjuncts,
    const,
    free_indices,
    reads,
    substitute,
)

P = TypeVar("P", bound=Program)


def with_recurrences(program: P) -> P:
    """The program with such sums as values of loops over positions."""
    work = _Work(dict(program.tensors), program.by_target)
    equations = [made for e in program.equations for made in work.opened(e)]
    return program if not work.loops else program.but(equations=equations, tensors=work.tensors,
                                                      loops=(*program.loops, *work.loops))


@dataclass(frozen=True)
class _Sum:
    """Σ over `index` before `end` of the product of `inside` where `given` holds, times ∏ of `gate` between the two,
    in which `between` is the letter. `own` are summed over as well.
    """

    index: Index
    end: Index
    between: Index
    gate: Term
    inside: tuple[Term, ...]
    given: tuple[Term, ...]
    own: tuple[Index, ...]
    around: tuple[Term, ...]  # what holds of the letters that stay: elsewhere nothing reads the sum


@dataclass
class _Work:
    """The equations that have been made so far; the methods add to `tensors` and `loops`."""

    tensors: dict[str, Tensor]
    known: Mapping[str, Equation]
    loops: list[IndexLoop] = field(default_factory=list)

    def opened(self, equation: Equation) -> Iterable[Equation]:
        """The equation, behind those of the recurrences that it reads."""
        made = list[Equation]()
        addends = equation.body.args if isinstance(equation.body, Apply) and equation.body.op == "add" else (
            equation.body,)
        parts = tuple(self._value(part, equation, made) for part in addends)
        if not made:
            return [equation]
        return [*made, replace(equation, body=parts[0] if len(parts) == 1 else Apply("add", parts))]

    def _value(self, term: Term, equation: Equation, made: list[Equation]) -> Term:
        """An addend of an equation, by a recurrence where it is such a sum; the equations of that go to `made`."""
        if not (isinstance(term, Fold) and term.op == "sum"):
            return term
        for part in factors(term.body):
            if (found := _found(part, term, equation)) is not None:
                more, value = self._recurrence(found)
                made += more
                rest = [f for f in factors(term.body) if f is not part and f not in found.inside]
                bound = tuple(b for b in term.bound if b not in (found.index, *found.own))
                met = (*found.given, *_order(found.index, found.end))
                domain = both(*(c for c in conjuncts(term.domain) if c not in met))
                body = product((*rest, value))
                return Fold("sum", bound, domain, body) if bound else body if domain == TRUE else Where(domain, body)
        return term

    def _recurrence(self, found: _Sum) -> tuple[list[Equation], Term]:
        """The equations of x and of A, whose loop is added, and what A is before the end."""
        held = {i for t in (found.gate, *found.inside, *found.given) for i in free_indices(t)}
        letters = sorted(held - {found.index, found.between, *found.own}, key=lambda i: i.name)
        here = found.index
        axes = tuple(map(Position, letters))
        added, state, start, every = (self._tensor(stem, (*letters, *([here] if whole else ())))
                                      for stem, whole in (("x", True), ("A_before", False), ("A_start", False),
                                                          ("A", True)))
        inside = product(found.inside)
        given = both(*found.given, *found.around)
        body = Fold("sum", found.own, given, inside) if found.own else inside if given == TRUE else Where(given, inside)
        gate = self._existing(substitute(found.gate, {found.between: Position(here)}))
        before: Term = Read(state, axes)
        kept = before if here.set.packed is None else Where(_later(here), before)
        following = Apply("add", (Apply("mul", (gate, kept)), Read(added, (*axes, Position(here)))))
        made = [Equation(added, (*axes, Position(here)), TRUE, body), Equation(start, axes, TRUE, ZERO),
                Equation(every, (*axes, Position(here)), TRUE, following)]
        if here.set.packed is not None:
            self.tensors |= {t.key: t for t in of_lengths(here.set) if t.key not in self.tensors}
        self.loops.append(IndexLoop(here, ((state, start, every),), (every,)))
        before = Read(every, (*axes, Apply("sub", (Position(found.end), ONE))))
        return made, Where(_later(found.end), before)

    def _existing(self, gate: Term) -> Term:
        """A gate where what it reads has a value, and 0 elsewhere, where no interval that is read has it."""
        asked = list[Term]()
        for read in reads(gate):
            of = self.known.get(read.tensor)
            if of is not None and of.has_letters:
                by = dict(zip(of.indices, read.subs, strict=True))
                asked += [c for c in conjuncts(substitute(of.domain, by)) if not reads(c)]
        return gate if both(*asked) == TRUE else Where(both(*asked), gate)

    def _tensor(self, stem: str, indices: tuple[Index, ...]) -> str:
        name = unused(stem, self.tensors)
        self.tensors[name] = local(name, indices)
        return name


def _found(part: Term, fold: Fold, equation: Equation) -> _Sum | None:
    """The sum that one factor, a product between two positions, is summed in; None where something in it knows the end
    of the interval."""
    ends = _ends(part, fold, equation.indices)
    if ends is None or not isinstance(part, Fold):
        return None
    index, end = ends
    order, *met = _order(index, end)
    inside = tuple(f for f in factors(fold.body) if f is not part and index in free_indices(f))
    given = tuple(c for c in conjuncts(fold.domain) if index in free_indices(c) and c not in (order, *met))
    if order not in conjuncts(fold.domain) or any(end in free_indices(t) for t in (*inside, *given)):
        return None
    others = [f for f in factors(fold.body) if f is not part and f not in inside]
    others += [c for c in conjuncts(fold.domain) if c not in (*given, order, *met)]
    elsewhere = {i for t in (*others, part.body) for i in free_indices(t)}
    own = tuple(b for b in fold.bound if b != index and b not in elsewhere)
    letters = frozenset[Index]().union(*map(free_indices, inside)) - {index, *own}
    around = tuple(c for c in conjuncts(fold.domain) if free_indices(c) <= letters and not reads(c))
    return _Sum(index, end, part.bound[0], part.body, inside, given, own, around)


def _ends(part: Term, fold: Fold, free: tuple[Index, ...]) -> tuple[Index, Index] | None:
    """The two positions between which a product runs, one that is summed and one that is free. Positions of requests
    are all on one line; both are then of one request, and so are those between them.
    """
    if not (isinstance(part, Fold) and part.op == "prod" and len(part.bound) == 1):
        return None
    (v,), atoms = part.bound, conjuncts(part.domain)
    below = [a.args[0].index for a in atoms if isinstance(a, Apply) and a.op == "lt" and a.args[1] == Position(v)
             and isinstance(a.args[0], Position)]
    above = [a.args[1].index for a in atoms if isinstance(a, Apply) and a.op == "lt" and a.args[0] == Position(v)
             and isinstance(a.args[1], Position)]
    if not (len(below) == len(above) == 1 and below[0] in fold.bound and above[0] in free):
        return None
    first, last = below[0], above[0]
    one_line = v.set == first.set == last.set and INDEX_CLASSES[v.set.cls].before == "le"
    rest = [a for a in atoms if not (isinstance(a, Apply) and a.op == "lt")]
    if v.set.packed is not None:
        one_line &= proves(fold.domain, _of_one_request(first, last)) and rest == [_of_one_request(v, last)]
        rest = []
    known = free_indices(part.body) & {first, last}
    return (first, last) if one_line and not rest and not known else None


def _of_one_request(one: Index, other: Index) -> Term:
    """That two positions on one line are of the same request."""
    assert one.set.packed is not None, "the positions of one text are all of one request"
    request = one.set.packed.request
    return Apply("eq", (Read(request, (Position(one),)), Read(request, (Position(other),))))


def _order(index: Index, end: Index) -> tuple[Term, ...]:
    """That a position is before an end, and what says that both are of one request."""
    of_one = () if index.set.packed is None else (_of_one_request(index, end), _of_one_request(end, index))
    return (Apply("lt", (Position(index), Position(end))), *of_one)


def _later(index: Index) -> Term:
    """That a position is not the first, of its request where there are several."""
    packed = index.set.packed
    place = Position(index) if packed is None else Apply("sub", (
        Position(index), Read(packed.offset, (Position(index),))))
    return Apply("lt", (const(index.set.start), place))
