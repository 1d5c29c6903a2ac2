"""The steps of a rank that send rows: where they go is said by what chose, and how many come by a message before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from einc.ir.indices import IndexSet, number, size
from einc.ir.plan import Buffer, Move, Moved, RankGroup, Routes
from einc.ir.programs import Tensor
from einc.planning.placing.levels import Placed, Transfer
from einc.planning.placing.local import Local
from einc.planning.placing.two_blocks import CLASS


def routes_of(of: Placed, local: Local, new: Sequence[Transfer]) -> tuple[Routes, str] | None:
    """Where the rows of a message go, or come from, and the tensor that says it; None where it is of no rows."""
    found = [(one, one.move.rows) for one in new if one.move.rows is not None]
    if not found:
        return None
    (first, rows), *_ = found
    chosen = local.name(*of.beside(first.move.tensor, first.move.axes, first.now, first.then)[0])
    part = of.mesh[first.move.axes[0]].part(rows.base.extent)
    return Routes(size(rows.count), rows.packed, part, rows.base.start, tuple(rows.at for _, rows in found)), chosen


def counted(chosen: Tensor, key: str, routes: Routes, group: RankGroup) -> tuple[Move, Buffer]:
    """The step that finds out how many rows come from each rank, and the buffer that has it, `key`."""
    ranks = IndexSet(CLASS, number(group.ranks))
    step = Move(
        reads=(chosen.key,), writes=(key,), kind="counts", group=group, routes=replace(routes, at=((),)),
        texts=(f"how many rows each rank sends of those that {chosen.key} says",),
        moved=(Moved(tuple(s.set.extent for s in chosen.slots)),))
    return step, Buffer(key, ("q",), (ranks,), chosen.element, "local")


def sizes_told(of: Placed) -> frozenset[str]:
    """The sizes that say how many rows a rank has, which nobody is asked for."""
    return frozenset(rows.count for _, move in of.moves if (rows := move.rows) is not None)
