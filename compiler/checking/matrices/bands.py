"""Blocks on the diagonal of a matrix that is written out with dots, and the sizes of which such blocks are parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from einc.checking.matrices.shapes import Dimension, parts, quotient
from einc.syntax import tree as s

Block = tuple[tuple[s.Expression | None, ...], ...]


def banded(cells: Block) -> tuple[Block, tuple[Block, ...], Block] | None:
    """The first, the next and the last of the blocks on the diagonal of a matrix that has dots in one row and one
    column, and 0 elsewhere: as large as the last are all. None for another matrix.
    """
    rows = [n for n, row in enumerate(cells) if row == (None,)]
    columns = {tuple(n for n, x in enumerate(row) if x is None) for row in cells if row != (None,)}
    if len(rows) != 1 or len(columns) != 1 or len(dots := next(iter(columns))) != 1:
        return None
    (row,), (column,) = rows, dots
    written = [line for n, line in enumerate(cells) if n != row]
    grid = [tuple(x for n, x in enumerate(line) if n != column) for line in written]
    high, wide = len(grid) - row, len(grid[0]) - column
    if not (high and wide and row % high == column % wide == 0 < row // high == column // wide):
        return None
    if any(len(line) != len(grid[0]) for line in grid) or any(
            n // high != k // wide and not _zero(x) for n, line in enumerate(grid) for k, x in enumerate(line)):
        return None
    first, *between, last = (tuple(line[n * wide : (n + 1) * wide] for line in grid[n * high : (n + 1) * high])
                             for n in range(row // high + 1))
    return first, tuple(between), last


def _zero(node: s.Expression | None) -> bool:
    return isinstance(node, s.Number) and node.text == "0"


def divided(bodies: Iterable[s.Expression]) -> dict[str, Dimension]:
    """The sizes of which a matrix of blocks tells parts: where d/2 blocks have 2 rows, d is `d / 2` times 2."""
    return {size: (many, each) for body in bodies for node in parts(body)
            if isinstance(node, s.Matrix) for size, many, each in _divided(node)}


def _divided(node: s.Matrix) -> Iterator[tuple[str, str, str]]:
    """The size that is a number of blocks times the rows of each."""
    band = banded(node.cells)
    last = () if band is None else band[2]
    many = {quotient(x) for row in last for cell in row if cell is not None for x in parts(cell)} - {""}
    for each in {len(last), *map(len, last)} - {0, 1}:
        for name in many:
            above, _, below = name.partition(" / ")
            if below == str(each):
                yield above, name, below
