"""Blocks on the diagonal of a matrix that is written out with dots, and the sizes of which such blocks are parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from einc.checking.matrices.masks import infinite
from einc.checking.matrices.shapes import Dimension, parts, plain, quotient
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
            n // high != k // wide and not plain_zero(x) for n, line in enumerate(grid) for k, x in enumerate(line)):
        return None
    first, *between, last = (tuple(line[n * wide : (n + 1) * wide] for line in grid[n * high : (n + 1) * high])
                             for n in range(row // high + 1))
    return first, tuple(between), last


def triangular(cells: Block) -> tuple[Block, s.Expression] | None:
    """A matrix with dots of which one number stands above the diagonal, with all its entries as those below have them,
    and that number. None for another matrix.
    """
    written = [row for row in cells if row != (None,)]
    dots = {tuple(n for n, x in enumerate(row) if x is None) for row in written}
    if len(written) + 1 != len(cells) or len(dots) != 1 or len(column := next(iter(dots))) != 1:
        return None
    grid = [tuple(x for x in row if x is not None) for row in written]
    if any(len(row) != len(grid) for row in grid) or len(grid) < 2:
        return None
    above = [x for n, row in enumerate(grid) for x in row[n + 1 :]]
    below = [x for n, row in enumerate(grid) for x in row[: n + 1]]
    if not _alone(above[0]) or any(plain(x) != plain(above[0]) for x in above) or any(map(_alone, below)):
        return None
    last = grid[-1]
    full: list[tuple[s.Expression | None, ...]] = []
    for n, row in enumerate(grid):
        made = (*row[: n + 1], *(_moved(last[0], x, row[0]) for x in last[n + 1 :]))
        full.append((*made[: column[0]], None, *made[column[0] :]))
    place = cells.index((None,))
    return (*full[:place], (None,), *full[place:]), above[0]


def of_rows(cells: Sequence[s.Expression | None]) -> tuple[s.Word, Block] | None:
    """The function and the rows of a column with dots, each cell of which is that function of a row that is written out
    with dots: `[f([a_1 … b_1]); …; f([a_n … b_n])]`. None for another column.
    """
    found: list[tuple[s.Expression | None, ...]] = []
    functions: list[s.Word] = []
    for cell in cells:
        match cell:
            case None:
                found.append((None,))
            case s.Product((s.Word() as function, s.Group("(", ")", (inner,))), ("", "")):
                row = _row(inner)
                if row is None:
                    return None
                functions.append(function)
                found.append(row)
            case _:
                return None
    if None not in cells or len({x.text for x in functions}) != 1:
        return None
    return functions[0], tuple(found)


def _row(node: s.Expression) -> tuple[s.Expression | None, ...] | None:
    """The cells of a row with dots that is written out, in brackets or without; None for another expression."""
    while isinstance(node, s.Group) and len(node.items) == 1:
        (node,) = node.items
    return node.cells[0] if isinstance(node, s.Matrix) and len(node.cells) == 1 and None in node.cells[0] else None


def _alone(node: s.Expression) -> bool:
    """Whether an entry is a number of its own: 0, −∞."""
    inner = node.terms[0] if isinstance(node, s.Sum) and len(node.terms) == 1 else node
    return isinstance(inner, s.Number | s.Infinity)


def _moved(first: Any, last: Any, here: Any) -> Any:
    """What stands in a row where another row has `last`: `here` is what it has where that has `first`."""
    if plain(first) == plain(last):
        return here
    if type(first) is type(last) is type(here):
        if isinstance(first, tuple) and len(first) == len(last) == len(here):
            return tuple(_moved(*x) for x in zip(first, last, here, strict=True))
        if is_dataclass(first) and not isinstance(first, s.Word | s.Number):
            return replace(here, **{f.name: _moved(*(getattr(x, f.name) for x in (first, last, here)))
                                    for f in fields(first) if f.name != "span"})
    return last


def plain_zero(node: s.Expression | None) -> bool:
    """Whether an entry of a matrix is written as the number 0."""
    return isinstance(node, s.Number) and node.text == "0"


def absent(node: s.Expression | None) -> bool:
    """Whether an entry of a matrix is written as −∞."""
    return node is not None and infinite(node)


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
