"""What is applied to matrices as such: folds of rows, triangles, diagonals, concatenation."""

from __future__ import annotations

from collections.abc import Callable, Container

from einc.checking.declarations.names import size_name
from einc.checking.matrices import typed as y
from einc.checking.matrices.along import shown
from einc.checking.matrices.factors import renamed
from einc.checking.matrices.known import Known
from einc.checking.matrices.shapes import DOTS, ONE, Shape, plain
from einc.checking.matrices.uses import split
from einc.errors.problems import NoShape, OpenReading, ShapesDiffer
from einc.errors.report import Help, Span
from einc.syntax import tree as s

Of = Callable[[s.Expression], y.Typed]  # the typed expression of an argument


def folded(fold: str, of: Of, given: s.Group, span: Span) -> y.Typed:
    """`rowsum(A)`, `rowmax(A)`."""
    inner = of(_only(given, span))
    return y.Folded(fold, inner, Shape(inner.shape.rows, ONE), span)


def triangle(of: Of, given: s.Group, span: Span) -> y.Typed:
    """`tril(A)` of a square matrix."""
    inner = of(_only(given, span))
    if inner.shape.rows != inner.shape.columns or len(inner.shape.rows) != 1:
        raise ShapesDiffer(f"the triangle of {shown(inner)}, which is not square", span)
    return y.Triangle(inner, inner.shape, span)


def diagonal(of: Of, given: s.Group, span: Span) -> y.Typed:
    """`diag(v)` of a vector."""
    inner = of(_only(given, span))
    if ONE not in (inner.shape.rows, inner.shape.columns):
        raise ShapesDiffer(f"`diag` of {shown(inner)}, which is no vector", span)
    side = inner.shape.rows if inner.shape.columns == ONE else inner.shape.columns
    return y.Diagonal(inner, False, Shape(side, side), span)


def concatenated(known: Known, of: Of, given: s.Group, span: Span) -> y.Typed:
    """`Concat(head_1, …, head_h)`: the general term and the letter that counts it."""
    between = [x.span for x in given.items]
    if len(between) != 2 or not DOTS.search(span.source.text, between[0].end, between[1].start):
        raise NoShape("a concatenation of single matrices has no shape of one product", span, helps=(
            Help("write it with indices, as a direct sum: `C_t^e = A_t^a ⊕ B_t^b`"),))
    first, last = given.items
    for letter, size in known.letters.items():
        one, other = renamed(first, "1", letter), renamed(last, size, letter)
        if one is not None and other is not None and plain(split(one, known.letters)) == plain(
                split(other, known.letters)):
            inner = of(other)
            return y.Stacked(letter, inner, Shape(inner.shape.rows, (size, *inner.shape.columns)), span)
    raise OpenReading("which letter counts what stands between the first and the last?", span, helps=(
        Help("declare it, with the size that the last one has: `index i : head(h)`"),))


def ones(known: Known, sizes: Container[str], content: s.Expression, span: Span, row: bool) -> y.Typed:
    """`1_L`, a vector of L ones."""
    inner = content.items[0] if isinstance(content, s.Group) and len(content.items) == 1 else content
    size = size_name(inner)
    if size is None or not (size in sizes or size in known.classes):
        raise NoShape(f"`{span.text}` is no vector of ones, for `{content.span.text}` is no size", span)
    side = known.whole((size,))
    return y.Ones(Shape(ONE, side) if row else Shape(side, ONE), span)


def ones_of(span: Span) -> NoShape:
    """What is wrong with a vector of ones without a size."""
    return NoShape(f"`{span.text}` is a vector of ones, and nothing says of how many", span, helps=(
        Help(f"write `{span.text}_N` for N of them, or 1 for the number"),))


# What is applied to matrices as such, by name.
MATRIX: dict[str, Callable[[Known, Of, s.Group, Span], y.Typed]] = {
    "rowsum": lambda _, of, given, span: folded("sum", of, given, span),
    "rowmax": lambda _, of, given, span: folded("max", of, given, span),
    "tril": lambda _, of, given, span: triangle(of, given, span),
    "diag": lambda _, of, given, span: diagonal(of, given, span),
    "Concat": concatenated,
    "concat": concatenated,
}


def unambiguous(a: y.Typed, b: y.Typed, sign: str) -> None:
    """Raises OpenReading for two matrices with a star or a cross between them."""
    between = Span(a.span.source, a.span.end, b.span.start)
    matrices = not (a.shape.number or b.shape.number)
    if sign == "*" and matrices and "cdot" not in between.text and "·" not in between.text:
        raise OpenReading("is this the product of matrices, or of their entries?", between, helps=(
            Help("write the product without a sign, and `\\odot` for that of entries"),))


def lying(vector: y.Typed, columns: bool) -> y.Typed:
    """A vector as a row, which scales columns, or as a column."""
    lies = vector.shape.rows == ONE
    return vector if lies == columns else y.Turned(vector, vector.shape.turned, vector.span)


def _only(given: s.Group, span: Span) -> s.Expression:
    if len(given.items) != 1:
        raise NoShape(f"one matrix is expected, here are {len(given.items)}", span)
    return given.items[0]
