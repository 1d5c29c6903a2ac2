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


def _in_order(x: torch.Tensor, axis: int, ranks: int) -> torch.Tensor:
    """The blocks of all ranks, each with one from either end, in their order along an axis."""
    first, second = x.unflatten(axis, (ranks, 2, -1)).unbind(axis + 1)
    return torch.cat((first, second.flip(axis)), axis).flatten(axis, axis + 1)


def _in_blocks(x: torch.Tensor, axis: int, ranks: int) -> torch.Tensor:
    """What is in order along an axis with the two blocks of each rank side by side."""
    first, second = x.unflatten(axis, (2, ranks, -1)).unbind(axis)
    return torch.stack((first, second.flip(axis)), axis + 1).flatten(axis, axis + 2)


def _relaid(x: torch.Tensor, axis: int, ordered: bool, ranks: int, place: int, group: str) -> torch.Tensor:
    """The rank's part with its two blocks side by side in the order of all, or, if they are not so before, `ordered`,
    one from each end of it.
    """
    pairs = [[n, 2 * ranks - 1 - n] for n in range(ranks)]
    plain = [[2 * n, 2 * n + 1] for n in range(ranks)]
    before, after = (pairs, plain) if ordered else (plain, pairs)
    sends = [[n for n in range(2) if before[place - 1][n] in after[to]] for to in range(ranks)]
    comes = [[n for n in before[source] if n in after[place - 1]] for source in range(ranks)]
    blocks = x.unflatten(axis, (2, -1)).movedim(axis, 0)
    given = torch.cat([blocks[n][None] for some in sends for n in some])
    found = _c10d("all_to_all_single", given, [len(some) for some in comes], [len(some) for some in sends], group)
    order = [n for some in comes for n in some]
    return torch.cat([found[order.index(n)] for n in after[place - 1]], axis)
