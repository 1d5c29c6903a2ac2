"""Which values are surely positive, or at least not negative: a quotient by them needs no guard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import assert_never

from einc.ir.indices import Index
from einc.ir.primitives import NONNEGATIVE, POSITIVE, PRIMITIVES, UNKNOWN, sign_of
from einc.ir.programs import Definitions, Equation, definitions
from einc.ir.sums import asks_reached
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Truth,
    Where,
    both,
    free_indices,
    in_body,
)
from einc.ir.witnesses import witnessed

_LEVELS = 6  # definitions through which a value that may be 0 somewhere is followed to the point where it is read


def sign(term: Term, equations: Mapping[str, Equation], given: Term = TRUE, beside: Iterable[Index] = ()) -> int:
    """POSITIVE, NONNEGATIVE or UNKNOWN, for every point of `given` where the term exists. The sets of the indices
    `beside` it have a point.
    """
    rows = frozenset(beside)
    signs = _Signs(definitions(equations), bool(rows))
    return signs.of(term, given, rows | free_indices(term) | free_indices(given))


@dataclass
class _Signs:
    """The signs of the terms of one question. `more` tells that there are rows which no term reads. `there` are the
    signs of values at the points where they are read, and grows; `level` is how many definitions the term at hand was
    followed through.
    """

    equations: Definitions
    more: bool = False
    there: dict[tuple[str, tuple[Term, ...], Term, frozenset[Index]], int] = field(default_factory=dict)
    level: int = 0

    def of(self, term: Term, given: Term, rows: frozenset[Index]) -> int:
        """POSITIVE, NONNEGATIVE or UNKNOWN: the sign of a term at all points where the condition `given` holds. `rows`
        are the indices that are bound there, so that their sets are not empty."""
        match term:
            case Const(value):
                return POSITIVE if value > 0 else NONNEGATIVE if value == 0 else UNKNOWN
            case Size():
                return NONNEGATIVE
            case Position(index):
                return POSITIVE if index.set.start > 0 else NONNEGATIVE if index.set.start == 0 else UNKNOWN
            case Read(tensor, subs) if tensor in self.equations:
                return self._value(self.equations[tensor], subs, given, rows)
            case Where(condition, then):
                return min(NONNEGATIVE, self.of(then, both(given, condition), rows))
            case Fold("sum", bound, domain, body):
                found = self.of(body, in_body(given, term), rows.union(bound))
                return found if found != POSITIVE or witnessed(domain, bound, rows, given) else NONNEGATIVE
            case Apply("neg", (Apply("nonpositive"),)):
                return NONNEGATIVE
            case Apply("mul", (one, other)) if one == other:
                return max(NONNEGATIVE, self.of(one, given, rows))
            case Apply("pow", (base, Const(Fraction() as power))) if power.denominator == 1 and power % 2 == 0:
                return max(NONNEGATIVE, self.of(base, given, rows))
            case Apply("exp", (power,)) if asks_reached(power):
                return NONNEGATIVE
            case Apply(op) if PRIMITIVES[op].sign == "positive":
                return POSITIVE
            case Apply(op, args) if PRIMITIVES[op].kind == "value" and op != "pick":
                return sign_of(op, [self.of(a, given, rows) for a in args])
            case Apply() | Truth() | Pack() | Part() | Fold() | Join() | Read():
                return UNKNOWN
        assert_never(term)

    def _value(self, equation: Equation, subs: tuple[Term, ...], given: Term, rows: frozenset[Index]) -> int:
        """The sign of a value wherever it exists; where that may be 0, its sign at the point where it is read."""
        key, known = equation.target, self.equations.about(equation.target).signs
        if key not in known:
            known[key] = self.of(equation.body, TRUE, frozenset(equation.indices))
        apart = (given == TRUE and not self.more) or self.level == _LEVELS or not (
            equation.axes == () or len(subs) == len(equation.indices))
        if known[key] != NONNEGATIVE or apart:
            return known[key]
        place = (key, subs, given, rows)
        if place not in self.there:
            self.level += 1
            self.there[place] = self.of(equation.at(subs) if equation.axes else equation.body, given, rows)
            self.level -= 1
        return self.there[place]
