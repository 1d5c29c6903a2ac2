"""What is applied to matrices as such: folds of rows, triangles, diagonals, concatenation."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import partial

from einc.checking.declarations.names import literal, size_name
from einc.checking.matrices import typed as y
from einc.checking.matrices.along import shown
from einc.checking.matrices.factors import product
from einc.checking.matrices.known import Known
from einc.checking.matrices.laid import Laid, dotted
from einc.checking.matrices.pieces import EACH, PART, PIECE, each, equal_part, piece
from einc.checking.matrices.shapes import ONE, Dimension, Shape
from einc.errors.problems import NoShape, OpenReading, ShapesDiffer
from einc.errors.report import Help, Span
from einc.syntax import tree as s
from einc.syntax.brackets import NORM, NORMS

IDENTITY = "identity@"  # a name that no text can write


def folded(fold: str, laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """A fold along each row, such as `rowsum(A)` and `rowmax(A)`: a column with one number for each row of A."""
    inner = laid.one(_only(given, span))
    return y.Folded(fold, inner, Shape(inner.shape.rows, ONE), span)


def triangle(upper: bool, laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """`tril(A)`, `triu(A)` of a square matrix, and `triu(A, 1)`, whose diagonal is one place to the right. Raises
    ShapesDiffer where it is not square, and NoShape where the place is no whole number."""
    first, *more = given.items or (_only(given, span),)
    by = literal(more[0]) if len(more) == 1 else None if more else 0
    inner = laid.one(first)
    if by is None or by.denominator != 1:
        raise NoShape("behind a matrix the triangle takes how many places its diagonal lies to the right", span, helps=(
            Help("write a whole number: `tril(A, -1)`"),))
    if inner.shape.rows != inner.shape.columns or len(inner.shape.rows) != 1:
        raise ShapesDiffer(f"the triangle of {shown(inner)}, which is not square", span)
    return y.Triangle(inner, inner.shape, span, by=int(by), upper=upper)


def trace(laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """`tr(A)` of a square matrix. Raises ShapesDiffer where it is not square."""
    inner = laid.one(_only(given, span))
    if inner.shape.rows != inner.shape.columns:
        raise ShapesDiffer(f"the trace of {shown(inner)}, which is not square", span)
    return y.Traced(inner, Shape(), span)


def norm(label: str, laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """`‖v‖`, the length of a vector, and other norms by what stands below the bars: of all entries their sum without
    signs by 1, the largest by ∞, and by F the root of the sum of squares, also of a matrix. Raises OpenReading for
    another norm of a matrix.
    """
    inner = laid.one(_only(given, span))
    matrix = ONE not in (inner.shape.rows, inner.shape.columns)
    if matrix and label != "F":
        raise OpenReading(f"which norm of the matrix {shown(inner)} is this?", span, helps=(
            Help("with `_F` it is the root of the sum of the squares of all entries"),))
    folded_ = "max" if label == "∞" else "sum"
    size = y.Entries("call", (inner,), ("abs",), inner.shape, span)
    squared = label in ("", "2", "F") and not inner.shape.number
    each: y.Typed = y.Raised(inner, s.Number("2", span), inner.shape, span) if squared else size
    for columns in (each.shape.columns, each.shape.rows):
        each = y.Turned(y.Folded(folded_, each, Shape(each.shape.rows), span), Shape(ONE, each.shape.rows), span) if (
            columns != ONE) else y.Turned(each, each.shape.turned, span)
    return y.Entries("call", (each,), ("sqrt",), each.shape, span) if squared else each


def diagonal(laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """`diag(v)`: the square matrix with the vector v on its diagonal. Raises ShapesDiffer where v is no vector."""
    inner = laid.one(_only(given, span))
    if ONE not in (inner.shape.rows, inner.shape.columns):
        raise ShapesDiffer(f"`diag` of {shown(inner)}, which is no vector", span)
    side = inner.shape.rows if inner.shape.columns == ONE else inner.shape.columns
    return y.Diagonal(inner, False, Shape(side, side), span)


def concatenated(laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """`Concat(head_1, …, head_h)`, `Concat(a, b)`: matrices side by side, and columns below each other. Raises
    NoShape."""
    if not given.items:
        raise NoShape("nothing is concatenated", span)
    return laid.line(dotted(given), None)


def ones(known: Known, sizes: Container[str], content: s.Expression, span: Span, row: bool) -> y.Typed:
    """`1_L`, a vector of L ones. Raises NoShape."""
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


def identity(laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """The identity that is as large as a square matrix, and of the size in its script, where one stands there. Raises
    ShapesDiffer."""
    inner = laid.one(given.items[0])
    size = None if len(given.items) == 1 else size_name(given.items[1])
    if inner.shape.rows != inner.shape.columns or len(inner.shape.rows) != 1 or (
            len(given.items) > 1 and (size is None or laid.known.whole((size,)) != inner.shape.rows)):
        raise ShapesDiffer(f"{shown(inner)} is no identity of this size", span)
    return y.Banded(f"i@{span.start}u", y.Plain(s.Number("1", span), Shape(), span), inner.shape, span)


# What is applied to matrices as such, by name.
MATRIX: dict[str, Callable[[Laid, s.Group, Span], y.Typed]] = {
    "rowsum": lambda laid, given, span: folded("sum", laid, given, span),
    "rowmax": lambda laid, given, span: folded("max", laid, given, span),
    "tril": partial(triangle, False),
    "triu": partial(triangle, True),
    "tr": trace,
    "Tr": trace,
    "trace": trace,
    **{NORM + x: partial(norm, x) for x in NORMS},
    "diag": diagonal,
    PIECE: piece,
    PART: equal_part,
    EACH: each,
    IDENTITY: identity,
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


def inner(a: y.Typed, b: y.Typed) -> tuple[y.Typed, y.Typed]:
    """Two factors with a dot between them: of two columns or two rows the one that makes it the inner product lies
    across.
    """
    if a.shape != b.shape or a.shape.number or ONE not in (a.shape.rows, a.shape.columns):
        return a, b
    if a.shape.columns == ONE:
        return y.Turned(a, a.shape.turned, a.span), b
    return a, y.Turned(b, b.shape.turned, b.span)


def combined(kind: str, parts: tuple[y.Typed, ...], marks: tuple[str, ...], span: Span) -> s.Expression:
    """The sum or product of numbers that index notation writes."""
    nodes = tuple(x.expression for x in parts if isinstance(x, y.Plain))
    return s.Sum(nodes, marks, span) if kind == "sum" else product(nodes, marks, span)


def lying(vector: y.Typed, columns: bool) -> y.Typed:
    """A vector as a row, which scales columns, or as a column."""
    lies = vector.shape.rows == ONE
    return vector if lies == columns else y.Turned(vector, vector.shape.turned, vector.span)


def summed_along(node: y.Typed) -> y.Typed:
    """The first factor of a product, whose functions of lines run along the columns that it sums where nothing says
    along what they do, also where several are added or scaled by numbers.
    """
    match node:
        case y.Lines(side=None, inner=inner) if not inner.shape.number:
            return replace(node, side="columns", guessed=True)
        case y.Entries("sum" | "product", parts):
            return replace(node, parts=tuple(summed_along(x) if x.shape == node.shape else x for x in parts))
    return node


def apart_letters(node: y.Typed) -> y.Typed:
    """What a function is, its big operators with letters of their own: those of its definition may stand elsewhere."""
    return y.substituted(node, {x: x + "'" for x in y.bound(node)})


def scaled(a: y.Typed, b: y.Typed, span: Span) -> y.Typed:
    """A product with a diagonal matrix, which scales rows or columns. Raises ShapesDiffer where the sides do not meet,
    or both are diagonal."""
    if isinstance(a, y.Diagonal):
        vector, other, side = a, b, b.shape.rows
        column = lying(a.inner, columns=False)
    else:
        assert isinstance(b, y.Diagonal)
        vector, other, side = b, a, a.shape.columns
        column = lying(b.inner, columns=True)
    if vector.shape.rows != side or isinstance(other, y.Diagonal):
        raise ShapesDiffer(f"{shown(a)} times {shown(b)}", span)
    return y.Entries("product", (other, column), ("", "/" if vector.inverse else "*"), other.shape, span)


def _only(given: s.Group, span: Span) -> s.Expression:
    if len(given.items) != 1:
        raise NoShape(f"one matrix is expected, here are {len(given.items)}", span)
    return given.items[0]


def common(found: Iterable[Dimension]) -> Dimension | None:
    """The dimension of a whole, None where two parts differ and neither is 1."""
    others = {x for x in found if x != ONE}
    return next(iter(others), ONE) if len(others) < 2 else None
