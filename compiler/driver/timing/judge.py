"""When a result is right, and how two series of times compare. It imports nothing, for the bench carries this file to
machines without einc, and commands read its bounds before torch is loaded.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# How far a result may be, as the root mean square of the difference over that of the exact values; and how far 1 is
# from the next number.
BOUNDS = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 3e-2, "float16": 3e-2}
UNITS = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}


def ratio(reference: Iterable[float], own: Iterable[float]) -> float:
    """How many times as fast as the reference: the median over rounds."""
    return statistics.median(theirs / mine for theirs, mine in zip(reference, own, strict=True))


def relative_error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Root mean square of the difference over that of the exact values; infinite where something is not a number."""
    if result.shape != exact.shape:
        return math.inf
    far = (result.double() - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    return float(far) if bool(far.isfinite()) else math.inf


FUDGE = {"float64": 10.0, "float32": 10.0, "bfloat16": 1.1}


@dataclass(frozen=True)
class Verdict:
    """How far a result is from the exact one, beside eager torch in the same type."""

    status: str    # ok; inexact: within the bench's bounds, but farther than eager torch allows; wrong
    error: float   # relative root mean square
    beside: float  # mean distance over that of eager torch
    note: str      # why it is not ok


def judge(result: torch.Tensor, exact: torch.Tensor, eager: torch.Tensor, dtype: str) -> Verdict:
    """FlexAttention's rule, mean|exact - result| ≤ fudge · mean|exact - eager|, and FlashAttention's, max|exact -
    result| ≤ 2 · max|exact - eager| + one rounding of the largest value."""
    if result.shape != exact.shape:
        return Verdict("wrong", math.inf, math.inf, f"shape {tuple(result.shape)}, {tuple(exact.shape)} is right")
    if not bool(result.isfinite().all()):
        return Verdict("wrong", math.inf, math.inf, "holds what is not a number")
    mine, theirs = (result.double() - exact).abs(), (eager.double() - exact).abs()
    mean, fair = float(mine.mean()), float(theirs.mean())
    beside = mean / fair if fair else (1.0 if mean == 0 else math.inf)
    rounding = UNITS[dtype] * float(exact.abs().max())
    largest, bound = float(mine.max()), 2 * float(theirs.max()) + rounding
    note = ""
    if beside > FUDGE[dtype] and mean > 1e-3 * rounding:
        note = f"mean error {beside:.2f} times that of eager torch"
    elif largest > bound:
        note = f"largest error {largest:.1e}, {bound:.1e} is allowed"
    error = relative_error(result, exact)
    return Verdict("wrong" if not error <= BOUNDS[dtype] else "inexact" if note else "ok", error, beside, note)
