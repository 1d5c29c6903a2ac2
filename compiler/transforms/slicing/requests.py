"""Several requests side by side: a program for the new positions of one -> programs that
are for all, and for one after another.

What an equation says of each new position by itself holds of the positions of all requests, laid one after the other,
as it does of one's. Whatever else there is, sums over positions, the past, the number of them, is each request's own.
Non-goals: where anything is stored; which pages hold the past.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import TypeVar

from einc.ir.draft import unused
from einc.ir.elements import INTEGER
from einc.ir.indices import IndexSet, size
from einc.ir.programs import Equation, IndexLoop, NormalProgram, Program, Tensor
from einc.ir.terms import Apply, Fold, Join, Position, Read, Size, Term, children, reads, rebuild, walk
from einc.transforms.slicing.repeats import part

P = TypeVar("P", bound=Program)


def is_new(over: IndexSet, program: Program) -> bool:
    """Whether a set is that of the new positions."""
    return over.cls == "time" and over.extent == size(program.own[0])


def numbered(program: P) -> P:
    """The program in which equations of single positions read the number of a new one from a tensor."""
    at = unused("position", program.tensors)
    along = next(s.set for t in program.tensors.values() for s in t.slots if is_new(s.set, program))
    slot = next(s for t in program.tensors.values() for s in t.slots if s.set == along)

    def change(term: Term) -> Term:
        match term:
            case Apply("add", (Position(index), Size(shift))) if index.set == along and shift.sizes <= {*program.own}:
                return Read(at, (Position(index),))
        return rebuild(term, tuple(map(change, children(term))))

    equations = []
    for equation in program.equations:
        changed = equation.map(change)
        whole = program.tensors[equation.target].integer or not _single(program, changed, {at})
        equations.append(equation if whole else changed)
    if not any(at in e.reads for e in equations):
        return program
    tensor = Tensor(at, at, (slot,), "place", INTEGER)
    return replace(program, tensors={**program.tensors, at: tensor}, equations=tuple(equations))


def _single(program: Program, equation: Equation, among: Set[str] = frozenset()) -> bool:
    """Whether an equation is of each new position by itself; tensors `among` those that
    are known to be of positions."""
    own = {*program.own}

    def foreign(over: IndexSet) -> bool:
        return bool(over.extent.sizes & own) and not is_new(over, program)

    def plain(over: IndexSet, sub: Term) -> bool:
        if is_new(over, program):
            return isinstance(sub, Position) and sub.index.set == over
        return not foreign(over) and (isinstance(sub, Position) or fine(sub))

    def fine(term: Term) -> bool:
        """Whether a term uses no index or size of a request's own, other than new positions that it reads in their
        own slots."""
        match term:
            case Position(index):
                return not index.set.extent.sizes & own
            case Size(extent):
                return not extent.sizes & own
            case Fold(_, bound) if any(b.set.extent.sizes & own for b in bound):
                return False
            case Join(index) if index.set.extent.sizes & own:
                return False
            case Read(tensor, subs) if tensor in among:
                return all(isinstance(sub, Position) for sub in subs)
            case Read(tensor, subs):
                found = program.tensors[tensor]
                return not found.each and all(plain(s.set, sub) for s, sub in zip(found.slots, subs, strict=True))
        return all(map(fine, children(term)))

    sets = [i.set for i in equation.indices]
    once = sum(is_new(s, program) for s in sets) < 2 and not any(map(foreign, sets))
    return once and all(fine(t) for t in (equation.domain, equation.body)) and not _twice(program, equation)


def _twice(program: Program, equation: Equation) -> bool:
    """Whether an equation has two letters for new positions, one of them nowhere but in what it reads."""
    letters = {sub.index for t in (equation.domain, equation.body) for r in reads(t) for sub in r.subs
               if isinstance(sub, Position) and is_new(sub.index.set, program)}
    return len(letters | {i for i in equation.indices if is_new(i.set, program)}) > 1


def in_order(program: Program) -> list[IndexLoop]:
    """The loops of a step that run over its new positions one after the other."""
    return [loop for loop in program.repeats if program.own and is_new(loop.index.set, program)]


def _owned(program: Program) -> frozenset[str]:
    """The equations that are done for each request: those that are not of single positions, what reads values of a
    request that no position has, and what is only made point by point of what they make. So are loops over positions.
    """
    loops = [loop for loop in program.every_repeat if program.own and is_new(loop.index.set, program)]
    found = {key for loop in loops for key in loop.inside}
    values = {t.key for t in program.tensors.values() if t.each}
    values |= {state for loop in loops for state, _, _ in loop.states}
    for equation in program.equations:
        read = equation.reads
        pointwise = not any(isinstance(t, Fold) for t in walk(equation.body))
        if (equation.target in found or not _single(program, equation) or read & values
                or (pointwise and read & found)):
            found.add(equation.target)
            if not _of_positions(program, program.tensors[equation.target]):
                values.add(equation.target)
    return frozenset(found | {state for loop in loops for state, _, _ in loop.states})


def _of_positions(program: Program, tensor: Tensor) -> bool:
    """Whether a tensor has what can stand side by side with that of other requests: one
    new position, and nothing of the past."""
    own = [s.set for s in tensor.slots if s.set.extent.sizes & {*program.own}]
    shown = any(key == tensor.key for _, key in program.outputs)
    return any(is_new(s, program) for s in own) and (shown or (len(own) == 1 and tensor.role != "cache"))


def marked(program: P) -> P:
    """The program in which every tensor that each request has for itself, and that is not of its positions, says so."""
    each = {key for key in _owned(program) if not _of_positions(program, program.tensors[key])}
    each |= {t.key for t in program.tensors.values() if t.role == "cache"}
    return replace(program, tensors={k: replace(t, each=True) if k in each else t for k, t in program.tensors.items()})


def stretches(program: NormalProgram) -> list[tuple[bool, NormalProgram]]:
    """The program in pieces, one after the other, those that are for each request between
    those that are for all at once."""
    place, out = _places(program), []
    for at in range(max(place.values(), default=0) + 1):
        mine = [e for e in program.equations if place[e.target] == at]
        loops = [loop for loop in in_order(program) if place[loop.inside[0]] == at]
        later = {k for e in program.equations if place[e.target] > at
                 for k in e.reads} | {key for _, key in program.outputs}
        later |= {first for loop in in_order(program) if place[loop.inside[0]] > at for _, first, _ in loop.states}
        made = [e.target for e in mine] + [state for loop in loops for state, _, _ in loop.states]
        if mine:
            piece = part(program, mine, [key for key in made if key in later], program.tensors, loops)
            out.append((bool(at % 2), replace(piece, own=())))
    return out


def _places(program: Program) -> dict[str, int]:
    """The number of the piece in which each value is made, as early as it can be: that of a loop for all that it makes.
    Pieces of an odd number are for each request."""
    owned, place = _owned(program), dict[str, int]()
    units = {key: (*loop.inside, *(state for state, _, _ in loop.states)) for loop in in_order(program)
             for key in loop.inside}
    begins = {loop.inside[0]: [first for _, first, _ in loop.states] for loop in in_order(program)}
    before: dict[str, int] | None = None
    while place != before:
        before = dict(place)
        for equation in program.equations:
            key = equation.target
            read = [place[k] for k in (*equation.reads, *begins.get(key, ())) if k in place]
            least = max([*read, place.get(key, 0)])
            place |= dict.fromkeys(units.get(key, (key,)), least + (least % 2 != (key in owned)))
    return place
