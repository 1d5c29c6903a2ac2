"""Dimensions, shapes and symbols of matrix notation, and the lines that declare them."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, assert_never

from einc.checking.declarations.names import Name, size_name
from einc.checking.declarations.sets import extent_of
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Span
from einc.syntax import tree as s

TRANSPOSE, ENTRYWISE = "⊤", "⊙"
Dimension = tuple[str, ...]  # the sizes whose product it is; () is 1
DOTS = re.compile(r"\.\.|…|\\[lc]?dots")  # between the first and the last of a listing
ONE: Dimension = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """How many rows and columns a matrix has; a number is 1 × 1."""

    rows: Dimension = ONE
    columns: Dimension = ONE

    @property
    def turned(self) -> Shape:
        """The shape of the transpose: rows and columns change places."""
        return Shape(self.columns, self.rows)

    @property
    def number(self) -> bool:
        """Whether the shape is 1 × 1, that of a number."""
        return self.rows == self.columns == ONE

    def __str__(self) -> str:
        return f"{told(self.rows)} × {told(self.columns)}"


def told(dimension: Dimension) -> str:
    """A dimension as the text writes it."""
    return " ".join(f"({x})" if longer(x) else x for x in dimension) or "1"


@dataclass(frozen=True, slots=True)
class Key:
    """What tells one symbol of matrix notation from another: its name, and how many letters it has beside its shape."""

    name: Name
    letters: int


class Waiting(Exception):  # noqa: N818
    """The shape of a symbol is not known before its equation is read."""

    def __init__(self, key: Key) -> None:
        super().__init__(str(key))
        self.key = key


@dataclass(frozen=True, slots=True)
class Symbol:
    """A declared or defined matrix. `sides` are its dimensions: two of a matrix, one of a vector, whose side the
    equation decides; `stack` are the letters that it carries, as they were declared. `diagonal`: its one side is that
    of a diagonal matrix.
    """

    key: Key
    sides: tuple[Dimension, ...]
    stack: tuple[str, ...]
    span: Span
    diagonal: bool = False


def lettered(symbol: Symbol, symbols: Container[Key]) -> str | None:
    """The name in Python of a matrix with letters, which are part of it where another one has its name without: `W_Q_i`
    beside `W_Q`. None for others.
    """
    alike = bool(symbol.stack) and Key(symbol.key.name, 0) in symbols
    return "_".join((symbol.key.name.python, *symbol.stack)) if alike else None


def dimensions(body: s.Expression) -> tuple[Dimension, ...]:
    """The dimensions of `T × h d_v`. Raises BadDeclaration for what is no product of sizes."""
    several = isinstance(body, s.Product) and not quotient(body)
    factors, operators = (body.factors, body.operators) if several and isinstance(body, s.Product) else ((body,), ("",))
    out: list[Dimension] = []
    for factor, operator in zip(factors, operators, strict=True):
        inner = _sizes(factor)
        if inner is None or operator == "/":
            raise BadDeclaration(f"`{body.span.text}` is no shape", body.span, helps=(
                Help("a shape is sizes with `×` between them: `T × d_k`, `h d_v × d_model`"),))
        if not out or operator == "*":
            out.append(inner)
        else:
            out[-1] = (*out[-1], *inner)
    return tuple(out)


def longer(size: str) -> tuple[str, int] | None:
    """The size and the number of `T + 1`, what one more than a size is; None for another."""
    name, sign, more = size.partition(" + ")
    return (name, int(more)) if sign and more.isdigit() else None


def summands(size: str) -> tuple[str, ...]:
    """The sizes of the parts of a direct sum, `d_c+d_r`; none of another size."""
    return tuple(size.split("+")) if "+" in size and longer(size) is None else ()


def _sizes(node: s.Expression) -> Dimension | None:
    """The sizes of one factor; 1 has none."""
    match node:
        case s.Number(text):
            return ONE if text == "1" else (text,)
        case s.Sum(terms, signs) | s.Group("(", ")", (s.Sum(terms, signs),)) if {*signs} == {"+"}:
            if any(isinstance(x, s.Number) for x in terms):
                return (name,) if longer(name := str(extent_of(node))) else None
            found = tuple(_sizes(x) for x in terms)
            return ("+".join(x[0] for x in found if x),) if all(x and len(x) == 1 for x in found) else None
        case s.Group("(", ")", (inner,)):
            found = dimensions(inner)
            return tuple(x for side in found for x in side)
    name = size_name(node) or quotient(node)
    return None if not name else (name,)


def quotient(node: s.Expression) -> str:
    """`d / 2` as the size that an index counts; "" for what is no quotient of a size."""
    match node:
        case s.Fraction(above, s.Number()) | s.Product((above, s.Number()), ("", "/")) if size_name(above):
            return str(extent_of(node))
    return ""


def shapes_of(symbol: Symbol) -> tuple[Shape, ...]:
    """The shapes that a symbol may have: those of a vector are a column and a row."""
    if len(symbol.sides) == 2:
        return (Shape(*symbol.sides),)
    return (Shape(symbol.sides[0], ONE), Shape(ONE, symbol.sides[0])) if symbol.sides else (Shape(),)


_LEAVES = (s.Word, s.Number)  # most of what stands in an expression: nothing is in them


def parts(node: s.Expression) -> Iterator[s.Expression]:
    """An expression and everything in it, what stands in scripts too."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, _LEAVES):
            continue
        if isinstance(node, s.Scripted):
            left += [k.content for k in reversed(node.scripts) if k.content is not None]
        left += reversed(within(node))


