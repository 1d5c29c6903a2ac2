"""Sums between two positions -> differences of sums up to each: for all pairs the work of as many positions.

Σ_{u ∈ (s, t]} g_u is Σ_{u ≤ t} g_u - Σ_{u ≤ s} g_u where s ≤ t, and 0 elsewhere. Sums up to a position are formed in
float64, so that the difference loses nothing of data in a narrower type. It is done where the two ends have letters of
their own: where both have one letter there are as many intervals as positions anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from einc.ir.domains import is_whole, linear, proves
from einc.ir.finite import stays_finite
from einc.ir.indices import INDEX_CLASSES, Index
from einc.ir.primitives import POSITIVE, PRIMITIVES
from einc.ir.programs import Equation, Program
from einc.ir.signs import sign
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Term,
    Where,
    both,
    changed_under,
    conjuncts,
    free_indices,
    walk,
)

P = TypeVar("P", bound=Program)
_End = tuple[str, Term]  # `le` or `lt`, and an end


def with_intervals(program: P) -> P:
    """The program with sums over intervals as differences, wherever their addends are surely finite."""
    if not any(isinstance(t, Fold) and t.op == "sum" and len(conjuncts(t.domain)) > 1 for t in program.terms):
        return program
    known = program.by_target
    return program.but(equations=tuple(
        e if (body := in_differences(e.body, e.domain, known)) is e.body
        else Equation(e.target, e.axes, e.domain, body, e.source) for e in program.equations))


def in_differences(term: Term, given: Term, known: Mapping[str, Equation] | None) -> Term:
    """The term with its sums over intervals as differences, where `given` holds: of addends that are surely finite by
    what is `known` of the tensors, or of all where that is None.
    """
    match term:
        case Fold("sum", bound, _, body) if (ends := _ends(term, given)) is not None and (
                known is None or finite(body, known)):
            upper, lower = (Fold("sum", bound, both(*ends.rest, *own, Apply(op, (Position(bound[0]), end))), body)
                            for (op, end), own in zip((ends.upper, ends.lower), ends.own, strict=True))
            difference = Apply("sub", (upper, lower))
            strict = (ends.lower[0], ends.upper[0]) == ("le", "lt")
            ordered = Apply("lt" if strict else "le", (ends.lower[1], ends.upper[1]))
            return difference if proves(given, ordered) else Where(ordered, difference)
    return changed_under(term, given, lambda part, holds: in_differences(part, holds, known))


def between(fold: Fold, given: Term = TRUE) -> bool:
    """Whether a fold runs over an interval of which each end has letters of its own, which its body does not read."""
    return _ends(fold, given) is not None


@dataclass(frozen=True)
class _Ends:
    """An interval: what is in it, and what stands before it, each as `le` or `lt` an end; what else a domain says; and
    that what is summed up to an end is of the request of that end, where positions are of requests.
    """

    upper: _End
    lower: _End
    rest: tuple[Term, ...]
    own: tuple[tuple[Term, ...], tuple[Term, ...]] = ((), ())


def _ends(fold: Fold, given: Term) -> _Ends | None:
    """The ends of the interval that a sum runs over where `given` holds; None where it is none, or has an end for each
    of its values.
    """
    if len(fold.bound) != 1 or INDEX_CLASSES[fold.bound[0].set.cls].before != "le":
        return None
    (index,) = fold.bound
    if index.set.packed is not None:
        return _of_requests(fold, index, index.set.packed.request, given)
    return _found(fold, index, conjuncts(fold.domain))


def _of_requests(fold: Fold, index: Index, request: str, given: Term) -> _Ends | None:
    """The ends of an interval of positions of a request. Both are of this request, so the positions between them are,
    and each sum up to an end is one over positions of the request of that end.
    """
    def of(position: Index) -> Term:
        """The request of a position."""
        return Read(request, (Position(position),))

    atoms = conjuncts(fold.domain)
    same = [x for x in atoms if isinstance(x, Apply) and x.op == "eq" and of(index) in x.args]
    found = _found(fold, index, [x for x in atoms if x not in same])
    if found is None or not same:
        return None
    last, first = (sorted(free_indices(end), key=str) for _, end in (found.upper, found.lower))
    if len(last) != 1 or len(first) != 1 or last[0].set != index.set or first[0].set != index.set:
        return None
    upper, lower = of(last[0]), of(first[0])
    asked = {x for atom in same if isinstance(atom, Apply) for x in atom.args}
    equal = any(isinstance(x, Apply) and x.op == "eq" and {*x.args} == {upper, lower} for x in conjuncts(given))
    if not equal or not asked <= {of(index), upper, lower}:
        return None
    return replace(found, own=((Apply("eq", (upper, of(index))),), (Apply("eq", (lower, of(index))),)))


def _found(fold: Fold, index: Index, atoms: Iterable[Term]) -> _Ends | None:
    """The ends that these conditions of a sum set for its index."""
    lower, upper, rest = list[_End](), list[_End](), list[Term]()
    for atom in atoms:
        side = _side(atom, index)
        if side is None:
            rest.append(atom)
        else:
            (lower if side[0] else upper).append(side[1])
    if len(lower) != 1 or len(upper) != 1:
        return None
    first, last = free_indices(lower[0][1]), free_indices(upper[0][1])
    body = free_indices(fold.body) | {i for x in rest for i in free_indices(x)}
    if not first or not last or first & last or (first | last) & body:
        return None
    return _Ends(upper[0], lower[0], tuple(x for x in rest if x != TRUE))


def _side(atom: Term, index: Index) -> tuple[bool, _End] | None:
    """Whether a condition is a lower bound of the index, and the positions up to its end: those in the interval, or
    those before it.
    """
    match atom:
        case Apply("le" | "lt" as op, (Position(i), end)) if i == index and index not in free_indices(end):
            return False, _up_to(op, end)
        case Apply("le" | "lt" as op, (end, Position(i))) if i == index and index not in free_indices(end):
            return True, _up_to("le" if op == "lt" else "lt", end)
    return None


def _up_to(op: str, end: Term) -> _End:
    """What is below an end that is surely a whole number is at most the number before it."""
    found = linear(end) if op == "lt" else None
    return ("le", Apply("sub", (end, ONE))) if found is not None and is_whole(found) else (op, end)


def finite(term: Term, known: Mapping[str, Equation]) -> bool:
    """Whether a value is a finite number wherever the data are: a difference of infinite sums would be none."""
    for part in walk(term):
        match part:
            case Const(value) if math.isinf(value):
                return False
            case Apply("pow", (inner, *_)) if sign(inner, known) != POSITIVE:
                return False
            case Apply(op, args) if op in PRIMITIVES and not stays_finite(op, args, known):
                return False
            case Fold(op) if op != "sum":
                return False
            case Read(tensor) if tensor in known and not finite(known[tensor].body, known):
                return False
    return True
