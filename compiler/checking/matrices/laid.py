"""Matrices that are written out: blocks beside and below each other, and listings, which are read by general terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

from einc.checking.declarations.names import size_name
from einc.checking.matrices import typed as y
from einc.checking.matrices.along import shown
from einc.checking.matrices.bands import Block, banded, divided, quotient
from einc.checking.matrices.known import Known
from einc.checking.matrices.shapes import DOTS, ONE, Dimension, Shape, is_name, mapped, parts, plain, told
from einc.errors.problems import NoShape, OpenReading, ShapesDiffer
from einc.errors.report import Help, Span
from einc.ir.indices import INDEX_CLASSES
from einc.syntax import tree as s

Of = Callable[[Known, s.Expression], y.Typed]  # the typed expression of a cell, by the letters that are known


@dataclass(frozen=True)
class _Count:
    """A letter that counts what a listing holds along a side, from 1 to `size`."""

    letter: str
    size: str
    side: y.Side


@dataclass(frozen=True)
class _Term:
    """The cells of a row, in which the letters of `counts` may stand; the outer ones come first."""

    cells: tuple[s.Expression, ...]
    counts: tuple[_Count, ...] = ()


@dataclass(frozen=True)
class Laid:
    """How one matrix is read: `of` types a cell, and `span` is where it stands. `listed`: it is written in a line,
    `[a; b]`, where columns alone have one place. `lying`: each cell is a row, however vectors lie.
    """

    known: Known
    of: Of
    span: Span
    listed: bool = False
    lying: bool = False

    def matrix(self, cells: tuple[tuple[s.Expression | None, ...], ...]) -> y.Typed:
        """The typed matrix of all cells. Raises NoShape, ShapesDiffer and OpenReading where it has no one reading."""
        if len(cells) == 1:
            return self.line(cells[0], "columns")
        if all(len(row) == 1 for row in cells):
            return self.line([row[0] for row in cells], "rows")
        if (band := banded(cells)) is not None:
            return self._band(*band)
        rows = [None if row == (None,) else self._row(row) for row in cells]
        return self._joined([self._of(x) for x in self._collapsed(rows, "rows")], "rows")

    def _band(self, first: Block, between: Sequence[Block], last: Block) -> y.Typed:
        """The matrix of blocks on its diagonal, which are counted from the first to the last."""
        letter = f"i@{self.span.start}d"
        made = counting([first, *between, last], letter)
        if made is None or made[1] in self.known.letters or made[1] in self.known.shifted:
            raise _open(self.span)
        known = replace(self.known, letters={**self.known.letters, letter: made[1]})
        inner = replace(self, known=known).matrix(made[0])
        rows, columns = inner.shape.rows, inner.shape.columns
        if rows == columns == ONE:
            vector = self.stacked(letter, made[1], inner, "rows")
            return y.Diagonal(vector, False, Shape(vector.shape.rows, vector.shape.rows), self.span)
        return y.Banded(letter, inner, Shape((made[1], *rows), (made[1], *columns)), self.span)

    def one(self, cell: s.Expression) -> y.Typed:
        """One typed expression."""
        return self.of(self.known, cell)

    def line(self, cells: Sequence[s.Expression | None], side: y.Side | None) -> y.Typed:
        """The typed matrix of cells that follow each other along a side, None for the one along which vectors lie."""
        found = self._collapsed([None if x is None else _Term((x,)) for x in cells], side or "columns")
        if side is None:
            first = self._of(_Term(found[0].cells), found[0].counts).shape
            side = "rows" if first.columns == ONE != first.rows else "columns"
            found = [replace(x, counts=tuple(replace(c, side=side) for c in x.counts)) for x in found]
        parts = [self._of(x) for x in found]
        if side == "rows" and self.listed and any(x.shape.columns != ONE for x in parts):
            raise OpenReading("do these stand below or beside each other?", self.span, helps=(
                Help(r"write `\begin{bmatrix} a \\ b \end{bmatrix}` or `\begin{bmatrix} a & b \end{bmatrix}`"),))
        return self._joined(parts, side)

    def _row(self, cells: tuple[s.Expression | None, ...]) -> _Term:
        """One row of several."""
        found = self._collapsed([None if x is None else _Term((x,)) for x in cells], "columns")
        if len(found) == 1:
            return found[0]
        if any(x.counts for x in found):
            raise _open(self.span)
        return _Term(tuple(x for x in cells if x is not None))

    def _of(self, term: _Term, letters: tuple[_Count, ...] = ()) -> y.Typed:
        """The typed matrix of a row, or of all that a general term stands for; other letters may stand in it."""
        counts = {x.letter: x.size for x in (*term.counts, *letters)}
        known = replace(self.known, letters={**self.known.letters, **counts})
        parts = [self.of(known, x) for x in term.cells]
        if self.lying:
            parts = [y.Turned(x, x.shape.turned, x.span) if x.shape.columns == ONE else x for x in parts]
        out = self._joined(parts, "columns")
        for count in reversed(term.counts):
            out = self.stacked(count.letter, count.size, out, count.side)
        return out

    def stacked(self, letter: str, size: str, inner: y.Typed, side: y.Side) -> y.Typed:
        """A matrix for each value of a letter, along a side."""
        rows, columns = inner.shape.rows, inner.shape.columns
        shape = Shape((size, *rows), columns) if side == "rows" else Shape(rows, (size, *columns))
        return y.Stacked(letter, inner, side, shape, self.span)

    def _joined(self, parts: list[y.Typed], side: y.Side) -> y.Typed:
        """Matrices along a side. A letter of its own counts those that are as large; others make a direct sum."""
        if len(parts) == 1:
            return parts[0]
        other: y.Side = "columns" if side == "rows" else "rows"
        for a, b in pairwise(parts):
            if getattr(a.shape, other) != getattr(b.shape, other):
                how = "below" if side == "rows" else "beside"
                raise ShapesDiffer(f"{shown(a)} and {shown(b)} stand {how} each other", self.span)
        found: list[Dimension] = [getattr(x.shape, side) for x in parts]
        alike = len({*found}) == 1
        if alike and str(len(parts)) in self.known.shifted:
            raise NoShape(f"the {len(parts)} parts of this are counted from 1", self.span, helps=(
                Help(f"declare the index of {len(parts)} values from 1 on"),))
        whole = (str(len(parts)), *found[0]) if alike else (self._sum(found),)
        across: Dimension = getattr(parts[0].shape, other)
        shape = Shape(whole, across) if side == "rows" else Shape(across, whole)
        return y.Joined(tuple(parts), side, alike, shape, self.span)

    def _sum(self, found: list[Dimension]) -> str:
        """The size of a direct sum, `d_c+d_r`. Raises NoShape where it has none."""
        single = all(len(x) == 1 and "+" not in x[0] for x in found) and len({*found}) == len(found)
        classes = {self.known.classes.get(size, "feature") for x in found for size in x}
        if not single or len(classes) > 1 or not all(INDEX_CLASSES[x].summed for x in classes):
            sizes = " and ".join(map(told, found))
            raise NoShape(f"no index counts parts of {sizes} one after another", self.span, helps=(
                Help("a direct sum is of different sizes, none of them of positions; or write the equation with "
                     "indices: `C_t^e = A_t^a ⊕ B_t^b`"),))
        return "+".join(x[0] for x in found)

    # general terms

    def _collapsed(self, found: list[_Term | None], side: y.Side) -> list[_Term]:
        """The cells or rows, of which each listing with dots is its general term."""
        out: list[_Term] = []
        at = 0
        while at < len(found):
            term = found[at]
            if term is not None:
                out.append(term)
            else:
                last = found[at + 1] if at + 1 < len(found) else None
                if last is None:
                    raise _open(self.span)
                out = self._listing(out, last, side)
                at += 1
            at += 1
        return out

    def _listing(self, before: list[_Term], last: _Term, side: y.Side) -> list[_Term]:
        """What stands before dots and after them, with the general term of those that are listed."""
        letter = f"i@{self.span.start}{side[0]}{len(before)}"
        for at, first in enumerate(before):
            cells = [x.cells for x in (first, *before[at + 1 :], last)]
            made = counting(cells, letter) if first.counts == last.counts else None
            if made is None:
                continue
            term, size = made
            if size in self.known.letters or size in self.known.shifted:
                break
            return [*before[:at], _Term(term, (_Count(letter, size, side), *first.counts))]
        raise _open(self.span)


def listed_sizes(known: Known, statements: Iterable[s.Statement]) -> Known:
    """What is known with what matrices that are written out say of sizes: those that a listing counts, whose letter is
    the outer part of a side, and those that blocks on a diagonal divide.
    """
    bodies = [c.body for line in statements for c in line.clauses]
    lines = [cells for body in bodies for node in parts(body) if isinstance(node, s.Matrix) for cells in _lines(node)]
    lines += [cells for body in bodies for node in parts(body) if isinstance(node, s.Group) and node.open == "("
              and (cells := dotted(node)).count(None) == 1]
    found = (_general(cells[0], cells[n + 1], "") for cells in lines for n, x in enumerate(cells[:-1])
             if x is None and n)
    outer = {count[1] for x in found if x is not None and (count := _counted(x[1])) is not None}
    bands = (banded(x.cells) for body in bodies for x in parts(body) if isinstance(x, s.Matrix))
    outer |= {made[1] for x in bands if x is not None and (made := counting([x[0], *x[1], x[2]], "")) is not None}
    return replace(known, parts={**divided(bodies), **known.parts}, outer=frozenset(outer))


def _lines(node: s.Matrix) -> Iterator[Sequence[s.Expression | None]]:
    """The rows and the columns of a matrix that is written out."""
    yield from node.cells
    wide = max(map(len, node.cells))
    yield from ([None if row == (None,) else row[n] for row in node.cells] for n in range(wide)
                if all(len(row) == wide or row == (None,) for row in node.cells))


def dotted(given: s.Group) -> list[s.Expression | None]:
    """What stands in parentheses, with None where there are dots."""
    cells: list[s.Expression | None] = [*given.items[:1]]
    for before, item in pairwise(given.items):
        cells += [None, item] if DOTS.search(given.span.source.text, before.span.end, item.span.start) else [item]
    return cells


def _open(span: Span) -> OpenReading:
    """What is wrong with a listing whose general term its ends do not tell."""
    return OpenReading("what stands where the dots are?", span, helps=(
        Help("the first and the last differ in one place, which counts from 1 to a size; or define the entries by "
             "their general term: `A_{ij} = …`"),))


Ends = frozenset[tuple[str, str]]  # what stands where two expressions differ


def _counted(ends: Ends) -> tuple[int, str] | None:
    """Where the one place at which two expressions differ begins to count, and the size that it counts: from 1 to T, or
    from 0 to T − 1. None for others.
    """
    if len(ends) != 1:
        return None
    (first, last), = ends
    if first == "0" and last.endswith("-1"):
        return 0, last.removesuffix("-1")
    return (1, last) if first == "1" and last and not last.endswith("-1") else None


def _before(node: Any, letter: str) -> Any:
    """The expression with what stands before a letter in its place, `i - 1` for i; of several the same."""
    if isinstance(node, tuple):
        return tuple(_before(x, letter) for x in node)
    if isinstance(node, s.Word) and node.text == letter:
        less = s.Sum((node, s.Number("1", node.span)), ("+", "-"), node.span)
        return s.Group("(", ")", (less,), node.span)
    return mapped(node, lambda x: _before(x, letter), scripts=True)


def counting(terms: Sequence[Any], letter: str) -> tuple[Any, str] | None:
    """The general term of what is listed, of which all but the last are counted one by one, and the size that the last
    tells; None for others.
    """
    first, *rest = terms
    found = [_general(first, x, letter) for x in rest]
    count = _counted(found[-1][1]) if found and found[-1] is not None else None
    if count is None or found[-1] is None:
        return None
    start, size = count
    steps = [None if x is None else x[1] for x in found[:-1]]
    if steps != [frozenset({(str(start), str(start + n))}) for n in range(1, len(rest))]:
        return None
    return (found[-1][0] if start == 1 else _before(found[-1][0], letter)), size


def listing(node: s.Expression, letter: str) -> tuple[s.Expression, str] | None:
    """The general term of all of a matrix that lists names along one side, with dots before the last, and the size up
    to which they are counted; None for another expression.
    """
    if not isinstance(node, s.Matrix) or 1 not in (len(node.cells), max(map(len, node.cells))):
        return None
    cells = [x for row in node.cells for x in row]
    names = [x for x in cells if x is not None]
    whole = len(names) == len(cells) - 1 > 1 and cells[-2] is None and all(map(is_name, names))
    return counting(names, letter) if whole else None


def _general(first: Any, last: Any, letter: str) -> tuple[Any, Ends] | None:
    """What two expressions have in common, with a letter where they differ, and what stands there in each; None for
    what is no expression and differs.
    """
    if plain(first) == plain(last):
        return first, frozenset()
    found = _inside(first, last, letter)
    if found is not None or not (isinstance(first, s.Expression) and isinstance(last, s.Expression)):
        return found
    return s.Word(letter, first.span), frozenset({(_extent(first), _extent(last))})


def _inside(first: Any, last: Any, letter: str) -> tuple[Any, Ends] | None:
    """The same of what two things hold that are otherwise alike."""
    if type(first) is not type(last) or isinstance(first, s.Word | s.Number):
        return None
    if isinstance(first, tuple):
        parts = [_general(a, b, letter) for a, b in zip(first, last, strict=True)] if len(first) == len(last) else None
        made: Any = None if parts is None or None in parts else tuple(x[0] for x in parts if x is not None)
    elif is_dataclass(first):
        names = [f.name for f in fields(first) if f.name != "span"]
        parts = [_general(getattr(first, x), getattr(last, x), letter) for x in names]
        made = None if None in parts else replace(first, **{  # type: ignore[type-var]
            name: x[0] for name, x in zip(names, parts, strict=True) if x is not None})
    else:
        return None
    if parts is None or made is None:
        return None
    return made, frozenset(e for x in parts if x is not None for e in x[1])


def _extent(node: s.Expression) -> str:
    """The number or the size that an expression is, `T-1` of one less than a size, "" for another one."""
    match node:
        case s.Group(items=(inner,)):
            return _extent(inner)
        case s.Sum((size, s.Number("1")), ("+", "-")) if size_name(size):
            return f"{size_name(size)}-1"
    return node.text if isinstance(node, s.Number) else size_name(node) or quotient(node)
