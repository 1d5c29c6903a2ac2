"""What a tile holds: the bytes of its values that are alive at one time, as a formula in the lengths of the tile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from einc.ir.dependence import reached
from einc.ir.elements import OF_KIND
from einc.ir.indices import Extent, IndexSet, number, size
from einc.ir.plan import Axis, AxisRef, Let, Load, Map, PreviousCarry, Scalar, Select, Store
from einc.ir.tiles import ROWS, tile_name
from einc.planning.analysis.cost import nominal

_NOTHING = number(0)


def held(lets: tuple[Let, ...], axes: Iterable[Axis], real: int = 4) -> Extent:
    """The bytes of the lets of one tile that are alive at the moment at which, at nominal extents, most are.

    A let is alive from where it is made to where it is last read; one that stands outside the loop over the stream and
    is read inside it stays for the whole loop, as does what is carried. What is loaded from where it stands is a view
    and takes nothing. A result takes the memory of an argument that nobody reads afterwards, where the two have the
    same axes and kind. A real number takes `real` bytes.
    """
    tile = _Tile(tuple(axes), real)
    last = _last_reads(lets, tile.looped)
    by = {let.name: let for let in lets}
    alive = {let.name: tile.bytes_of(let) for let in lets if let.carry is not None}
    most, highest = _NOTHING, 0.0
    for at, let in enumerate(lets):
        dying = [a for a in let.reads if last.get(a) == at and by[a].carry is None]
        made = tile.bytes_of(let)
        over = isinstance(let.op, Map | Select) and any(_alike(by[a], let) and alive[a].terms for a in dying)
        now = sum(alive.values(), _NOTHING) + (_NOTHING if over else made)
        if (value := tile.nominal(now)) > highest:
            most, highest = now, value
        for name in dying:
            alive.pop(name, None)
        if let.carry is None:
            alive[let.name] = made
    return most


def _alike(one: Let, other: Let) -> bool:
    return one.axes == other.axes and one.kind == other.kind


def _last_reads(lets: tuple[Let, ...], looped: frozenset[str]) -> dict[str, int]:
    """The place of the let that reads each one last; what stores read is read after all of them."""
    inside = [at for at, let in enumerate(lets) if let.carry is not None or looped & set(let.axes)]
    out: dict[str, int] = {}
    for at, let in enumerate(lets):
        for name in let.reads:
            out[name] = at
    made = {let.name: at for at, let in enumerate(lets)}
    for name, at in out.items():
        if at in inside and made[name] not in inside:
            out[name] = inside[-1]
    return out


class _Tile:
    """The lengths of the axes of a kernel in one of its tiles, as formulas and at nominal extents."""

    def __init__(self, axes: tuple[Axis, ...], real: int) -> None:
        self.bytes = {kind: element.size(real) for kind, element in OF_KIND.items()}
        self.grid = next((a for a in axes if a.role == "grid"), None)
        self.looped = frozenset(a.name for a in axes if a.role == "stream")
        self.lengths = {a.name: self._length(a) for a in axes}
        self.usual: dict[str, int] = {}
        for axis in axes:
            self._assume(axis.set)
        self.usual |= {tile_name(a.name): ROWS for a in axes}

    def _length(self, axis: Axis) -> Extent:
        """Of a tile; an axis along which tile after tile goes on has as many points in one as the tile has rows."""
        if axis.bound is not None and axis.bound.resumes and self.grid is not None:
            axis = self.grid
        if axis.role == "whole":
            return axis.set.extent
        return size(tile_name(axis.name)) if axis.length is None else number(axis.length)

    def _assume(self, over: IndexSet) -> None:
        for name in over.extent.sizes:
            self.usual.setdefault(name, nominal(over))

    def bytes_of(self, let: Let) -> Extent:
        viewed = isinstance(let.op, Load) and all(isinstance(s, AxisRef) for s in let.op.subs)
        if viewed or isinstance(let.op, Scalar | PreviousCarry):
            return _NOTHING
        total = number(self.bytes[let.kind])
        for axis in let.axes:
            total = total * self.lengths[axis]
        return total

    def nominal(self, extent: Extent) -> float:
        return float(extent.at(self.usual))


def live(lets: Mapping[str, Let], stores: Iterable[Store]) -> tuple[Let, ...]:
    """The lets that some store needs, in their order."""
    wanted = {*reached([s.value for s in stores], lambda name: lets[name].args)}
    return tuple(let for name, let in lets.items() if name in wanted)
