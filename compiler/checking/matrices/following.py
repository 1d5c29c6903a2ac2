"""Matrices one after another along a side of `T + 1`: which stretch of it each takes, and the letters of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from einc.checking.declarations.names import index_name, size_name
from einc.checking.declarations.sets import extent_of
from einc.checking.matrices import typed as y
from einc.checking.matrices.known import Known
from einc.checking.matrices.shapes import ONE, Dimension, longer, mapped
from einc.checking.matrices.slots import sized, spelled
from einc.errors.problems import OpenReading
from einc.errors.report import Problem, Span
from einc.ir.indices import Extent, number
from einc.syntax import tree as s


def together(found: Sequence[Dimension]) -> str | None:
    """The size of parts of which one has a size and the others numbers of rows, `T + 1`; None for others."""
    many = [1 if x == ONE else int(x[0]) if len(x) == 1 and x[0].isdigit() else 0 for x in found]
    others = [x for x, n in zip(found, many, strict=True) if n == 0]
    if len(others) != 1 or len(others[0]) != 1 or not sum(many):
        return None
    name, more = longer(others[0][0]) or (others[0][0], 0)
    return None if "+" in name else f"{name} + {more + sum(many)}"


def stretches(known: Known, whole: str, found: Sequence[Dimension], letter: str,
              span: Span) -> Iterator[tuple[s.Product, s.Expression]]:
    """Of each part along a side `1[…]`, which says that the letter of the side is in that part, and the letter of the
    part there, which never leaves it. Raises OpenReading where a letter has no one first place.
    """
    start = known.start(whole)
    low = number(0)
    for n, side in enumerate(found):
        size = "1" if side == ONE else side[0]
        first = known.start(size)
        if start is None or first is None:
            raise OpenReading(f"from where is `{whole if start is None else size}` counted?", span)
        many = extent_of(sized(size, span))
        word = next(spelled((letter,), span))
        begins = low + number(start)
        place = _sum(word, number(first - start) + low * number(-1), span)
        conditions: list[s.Expression] = []
        if n > 0:
            place = _called("max", place, number(first), span)
            conditions.append(s.Relation((_number(begins, span), word), ("<=",), span))
        if n + 1 < len(found):
            place = _called("min", place, many + number(first - 1), span)
            conditions.append(s.Relation((word, _number(begins + many + number(-1), span)), ("<=",), span))
        yield s.Product((s.Number("1", span), s.Group("[", "]", tuple(conditions), span)), ("", ""), span), place
        low = low + many


def within(known: Known, place: s.Expression, side: Dimension) -> s.Expression | None:
    """A letter that counts T as a place of a side of `T + 1`, which has all places of the letter; None for another."""
    letter = index_name(place)
    size = known.letters.get(letter) if letter is not None else None
    found = longer(side[0]) if len(side) == 1 else None
    if size is None or found is None or found[0] != size:
        return None
    begins, starts = known.start(size), known.start(side[0])
    if begins is None or starts is None or not starts <= begins <= starts + found[1]:
        return None
    return _called("min", place, extent_of(sized(size, place.span)) + number(begins - 1), place.span)


def counts(known: Known, place: s.Expression, side: Dimension) -> bool:
    """Whether a place of sizes and numbers alone, `T + 1`, is one of a side."""
    start = known.start(side[0]) if len(side) == 1 else None
    if start is None or not (isinstance(place, s.Sum) or size_name(place)):
        return False
    try:
        value, many = extent_of(place), extent_of(sized(side[0], place.span))
    except Problem:
        return False
    left = (many + number(start - 1) + value * number(-1)).constant
    return left is not None and left >= 0 and left.denominator == 1


def moved(node: s.Expression, letter: str, place: s.Expression) -> s.Expression:
    """The expression with a place of a part for the letter of the part."""
    if index_name(node) == letter and not (isinstance(node, s.Word) and node.quoted):
        return place
    return mapped(node, lambda x: moved(x, letter, place), scripts=True)


def folds(node: Any) -> bool:
    """Whether an expression has a function of lines in it, whose letter nothing else may stand for."""
    if isinstance(node, y.Lines):
        return True
    inner = node if isinstance(node, tuple) else [getattr(node, f.name) for f in fields(node)] if isinstance(
        node, y.Typed) and is_dataclass(node) else ()
    return any(map(folds, inner))


def _sum(word: s.Expression, by: Extent, span: Span) -> s.Expression:
    """A letter and what is added to it."""
    added = _terms(by, span)
    return s.Sum((word, *(x for x, _ in added)), ("+", *(sign for _, sign in added)), span) if added else word


def _number(value: Extent, span: Span) -> s.Expression:
    """Sizes and numbers as the text writes them."""
    found = sorted(_terms(value, span), key=lambda x: x[1] == "-") or [(s.Number("0", span), "+")]
    alone = len(found) == 1 and found[0][1] == "+"
    return found[0][0] if alone else s.Sum(tuple(x for x, _ in found), tuple(sign for _, sign in found), span)


def _terms(value: Extent, span: Span) -> list[tuple[s.Expression, str]]:
    """The terms of an extent without their signs, and these."""
    return [(sized(str(Extent(((sizes, abs(part)),))), span), "-" if part < 0 else "+") for sizes, part in value.terms]


def _called(name: str, place: s.Expression, end: Extent, span: Span) -> s.Expression:
    """`min(i, T)`."""
    given = s.Group("(", ")", (place, _number(end, span)), span)
    return s.Product((s.Word(name, span), given), ("", ""), span)
