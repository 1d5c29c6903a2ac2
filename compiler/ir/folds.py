"""The ways to take an index away: a commutative monoid each, one row with everything that
a pass or a back end asks about it.

The value over a set of points is the `step` of the values over its parts, in any order and grouping. So one row says
how values are reduced, how the shares of tiles merge, and what a running fold gives: the step of all values so far. A
back end that has no spelling of its own for a fold derives all three from `start` and `step`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from einc.ir.primitives import PRIMITIVES
from einc.ir.terms import Apply, Term

Adjoint = Term | Literal["attained"] | None


@dataclass(frozen=True, slots=True)
class FoldRow:
    """One fold.

    `start` is the neutral element, and the value over no points. `step` is the primitive that merges two values; it
    is empty for an `ordered` fold, which gives no number but the points themselves, the largest first: only `pick`
    reads it. `meaning`: numpy's function of an array and a tuple of axes, if there is one. `linear`: factors free
    of the bound index may leave it. `shifts`: a number added to every value is added to the fold. `scales`: a
    positive number times every value is that number times the fold. `rounds`: a step rounds, so a running fold is
    kept in float64.
    """

    name: str
    start: float
    step: str
    meaning: str = ""
    linear: bool = False
    ordered: bool = False
    shifts: bool = False
    scales: bool = False
    rounds: bool = False

    @property
    def adjoint(self) -> Adjoint:
        """The derivative by one of the values, which is the slope of the step: a term in `X` (that value), `VALUE` (the
        fold) and `REST` (the fold of all other values). "attained" is declared, where the step takes one of its
        arguments: equal parts for the values that equal the fold. None where no gradient passes.
        """
        match PRIMITIVES[self.step].slope if self.step else None:
            case (slope,):
                return slope
            case "taken":
                return "attained"
        return None

    def merged(self, *values: Term) -> Term:
        """The fold of some values as a term."""
        return values[0] if len(values) == 1 else Apply(self.step, values)


_ROWS = (
    FoldRow("sum", 0.0, "add", "sum", linear=True, scales=True, rounds=True),
    FoldRow("prod", 1.0, "mul", "prod", rounds=True),
    FoldRow("max", -math.inf, "max", "max", shifts=True, scales=True),
    FoldRow("min", math.inf, "min", "min", shifts=True, scales=True),
    FoldRow("logaddexp", -math.inf, "logaddexp", shifts=True, rounds=True),
    FoldRow("topk", -math.inf, "", ordered=True),
)

FOLDS: dict[str, FoldRow] = {row.name: row for row in _ROWS}
