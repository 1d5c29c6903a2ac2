"""What ranks send each other, as functional collectives: a result is a new tensor, and is there when it is returned.

A tensor is given with an axis of its own for what is joined and for what is parted. Several tensors are one
message; None stands for one that nobody asks for. The rank's place counts from 1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_Parts = list[tuple[torch.Tensor, int] | None]  # tensors, each with an axis


def _c10d(name: str, *values: object) -> torch.Tensor:
    """A functional collective, once it is done."""
    made: torch.Tensor = torch.ops._c10d_functional.wait_tensor(getattr(torch.ops._c10d_functional, name)(*values))
    return made


def _in_one_message(rows: list[torch.Tensor | None], send: Callable[[torch.Tensor], torch.Tensor]) -> list[
        torch.Tensor | None]:
    """What comes of tensors whose rows are sent, all of them side by side."""
    some = [x for x in rows if x is not None]
    found = _unpacked(send(_packed(some)), some) if some else []
    return [None if x is None else found.pop(0) for x in rows]


def _packed(some: list[torch.Tensor]) -> torch.Tensor:
    """The rows of tensors side by side: as bytes, where their types differ."""
    if len(some) == 1:
        return some[0].contiguous()
    flat = [x.unsqueeze(-1).flatten(1) for x in some]
    mixed = any(x.dtype != some[0].dtype for x in some)
    return torch.cat([x.contiguous().view(torch.uint8) for x in flat] if mixed else flat, 1)


def _unpacked(rows: torch.Tensor, some: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that rows are of, each with the shape of a row and the type that it has in `some`."""
    if len(some) == 1:
        return [rows]
    counts = [x.shape[1:].numel() * (x.element_size() if rows.dtype != x.dtype else 1) for x in some]
    return [(y if x.dtype == y.dtype else y.clone(memory_format=torch.contiguous_format).flatten().view(x.dtype))
            .reshape(len(rows), *x.shape[1:]) for x, y in zip(some, rows.split(counts, 1))]


def _all_reduce(parts: list[torch.Tensor | None], fold: str, group: str) -> list[torch.Tensor | None]:
    """The fold of what the ranks have, on each of them."""
    found = _in_one_message([None if x is None else x[None] for x in parts],
                            lambda x: _c10d("all_reduce", x, fold, group))
    return [None if x is None else x[0] for x in found]


def _all_gather(parts: _Parts, ranks: int, group: str) -> list[torch.Tensor | None]:
    """The parts of all ranks side by side along an axis, on each of them."""
    found = _in_one_message([None if part is None else part[0][None] for part in parts],
                            lambda x: _c10d("all_gather_into_tensor", x, ranks, group))
    return [None if part is None or x is None else _from_ranks(x, part[1]) for part, x in zip(parts, found)]


def _reduce_scatter(parts: _Parts, fold: str, ranks: int, group: str) -> list[torch.Tensor | None]:
    """The rank's part, along an axis, of the fold of what the ranks have."""
    found = _in_one_message([None if part is None else _by_rank(*part, ranks) for part in parts],
                            lambda x: _c10d("reduce_scatter_tensor", x, fold, ranks, group))
    return [None if x is None else x[0] for x in found]


def _all_to_all(parts: list[tuple[torch.Tensor, int, int] | None], ranks: int, group: str) -> list[
        torch.Tensor | None]:
    """What the ranks have parts of along one axis, in parts along another."""
    found = _in_one_message([None if part is None else _by_rank(part[0], part[2], ranks) for part in parts],
                            lambda x: _c10d("all_to_all_single", x, [1] * ranks, [1] * ranks, group))
    return [None if part is None or x is None else _from_ranks(x, part[1]) for part, x in zip(parts, found)]


def _by_rank(x: torch.Tensor, parted: int, ranks: int) -> torch.Tensor:
    """The parts along an axis, a row for each rank."""
    rows: torch.Tensor = x.unflatten(parted, (ranks, -1))
    return rows.movedim(parted, 0)


def _from_ranks(rows: torch.Tensor, axis: int) -> torch.Tensor:
    """The rows of all ranks side by side along an axis."""
    return rows.movedim(0, axis).flatten(axis, axis + 1)


def _part(parts: _Parts, ranks: int, place: int) -> list[torch.Tensor | None]:
    """The rank's part of what each of them has, along an axis."""
    return [None if part is None else part[0].chunk(ranks, part[1])[place - 1] for part in parts]


def _in_order(x: torch.Tensor, axis: int, ranks: int) -> torch.Tensor:
    """The blocks of all ranks, each with one from either end, in their order along an axis."""
    first, second = x.unflatten(axis, (ranks, 2, -1)).unbind(axis + 1)
    return torch.cat((first, second.flip(axis)), axis).flatten(axis, axis + 1)


def _in_blocks(x: torch.Tensor, axis: int, ranks: int) -> torch.Tensor:
    """What is in order along an axis with the two blocks of each rank side by side."""
    first, second = x.unflatten(axis, (2, ranks, -1)).unbind(axis)
    return torch.stack((first, second.flip(axis)), axis + 1).flatten(axis, axis + 2)


