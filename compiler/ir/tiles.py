"""How long the tiles of a kernel are where nobody has timed them: by the elements of its largest value, at given sizes.

The torch back end writes the same rule into its files as text; Triton's tiles are chosen on the device and are shorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from einc.ir.indices import MODEL, Extent, number
from einc.ir.plan import Axis, Dot, Kernel

ELEMENTS = 21  # log2 of the elements that a tile's largest value may have
PASSED = 16  # and of one that is only gone over point by point and summed: several of them stay in the cache
ROWS, SHORT_ROWS, COLUMNS = 256, 128, 128  # rows of a tile with a stream, of one with a short stream; columns at least
FEW_ROWS = 16  # rows at least, where matrices are multiplied


def tile_name(axis: str) -> str:
    """The size that stands for the length of a tile of the axis; no name of a source has a parenthesis in it."""
    return f"tile({axis})"


def matrices(operands: Sequence[tuple[str, ...]]) -> bool:
    """Whether two of the operands have each an index that the other lacks."""
    sets = [set(axes) for axes in operands]
    return any(a - b and b - a for a in sets for b in sets)


def row(kernel: Kernel, grid: Axis, without: tuple[str, ...] = ()) -> Extent:
    """Elements of the kernel's largest value for one position of the grid axis, and of the axes `without`."""
    most = number(1)
    for axis in kernel.largest:
        if axis != grid.name and axis not in without:
            most = most * kernel.axis(axis).set.extent
    return most


def multiplies(kernel: Kernel) -> bool:
    """Whether some product of the kernel is one of matrices."""
    axes = {let.name: let.axes for let in kernel.lets}
    return any(matrices([axes[a] for a in let.args]) for let in kernel.lets if isinstance(let.op, Dot))


def short(stream: Axis, few: bool) -> bool:
    """Whether rows see only a part of the stream, so that much of a tile of many rows would be wasted; `few`: of a
    step that adds positions to a cache, which may be few."""
    return few or (stream.bound is not None and all(s.low and s.high for s in stream.bound.spans))


def least_columns(stream: Axis) -> int:
    """The columns that a tile has at least: one alone fills a tile where the rows are those of the model."""
    return 1 if stream.set.cls in MODEL else COLUMNS


def lengths(kernel: Kernel, sizes: Mapping[str, int], few: bool = False) -> dict[str, int]:
    """The lengths of tiles by their `tile_name`, as the torch back end takes them at these sizes; empty where a size
    that they depend on is not given."""
    grid, stream = kernel.grid, kernel.stream
    axes = [a for a in (grid, stream) if a is not None]
    if not axes or not all(a.set.extent.sizes <= sizes.keys() for a in kernel.axes):
        return {}
    extents = {a.name: int(a.set.extent.at(sizes)) for a in axes}
    found = _chosen(grid, stream, kernel, sizes, few)
    return {tile_name(name): max(1, min(length, extents[name])) for name, length in found.items()}


def _chosen(grid: Axis | None, stream: Axis | None, kernel: Kernel, sizes: Mapping[str, int],
            few: bool) -> dict[str, int]:
    """The lengths before they are cut to the extents of the axes."""
    def elements(axis: Axis, without: tuple[str, ...] = ()) -> int:
        return max(1, int(row(kernel, axis, without).at(sizes)))

    if grid is None:
        assert stream is not None
        return {stream.name: max(COLUMNS, 2 ** (ELEMENTS - 1) // elements(stream))}
    if grid.length is not None:
        return {grid.name: grid.length}
    if stream is None:
        most, least = (ELEMENTS, FEW_ROWS) if multiplies(kernel) else (PASSED, 1)
        return {grid.name: max(least, 2**most // elements(grid))}
    rows = min(SHORT_ROWS if short(stream, few) else ROWS, max(1, int(grid.set.extent.at(sizes))))
    columns = 2 ** (ELEMENTS - 1) // (rows * elements(grid, (stream.name,)))
    return {grid.name: rows, stream.name: max(least_columns(stream), columns)}
