"""What goes over the wires: of collectives what their formulas say, of blocks that go round those that are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from einc.ir.indices import Extent, number
from einc.planning.placing.around import met
from einc.planning.placing.hops import Hopping
from einc.planning.placing.levels import Placed, usual_sizes
from einc.planning.placing.local import Local
from einc.planning.placing.messages import messages
from einc.planning.placing.states import SILENT, Move


@dataclass(frozen=True)
class Sent:
    """One move with its level, the number of messages that a rank takes part in, and how many elements it sends: of
    blocks that go round as the ranks do on average. What goes along in the message of the move before it has none of
    its own. Before the first rows there is a message more, of a few numbers: how many rows each rank sends.
    """

    level: int
    move: Move
    messages: int
    wire: Extent


def sent(placed: Placed, sizes: Mapping[str, int], narrow: bool = False) -> Iterator[Sent]:
    """All that is sent, in its order; `narrow` as for `messages`. Where sizes that say which blocks meet are not known,
    all of them are counted, unless it is the same for some that are usual.
    """
    local, found, begun = Local(placed), list[Sent](), set[object]()
    for message in messages(placed, narrow):
        for n, one in enumerate(message.transfers):
            for level in placed.reached(one) if one.move.kind not in SILENT else ():
                if not one.move.around:
                    rows = one.move.rows
                    first = rows is not None and (one.move.axes, rows.chosen) not in begun
                    found.append(Sent(level, one.move, (n == 0) * (1 + first), one.move.wire))
                    begun |= {(one.move.axes, rows.chosen)} if rows is not None else set()
                    continue
                at = level if one.move.kind == "pass" else placed.levels[one.move.tensor]
                hop = one.move.kind, at, one.move.axes
                found.append(_round(placed, local, level, at, one.move, sizes, hop in begun))
                begun.add(hop)
    yield from sorted(found, key=lambda one: (one.level, one.move.kind if one.move.around else ""))


def _round(placed: Placed, local: Local, level: int, at: int, move: Move, sizes: Mapping[str, int],
           along: bool) -> Sent:
    """What goes round in the hops of a level, in as many messages as there are hops in which something is sent; in none
    of its own where it goes `along` with what else does."""
    found = [needs(placed, local, (at, move.axes[1]), known) for known in _guesses(placed, sizes)]
    share, hops = counted(found[0]) if all(one == found[0] for one in found) else (Fraction(1), move.ranks - 1)
    return Sent(level, move, 0 if along else hops, move.wire * number(share))


def _guesses(placed: Placed, sizes: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """Sizes by which it is decided which blocks meet."""
    known, usual = {**placed.program.sizes, **sizes}, usual_sizes(placed.program)
    yield {**usual, **known}
    for name in usual.keys() - known.keys():
        yield {**usual, **known, name: 16 * usual[name]}


def needs(placed: Placed, local: Local, at: tuple[int, int], sizes: Mapping[str, int]) -> list[list[list[bool]]]:
    """For each rank, and each other, which blocks of that one it needs in the hops of a level on an axis."""
    hops = Hopping(local, at[1])
    found, ranks = blocks_met(hops, at[0], sizes), placed.mesh[at[1]].ranks
    own = [[n, 2 * ranks - 1 - n][: hops.blocks] for n in range(ranks)]
    return [[[rank == other or any(found[i][j] for i in own[rank]) for j in own[other]] for other in range(ranks)]
            for rank in range(ranks)]


def blocks_met(hops: Hopping, level: int, sizes: Mapping[str, int]) -> list[list[bool]]:
    """For each block of all ranks the blocks that it meets in the hops of a level."""
    axis, time = hops.of.mesh[hops.axis - 1], hops.of.mesh[hops.axis]
    return met(hops.condition(level), axis.place, time.place, axis.ranks * hops.blocks, sizes)


def counted(found: list[list[list[bool]]]) -> tuple[Fraction, int]:
    """Which share of the blocks of others is sent, and in how many hops something is."""
    ranks = len(found)
    others = [one for rank, row in enumerate(found) for other, some in enumerate(row) if rank != other for one in some]
    hops = sum(any(any(found[rank][(rank - hop) % ranks]) for rank in range(ranks)) for hop in range(1, ranks))
    return Fraction(sum(others), len(others)), hops