def within(node: s.Expression) -> tuple[s.Expression, ...]:
    """The parts of an expression, but not what stands in its scripts."""
    match node:
        case s.Scripted(base):
            return (base,)
        case s.Product(factors=found) | s.Sum(terms=found) | s.Group(items=found) | s.Relation(operands=found) | \
                s.Logic(operands=found) | s.DirectSum(parts=found):
            return found
        case s.Matrix():
            return node.written
        case s.Fraction(a, b) | s.Range(a, b):
            return (a, b)
        case s.Root(root):
            return (root,)
    return ()


def mapped(node: s.Expression, change: Callable[[s.Expression], s.Expression], scripts: bool = False) -> s.Expression:
    """The expression with its parts changed, and with `scripts` what stands in its scripts too."""
    def all_of(found: tuple[s.Expression, ...]) -> tuple[s.Expression, ...]:
        return tuple(map(change, found))

    match node:
        case s.Scripted(base, _, hung):
            kept = tuple(replace(k, content=change(k.content)) if scripts and k.content else k for k in hung)
            return replace(node, base=change(base), scripts=kept)
        case s.Product(factors=found):
            return replace(node, factors=all_of(found))
        case s.Sum(terms=found):
            return replace(node, terms=all_of(found))
        case s.Group(items=found):
            return replace(node, items=all_of(found))
        case s.Relation(operands=found) | s.Logic(operands=found):
            return replace(node, operands=all_of(found))
        case s.DirectSum(parts=found):
            return replace(node, parts=all_of(found))
        case s.Matrix(cells):
            return replace(node, cells=tuple(tuple(None if x is None else change(x) for x in row) for row in cells))
        case s.Fraction(above, below):
            return replace(node, above=change(above), below=change(below))
        case s.Range(low, high):
            return replace(node, low=change(low), high=change(high))
        case s.Root(root):
            return replace(node, inner=change(root))
        case s.Number() | s.Infinity() | s.Word():
            return node
    assert_never(node)


def is_name(node: s.Expression) -> bool:
    """Whether it is a name, with or without scripts."""
    return isinstance(node, s.Word) or (isinstance(node, s.Scripted) and isinstance(node.base, s.Word))


def power(node: s.Expression) -> s.Expression | None:
    """What e is raised to, None where it is no power of e."""
    match node:
        case s.Scripted(s.Word("e"), (), (s.Script("upper" | "label_upper", content, text, span),)):
            inner = content if content is not None else s.Word(text, span)
            return s.Group("(", ")", inner.items, inner.span) if isinstance(inner, s.Group) else inner
    return None


def words(nodes: Iterable[s.Expression]) -> Iterator[s.Word]:
    """Every word in some expressions, those of scripts too."""
    return (x for node in nodes for x in parts(node) if isinstance(x, s.Word))


def plain(node: object) -> object:
    """An expression without places, which two readings of one equation share where they are the same."""
    if isinstance(node, tuple):
        return tuple(map(plain, node))
    told = _told(node)
    return node if told is None else (type(node), *(plain(getattr(node, name)) for name in told))


def alike(one: object, other: object) -> bool:
    """Whether two expressions are the same `plain` ones, asked up to the first thing in which they differ."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    told = _told(one)
    return one == other if told is None else all(alike(getattr(one, name), getattr(other, name)) for name in told)


def _told(node: object) -> tuple[str, ...] | None:
    kind: Any = type(node)
    return _fields(kind)


@cache
def _fields(kind: Any) -> tuple[str, ...] | None:
    """The fields of a kind of expression but its place; None for what is no expression."""
    return tuple(f.name for f in fields(kind) if f.name != "span") if is_dataclass(kind) else None
