"""Which values are surely positive, or at least not negative: a quotient by them needs no guard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal, assert_never

from einc.ir.primitives import NONNEGATIVE, POSITIVE, PRIMITIVES, UNKNOWN, sign_of
from einc.ir.terms import (
    TRUE,
    ZERO,
    Apply,
    Const,
    Equation,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Program,
    Read,
    Size,
    Term,
    Truth,
    Where,
)
from einc.planning.analysis.ranges import nonempty

_TOLD: dict[int, Literal["", "nonnegative", "positive"]] = {POSITIVE: "positive", NONNEGATIVE: "nonnegative", UNKNOWN: ""}


def least(program: Program, keys: Iterable[str]) -> dict[str, Literal["", "nonnegative", "positive"]]:
    """What is known of the signs of some values of a program."""
    by = program.by_target
    return {key: _TOLD[_equation(by[key], by, {})] if key in by else "" for key in keys}


def told(program: Program) -> dict[str, Equation]:
    """For each input with a known sign an equation that has it, as far as signs go."""
    found = {t.key: t for t in program.tensors.values() if t.least}
    some = {"positive": Apply("exp", (ZERO,)), "nonnegative": Apply("abs", (ZERO,))}
    return {key: Equation(key, (), TRUE, some[t.least]) for key, t in found.items()}


def sign(term: Term, equations: Mapping[str, Equation]) -> int:
    """POSITIVE, NONNEGATIVE or UNKNOWN, for every point where the term exists."""
    return _sign(term, equations, {})


def _sign(term: Term, equations: Mapping[str, Equation], known: dict[str, int]) -> int:
    match term:
        case Const(value):
            return POSITIVE if value > 0 else NONNEGATIVE if value == 0 else UNKNOWN
        case Size():
            return NONNEGATIVE
        case Position(index):
            return POSITIVE if index.set.start > 0 else NONNEGATIVE
        case Read(tensor) if tensor in equations:
            if tensor not in known:
                known[tensor] = _equation(equations[tensor], equations, known)
            return known[tensor]
        case Where(_, then):
            return min(NONNEGATIVE, _sign(then, equations, known))
        case Apply("neg", (Apply("nonpositive"),)):
            return NONNEGATIVE
        case Apply("mul", (one, other)) if one == other:
            return max(NONNEGATIVE, _sign(one, equations, known))
        case Apply("pow", (base, Const(Fraction() as power))) if power.denominator == 1 and power % 2 == 0:
            return max(NONNEGATIVE, _sign(base, equations, known))
        case Apply(op, args) if PRIMITIVES[op].kind == "value" and op != "pick":
            return sign_of(op, [_sign(a, equations, known) for a in args])
        case Apply() | Truth() | Pack() | Part() | Fold() | Join() | Read():
            return UNKNOWN
    assert_never(term)


def _equation(equation: Equation, equations: Mapping[str, Equation], known: dict[str, int]) -> int:
    match equation.body:
        case Fold("sum", bound, domain, body):
            found = _sign(body, equations, known)
            return found if found != POSITIVE or nonempty(domain, bound, equation.indices) else NONNEGATIVE
        case Fold():
            return UNKNOWN
    return _sign(equation.body, equations, known)
