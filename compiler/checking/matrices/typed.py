"""Typed expressions of matrix notation: what each part is, and its shape. Nothing here has letters yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, assert_never, cast

from einc.checking.matrices import slots
from einc.checking.matrices.shapes import ONE, Shape, Symbol, words
from einc.errors.report import Span
from einc.syntax import tree as s

Side = Literal["rows", "columns"]


@dataclass(frozen=True)
class Leaf:
    """A symbol at a place of its stack, and `at` places of its sides: None for a side that is open, () for all open."""

    symbol: Symbol
    stack: tuple[s.Expression, ...]
    at: tuple[s.Expression | None, ...]
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Plain:
    """A number as index notation writes it: `1/√d_k`, `m_i`."""

    expression: s.Expression
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Raised:
    """Numbers to a power that the text writes with its letters: `γ^{n-m}`."""

    inner: Typed
    power: s.Expression
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Ones:
    """A vector of ones, `1_L`."""

    shape: Shape
    span: Span


@dataclass(frozen=True)
class Turned:
    """A transpose."""

    inner: Typed
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Times:
    """A matrix product."""

    left: Typed
    right: Typed
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Entries:
    """What is computed entry by entry of parts that are as large, or 1 along a side: `kind` is a sum with signs, a
    product with operators, or the call of a function.
    """

    kind: Literal["sum", "product", "call"]
    parts: tuple[Typed, ...]
    marks: tuple[str, ...]  # the signs, the operators, or the function's name
    shape: Shape
    span: Span
    named: tuple[s.Relation, ...] = ()  # arguments of a function by name


@dataclass(frozen=True)
class Lines:
    """A function of each row or column: it runs along `side`, None where nothing said which yet, and over `domain`
    where one is written; of a number it runs at a letter, which begins the domain. `indexed`: its index stands in its
    script. `named` are arguments by name. `guessed`: the side is the one that a product sums. `barred`: a point at −∞
    is as none.
    """

    function: s.Word
    inner: Typed
    side: Side | None
    indexed: bool
    domain: s.Expression | None
    named: tuple[s.Relation, ...]
    shape: Shape
    span: Span
    guessed: bool = False
    barred: bool = False


@dataclass(frozen=True)
class Summed:
    """A big operator over letters that the text binds: `Σ_i head_i W_i`."""

    binder: s.Expression
    inner: Typed
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Listed:
    """A product of numbers that a text lists from one place to another, `a_i ⋯ a_{j+1}`: of those at `letter`."""

    letter: str
    low: s.Expression
    high: s.Expression
    inner: Typed
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Folded:
    """A sum or maximum of each row, which is a column."""

    fold: str
    inner: Typed
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Taken:
    """The entry of an expression at places of its sides, or a row or column where the place of one side is None."""

    inner: Typed
    at: tuple[s.Expression | None, s.Expression | None]
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Traced:
    """The sum of the entries on the diagonal."""

    inner: Typed
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Triangle:
    """The entries at and below the diagonal, and one number `above` it, 0 where none is written. With 0 the diagonal
    may be that `by` so many columns to the right, and `upper` are the entries at and above it.
    """

    inner: Typed
    shape: Shape
    span: Span
    above: s.Expression | None = None
    by: int = 0
    upper: bool = False


@dataclass(frozen=True)
class Diagonal:
    """A vector on the diagonal of a matrix, or its inverse."""

    inner: Typed
    inverse: bool
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Stacked:
    """Matrices one after another along a side, one for each value of a letter, which is the outer part of that side."""

    letter: str
    inner: Typed
    side: Side
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Joined:
    """Different matrices one after another along a side. Those that are `alike` in size are counted by an outer letter
    of the side; others make a direct sum.
    """

    parts: tuple[Typed, ...]
    side: Side
    alike: bool
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Banded:
    """Matrices on the diagonal of one that is 0 elsewhere, one for each value of a letter, which is the outer part of
    both sides.
    """

    letter: str
    inner: Typed
    shape: Shape
    span: Span


@dataclass(frozen=True)
class Piece:
    """Of the parts of which a matrix consists along a side the one at a place of the outer letter of that side.
    `guessed`: no listing says so.
    """

    place: s.Expression
    inner: Typed
    side: Side
    shape: Shape
    span: Span
    guessed: bool = False


def letters(node: Typed, free: bool = False) -> Iterator[str]:
    """The words of an expression that may be letters of the text: those of stacks, numbers and big operators; `free`:
    without those that a big operator binds.
    """
    match node:
        case Leaf(stack=stack, at=at):
            yield from (w.text for w in words(x for x in (*stack, *at) if x is not None))
        case Raised(inner, power):
            yield from (*letters(inner, free), *(w.text for w in words((power,))))
        case Plain(expression):
            yield from (w.text for w in words((expression,)))
        case Times(left, right):
            yield from (*letters(left, free), *letters(right, free))
        case Entries(parts=inner) | Joined(parts=inner):
            for x in inner:
                yield from letters(x, free)
        case Summed(binder, inner):
            bound = {w.text for w in words((binder,))}
            yield from (x for x in letters(inner, free) if not free or x not in bound)
            yield from () if free else bound
        case Listed(letter, low, high, inner):
            yield from (w.text for w in words((low, high)))
            yield from (x for x in letters(inner, free) if not free or x != letter)
        case Stacked(letter, inner) | Banded(letter, inner):
            yield from (x for x in letters(inner, free) if x != letter)
        case Piece(place, inner):
            yield from (*letters(inner, free), *(w.text for w in words((place,))))
        case Taken(inner, at):
            yield from (*letters(inner, free), *(w.text for w in words(x for x in at if x is not None)))
        case Ones():
            yield from ()
        case Turned(inner) | Lines(inner=inner) | Folded(inner=inner) | Traced(inner) | Triangle(inner) | Diagonal(
                inner):
            yield from letters(inner, free)
        case _:
            assert_never(node)


def bound(node: Any) -> Iterator[str]:
    """The letters of the big operators in an expression."""
    if isinstance(node, Summed):
        yield from (w.text for w in words((node.binder,)) if w.text in {*letters(node.inner)})
    inner = node if isinstance(node, tuple) else [getattr(node, f.name) for f in fields(node)] if isinstance(
        node, Typed) else ()
    for x in inner:
        yield from bound(x)


def cut(node: Any) -> Iterator[str]:
    """The letters at which an expression takes pieces of something."""
    if isinstance(node, Piece):
        yield from (w.text for w in words((node.place,)))
    inner = node if isinstance(node, tuple) else [getattr(node, f.name) for f in fields(node)] if isinstance(
        node, Typed) else ()
    for x in inner:
        yield from cut(x)


def across(node: Any) -> bool:
    """Whether a line of a matrix stands beside a vector without a side, neither with a transpose, and their product
    is a matrix, `A_{:,i} u`.
    """
    if isinstance(node, Times) and node.left.shape.columns == node.right.shape.rows == ONE:
        one, other = ([*_leaves(x)] for x in (node.left, node.right))
        for a, b in ((one, other), (other, one)):
            if any(None in x.at for x in a) and any(isinstance(x, Leaf) and len(x.symbol.sides) == 1 for x in b):
                return True
    inner = node if isinstance(node, tuple) else [getattr(node, f.name) for f in fields(node)] if isinstance(
        node, Typed) else ()
    return any(map(across, inner))


def _leaves(node: Typed) -> Iterator[Leaf | Taken]:
    """The vectors by which an expression lies as it does: itself, its terms, in a product the last one of a column and
    the first one of a row.
    """
    match node:
        case Leaf() | Taken() if not node.shape.number:
            yield node
        case Entries(parts=inner):
            for x in inner:
                yield from _leaves(x)
        case Times(left, right):
            yield from _leaves(right if node.shape.columns == ONE else left)
        case Summed(inner=only):
            yield from _leaves(only)


def substituted(node: Typed, change: Mapping[str, str]) -> Typed:
    """The expression with some letters in place of others."""
    return cast(Typed, _substituted(node, change))


def _substituted(node: Any, change: Mapping[str, str]) -> Any:
    if isinstance(node, s.Expression):
        return slots.substituted(node, change)
    if isinstance(node, tuple):
        return tuple(_substituted(x, change) for x in node)
    if not isinstance(node, Typed):
        return node
    return replace(node, **{f.name: _substituted(getattr(node, f.name), change) for f in fields(node)
                            if f.name not in ("function", "named")})


Typed = (Leaf | Plain | Ones | Raised | Turned | Times | Entries | Lines | Summed | Listed | Folded | Taken
         | Traced | Triangle | Diagonal | Stacked | Joined | Banded | Piece)
