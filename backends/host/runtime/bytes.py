"""Whole numbers of few bits, several in a byte along the last axis: the first of them in its lowest bits."""

from __future__ import annotations

import torch


def _in_bytes(x: torch.Tensor, each: int) -> torch.Tensor:
    """Whole numbers of 8 / each bits as bytes, `each` along the last axis in one; what lacks at the end is 0."""
    bits = 8 // each
    x = torch.nn.functional.pad(x.to(torch.uint8) & 2**bits - 1, (0, -x.shape[-1] % each)).unflatten(-1, (-1, each))
    made = x[..., 0]
    for n in range(1, each):
        made = made | (x[..., n] << n * bits)
    return made


def _from_bytes(x: torch.Tensor, first: int, count: int, each: int) -> torch.Tensor:
    """So many numbers along the last axis of what `_in_bytes` makes, from the place `first` on, each in a byte."""
    bits, sign = 8 // each, 2 ** (8 // each - 1)
    x = x[..., first // each : (first + count + each - 1) // each]
    codes = torch.stack([(x >> n * bits) & 2**bits - 1 for n in range(each)], -1).flatten(-2)
    made: torch.Tensor = ((codes ^ sign).to(torch.int8) - sign).narrow(-1, first % each, count)
    return made
