"""What ranks send each other, as functional collectives: a result is a new tensor, and is there when it is returned.

A tensor is given with an axis of its own for what is joined and for what is parted. The rank's place counts from 1.
"""

from __future__ import annotations

import torch


def _c10d(name: str, *values: object) -> torch.Tensor:
    """A functional collective, once it is done."""
    made: torch.Tensor = torch.ops._c10d_functional.wait_tensor(getattr(torch.ops._c10d_functional, name)(*values))
    return made


def _all_reduce(x: torch.Tensor, fold: str, group: str) -> torch.Tensor:
    """The fold of what the ranks have, on each of them."""
    return _c10d("all_reduce", x.contiguous(), fold, group)


def _all_gather(x: torch.Tensor, joined: int, ranks: int, group: str) -> torch.Tensor:
    """The parts of all ranks side by side along an axis, on each of them."""
    parts = _c10d("all_gather_into_tensor", x.contiguous(), ranks, group).view(ranks, *x.shape)
    return parts.movedim(0, joined).flatten(joined, joined + 1)


def _reduce_scatter(x: torch.Tensor, fold: str, parted: int, ranks: int, group: str) -> torch.Tensor:
    """The rank's part, along an axis, of the fold of what the ranks have."""
    parts = x.unflatten(parted, (ranks, -1)).movedim(parted, 0).contiguous()
    return _c10d("reduce_scatter_tensor", parts, fold, ranks, group).view(parts.shape[1:])


def _all_to_all(x: torch.Tensor, joined: int, parted: int, ranks: int, group: str) -> torch.Tensor:
    """What the ranks have parts of along one axis, in parts along another."""
    parts = x.unflatten(parted, (ranks, -1)).movedim(parted, 0).contiguous()
    found = _c10d("all_to_all_single", parts, [1] * ranks, [1] * ranks, group).view(parts.shape)
    return found.movedim(0, joined).flatten(joined, joined + 1)


def _part(x: torch.Tensor, parted: int, ranks: int, place: int) -> torch.Tensor:
    """The rank's part of what each of them has, along an axis."""
    return x.chunk(ranks, parted)[place - 1]
