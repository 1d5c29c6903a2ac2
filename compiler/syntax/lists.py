"""What stands between marks -> operands with their signs, and cells in rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from einc.syntax import tree as s

Cells = tuple[tuple[s.Expression | None, ...], ...]


def written(lists: Sequence[Sequence[s.Expression]],
            marks: Sequence[Sequence[tuple[str, str]]]) -> tuple[Cells, Literal["grid", "list", "rows"]]:
    """The cells of a matrix and its form, of lists of cells and of the words between them by type and value."""
    rows: list[list[s.Expression | None]] = [[*lists[0]]]
    for mark, cells in zip(marks, lists[1:], strict=True):
        if len(mark) > 1 and mark[0][0] == "CELL":
            rows[-1].append(None)
        elif len(mark) > 1:
            rows.append([None])
        if mark[0][0] == "CELL":
            rows[-1] += cells
        else:
            rows.append([*cells])
    sign = next((mark[0][1] for mark in marks if mark[0][0] == "BREAK"), "")
    return tuple(map(tuple, rows)), "list" if sign == ";" else "rows" if sign == "-" else "grid"


def with_signs(items: tuple[Any, ...], plain: str) -> tuple[tuple[s.Expression, ...], tuple[str, ...]]:
    """The operands among some items, and of each the sign that stands right before it, or the plain one."""
    places = [n for n, item in enumerate(items) if not isinstance(item, str)]
    signs = (str(items[n - 1]) if n and isinstance(items[n - 1], str) else plain for n in places)
    return tuple(items[n] for n in places), tuple(signs)
