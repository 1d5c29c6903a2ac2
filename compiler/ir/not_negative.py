"""Which values of functions are at least 0, or more than that, by what they are made of."""

from __future__ import annotations

from einc.ir.terms import ONE, Apply, Term

_OF_ONE_SIGN = ("sqrt", "log1p", "tanh", "erf")  # with their argument, and none of them overflows


def parts_of_sign(term: Term, strict: bool) -> tuple[tuple[Term, bool], ...] | None:
    """Values such that a term is at least 0 (strict: more) where all of them are, with a flag for those that have to be
    more; None where nothing is known of it. A logarithm is at least 0 from 1 on. Computed values do not fall below 0
    either, since roundings keep order; what may overflow is left out, as 0 times ∞ is no number.
    """
    match term:
        case Apply("mul", args):
            return tuple((x, strict) for x in args)
        case Apply("div", (above, below)):
            return (above, strict), (below, True)
        case Apply("log", (x,)):
            return ((Apply("sub", (x, ONE)), strict),)
        case Apply("floor" | "ceil", (x,)) if not strict:
            return ((x, False),)
        case Apply(op, (x,)) if op in _OF_ONE_SIGN:
            return ((x, strict),)
    return None
