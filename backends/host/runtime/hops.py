"""Blocks that go round the ranks of a group: in each hop a rank has those of one other rank, and what it makes of them
is merged with what it made before, or goes back to that rank. What comes next is on its way while a hop is computed.

A rank sends a block to those ranks alone that need it. Blocks are numbered from 0 over all ranks; a rank that has two
has one from each end, so that where later blocks meet more than earlier ones all ranks have as much to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from einc.backends.host.runtime.moves import _packed, _unpacked

_Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # merges two values of a fold
_Made = tuple[_Step | None, int | None, int | None, bool]  # as `_around` says it


def _around(own: list[tuple[torch.Tensor, int | None]], coming: list[tuple[torch.Tensor, int]],
            compute: Callable[..., Sequence[torch.Tensor]], merge: Callable[..., Sequence[torch.Tensor]] | None,
            made: list[_Made], meets: Callable[[int, int], bool],
            ranks: int, blocks: int, place: int, group: str) -> list[torch.Tensor]:
    """What is made of all pairs of a block of this rank and one that comes round, where the two meet.

    `own` and `coming` are tensors with the axis of which they have blocks. `compute` makes of the places of two blocks,
    counted from 1, and of both blocks of all tensors what `made` says: a share, that is folded with those of other
    hops, or, without a fold, what stands beside it; the axes of the own block and of the one that came; and whether it
    goes to the rank whose block that is. `merge` makes one of two shares of each that stays here.
    """
    me, needs = place - 1, _needs(meets, ranks, blocks)
    hops = [n for n in range(ranks) if n == 0 or any(any(needs[r][(r - n) % ranks]) for r in range(ranks))]
    ours = [_blocks_along(x, axis, blocks) for x, axis in own]
    parts = [_blocks_along(x, axis, blocks) for x, axis in coming]
    stay: list[list[torch.Tensor]] = [[] for _ in range(blocks)]
    beside: dict[tuple[int, int, int], torch.Tensor] = {}
    total: list[dict[int, torch.Tensor]] = []
    here, moving = parts, None
    for n, hop in enumerate(hops):
        other = (me - hop) % ranks
        if n:
            here = _arrived(moving, parts, needs[me][other])
        if n + 1 < len(hops):
            to, source = (me + hops[n + 1]) % ranks, (me - hops[n + 1]) % ranks
            moving = _shifted(parts, needs[to][me], to, needs[me][source], source, ranks, group)
        back: list[dict[int, torch.Tensor]] = [{} for _ in made]
        for k, j in enumerate(_blocks_of(other, ranks, blocks)):
            for a, i in enumerate(_blocks_of(me, ranks, blocks)):
                if i == j or meets(i + 1, j + 1):
                    found = compute(i + 1, j + 1, *[x[a] for x in ours], *[x[k] for x in here])
                    _kept(found, made, merge, stay[a], back, beside, (k, a, j))
        total = _gone_back(total, back, made, needs, me, hop, ranks, group) if hop else back
    return [_of_all_blocks(made, m, stay, total, beside, ranks * blocks) for m in range(len(made))]


def _needs(meets: Callable[[int, int], bool], ranks: int, blocks: int) -> list[list[list[bool]]]:
    """For each rank, and each other, which of that one's blocks it needs; each has its own."""
    return [[[rank == other or any(meets(i + 1, j + 1) for i in _blocks_of(rank, ranks, blocks))
              for j in _blocks_of(other, ranks, blocks)] for other in range(ranks)] for rank in range(ranks)]


def _kept(found: Sequence[torch.Tensor], made: list[_Made],
          merge: Callable[..., Sequence[torch.Tensor]] | None, stay: list[torch.Tensor],
          back: list[dict[int, torch.Tensor]], beside: dict[tuple[int, int, int], torch.Tensor],
          at: tuple[int, int, int]) -> None:
    """Keeps what was made of one pair of blocks: of the block `at` has its number among those of its rank, that of the
    own block, and its number among all.
    """
    k, a, j = at
    shares = [x for x, (fold, _, _, sent) in zip(found, made) if fold and not sent]
    if shares:
        stay[:] = merge(*stay, *shares) if stay and merge is not None else shares
    for m, (fold, _, _, sent) in enumerate(made):
        if sent and fold:
            back[m][k] = fold(back[m][k], found[m]) if k in back[m] else found[m]
        elif not fold:
            beside[m, a, j] = found[m]


