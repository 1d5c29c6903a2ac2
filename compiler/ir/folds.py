"""The ways to take an index away: a monoid's start and step, one row each."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FoldRow:
    """`start` is the neutral element, `step` the primitive that merges two values, `empty` the value over no points.

    An `ordered` one gives no number but the points themselves, the largest first: only `pick` reads it.
    """

    name: str
    start: float
    step: str
    meaning: str  # numpy's name of it, on an array and a tuple of axes
    linear: bool = False  # factors free of the bound index may leave it
    ordered: bool = False

    @property
    def empty(self) -> float:
        return self.start


_ROWS = (
    FoldRow("sum", 0.0, "add", "sum", linear=True),
    FoldRow("prod", 1.0, "mul", "prod"),
    FoldRow("max", -math.inf, "max", "max"),
    FoldRow("min", math.inf, "min", "min"),
    FoldRow("topk", -math.inf, "", "", ordered=True),
)

FOLDS: dict[str, FoldRow] = {row.name: row for row in _ROWS}
