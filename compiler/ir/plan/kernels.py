"""Kernels: axes, lets and stores, and what a step costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from einc.ir.indices import Extent, IndexSet, number
from einc.ir.plan.lets import Interval, Let, Load, Select
from einc.ir.terms import reads

Role = Literal["grid", "stream", "whole"]


@dataclass(frozen=True, slots=True)
class Bound:
    """The reach of an axis in a tile of rows: nothing lies outside the spans. A tile of the axis that meets none of the
    spans `within` is empty too.

    `resumes`: it goes on where the reach of the tile before ended, `back` where the tiles
    go from the last to the first.
    """

    spans: tuple[Interval, ...]
    within: tuple[Interval, ...] | None = None
    resumes: Literal["", "on", "back"] = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a kernel. A grid axis is cut in tiles, of `length` if it says so; `bound`
    narrows another axis for one of them."""

    name: str
    set: IndexSet
    role: Role
    bound: Bound | None = None
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """A value written to a buffer; `axes` are those of the value in the order of the buffer's slots.

    With a `merge` (a fold) it is the share of one tile: the buffer holds the fold of all shares.
    """

    buffer: str
    value: str
    axes: tuple[tuple[str, ...], ...]
    merge: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Work and traffic as formulas in the sizes: multiply-adds count two, bytes are those read and written once.

    `held` are the bytes of a tile's values that are alive at one time, in the sizes and the lengths of the tile, which
    are sizes of the names that `tiles.tile_name` gives; 0 of a step that has no tiles.
    """

    flops: Extent
    read: Extent
    written: Extent
    held: Extent

    def put(self, sizes: Mapping[str, Extent]) -> Cost:
        """The formulas with sizes that only the emitted module knows in terms of the others."""
        return Cost(*(x.put(sizes) for x in (self.flops, self.read, self.written, self.held)))


FREE = Cost(number(0), number(0), number(0), number(0))


def summed(costs: Iterable[Cost], times: Extent | None = None) -> Cost:
    """The cost of steps one after the other, each done so many times; what is held is what the last of them holds."""
    flops = read = written = held = number(0)
    for cost in costs:
        flops, read, written, held = flops + cost.flops, read + cost.read, written + cost.written, cost.held
    if times is not None:
        flops, read, written = flops * times, read * times, written * times
    return Cost(flops, read, written, held)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A step that the plan writes itself: tiles of the grid axis, in each of them lets,
    and stores of what others need."""

    does: ClassVar[str] = "kernel"
    name: str
    axes: tuple[Axis, ...]
    lets: tuple[Let, ...]
    stores: tuple[Store, ...]
    texts: tuple[str, ...]
    notes: tuple[str, ...]
    cost: Cost
    largest: tuple[str, ...] = ()  # the axes of the value that decides how long a tile may be

    @property
    def reads(self) -> tuple[str, ...]:
        """The buffers whose elements its lets load, in their order; those that bounds of
        tiles search are not among them."""
        return tuple(dict.fromkeys(let.op.buffer for let in self.lets if isinstance(let.op, Load)))

    @property
    def writes(self) -> tuple[str, ...]:
        """The buffers that it stores, in their order."""
        return tuple(dict.fromkeys(store.buffer for store in self.stores))

    @property
    def bodies(self) -> tuple[()]:
        """No lists of steps, as a kernel holds none: a walk over the steps of a plan goes no deeper here."""
        return ()

    @property
    def searched(self) -> frozenset[str]:
        """The buffers in which the bounds of tiles, and the ranges of conditions, search for positions."""
        spans = [s for axis in self.axes if axis.bound is not None
                 for s in (*axis.bound.spans, *(axis.bound.within or ()))]
        spans += [s for let in self.lets if isinstance(let.op, Select) for s in let.op.cut or ()]
        return frozenset(r.tensor for s in spans for term in (*s.low, *s.high, *s.when) for r in reads(term))

    def axis(self, name: str) -> Axis:
        """Returns the axis of this name; raises StopIteration where there is none."""
        return next(a for a in self.axes if a.name == name)

    @property
    def stream(self) -> Axis | None:
        """The axis that the kernel streams over in a loop; None where it has none."""
        return next((a for a in self.axes if a.role == "stream"), None)

    @property
    def grid(self) -> Axis | None:
        """The axis whose tiles are the programs of the grid; None where it has none."""
        return next((a for a in self.axes if a.role == "grid"), None)

    @property
    def merged(self) -> tuple[Store, ...]:
        """Results of which each tile has a share."""
        return tuple(s for s in self.stores if s.merge)

    @property
    def resumed(self) -> Axis | None:
        """The axis that tile after tile goes through once: the tiles must come in order,
        for values pass from one to the next."""
        return next((a for a in self.axes if a.bound is not None and a.bound.resumes), None)
