"""One equation of a document, or what it says instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from einc.checking.declarations.names import head, index_name, left_of
from einc.checking.matrices.shapes import parts
from einc.documents import listings
from einc.documents.document import Formula
from einc.documents.symbols import Symbol
from einc.errors.report import Problem, Span
from einc.syntax import tree as s


@dataclass(frozen=True)
class Said:
    """One equation of a document, or one definition of indices.

    `statement` is the equation alone, with its restrictions and local definitions; `indices` the letters that it says
    run over a range, which is the last operand of the statement's relation. `problem` says why it cannot be read.
    `fact` is the kind of an equation that is no formula; it has a statement where an equation may read what it names.
    Of two expressions that are said to be equal, of which none is a name, `sides` are equations that name both.
    """

    formula: Formula
    span: Span
    statement: s.Statement | None = None
    indices: tuple[s.Expression, ...] = ()
    problem: Problem | None = None
    skip: str = ""
    fact: str = ""
    rows: tuple[listings.Rows, ...] = ()  # what a display lists of matrices
    becomes: bool = False  # an arrow says it of a name, from here on in its section
    unnamed: bool = False  # a value to which the display gives no name
    sides: tuple[s.Statement, ...] = ()  # two equations for one new name, of what is said to be equal


@dataclass(frozen=True)
class Reading:
    """The equations of a document, and the stretches of its text from which readers of words took what they say."""

    said: tuple[Said, ...]
    heard: tuple[Span, ...]


@dataclass(frozen=True)
class Known:
    """What the text says before its equations are read: the declared letters, the bare names of sizes, the declared
    tensors, by where a display begins the one from which it goes on, and the heads of names that have a shape.
    """

    indices: frozenset[str]
    sizes: frozenset[str]
    tensors: frozenset[str]
    before: Mapping[int, Formula] = field(default_factory=dict)
    shaped: frozenset[str] = frozenset()


def left_text(found: Said) -> str:
    """The left side of an equation without spaces, "" where it has none."""
    body = found.statement.clauses[0].body if found.statement is not None else None
    return "".join(body.operands[0].span.text.split()) if isinstance(body, s.Relation) else ""


def left_symbol(found: Said) -> Symbol | None:
    """The symbol that an equation defines; None where its left side is no name."""
    left = left_of(found.statement.clauses[0].body) if found.statement is not None else None
    return Symbol.of(left) if left is not None and head(left) is not None else None


def scripts(node: s.Expression) -> tuple[s.Script, ...]:
    """The subscripts and superscripts of a name; an expression without any has the empty tuple."""
    return node.scripts if isinstance(node, s.Scripted) else ()


def neighbours(node: s.Expression, base: str = "") -> Iterator[str]:
    """The letters of which an expression reads a neighbour, t of `h_{t-1}`, of names with a `base` where one is given:
    they count what comes one after the other.
    """
    for part in (x for x in parts(node) if not base or ((named := head(x)) is not None and named[0].base == base)):
        for x in (x for k in scripts(part) if k.kind == "lower" and k.content is not None for x in parts(k.content)):
            match x:
                case s.Sum((s.Word(letter), s.Number())):
                    yield letter


def ranged(node: s.Expression) -> s.Range | None:
    """The range of `t ∈ {1..T}`, `t = 1..T` and `t ∈ [T]`; None for what is no such relation."""
    match node:
        case s.Relation((_, s.Group("{", "}", (s.Range() as over,))), ("in",)):
            return over
        case s.Relation((_, s.Range() as over), ("in",)):
            return over
        case s.Relation((letter, s.Range(s.Number() | s.Word() | s.Sum()) as over), ("=",)) if index_name(letter):
            return over
        case s.Relation((_, s.Group("[", "]", (s.Range() as over,))), ("in",)):
            return over
        case s.Relation((_, s.Group("[", "]", ((s.Word() | s.Scripted()) as high,))), ("in",)):
            return s.Range(s.Number("1", high.span), high, high.span)
    return None
