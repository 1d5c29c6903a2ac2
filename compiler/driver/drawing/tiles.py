"""The tiles that a kernel visits: those that its domain leaves whole, those that it cuts, and those that are skipped,
as the plan bounds them and with the lengths that the torch back end takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

from einc.driver.drawing.pictures import Cells, Picture
from einc.errors.report import failure
from einc.ir.indices import Index
from einc.ir.plan import Axis, Interval, Kernel, Loop, Module, Select, within
from einc.ir.terms import Apply, Const, Fold, Position, Read, Size, Term, Truth, const, free_indices, transform
from einc.ir.tiles import lengths, tile_name
from einc.meaning.functions import function

MOST_TILES = 1 << 20  # tiles of one picture, each of which is looked at by itself
MOST_POINTS = 1 << 28  # points of one picture, each of which has a number
_FEW: Mapping[str, Callable[[Any], Any]] = {"add": sum, "mul": prod, "min": min, "max": max}


def tiles(module: Module, sizes: Mapping[str, int], arrays: Mapping[str, Cells], rows: int = 0,
          columns: int = 0) -> list[Picture]:
    """A picture for each kernel that goes over one axis in tiles of another; `rows` and `columns` are lengths of tiles
    other than the usual ones. EincError where there is no such kernel, or where one goes by values that it computes.
    """
    found = list(_tiled(module, sizes, arrays))
    if not found:
        raise failure("no kernel of the plan goes over one axis in tiles of another, so there are no tiles to draw",
                      "`einc show --stage plan` has the steps that there are; of kernels that are called once for each "
                      "request, block of rows or pair of devices no tiles are drawn")
    return [_drawn(kernel, known, inputs, rows, columns) for kernel, known, inputs in found]


def _tiled(module: Module, sizes: Mapping[str, int],
           arrays: Mapping[str, Cells]) -> Iterator[tuple[Kernel, Mapping[str, int], Mapping[str, Cells]]]:
    """Each kernel that goes over one axis in tiles of another, with the sizes and the arrays that its bounds may read;
    those of the body of a loop are of its first round."""
    known = _Known(module, arrays)
    for step in within(module.steps):
        if isinstance(step, Loop):
            by = {key: (buffer, axis) for key, buffer, axis in step.inputs}
            yield from _tiled(step.body, {**{inner: sizes[outer] for inner, outer in step.sizes}, **step.body.fixed},
                              _FirstRound(known, by))
        elif isinstance(step, Kernel) and step.grid is not None and step.stream is not None:
            yield step, sizes, known


@dataclass(frozen=True, eq=False)
class _Known(Mapping[str, Cells]):
    """The arrays of a module that are known before it runs, by the names of their buffers: its inputs, and what follows
    from the lengths of the pieces of an axis. EincError for a buffer that a step computes."""

    module: Module
    arrays: Mapping[str, Cells]

    def __getitem__(self, name: str) -> Cells:
        """The array of a buffer. Raises EincError where a step of the module computes it."""
        for one in self.module.lengths:
            if name in (one.piece, one.offset, one.start):
                counts = self.arrays[one.given].astype(int)
                start = np.cumsum(counts) - counts
                piece = np.repeat(np.arange(len(counts)), counts)
                found: dict[str, Cells] = {one.start: start, one.offset: start[piece], one.piece: piece + one.first}
                return found[name]
        if all(name != tensor.key for tensor in self.module.inputs):
            raise failure(f"the tiles depend on `{name}`, which is computed, so they are not known before a call",
                          "`einc draw FILE mask` draws which points are inside")
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return (tensor.key for tensor in self.module.inputs)

    def __len__(self) -> int:
        return len(self.module.inputs)


@dataclass(frozen=True, eq=False)
class _FirstRound(Mapping[str, Cells]):
    """What the body of a loop is given in its first round: by its names the buffers of the module around the loop, or
    of these the first part along an axis."""

    outer: Mapping[str, Cells]
    buffers: Mapping[str, tuple[str, int | None]]

    def __getitem__(self, name: str) -> Cells:
        buffer, axis = self.buffers[name]
        found = self.outer[buffer]
        return found if axis is None else found.take(0, axis)

    def __iter__(self) -> Iterator[str]:
        return iter(self.buffers)

    def __len__(self) -> int:
        return len(self.buffers)


def _drawn(kernel: Kernel, sizes: Mapping[str, int], arrays: Mapping[str, Cells], rows: int, columns: int) -> Picture:
    """A picture of the tiles that one kernel visits: rows against the axis of its pass, each tile whole, cut by a
    condition, or skipped, with a note that counts them. Raises EincError where there are more tiles or points than
    are drawn."""
    grid, stream = kernel.grid, kernel.stream
    assert grid is not None and stream is not None
    usual = lengths(kernel, sizes)
    high, wide = int(grid.set.extent.at(sizes)), int(stream.set.extent.at(sizes))
    tall = max(1, rows or usual.get(tile_name(grid.name), high) or 1)
    broad = max(1, columns or usual.get(tile_name(stream.name), wide) or 1)
    _few_enough(kernel, (high, wide), (tall, broad))
    cells = np.zeros((high, wide))
    counted = {"whole": 0, "cut": 0}
    for first in range(0, high, tall):
        last = min(first + tall, high)
        for low, end in _visited(stream, grid, (first, last), broad, wide, sizes, arrays):
            ends = {grid.name: (first, last), stream.name: (low, end)}
            cut = any(_cut(let.op, stream, ends, sizes, arrays) for let in kernel.lets
                      if isinstance(let.op, Select) and {grid.name, stream.name} <= {*let.axes})
            cells[first:last, low:end] = 0.5 if cut else 1.0
            counted["cut" if cut else "whole"] += 1
    every = -(-high // tall) * -(-wide // broad)
    share = {name: 100 * float((cells == value).mean()) if cells.size else 0.0
             for name, value in (("whole", 1.0), ("cut", 0.5), ("skipped", 0.0))}
    skipped = max(0, every - sum(counted.values()))
    notes = (f"tiles of {tall} × {broad}: {counted['whole']} whole, {counted['cut']} cut, {skipped} skipped",
             "of all points " + ", ".join(f"{part:.4g} % {name}" for name, part in share.items()))
    return Picture(f"tiles of {', '.join(kernel.writes)}", "tiles", grid.name, stream.name, cells, notes)


def _few_enough(kernel: Kernel, points: tuple[int, int], tile: tuple[int, int]) -> None:
    """EincError where a picture would have more tiles, or more points, than are drawn."""
    every = prod(-(-count // length) for count, length in zip(points, tile, strict=True))
    would = f"the picture of {', '.join(kernel.writes)} would have {every:,} tiles"
    if every > MOST_TILES:
        raise failure(f"{would}, more than the {MOST_TILES:,} that are drawn", "give smaller sizes: --sizes T=1024")
    if prod(points) > MOST_POINTS:
        raise failure(f"{would} of {prod(points):,} points together, more than the {MOST_POINTS:,} that are drawn",
                      "give smaller sizes: --sizes T=1024")


def _visited(stream: Axis, grid: Axis, rows: tuple[int, int], broad: int, wide: int, sizes: Mapping[str, int],
             arrays: Mapping[str, Cells]) -> Iterator[tuple[int, int]]:
    """The tiles of the streamed axis that a tile of rows visits, each with its first place and that after its last."""
    bound = stream.bound
    spans = bound.spans if bound is not None else (Interval(),)
    for span in spans:
        ends = {grid.name: rows}
        low, high = _reach(span, stream, ends, sizes, arrays, wide)
        for first in range(low, high, broad):
            last = min(first + broad, high)
            inner = {**ends, stream.name: (first, last)}
            if bound is None or bound.within is None or any(
                    _meets(one, stream, inner, sizes, arrays) for one in bound.within):
                yield first, last


Ends = Mapping[str, tuple[int, int]]


def _reach(span: Interval, axis: Axis, ends: Ends, sizes: Mapping[str, int], arrays: Mapping[str, Cells],
           wide: int) -> tuple[int, int]:
    """The places of a span within an axis, the first and that after the last."""
    lows = [_number(term, ends, sizes, arrays) - axis.set.start for term in span.low]
    highs = [_number(term, ends, sizes, arrays) - axis.set.start + 1 for term in span.high]
    low, high = max([0, *lows]), min([wide, *highs])
    if any(_number(term, ends, sizes, arrays) < 0 for term in span.when):
        return low, low
    return low, max(low, high)


def _meets(span: Interval, axis: Axis, ends: Ends, sizes: Mapping[str, int], arrays: Mapping[str, Cells]) -> bool:
    """Whether a tile of the axis has a place within a span."""
    first, last = ends[axis.name]
    low, high = _reach(span, axis, ends, sizes, arrays, int(axis.set.extent.at(sizes)))
    return max(first, low) < min(last, high)


def _cut(op: Select, axis: Axis, ends: Ends, sizes: Mapping[str, int], arrays: Mapping[str, Cells]) -> bool:
    """Whether a condition may cut a tile: where the plan does not know, it looks at every tile."""
    return op.cut is None or any(_meets(span, axis, ends, sizes, arrays) for span in op.cut)


def _number(term: Term, ends: Ends, sizes: Mapping[str, int], arrays: Mapping[str, Cells]) -> int:
    """A whole number made of the ends of tiles."""
    return int(_value(term, ends, sizes, arrays, {}))


def _value(term: Term, ends: Ends, sizes: Mapping[str, int], arrays: Mapping[str, Cells],
           at: Mapping[Index, int]) -> Any:
    """A term at some places. Folds go over every point, so this is for pictures, not for speed."""
    def value(inner: Term) -> Any:
        return _value(inner, ends, sizes, arrays, at)

    match term:
        case Const(number):
            return number
        case Truth(true):
            return true
        case Size(extent):
            return extent.at(sizes)
        case Position(index) if index in at:
            return at[index]
        case Position(index):
            which, axis = index.name.split(" ")
            first, last = ends[axis]
            return index.set.start + (first if which == "first" else last - 1)
        case Apply("div", (above, below)):
            return Fraction(value(above)) / Fraction(value(below)) if value(below) else Fraction(0)
        case Apply("floor" | "ceil" as op, (inner,)):
            whole = Fraction(value(inner))
            return whole.__floor__() if op == "floor" else whole.__ceil__()
        case Apply("le" | "lt" | "eq" as op, (left, right)):
            one, other = value(left), value(right)
            return one <= other if op == "le" else one < other if op == "lt" else one == other
        case Apply("and", args):
            return all(map(value, args))
        case Apply("add" | "mul" | "min" | "max" as op, args):
            return _FEW[op]([value(arg) for arg in args])
        case Apply(op, args):
            return function(op)(*(np.asarray(value(arg)) for arg in args)).item()
        case Read(tensor, subs):
            places = [int(value(sub)) - _start(sub) for sub in subs]
            return arrays[tensor][tuple(places)].item()
        case Fold(op, bound, domain, body):
            return _extreme(op, bound, domain, body, (ends, sizes, arrays, at))
    raise AssertionError(term)


def _start(sub: Term) -> int:
    return sub.index.set.start if isinstance(sub, Position) else 1


def _extreme(op: str, bound: Sequence[Index], domain: Term, body: Term, known: tuple[Ends, Any, Any, Any]) -> Any:
    """The least or greatest value over the points of a domain; of none the number that leaves a span empty."""
    ends, sizes, arrays, at = known

    def once(term: Term) -> Term:
        """The number that a fold is where it does not read the points, so that it is formed once for all of them."""
        apart = isinstance(term, Fold) and free_indices(term).isdisjoint(bound)
        return const(_value(term, ends, sizes, arrays, at)) if apart else term

    domain = transform(domain, once)
    over = [range(i.set.start, i.set.start + int(i.set.extent.at(sizes))) for i in bound]
    points = ({**at, **dict(zip(bound, places, strict=True))} for places in product(*over))
    found = [_value(body, ends, sizes, arrays, point) for point in points
             if _value(domain, ends, sizes, arrays, point)]
    if not found:
        return max(r.stop for r in over) if op == "min" else min(r.start for r in over) - 1
    return min(found) if op == "min" else max(found)
