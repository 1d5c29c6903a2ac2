"""Quotients and functions of numbers, and calls of a library, as the statements of an emitted function need them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

# A library's function of rows and a past; what it returns begins with the result and the logarithm of its divisor.
Call = Callable[..., Sequence[Any]]


def _over(x: Any, n: float) -> Any:
    """x / n for a number n, where 0 over 0 is 0."""
    if n:
        return x / n
    if isinstance(x, torch.Tensor):
        return torch.where(x == 0, 0.0, x / n)
    return x * math.copysign(math.inf, n) if x else 0.0


def _dense(x: torch.Tensor) -> torch.Tensor:
    """A tensor whose last axis is without gaps, as a library reads it."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _in_parts(call: Call, x: torch.Tensor, *past: Any) -> torch.Tensor:
    """What a call makes of rows and a past, with the logarithm of what it divided by: of
    each piece of the past, and merged."""
    made: torch.Tensor
    total: torch.Tensor
    x, made, total = _dense(x), None, None  # type: ignore[assignment]
    for piece in [past] if isinstance(past[0], torch.Tensor) else zip(*past):
        y, log = _of_piece(call, x, [_dense(p) for p in piece])
        if made is not None:
            y = torch.lerp(made.to(log.dtype), y.to(log.dtype), torch.sigmoid(log - total)[..., None])
            log = torch.logaddexp(total, log)
        made, total = y, log
    return made.to(x.dtype)


def _of_piece(call: Call, x: torch.Tensor, past: list[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Of one piece: where processors are left, of parts of it, and merged."""
    parts = min(torch.get_num_threads() // max(1, x.shape[0] * x.shape[1]), past[0].shape[2] // 1024)
    if parts < 2:
        return call(x, *past)[:2]
    length = past[0].shape[2] // parts
    rows, rest = x.flatten(0, 1)[:, None], [p[:, :, parts * length :].flatten(0, 1)[:, None] for p in past]
    cut = [p[:, :, : parts * length].unflatten(2, (parts, length)).flatten(0, 1) for p in past]
    found = [call(rows.expand(-1, parts, -1, -1), *cut)[:2]] + ([call(rows, *rest)[:2]] if rest[0].shape[2] else [])
    y, log = (torch.cat(each, 1) for each in zip(*found))
    total = log.logsumexp(1)
    y = (y * (log - total[:, None]).exp_()[..., None]).sum(1)
    return y.view(*x.shape[:3], -1), total.view(x.shape[:3])


def _number(function: Callable[..., torch.Tensor], *numbers: float) -> float:
    """A function of numbers as tensors have it: infinite, or no number, where Python's own would raise."""
    return function(*(torch.tensor(n, dtype=torch.float64, device="cpu") for n in numbers)).item()
