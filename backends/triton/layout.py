"""Where each axis of a kernel goes: programs, the dimensions of a tile, the axis that a program passes over.

A program has one element of every axis in `programs` and a tile of the others. A dimension of a tile is a
pack of axes, the slowest first: the heads that share an operand stand beside the positions, so a tile is
full where positions are few. What streams through a program is its `passed` axis. All other axes stand in
the tile whole, padded to a power of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from einc.backends.writer import identifier
from einc.ir.indices import SEQUENCE
from einc.ir.plan import AxisRef, Dot, Kernel, Let, Load, Reduce, Scan, ScatterAdd, Select, Store

Role = Literal["rows", "passed", "whole", "columns"]


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of tiles. Rows and columns are cut over programs; a whole one holds its axis, padded."""

    name: str
    axes: tuple[str, ...]
    role: Role


@dataclass(frozen=True, slots=True)
class Layout:
    """`same` are whole axes that never meet the one whose dimension they take: what is
    loaded along both is loaded once."""

    programs: tuple[str, ...]
    dims: tuple[Dim, ...]
    same: Mapping[str, str]

    def dim(self, axis: str) -> Dim | None:
        """The dimension that holds an axis, or None where the axis has no dimension of the tile."""
        axis = self.same.get(axis, axis)
        return next((d for d in self.dims if axis in d.axes), None)

    def shape(self, axes: tuple[str, ...]) -> tuple[Dim, ...]:
        """The dimensions of a value with these axes, in the order of every tile."""
        mine = {self.same.get(a, a) for a in axes}
        return tuple(d for d in self.dims if any(a in mine for a in d.axes))

    def role(self, role: Role) -> Dim | None:
        """The first dimension of this role, or None."""
        return next((d for d in self.dims if d.role == role), None)


def layout(kernel: Kernel) -> Layout:
    """Programs and dimensions from what is stored, what is folded, and who shares which operand."""
    folds = [let for let in kernel.lets
             if isinstance(let.op, Dot | Reduce | Scan | ScatterAdd) and not _shares(kernel, let)]
    folded = {a for let in folds for a in let.over}
    passed = _passed(kernel, folds, folded)
    stored = [{a for axes in store.axes for a in axes} | ({kernel.grid.name} if store.merge and kernel.grid else set())
              for store in kernel.stores]
    free = [a.name for a in kernel.axes
            if all(a.name in s for s in stored) and a.name not in folded and a.name not in passed]
    grid = kernel.grid.name if kernel.grid is not None else None
    if kernel.resumed is not None and grid in free:
        free.remove(grid)  # its tiles follow one another inside a program
    same = _same(kernel, passed)
    # a tile has a share of each of its elements
    named = {let.op.axis for let in kernel.lets if isinstance(let.op, ScatterAdd)}
    free = [a for a in free if a not in {*same, *same.values(), *named}]
    heavy = [let for let in folds if product(kernel, let)] or folds
    apart = {a for let in heavy for a in _batched(kernel, let)}
    common = [a for a in free if a in apart or all(a in let.axes for let in heavy)]
    rows = _rows(kernel, common, grid)
    made = _products(kernel)
    # else columns would be a third dimension
    flat = bool(made) and all(set(let.axes) <= {*common, grid} for let in made)
    lacked = [a for a in common if flat and any(a not in s for let in heavy for s in _operands(kernel, let))]
    columns = () if kernel.merged else tuple(a for a in free if a not in rows and (a not in common or a in lacked))
    taken = {*rows, *passed, *columns, *same}
    programs = tuple(a for a in common if a not in taken)
    dims = [Dim(_name(kernel, rows, "row"), rows, "rows")] if rows else []
    dims += [Dim(identifier(passed[0]), passed, "passed")] if passed else []
    dims += [Dim(identifier(a.name), (a.name,), "whole") for a in kernel.axes if a.name not in (*taken, *programs)]
    dims += [Dim(_name(kernel, columns, "column"), columns, "columns")] if columns else []
    return Layout(programs, tuple(dims), same)


def _products(kernel: Kernel) -> list[Let]:
    return [let for let in kernel.lets if product(kernel, let) and not _shares(kernel, let)]


def _shares(kernel: Kernel, let: Let) -> bool:
    """Whether a let folds what is cut in tiles: each has its share."""
    return bool(kernel.merged) and kernel.grid is not None and kernel.grid.name in let.over


def _operands(kernel: Kernel, let: Let) -> list[set[str]]:
    """The axes of the operands of a product."""
    by = {x.name: set(x.axes) for x in kernel.lets}
    return [by[a] for a in let.args] if isinstance(let.op, Dot) else []


def _batched(kernel: Kernel, let: Let) -> set[str]:
    """The axes along which a product is many products of matrices: both groups of its operands have them. One that is
    no axis of programs would be a third dimension of the tile."""
    sets = [s for s in _operands(kernel, let) if set(let.over) <= s] if product(kernel, let) else []
    return {a for s, t in combinations(sets, 2) if s - t and t - s for a in (s & t) - {*let.over}}