def _relaid(parts: _Parts, ordered: bool, ranks: int, place: int, group: str) -> list[torch.Tensor | None]:
    """The rank's part along an axis with its two blocks side by side in the order of all, or, if they are so before and
    not `ordered`, one from each end of it.
    """
    pairs = [[n, 2 * ranks - 1 - n] for n in range(ranks)]
    plain = [[2 * n, 2 * n + 1] for n in range(ranks)]
    before, after = (pairs, plain) if ordered else (plain, pairs)
    sends = [[n for n in range(2) if before[place - 1][n] in after[to]] for to in range(ranks)]
    comes = [[n for n in before[source] if n in after[place - 1]] for source in range(ranks)]
    counts, given = ([len(some) for some in comes], [len(some) for some in sends]), [n for some in sends for n in some]
    found = _in_one_message([None if part is None else _by_rank(*part, 2)[given] for part in parts],
                            lambda x: _c10d("all_to_all_single", x, *counts, group))
    order = [n for some in comes for n in some]
    at = [order.index(n) for n in after[place - 1]]
    return [None if part is None or x is None else _from_ranks(x[at], part[1]) for part, x in zip(parts, found)]


_RowParts = list[tuple[torch.Tensor, tuple[int, ...]] | None]  # tensors, each with its axes of a row
_RowRoutes = tuple[list[torch.Tensor], list[int], list[int], tuple[int, ...]]


def _goes(chosen: torch.Tensor, packed: tuple[int, ...], part: int, start: int, ranks: int) -> torch.Tensor:
    """For each rank which rows go to it. A row is what `chosen` has at one place of its axes `packed`; it goes to the
    ranks that have an element that it names. What names none goes to the nearest, which reads it, or not, as the
    program says.
    """
    owner = ((chosen.long() - start) // max(1, part)).clamp(0, ranks - 1)
    named = owner.movedim(packed, tuple(range(len(packed))))
    named = named.flatten(len(packed)) if named.ndim > len(packed) else named.unsqueeze(-1)
    return (named[None] == torch.arange(ranks, device=owner.device).view(-1, *[1] * named.ndim)).any(-1)


def _row_counts(given: list[torch.Tensor | None], goes: torch.Tensor, ranks: int, group: str) -> list[
        torch.Tensor | None]:
    """How many rows come from each rank."""
    return [_c10d("all_to_all_single", goes.flatten(1).sum(1), [1] * ranks, [1] * ranks, group)]


def _routes(goes: torch.Tensor, came: torch.Tensor) -> _RowRoutes:
    """The rows that go to each rank, one after the other: their places on each axis of a row, how many go to each rank,
    how many come from each, and how many places each axis has."""
    _, *places = goes.nonzero(as_tuple=True)
    return places, goes.flatten(1).sum(1).tolist(), came.tolist(), tuple(goes.shape[1:])


def _to_rows(parts: _RowParts, routes: _RowRoutes, group: str) -> list[torch.Tensor | None]:
    """Rows of tensors at the ranks to which they go: they lie along the first axis of a row that a tensor has."""
    places, sent, came, _ = routes
    found = _in_one_message([None if part is None else _first(*part)[_there(places, part[1])] for part in parts],
                            lambda x: _c10d("all_to_all_single", x, came, sent, group))
    return [None if part is None or x is None else _laid(x[(slice(None), *[None] * (_row_axes(part[1]) - 1))], part[1])
            for part, x in zip(parts, found)]


def _from_rows(parts: _RowParts, routes: _RowRoutes, group: str) -> list[torch.Tensor | None]:
    """The sum of what the ranks made of a row, for every row that this rank has sent."""
    places, sent, came, shape = routes
    found = _in_one_message([None if part is None else _first(*part).flatten(0, _row_axes(part[1]) - 1)
                             for part in parts], lambda x: _c10d("all_to_all_single", x, sent, came, group))
    out = list[torch.Tensor | None]()
    for part, x in zip(parts, found):
        if part is None or x is None:
            out.append(None)
            continue
        total = x.new_zeros((*(n for n, at in zip(shape, part[1]) if at >= 0), *x.shape[1:]))
        out.append(_laid(total.index_put_(_there(places, part[1]), x, accumulate=True), part[1]))
    return out


def _row_axes(at: tuple[int, ...]) -> int:
    """How many axes of a row a tensor has."""
    return sum(n >= 0 for n in at)


def _there(places: list[torch.Tensor], at: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """The places of rows on the axes that a tensor has."""
    return tuple(x for x, n in zip(places, at) if n >= 0)


def _first(x: torch.Tensor, at: tuple[int, ...]) -> torch.Tensor:
    """A tensor with its axes of a row first, in the order of the row."""
    axes = tuple(n for n in at if n >= 0)
    return x.movedim(axes, tuple(range(len(axes))))


def _laid(x: torch.Tensor, at: tuple[int, ...]) -> torch.Tensor:
    """A tensor with its axes of a row, which stand first, where they are."""
    axes = tuple(n for n in at if n >= 0)
    return x.movedim(tuple(range(len(axes))), axes).contiguous()
