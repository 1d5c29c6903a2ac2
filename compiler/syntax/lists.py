"""What stands between marks -> operands with their signs, and cells in rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from einc.ir.primitives import PRIMITIVES
from einc.syntax import tree as s
from einc.syntax.spelling import is_fold

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


def taken(node: s.Product) -> s.Product:
    """The product, in which a function before a big operator is of all that this takes: `log Σ_s a_s`, `log(Σ_s a_s)`.
    Where a quotient or a sign of a product stands behind it, nothing says where the function ends.
    """
    for at, (name, after) in enumerate(zip(node.factors, node.factors[1:], strict=False)):
        row = PRIMITIVES.get(name.text) if isinstance(name, s.Word) and not is_fold(name.text) else None
        binder = isinstance(after, s.Scripted) and isinstance(after.base, s.Word) and is_fold(after.base.text)
        if row is not None and row.callable and binder and not any(node.operators[at + 1 :]):
            rest = node.factors[at + 1 :]
            span = rest[0].span.to(rest[-1].span)
            given = s.Group("(", ")", (s.Product(rest, ("",) * len(rest), span),), span)
            return s.Product((*node.factors[: at + 1], given), node.operators[: at + 2], node.span)
    return node
