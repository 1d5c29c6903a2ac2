"""Listings with dots, `0, 2, …, d - 2`: what counts them, and their general term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from einc.checking.declarations.names import size_name
from einc.checking.declarations.sets import extent_of
from einc.checking.matrices.shapes import alike, is_name, quotient
from einc.checking.matrices.unrolled import rolled
from einc.errors.report import Problem, Span
from einc.ir.indices import Extent, number
from einc.syntax import tree as s


class _NotListed(Exception):  # noqa: N818
    """Some expressions are no terms of one progression."""


@dataclass(frozen=True)
class Listing:
    """The general term of what is listed about dots, the `size` that tells how many there are, and how many of the
    terms `before` the dots and `behind` them it holds.
    """

    term: Any
    size: str
    before: int
    behind: int


def listed(before: Sequence[Any], behind: Sequence[Any], letter: str, starts: Mapping[str, int]) -> Listing | None:
    """The listing of what stands next to dots, with as many terms as one can hold; None where there is none. Where the
    terms behind the dots have sums, those before them may write these out.
    """
    for after in range(len(behind), 0, -1):
        for at in range(len(before)):
            found = counting((*before[at:], *behind[:after]), letter, starts, after)
            if found is not None:
                return Listing(*found, len(before) - at, after)
    for at in range(len(before)):
        sums = rolled(before[at:], behind[0]) if behind else None
        whole = None if sums is None else listed(sums, behind, letter, starts)
        if whole is not None and whole.before == len(before) - at:
            return whole
    return None


def counting(terms: Sequence[Any], letter: str, starts: Mapping[str, int], after: int = 1) -> tuple[Any, str] | None:
    """The general term of what is listed, and the size that tells how many there are; None for others.

    All of `terms` but the last `after` stand before the dots. Each place in which they differ goes on by equal steps,
    which two terms before the dots tell, or by 1 from 0 or 1 where one stands there; all places have as many terms. The
    letter counts the size from its place in `starts`, or from 1.
    """
    try:
        term, sizes = _merged(tuple(terms), letter, after, 1)
        if len(terms) <= after or len(sizes) != 1:
            return None
        (size,) = sizes
        return term if (start := starts.get(size, 1)) == 1 else _merged(tuple(terms), letter, after, start)[0], size
    except _NotListed:
        return None


def listing(node: s.Expression, letter: str) -> tuple[s.Expression, str] | None:
    """The general term of all of a matrix that lists names along one side, with dots before the last, and the size up
    to which they are counted; None for another expression.
    """
    if not isinstance(node, s.Matrix) or 1 not in (len(node.cells), max(map(len, node.cells))):
        return None
    cells = [x for row in node.cells for x in row]
    names = [x for x in cells if x is not None]
    whole = len(names) == len(cells) - 1 > 1 and cells[-2] is None and all(map(is_name, names))
    return counting(names, letter, {}) if whole else None


@dataclass(frozen=True)
class _Steps:
    """Numbers that go from `first` by equal steps, and how many there are."""

    first: Fraction
    step: Fraction
    many: Extent

    def at(self, letter: str, start: int, span: Span) -> s.Expression:
        """The number at a letter that counts from `start`."""
        word = s.Word(letter, span)
        rest = self.first - self.step * start
        times = word if self.step == 1 else s.Product((_number(self.step, span), word), ("", "*"), span)
        if not rest:
            return times
        made = s.Sum((times, _number(abs(rest), span)), ("+", "-" if rest < 0 else "+"), span)
        return s.Group("(", ")", (made,), span)


def _number(value: Fraction, span: Span) -> s.Expression:
    return s.Number(str(value.numerator), span)


def _progression(values: tuple[s.Expression, ...], after: int) -> _Steps:
    """What some expressions count, of which the last `after` stand behind dots. Raises _NotListed."""
    found = [_value(x) for x in values]
    before, behind = found[: len(found) - after], found[len(found) - after :]
    first = before[0].constant
    each = [(b - a).constant for a, b in (*pairwise(before), *pairwise(behind))]
    step = each[0] if each else Fraction(1)
    if first is None or step is None or step.denominator != 1 or step <= 0 or any(x != step for x in each):
        raise _NotListed
    if len(before) == 1 and first not in (0, 1):
        raise _NotListed
    many = (behind[-1] - before[0]) * number(1 / step) + number(1)
    if not _size(many) or (many.constant is not None and many.constant <= len(values)):
        raise _NotListed
    return _Steps(first, step, many)


def _size(many: Extent) -> bool:
    """Whether a number of terms is a number, a size, a size by a number, or some more than a size."""
    if many.constant is not None:
        return True
    more = sum((part for sizes, part in many.terms if not sizes), Fraction(0))
    terms = [x for x in many.terms if x[0]]
    ((sizes, part),) = terms if len(terms) == 1 else (((), Fraction(0)),)
    whole = part == 1 and more > 0 and more.denominator == 1
    return len(sizes) == 1 and sizes[0][1] == 1 and (whole if more else part.numerator == 1)


def _value(node: s.Expression) -> Extent:
    """The number that an expression of sizes is. Raises _NotListed for another one."""
    match node:
        case s.Group(items=(inner,)):
            return _value(inner)
        case s.Sum() | s.Number():
            pass
        case _ if not (size_name(node) or quotient(node)):
            raise _NotListed
    try:
        return extent_of(node)
    except Problem:
        raise _NotListed from None


def _merged(terms: tuple[Any, ...], letter: str, after: int, start: int) -> tuple[Any, frozenset[str]]:
    """What some expressions have in common, with progressions where they differ, at a letter that counts from `start`,
    and the sizes that tell how many terms these have. Raises _NotListed.
    """
    first = terms[0]
    if all(alike(x, first) for x in terms[1:]):
        return first, frozenset()
    if all(type(x) is type(first) for x in terms) and not isinstance(first, s.Word | s.Number):
        try:
            return _inside(terms, letter, after, start)
        except _NotListed:
            if not isinstance(first, s.Expression):
                raise
    if not all(isinstance(x, s.Expression) for x in terms):
        raise _NotListed
    found = _progression(terms, after)
    return found.at(letter, start, first.span), frozenset({str(found.many)})


def _inside(terms: tuple[Any, ...], letter: str, after: int, start: int) -> tuple[Any, frozenset[str]]:
    """The general term of several terms of one kind, part by part, and the sizes in it. Raises _NotListed where they
    do not count."""
    first = terms[0]
    if isinstance(first, tuple) and all(len(x) == len(first) for x in terms):
        parts = [_merged(x, letter, after, start) for x in zip(*terms, strict=True)]
        return tuple(x for x, _ in parts), frozenset().union(*(sizes for _, sizes in parts))
    if isinstance(first, tuple) or not is_dataclass(first) or isinstance(first, type):
        raise _NotListed
    made = {f.name: _merged(tuple(getattr(x, f.name) for x in terms), letter, after, start) for f in fields(first)
            if f.name != "span"}
    return replace(first, **{x: node for x, (node, _) in made.items()}), frozenset().union(
        *(sizes for _, sizes in made.values()))
