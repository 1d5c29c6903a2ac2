"""Elements that rows choose: the largest ones, and the rows that name each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch


def _largest(x: torch.Tensor, count: int, first: int = 1) -> torch.Tensor:
    """Which elements of the last axis are largest, of equal ones the first; first - 1
    where there are fewer. -inf is none."""
    values, places = x.nan_to_num(math.inf, math.inf, -math.inf).sort(dim=-1, descending=True, stable=True)
    chosen = torch.where(values == -math.inf, first - 1, places + first)[..., :count]
    return torch.nn.functional.pad(chosen, (0, count - chosen.shape[-1]), value=first - 1)


def _groups(names: torch.Tensor, count: int, first: int = 1) -> Iterator[tuple[int, tuple[torch.Tensor, ...]]]:
    """Each element that is named, counted from 0, with the places where it is. Other numbers name none."""
    flat = (names.reshape(-1) - (first - 1)).clamp(min=0)
    order = flat.argsort(stable=True)
    ends = torch.bincount(flat, minlength=count + 1).cumsum(0).tolist()
    for n in range(count):
        if ends[n] < ends[n + 1]:
            yield n, _unravelled(order[ends[n] : ends[n + 1]], names.shape)


def _unravelled(places: torch.Tensor, shape: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Places in the order of memory as one along each axis; torch's own copies numbers to the device first."""
    out = []
    for extent in reversed(shape):
        out.append(places % extent)
        places = places // extent
    return tuple(reversed(out))


def _numbered(*names: tuple[torch.Tensor, int, int]) -> torch.Tensor:
    """The number, from 1, of the element that each row names in several ranges at once; 0 where it names none."""
    at: Any
    inside: Any
    at, inside, count = 0, True, 1
    for ids, extent, first in names:
        inside = inside & (ids >= first) & (ids < first + extent)
        at, count = at * extent + (ids - first), count * extent
    return torch.where(inside, at + 1, 0)


def _sorted(names: torch.Tensor, count: int) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """The places of the rows, those of one element together and in their order, and where
    the rows of each begin and end."""
    ordered, places = names.reshape(-1).sort(stable=True)
    ends = torch.searchsorted(ordered, torch.arange(1, count + 2, device=names.device))
    return _unravelled(places, names.shape), ends
