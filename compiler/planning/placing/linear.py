"""Values that are linear in shares: they are shares themselves, so that what is folded over ranks may be smaller."""

from __future__ import annotations

from collections.abc import Set

from einc.ir.programs import Equation
from einc.ir.terms import Apply, Fold, Read, Term, Where, reads, rebuild, walk

_NONE, _ONE = frozenset({0}), frozenset({1})


def degrees(term: Term, shared: Set[str]) -> frozenset[int] | None:
    """The degrees, 0 and 1, of the addends of a term in some tensors; None where it is not linear in them."""
    if not any(isinstance(x, Read) and x.tensor in shared for x in walk(term)):
        return _NONE
    match term:
        case Read(tensor, subs):
            nested = any(r.tensor in shared for s in subs for r in reads(s))
            return _ONE if tensor in shared and not nested else None
        case Apply("add" | "sub" | "neg", args):
            found = [degrees(x, shared) for x in args]
            return None if None in found else frozenset().union(*(f for f in found if f is not None))
        case Apply("mul", args):
            found = [degrees(x, shared) for x in args]
            return _ONE if [f for f in found if f != _NONE] == [_ONE] else None
        case Apply("div", (above, below)):
            return _ONE if degrees(below, shared) == _NONE and degrees(above, shared) == _ONE else None
        case Where(condition, then):
            return degrees(then, shared) if not any(r.tensor in shared for r in reads(condition)) else None
    return None


def linear_in(equation: Equation, shared: Set[str]) -> frozenset[int] | None:
    """The degrees of an equation in some tensors, where it is linear in them: a sum of linear values is linear."""
    if not shared or any(r.tensor in shared for r in reads(equation.domain)):
        return None
    body = equation.body
    if isinstance(body, Fold):
        if body.op != "sum" or any(r.tensor in shared for r in reads(body.domain)):
            return None
        body = body.body
    return degrees(body, shared)


def once(term: Term, shared: Set[str], first: Term) -> Term:
    """The term with the addends that hold no share where a condition holds, 0 elsewhere: only the first rank adds
    them.
    """
    match term:
        case Apply("add" | "sub" | "neg", args):
            return rebuild(term, tuple(once(x, shared, first) for x in args))
        case Where(condition, then):
            return Where(condition, once(then, shared, first))
        case Fold(op, bound, domain, body):
            return Fold(op, bound, domain, once(body, shared, first))
    return term if degrees(term, shared) == _ONE else Where(first, term)
