"""Matrices that are written out: blocks beside and below each other, and listings, which are read by general terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

from einc.checking.declarations.names import size_name
from einc.checking.matrices import typed as y
from einc.checking.matrices.along import shown
from einc.checking.matrices.known import Known
from einc.checking.matrices.shapes import ONE, Dimension, Shape, mapped, plain, told
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
        rows = [None if row == (None,) else self._row(row) for row in cells]
        return self._joined([self._of(x) for x in self._collapsed(rows, "rows")], "rows")

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
            made = _general(first.cells, last.cells, letter) if first.counts == last.counts else None
            count = None if made is None else _counted(made[1])
            if made is None or count is None:
                continue
            start, size = count
            between = [_general(first.cells, x.cells, letter) for x in before[at + 1 :]]
            steps = [None if x is None else x[1] for x in between]
            if steps != [frozenset({(str(start), str(n + start))}) for n in range(1, len(steps) + 1)]:
                continue
            if size in self.known.letters or size in self.known.shifted:
                break
            term = made[0] if start == 1 else tuple(_before(x, letter) for x in made[0])
            return [*before[:at], _Term(term, (_Count(letter, size, side), *first.counts))]
        raise _open(self.span)


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


def _before(node: s.Expression, letter: str) -> s.Expression:
    """The expression with what stands before a letter in its place, `i - 1` for i."""
    if isinstance(node, s.Word) and node.text == letter:
        less = s.Sum((node, s.Number("1", node.span)), ("+", "-"), node.span)
        return s.Group("(", ")", (less,), node.span)
    return mapped(node, lambda x: _before(x, letter), scripts=True)


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
    return node.text if isinstance(node, s.Number) else size_name(node) or ""
