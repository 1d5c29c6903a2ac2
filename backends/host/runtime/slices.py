"""Slices of an axis."""

from __future__ import annotations

from collections.abc import Iterator

import torch


def _slices(extent: int, each: tuple[int, ...], device: torch.device) -> Iterator[tuple[int, int]]:
    """The first place and the length of each slice of an axis, whose places bring so many numbers: as long as these
    stay near the processor; on a device, which has little to do with few of them, as many as there is room for."""
    length = max(1, 2 ** (20 if device.type == "cpu" else 26) // max(1, *each))
    for low in range(0, extent, length):
        yield low, min(length, extent - low)
