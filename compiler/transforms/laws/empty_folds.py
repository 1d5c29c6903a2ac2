"""What stands outside the folds of a pass, evaluated and simplified."""

from __future__ import annotations

import math

from einc.ir.terms import (
    TRUE,
    ZERO,
    Apply,
    Const,
    Term,
    Where,
    transform,
)
from einc.transforms.laws import ALL
from einc.transforms.laws.simplify import simplify


def either(some: Term, whole: Term, nothing: Term) -> Term:
    """A value where a fold has points, and what the source gives for it over nothing."""
    if some == TRUE:
        return whole
    there = Where(some, whole)
    return there if nothing == ZERO else Apply("add", (there, Where(Apply("not", (some,)), nothing)))


def over_nothing(term: Term) -> Term:
    """A term of numbers, some of them infinite, with 0 / 0 = 0 as the language has it."""

    def change(inner: Term) -> Term:
        """One node evaluated where its arguments are numbers or infinite; any other as it is."""
        match inner:
            case Apply("div", (Const(above), Const())) if above == 0:
                return ZERO
            case Apply("div", (Const(above), Const(below))) if below == 0:
                return Const(math.inf if above > 0 else -math.inf)
            case Apply("sqrt", (Const(value),)) if value == 0:
                return ZERO
            case Apply("pow", (Const(value), Const(power))) if value == 0 and power > 0:
                return ZERO
            case Apply("log", (Const(value),)) if value == 0:
                return Const(-math.inf)
            case Apply("add", args) if (
                infinite := [a for a in args if isinstance(a, Const) and isinstance(a.value, float)]
            ):
                return infinite[0]
            case Apply("sub", (Const(float() as value), _)):
                return Const(value)
            case Apply("neg", (Const(float() as value),)):
                return Const(-value)
            case Apply("max" | "min" as op, args):
                rest = tuple(a for a in args
                             if not (isinstance(a, Const) and a.value == (-math.inf if op == "max" else math.inf)))
                return rest[0] if len(rest) == 1 else Apply(op, rest) if rest else args[0]
        return inner

    for _ in range(4):
        term = simplify(transform(term, change), ALL)
    return term