def _name(kernel: Kernel, axes: tuple[str, ...], pack: str) -> str:
    """A name that no other dimension of the tile has."""
    if len(axes) == 1:
        return identifier(axes[0])
    while pack in {identifier(a.name) for a in kernel.axes}:
        pack += "s"
    return pack


def _passed(kernel: Kernel, folds: list[Let], folded: set[str]) -> tuple[str, ...]:
    """The streamed axis; else a folded one of any length: one that a scan runs along, one with a
    bound, one that is not the depth of products of stored matrices alone. Of several it is a long one,
    for the others stand in the tile whole."""
    if kernel.stream is not None:
        return (kernel.stream.name,)
    for let in folds:
        if isinstance(let.op, Scan):
            return (let.op.axis, let.op.over)
    bounded = [a.name for a in kernel.axes if a.name in folded and a.bound is not None]
    loose = [a.name for a in kernel.axes
             if a.name in folded and any(a.name in x.over and not _deep(kernel, x) for x in folds)]
    return tuple(sorted([*bounded, *loose], key=lambda name: kernel.axis(name).set.cls not in SEQUENCE)[:1])


def _deep(kernel: Kernel, let: Let) -> bool:
    """Whether a let is a product of matrices that are stored, or hold no more than that
    scaled: a tile may cut its depth."""
    by = {x.name: x for x in kernel.lets}
    made = [by[a] for a in let.args if set(let.over) & set(by[a].axes)] if isinstance(let.op, Dot) else []
    return product(kernel, let) and not any(isinstance(x.op, Select) for x in made)


def product(kernel: Kernel, let: Let) -> bool:
    """Whether a let may be a product of matrices: two groups of operands, each with an axis that the other lacks, and
    none with a value for each point of a tile that stays in the result."""
    by = {x.name: x for x in kernel.lets}
    if not isinstance(let.op, Dot) or len(let.args) < 2 or len(let.op.over) != 1:
        return False
    sets = [set(by[a].axes) for a in let.args if set(let.op.over) & set(by[a].axes)]
    tile = {a.name for a in (kernel.grid, kernel.stream) if a is not None}
    if len(tile) == 2 and any(tile <= s & set(let.axes) for s in sets):
        return False
    return any(s - t and t - s for s in sets for t in sets)


def _rows(kernel: Kernel, common: list[str], grid: str | None) -> tuple[str, ...]:
    """The tiled axis, and beside it those that some operand of a product lacks as well as that axis."""
    if (kernel.resumed is not None or kernel.merged) and grid is not None:
        return (grid,)
    products = [_operands(kernel, let) for let in _products(kernel)]
    if not products:
        order = [a for a in _order(kernel.stores) if a in common]
        return tuple(order[order.index(grid) :] if grid in order else order)  # the tiled axis is the slowest of a pack
    lacked = [a for a in common if any(any(a not in s for s in sets) for sets in products)]
    first = grid if grid is not None else next(iter(lacked), None)
    if first is None:
        return ()
    beside = [a for a in lacked if a != first and not any(a in s and first not in s for sets in products for s in sets)]
    return (first, *beside)


def follows(kernel: Kernel, buffer: str, slot: int) -> bool:
    """Whether the kernel reads a buffer along the axis that a program passes over, at that slot, and only so."""
    passed = layout(kernel).role("passed")
    if passed is None or any(isinstance(let.op, Scan) for let in kernel.lets):
        return False
    loads = [let.op for let in kernel.lets if isinstance(let.op, Load) and let.op.buffer == buffer]
    return bool(loads) and all(load.subs[slot] == AxisRef(passed.axes[0]) for load in loads)


def _same(kernel: Kernel, tiled: tuple[str, ...]) -> dict[str, str]:
    """Axes along which the same elements are loaded a second time, where no value has both."""
    loads = [let.op for let in kernel.lets if isinstance(let.op, Load)]
    together = [set(let.axes) | {a for x in kernel.lets if x.name in let.reads for a in x.axes} for let in kernel.lets]
    moving = {*tiled, *([kernel.grid.name] if kernel.grid is not None else [])}
    out: dict[str, str] = {}
    for first, second in combinations(loads, 2):
        if first.buffer != second.buffer:
            continue
        pairs = [(a, b) for a, b in zip(first.subs, second.subs, strict=True) if a != b]
        match pairs:
            case [(AxisRef(kept), AxisRef(other))] if not {kept, other} & moving and kept not in out:
                if kernel.axis(kept).set == kernel.axis(other).set and not any({kept, other} <= t for t in together):
                    out.setdefault(other, kept)
    return out


def _order(stores: tuple[Store, ...]) -> list[str]:
    """Axes as the first result has them in memory."""
    return [a for axes in stores[0].axes for a in axes] if stores else []