def _gone_back(total: list[dict[int, torch.Tensor]], back: list[dict[int, torch.Tensor]],
               made: list[_Made], needs: list[list[list[bool]]], me: int, hop: int,
               ranks: int, group: str) -> list[dict[int, torch.Tensor]]:
    """What there is of the rank's own blocks, after what it made of those of another rank has gone there, and what a
    third has made of its own has come.
    """
    owner, reader = (me - hop) % ranks, (me + hop) % ranks
    going = [[found.get(k, x) for k, x in mine.items()] for (*_, sent), mine, found in zip(made, total, back) if sent]
    came = _arrived(_shifted(going, needs[me][owner], owner, needs[reader][me], reader, ranks, group), going,
                    needs[reader][me])
    out: list[dict[int, torch.Tensor]] = []
    for (fold, _, _, sent), mine in zip(made, total):
        some = zip(mine.items(), came.pop(0), needs[reader][me]) if sent else ()
        out.append({k: fold(x, y) if there else x for (k, x), y, there in some} if sent and fold else mine)
    return out


def _of_all_blocks(made: list[_Made], m: int, stay: list[list[torch.Tensor]],
                   total: list[dict[int, torch.Tensor]], beside: dict[tuple[int, int, int], torch.Tensor],
                   count: int) -> torch.Tensor:
    """One result of all blocks; there are so many of them."""
    fold, axis, part, sent = made[m]
    if sent and fold:
        return _side_by_side([total[m][k] for k in range(len(stay))], part, fold)
    if fold:
        at = sum(bool(one[0]) and not one[3] for one in made[:m])
        return _side_by_side([some[at] for some in stay], axis, fold)
    rows = [_side_by_side([beside[m, a, j] for j in range(count)], part, torch.add) for a in range(len(stay))]
    return _side_by_side(rows, axis, torch.add)


def _blocks_of(rank: int, ranks: int, blocks: int) -> list[int]:
    """The numbers of a rank's blocks."""
    return [turn * ranks + (ranks - 1 - rank if turn % 2 else rank) for turn in range(blocks)]


def _blocks_along(x: torch.Tensor, axis: int | None, blocks: int) -> list[torch.Tensor]:
    """The blocks of a tensor along an axis; where it has none, all of it for each."""
    return list(x.chunk(blocks, axis)) if axis is not None and blocks > 1 else [x] * blocks


def _side_by_side(parts: list[torch.Tensor], axis: int | None, fold: _Step) -> torch.Tensor:
    """Blocks along an axis as one tensor; where they have none, their fold."""
    if axis is not None:
        return torch.cat(parts, axis) if len(parts) > 1 else parts[0]
    made = parts[0]
    for one in parts[1:]:
        made = fold(made, one)
    return made


def _shifted(parts: list[list[torch.Tensor]], sends: list[bool], to: int, gets: list[bool], source: int, ranks: int,
             group: str) -> Any:
    """Starts to send some blocks of each of several tensors to one rank, as one message, and to get some from another:
    these, once they have arrived."""
    if not parts:
        return None
    out = _packed([torch.stack([x for x, one in zip(some, sends) if one] or some)[:sum(sends)] for some in parts])
    given, got = [0] * ranks, [0] * ranks
    given[to], got[source] = sum(sends), sum(gets)
    return torch.ops._c10d_functional.all_to_all_single(out.contiguous(), got, given, group)


def _arrived(moving: Any, parts: list[list[torch.Tensor]], gets: list[bool]) -> list[list[torch.Tensor]]:
    """The blocks that come of each tensor, once they are there; an empty tensor for one that does not."""
    found = [] if moving is None else _unpacked(torch.ops._c10d_functional.wait_tensor(moving),
                                                [some[0][None] for some in parts])
    there = [(x, iter(x.unbind())) for x in found]
    return [[next(rows) if one else x[:0] for one in gets] for x, rows in there]
