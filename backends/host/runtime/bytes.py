"""Whole numbers of 4 bits, two in a byte along the last axis: the first of each two in the lower half."""

from __future__ import annotations

import torch


def _in_bytes(x: torch.Tensor) -> torch.Tensor:
    """Numbers from -8 to 7 as bytes, half as many along the last axis; an odd one has a byte with 0."""
    x = torch.nn.functional.pad(x.to(torch.uint8) & 15, (0, x.shape[-1] % 2)).unflatten(-1, (-1, 2))
    return x[..., 0] | (x[..., 1] << 4)


def _from_bytes(x: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """So many numbers along the last axis of what `_in_bytes` makes, from the place `first` on, each in a byte."""
    x = x[..., first // 2 : (first + count + 1) // 2]
    both = torch.stack((x & 15, x >> 4), -1).flatten(-2)
    return ((both ^ 8).to(torch.int8) - 8).narrow(-1, first % 2, count)
