"""Blocks that go round the ranks of a group: in each hop a rank has those of one other rank, and what it makes of them
is merged with what it made before, or goes back to that rank. What comes next is on its way while a hop is computed.

A rank sends a block to those ranks alone that need it. Blocks are numbered from 0 over all ranks; a rank that has two
has one from each end, so that where later blocks meet more than earlier ones all ranks have as much to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

_FOLDED = {"sum": torch.add, "prod": torch.mul, "max": torch.maximum, "min": torch.minimum,
           "logaddexp": torch.logaddexp}


def _around(own: list[tuple[torch.Tensor, int | None]], coming: list[tuple[torch.Tensor, int]],
            compute: Callable[..., Sequence[torch.Tensor]], merge: Callable[..., Sequence[torch.Tensor]],
            made: list[tuple[str, int | None, int | None, bool]], meets: Callable[[int, int], bool],
            ranks: int, blocks: int, place: int, group: str) -> list[torch.Tensor]:
    """What is made of all pairs of a block of this rank and one that comes round, where the two meet.

    `own` and `coming` are tensors with the axis of which they have blocks. `compute` makes of the places of two blocks,
    counted from 1, and of both blocks of all tensors what `made` says: a share, that is folded with those of other
    hops, or, without a fold, what stands beside it; the axes of the own block and of the one that came; and whether it
    goes to the rank whose block that is. `merge` makes one of two shares of each that stays here.
    """
    me, mine = place - 1, _blocks_of(place - 1, ranks, blocks)
    needs = [[[rank == other or any(meets(i + 1, j + 1) for i in _blocks_of(rank, ranks, blocks))
               for j in _blocks_of(other, ranks, blocks)] for other in range(ranks)] for rank in range(ranks)]
    hops = [n for n in range(ranks) if n == 0 or any(any(needs[r][(r - n) % ranks]) for r in range(ranks))]
    parts = [_apart(x, axis, blocks) for x, axis in coming]
    ours, here, arriving = [_apart(x, axis, blocks) for x, axis in own], parts, parts
    stay = [m for m, (fold, _, _, sent) in enumerate(made) if fold and not sent]
    merged: list[list[torch.Tensor]] = [[] for _ in mine]
    beside: dict[tuple[int, int, int], torch.Tensor] = {}
    total: list[dict[int, torch.Tensor]] = [{} for _ in made]
    for n, hop in enumerate(hops):
        source, reader = (me - hop) % ranks, (me + hop) % ranks
        if n:
            here = [_arrived(x, needs[me][source]) for x in arriving]
        if n + 1 < len(hops):
            after = hops[n + 1]
            arriving = [_shifted(x, needs[(me + after) % ranks][me], (me + after) % ranks,
                                 needs[me][(me - after) % ranks], (me - after) % ranks, ranks, group) for x in parts]
        back: list[dict[int, torch.Tensor]] = [{} for _ in made]
        for k, j in enumerate(_blocks_of(source, ranks, blocks)):
            for a, i in enumerate(mine):
                if i != j and not meets(i + 1, j + 1):
                    continue
                found = compute(i + 1, j + 1, *[x[a] for x in ours], *[x[k] for x in here])
                shares = [found[m] for m in stay]
                merged[a] = list(merge(*merged[a], *shares)) if merged[a] else shares
                for m, (fold, _, _, sent) in enumerate(made):
                    if sent:
                        back[m][k] = _FOLDED[fold](back[m][k], found[m]) if k in back[m] else found[m]
                    elif not fold:
                        beside[m, a, j] = found[m]
        for m, (fold, _, _, sent) in enumerate(made):
            if sent and hop:
                shape = next(iter(total[m].values()))
                sent_back = [back[m].get(k, shape) for k in range(blocks)]
                moving = _shifted(sent_back, needs[me][source], source, needs[reader][me], reader, ranks, group)
                back[m] = {k: x for k, x in enumerate(_arrived(moving, needs[reader][me])) if x is not None}
            if sent:
                total[m] = {k: _FOLDED[fold](total[m][k], back[m][k]) if hop and k in back[m] else
                            total[m][k] if hop else back[m][k] for k in range(blocks)}
    out = []
    for m, (fold, axis, part, sent) in enumerate(made):
        if sent:
            out.append(_joined_blocks([total[m][k] for k in range(blocks)], part, fold))
        elif fold:
            out.append(_joined_blocks([some[stay.index(m)] for some in merged], axis, fold))
        else:
            rows = [_joined_blocks([beside[m, a, j] for j in range(ranks * blocks)], part, "sum")
                    for a in range(blocks)]
            out.append(_joined_blocks(rows, axis, "sum"))
    return out


def _blocks_of(rank: int, ranks: int, blocks: int) -> list[int]:
    """The numbers of a rank's blocks."""
    return [turn * ranks + (ranks - 1 - rank if turn % 2 else rank) for turn in range(blocks)]


def _apart(x: torch.Tensor, axis: int | None, blocks: int) -> list[torch.Tensor]:
    """The blocks of a tensor along an axis; where it has none, all of it for each."""
    return list(x.chunk(blocks, axis)) if axis is not None and blocks > 1 else [x] * blocks


def _joined_blocks(parts: list[torch.Tensor], axis: int | None, fold: str) -> torch.Tensor:
    """Blocks along an axis as one tensor; where they have none, their fold."""
    if axis is not None:
        return torch.cat(parts, axis) if len(parts) > 1 else parts[0]
    made = parts[0]
    for one in parts[1:]:
        made = _FOLDED[fold](made, one)
    return made


def _shifted(parts: list[torch.Tensor], sends: list[bool], to: int, gets: list[bool], source: int, ranks: int,
             group: str) -> torch.Tensor:
    """Starts to send some blocks to one rank and to get some from another: these, once they have arrived."""
    out = torch.cat([x[None] for x, one in zip(parts, sends) if one] or [parts[0][None][:0]]).contiguous()
    given, got = [0] * ranks, [0] * ranks
    given[to], got[source] = sum(sends), sum(gets)
    made: torch.Tensor = torch.ops._c10d_functional.all_to_all_single(out, got, given, group)
    return made


def _arrived(moving: torch.Tensor, gets: list[bool]) -> list[torch.Tensor | None]:
    """The blocks that come, None for those that do not, once they are there."""
    there = iter(torch.ops._c10d_functional.wait_tensor(moving).unbind())
    return [next(there) if one else None for one in gets]
