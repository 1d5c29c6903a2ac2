r"""Square matrices that a text writes out with dots and whose entries are of two kinds, above the diagonal and below:
the equation of their entries, `M_{ij} = 1[j ≤ i] γ^{i-j}`.

Where an entry stands is counted from the first row and column before the dots, and from the last behind them. On one
side of the diagonal stands one number, or nothing; on the other one number, or what goes on with rows and columns:
powers (`γ` is `γ^1`, and 1 is `γ^0`), products that are listed (`a_3 a_2` is `a_3 ⋯ a_2`, and 1 is one of no factors),
and names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from einc.checking.declarations.names import literal, size_name
from einc.checking.declarations.sets import extent_of
from einc.checking.matrices.masks import infinite
from einc.checking.matrices.shapes import is_name, parts, plain, words
from einc.errors.report import Problem, Span
from einc.ir.indices import Extent, number
from einc.syntax import tree as s

_STEPS = (-1, 0, 1)  # by what a value may go on from a row or a column to the next
_MORE = range(-3, 4)  # and what more it may be


@dataclass(frozen=True)
class _Cell:
    """An entry and the places of its row and column."""

    row: Extent
    column: Extent
    node: s.Expression
    side: int  # 1 below the diagonal, 0 on it, -1 above

    @property
    def turned(self) -> _Cell:
        """The entry of the transpose that has this value."""
        return replace(self, row=self.column, column=self.row, side=-self.side)


@dataclass(frozen=True)
class _Form:
    """What an entry is made of: a power of `base`, a product of factors of this name, or one name, with the numbers in
    it, the higher before the lower end of a product. Where a power is 0 and a product has no factor it is 1.
    """

    kind: str
    base: s.Expression
    values: tuple[Extent, ...]


def by_entries(statements: Iterable[s.Statement]) -> tuple[s.Statement, ...]:
    """The lines, in which `M = …` with such a matrix on its right is the equation of its entries."""
    lines = tuple(statements)
    taken = {w.text for line in lines for c in (*line.clauses, *line.tail) for w in words((c.body,))}
    letters = [x for x in "ijpqruvabcdefghklmnostwxyz" if not any(x in w for w in taken if len(w) <= 2)][:2]
    return tuple(_by_entries(line, *letters) if len(letters) == 2 else line for line in lines)


def _by_entries(line: s.Statement, i: str, j: str) -> s.Statement:
    """One of the lines, with two letters for rows and columns."""
    match line.clauses[0].body if line.keyword in ("", "output") and line.clauses else None:
        case s.Relation((left, s.Matrix(cells, "grid") as matrix), (sign,)) as body if is_name(left):
            made = _term(list(_cells(cells)), i, j, matrix.span)
            if made is None or (isinstance(left, s.Scripted) and any(k.kind == "lower" for k in left.scripts)):
                return line
            places = s.Group("{", "}", tuple(s.Word(x, left.span) for x in (i, j)), left.span)
            script = s.Script("lower", places, "", left.span)
            entry = replace(left, scripts=(*left.scripts, script)) if isinstance(left, s.Scripted) else s.Scripted(
                left, (), (script,), left.span)
            made_body = replace(body, operands=(entry, made), operators=(sign,))
            return replace(line, clauses=(replace(line.clauses[0], body=made_body), *line.clauses[1:]))
    return line


def _cells(cells: Sequence[Sequence[s.Expression | None]]) -> Iterator[_Cell]:
    """The entries of a matrix with one row of dots, each with its place; none of another matrix."""
    dots = [n for n, row in enumerate(cells) if tuple(row) == (None,)]
    if len(dots) != 1 or not 0 < dots[0] < len(cells) - 1 or any(None not in row for row in cells[dots[0] :]):
        return
    many = next((x for row in reversed(cells) for x in _sizes(row)), number(1000))
    for n, row in enumerate(cells):
        behind = [k for k, x in enumerate(row) if x is None]
        for k, x in enumerate(row) if n != dots[0] else ():
            if x is None:
                continue
            late = bool(behind) and k > behind[-1]
            vertical, across = n > dots[0], late
            down = n - len(cells) if vertical else n + 1
            right = k - len(row) if across else k + 1
            side = (vertical > across) - (vertical < across) or (down > right) - (down < right)
            yield _Cell(many + number(down + 1) if vertical else number(down),
                        many + number(right + 1) if across else number(right), x, side)


def _sizes(row: Iterable[s.Expression | None]) -> Iterator[Extent]:
    """The sizes in a row."""
    for node in (x for cell in row if cell is not None for x in parts(cell)):
        if isinstance(node, s.Word) and len(node.text) > 1:
            continue
        content = [k.content for k in node.scripts if k.content is not None] if isinstance(node, s.Scripted) else []
        for x in content:
            value = _value(x)
            if value is not None and len(value.sizes) == 1:
                yield extent_of(s.Word(next(iter(value.sizes)), node.span))


def _value(node: s.Expression) -> Extent | None:
    """The number that an expression of sizes is; None for another one."""
    while isinstance(node, s.Group) and len(node.items) == 1:
        (node,) = node.items
    if not (isinstance(node, s.Sum | s.Number) or size_name(node)):
        return None
    try:
        return extent_of(node)
    except Problem:
        return None


def _term(cells: list[_Cell], i: str, j: str, span: Span) -> s.Expression | None:
    """The entry at two letters; None where there is no such general term."""
    if not {x.side for x in cells} >= {0, 1} or len({str(x.row) for x in cells}) < 3:
        return None
    for flip in (False, True):
        turned = [x.turned for x in cells] if flip else cells
        above = {plain(x.node) for x in turned if x.side < 0}
        first = next((x.node for x in turned if x.side < 0), None)
        if len(above) > 1 or (first is not None and not _alone(first)):
            continue
        row, column = (j, i) if flip else (i, j)
        below = _below([x for x in turned if x.side >= 0], row, column, span)
        if below is not None:
            rest = [] if first is None or literal(first) == 0 else [_where(row, "<", column, first, span)]
            terms = [x for x in (*below, *rest) if x is not None]
            return terms[0] if len(terms) == 1 else s.Sum(tuple(terms), ("+",) * len(terms), span) if terms else None
    return None


def _alone(node: s.Expression) -> bool:
    """Whether an entry is a number of its own: 0, 1, −∞."""
    return literal(node) is not None or infinite(node) or isinstance(node, s.Infinity)


def _where(a: str, sign: str, b: str, node: s.Expression, span: Span) -> s.Expression:
    """The node times the indicator of a condition on two letters: `[a < b] node`."""
    condition = s.Relation((s.Word(a, span), s.Word(b, span)), (sign,), span)
    inner = node if isinstance(node, s.Word | s.Scripted | s.Number) else s.Group("(", ")", (node,), node.span)
    return s.Product((s.Number("1", span), s.Group("[", "]", (condition,), span), inner), ("", "", ""), span)


def _below(cells: list[_Cell], row: str, column: str, span: Span) -> list[s.Expression | None] | None:
    """The terms of the entries at and below the diagonal; None where they are no terms of one kind."""
    if all(_alone(x.node) for x in cells):
        diagonal, rest = ({plain(x.node): x.node for x in cells if (x.side == 0) is own} for own in (True, False))
        if len(diagonal) != 1 or len(rest) != 1:
            return None
        (one,), (other,) = diagonal.values(), rest.values()
        if plain(one) == plain(other):
            return [None if literal(one) == 0 else _where(column, "<=", row, one, span)]
        return [None if literal(x) == 0 else _where(column, sign, row, x, span)
                for x, sign in ((one, "="), (other, "<"))]
    template = max((x for x in cells if x.side), key=lambda x: (bool(x.row.sizes), not x.column.sizes, str(x.node)))
    form = _form(template.node, None)
    forms = [(x, _form(x.node, form)) for x in cells]
    if form is None:
        return None
    apart = [x.node for x, _ in forms if x.side == 0]
    whole = form.kind != "name"
    fitted = _fitted([(x, f) for x, f in forms if x.side or (whole and not _one(x.node))], form)
    if fitted is None or len({plain(x) for x in apart if _alone(x)}) > 1:
        return None
    ones = [x for x in apart if _alone(x)]
    if ones and len(ones) != len(apart):
        return None
    general = _written(template.node, form, fitted, row, column)
    first, second, more = fitted[0]
    unit = form.kind == "power" and first + second == more == 0 and all(map(_one, ones))  # the power 0
    if not ones or unit:
        return [_where(column, "<=", row, general, span)]
    return [_where(column, "<", row, general, span),
            None if literal(ones[0]) == 0 else _where(column, "=", row, ones[0], span)]


def _one(node: s.Expression) -> bool:
    return isinstance(node, s.Number) and node.text == "1"


def _form(node: s.Expression, like: _Form | None) -> _Form | None:
    """What an entry is made of, as an entry that it is `like` is."""
    match node:
        case s.Range(s.Scripted() as high, s.Scripted() as low) if like is None or like.kind == "run":
            ends = [x for x in (_form(high, None), _form(low, None)) if x is not None]
            if len(ends) == 2 and plain(ends[0].base) == plain(ends[1].base) and all(len(x.values) == 1 for x in ends):
                return _Form("run", ends[0].base, (ends[0].values[0], ends[1].values[0]))
        case s.Product(factors, operators) if not any(operators) and like is not None and like.kind == "run":
            inner = [x for x in (_form(y, None) for y in factors) if x is not None]
            steps = [(a.values[0] - b.values[0]).constant for a, b in pairwise(inner)]
            if len(inner) == len(factors) and all(x == 1 for x in steps):
                return _Form("run", inner[0].base, (inner[0].values[0], inner[-1].values[0]))
        case s.Scripted(base, accents, (*rest, s.Script(kind, content))) if content is not None and kind in (
                "lower", "upper") and (value := _value(content)) is not None:
            bare = base if not (rest or accents) else replace(node, scripts=tuple(rest))
            if like is not None and like.kind == "run" and kind == "lower":
                return _Form("run", bare, (value, value))
            return _Form("power" if kind == "upper" else "name", bare, (value,))
        case _ if like is not None and like.kind == "power" and plain(node) == plain(like.base):
            return _Form("power", node, (number(1),))
    return None


def _fitted(forms: list[tuple[_Cell, _Form | None]], form: _Form) -> list[tuple[int, int, int]] | None:
    """For each number in a form by how much it goes on with the row and the column and what more it is, where that is
    so in all entries, and in one way alone.
    """
    out: list[tuple[int, int, int]] = []
    for n in range(len(form.values)):
        if any(f is None or f.kind != form.kind or plain(f.base) != plain(form.base) for _, f in forms):
            return None
        pairs = [(x, f.values[n]) for x, f in forms if f is not None]
        found = [(a, b, c) for a, b, c in product(_STEPS, _STEPS, _MORE) if all(
            value.terms == (x.row * number(a) + x.column * number(b) + number(c)).terms for x, value in pairs)]
        if len(found) != 1:
            return None
        out.append(found[0])
    return out


def _written(node: s.Expression, form: _Form, fitted: list[tuple[int, int, int]], row: str,
             column: str) -> s.Expression:
    """The entry of a form at two letters."""
    if form.kind == "run" and isinstance(node, s.Range):
        high, low = (_at(x, steps, row, column) for x, steps in zip((node.low, node.high), fitted, strict=True))
        return replace(node, low=high, high=low)
    return _at(node, fitted[0], row, column)


def _at(node: s.Expression, steps: tuple[int, int, int], row: str, column: str) -> s.Expression:
    """A name with a number in its last script at two letters."""
    assert isinstance(node, s.Scripted)
    span, more = node.span, steps[2]
    found: list[tuple[s.Expression, int]] = [
        (s.Word(x, span), step) for x, step in zip((row, column), steps, strict=False) if step]
    found += [(s.Number(str(abs(more)), span), more)] if more or not found else []
    found.sort(key=lambda x: x[1] < 0)
    terms, signs = tuple(x for x, _ in found), tuple("-" if step < 0 else "+" for _, step in found)
    inner: s.Expression = terms[0] if signs == ("+",) else s.Sum(terms, signs, span)
    last = replace(node.scripts[-1], content=s.Group("{", "}", (inner,), span))
    return replace(node, scripts=(*node.scripts[:-1], last))
