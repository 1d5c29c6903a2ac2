"""Matrices that are written out: blocks beside and below each other, and listings, which are read by general terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from einc.checking.matrices import typed as y
from einc.checking.matrices.along import shown
from einc.checking.matrices.bands import Block, banded, divided, of_rows, plain_zero, triangular
from einc.checking.matrices.following import together
from einc.checking.matrices.known import Known
from einc.checking.matrices.progressions import Listing, counting, listed
from einc.checking.matrices.shapes import DOTS, ONE, Dimension, Shape, parts, told
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
            column = [row[0] for row in cells]
            return self.line(column, "rows") if (inner := of_rows(column)) is None else self._each(*inner)
        if (band := banded(cells)) is not None:
            return self._band(*band)
        if (triangle := triangular(cells)) is not None:
            whole = self.matrix(triangle[0])
            if whole.shape.rows != whole.shape.columns:
                raise unlisted(self.span)
            return y.Triangle(whole, whole.shape, self.span, None if plain_zero(triangle[1]) else triangle[1])
        rows = [None if row == (None,) else self._row(row) for row in cells]
        return self._joined([self._of(x) for x in self._collapsed(rows, "rows")], "rows")

    def _each(self, function: s.Word, cells: Block) -> y.Typed:
        """A function of each row of a matrix that is written out. Raises OpenReading where the function may run along
        rows."""
        inner = s.Matrix(cells, "grid", self.span)
        given = s.Group("(", ")", (inner,), self.span)
        made = self.one(s.Product((function, given), ("", ""), self.span))
        if isinstance(made, y.Lines) and made.side == "rows":
            raise OpenReading(f"does `{function.span.text}` run along rows here?", self.span)
        return replace(made, side="columns", guessed=False) if isinstance(made, y.Lines) else made

    def _band(self, first: Block, between: Sequence[Block], last: Block) -> y.Typed:
        """The matrix of blocks on its diagonal, which are counted from the first to the last. Raises the problem
        `unlisted` where nothing says how they count."""
        letter = f"i@{self.span.start}d"
        made = counting([first, *between, last], letter, self._starts)
        if made is None or not self._counts(made[1]):
            raise unlisted(self.span)
        known = replace(self.known, letters={**self.known.letters, letter: made[1]})
        inner = replace(self, known=known).matrix(made[0])
        rows, columns = inner.shape.rows, inner.shape.columns
        if rows == columns == ONE:
            vector = self.stacked(letter, made[1], inner, "rows")
            return y.Diagonal(vector, False, Shape(vector.shape.rows, vector.shape.rows), self.span)
        return y.Banded(letter, inner, Shape((made[1], *rows), (made[1], *columns)), self.span)

    def one(self, cell: s.Expression) -> y.Typed:
        """The expression of a cell with its shape, by what is known of the shapes of names."""
        return self.of(self.known, cell)

    def line(self, cells: Sequence[s.Expression | None], side: y.Side | None) -> y.Typed:
        """The typed matrix of cells that follow each other along a side, None for the one along which vectors lie.
        Raises OpenReading."""
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
        """One row of several. Raises the problem `unlisted` where one of them counts."""
        found = self._collapsed([None if x is None else _Term((x,)) for x in cells], "columns")
        if len(found) == 1:
            return found[0]
        if any(x.counts for x in found):
            raise unlisted(self.span)
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
        """Matrices along a side. A letter of its own counts those that are as large; others make a direct sum. Raises
        ShapesDiffer or NoShape."""
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
        whole = (str(len(parts)), *found[0]) if alike else (together(found) or self._sum(found),)
        across: Dimension = getattr(parts[0].shape, other)
        shape = Shape(whole, across) if side == "rows" else Shape(across, whole)
        return y.Joined(tuple(parts), side, alike, shape, self.span)

    def _sum(self, found: list[Dimension]) -> str:
        """The size of a direct sum, `d_c+d_r`. Raises NoShape where it has none."""
        single = all(len(x) == 1 and "+" not in x[0] for x in found) and len({*found}) == len(found)
        classes = {self.known.kind(size) for x in found for size in x}
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
                at += 1
                continue
            behind = [x for x in takewhile(lambda x: x is not None, found[at + 1 :]) if x is not None]
            made, held = self._listing(out, behind, side)
            out, at = [*out[: len(out) - made.before], held], at + 1 + made.behind
        return out

    @property
    def _starts(self) -> dict[str, int]:
        """Where the letters of sizes begin that do not count from 1."""
        return {size: low for size, low in self.known.shifted.items() if low is not None}

    def _counts(self, size: str) -> bool:
        """Whether a letter can count a size: it is none itself, and its letters begin at one place."""
        return size not in self.known.letters and self.known.shifted.get(size, 1) is not None

    def _listing(self, before: list[_Term], behind: list[_Term], side: y.Side) -> tuple[Listing, _Term]:
        """The listing about dots, and its general term. Raises the problem `unlisted` where nothing says how its terms
        count."""
        letter = f"i@{self.span.start}{side[0]}{len(before)}"
        made = listed([(x.cells, x.counts) for x in before], [(x.cells, x.counts) for x in behind], letter,
                      self._starts)
        if made is None or not self._counts(made.size):
            raise unlisted(self.span)
        cells, counts = made.term
        return made, _Term(cells, (_Count(letter, made.size, side), *counts))


def listed_sizes(known: Known, statements: Iterable[s.Statement]) -> Known:
    """What is known with what matrices that are written out say of sizes: those that a listing counts, whose letter is
    the outer part of a side, and those that blocks on a diagonal divide.
    """
    bodies = [c.body for line in statements for c in line.clauses]
    lines = [cells for body in bodies for node in parts(body) if isinstance(node, s.Matrix) for cells in _lines(node)]
    lines += [cells for body in bodies for node in parts(body) if isinstance(node, s.Group) and node.open == "("
              and (cells := dotted(node)).count(None) == 1]
    outer = {x.size for cells in lines for x in _listings(cells)}
    bands = (banded(x.cells) for body in bodies for x in parts(body) if isinstance(x, s.Matrix))
    outer |= {made[1] for x in bands if x is not None and (made := counting([x[0], *x[1], x[2]], "", {})) is not None}
    return replace(known, parts={**divided(bodies), **known.parts}, outer=frozenset(outer))


def _listings(cells: Sequence[s.Expression | None]) -> Iterator[Listing]:
    """The listings in a line of cells, about each of its dots."""
    for n in (n for n, x in enumerate(cells) if x is None):
        before = [x for x in takewhile(lambda x: x is not None, reversed(cells[:n])) if x is not None]
        behind = [x for x in takewhile(lambda x: x is not None, cells[n + 1 :]) if x is not None]
        if (found := listed(before[::-1], behind, "", {})) is not None:
            yield found


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


def unlisted(span: Span) -> OpenReading:
    """What is wrong with a listing whose general term its ends do not tell."""
    return OpenReading("what stands where the dots are?", span, helps=(
        Help("the first and the last differ in one place, which counts from 1 to a size; or define the entries by "
             "their general term: `A_{ij} = …`"),))
