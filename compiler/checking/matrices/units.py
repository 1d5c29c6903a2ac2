"""The identity where a text gives the letter I no other meaning: `I_n`, and `I` beside what is square in a sum."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from einc.checking.declarations.names import size_name
from einc.checking.matrices import typed as y
from einc.checking.matrices.known import Known
from einc.checking.matrices.shapes import ONE, Dimension, Key, Shape, words
from einc.errors.problems import NoShape
from einc.errors.report import Help
from einc.syntax import tree as s

LETTER = "I"


def free(known: Known, keys: Iterable[Key]) -> bool:
    """Whether nothing that a text declares or defines is named I."""
    return all(x.base != LETTER for x in (*(k.name for k in keys), *(name for name, _ in known.indexed)))


def identity(node: s.Expression, sizes: Container[str], side: Dimension | None) -> y.Banded | None:
    """The identity of the size below it, or of the `side` of what stands beside it; None for what is no such name.
    Raises NoShape where nothing says how large it is.
    """
    base = node.base if isinstance(node, s.Scripted) else node
    if not isinstance(base, s.Word) or base.text != LETTER:
        return None
    if isinstance(node, s.Scripted):
        content = node.scripts[0].content if [x.kind for x in node.scripts] == ["lower"] else None
        while isinstance(content, s.Group) and len(content.items) == 1:
            (content,) = content.items
        size = size_name(content) if content is not None else None
        side = (size,) if size is not None and size in sizes else None
    if side is None or len(side) != 1:
        raise NoShape(f"nothing says how large the identity `{node.span.text}` is", node.span, helps=(
            Help("write its size below it: `I_n`"), Help("if it is another matrix, say its shape")))
    return y.Banded("", y.Plain(s.Number("1", node.span), Shape(), node.span), Shape(side, side), node.span)


def _factors(node: s.Expression) -> Iterator[s.Expression]:
    """The factors of a term, also of those in parentheses that are no sums."""
    match node:
        case s.Product(factors=inner) | s.Group("(", ")", inner):
            for x in inner:
                yield from _factors(x)
        case s.Scripted(s.Group() as group):
            yield from _factors(group)
        case _:
            yield node


def _own(node: s.Expression) -> bool:
    """Whether a factor has an I outside of sums, which says its size by itself."""
    return not isinstance(node, s.Sum) and any(w.text == LETTER for w in words((node,)))


def beside(of: Callable[[Dimension | None], Callable[[s.Expression], y.Typed]],
           terms: tuple[s.Expression, ...]) -> tuple[y.Typed, ...]:
    """The terms of a sum, those without an I of their own first, of which one that is square says how large that is:
    `of` is how an expression is typed beside such a side.
    """
    plain = of(None)
    first = {n: plain(x) for n, x in enumerate(terms) if not any(map(_own, _factors(x)))}
    sides = {x.shape.rows for x in first.values() if x.shape.rows == x.shape.columns != ONE}
    other = of(sides.pop() if len(sides) == 1 else None)
    return tuple(first[n] if n in first else other(x) for n, x in enumerate(terms))
