"""Closed forms of the plan as whole numbers of a program: where tiles begin and end, and
where an axis has points for them.

The rules stand here once. A back end gives its spelling: how its language writes the arithmetic of whole numbers, what
the ends of a tile are called, and how an element of a tensor is read before the tile is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from einc.ir.domains import linear
from einc.ir.indices import Extent, Index, number, size
from einc.ir.plan import Axis, Interval
from einc.ir.terms import Apply, Fold, Position, Read, Term

Arithmetic = Literal["min", "max", "abs", "mod", "mul", "floor", "ceil"]  # floor and ceil: a quotient, rounded


class Spelling(Protocol):
    """How a back end writes closed forms."""

    def arithmetic(self, op: Arithmetic, args: Sequence[str]) -> str:
        """An operation on whole numbers, so that the result can stand in a sum."""
        ...

    def number(self, total: Extent) -> str:
        """A sum of numbers, sizes and names."""
        ...

    def needs(self, extent: Extent) -> None:
        """Takes note that the text will have these sizes in it."""
        ...

    def end(self, axis: str, which: Literal["first", "last"]) -> Extent:
        """The first or the last position of the tile of an axis, in storage positions."""
        ...

    def place(self, index: Index) -> str:
        """The storage position at which a fold stands that runs over the index."""
        ...

    def element(self, read: Read) -> str:
        """An element of a tensor of whole numbers."""
        ...

    def fold(self, fold: Fold, inline: bool) -> Extent:
        """The least or the greatest of some numbers; under a name, unless it stands `inline`."""
        ...


def total(term: Term, spelling: Spelling, inline: bool = False) -> Extent:
    """The term as a sum of names and of small expressions that stand for names. A fold in
    the sum itself may stand `inline`."""
    form = linear(term)
    assert form is not None
    made = form.constant
    spelling.needs(made)
    for atom, coefficient in form.atoms:
        spelling.needs(coefficient)
        made = made + coefficient * _atom(atom, spelling, inline)
    return made


def text(term: Term, spelling: Spelling, shift: int = 0, inline: bool = False) -> str:
    """The term and a number as text."""
    match term:
        case Apply("min" | "max" as op, args):
            return spelling.arithmetic(op, [text(a, spelling, shift, inline) for a in args])
    return spelling.number(total(term, spelling, inline) + number(shift))


def _atom(atom: Term, spelling: Spelling, inline: bool) -> Extent:
    """A part of a linear form as a name, or as a small expression in the back end's spelling. Raises AssertionError for
    a term that stands in no closed form.
    """
    match atom:
        case Position(index) if " " in index.name:
            which, axis = index.name.split(" ")
            return spelling.end(axis, "first" if which == "first" else "last") + number(index.set.start)
        case Position(index):
            return size(spelling.place(index)) + number(index.set.start)
        case Fold():
            return spelling.fold(atom, inline)
        case Read():
            return size(spelling.element(atom))
        case Apply("floor" | "ceil" as op, (Apply("div", (above, below)),)):
            return size(spelling.arithmetic(op, [text(above, spelling), text(below, spelling)]))
        case Apply("min" | "max" | "abs" | "mod" | "mul" as op, args):
            return size(spelling.arithmetic(op, [text(a, spelling) for a in args]))
    raise AssertionError(atom)


def nonnegative(term: Term, spelling: Spelling) -> str:
    """The condition that a term is ≥ 0, with nothing subtracted on either side."""
    made = total(term, spelling)
    above = Extent(tuple((m, c) for m, c in made.terms if c > 0))
    return f"{spelling.number(above - made)} <= {spelling.number(above)}"


@dataclass(frozen=True, slots=True)
class Search:
    """The first (or the last) position of an axis at which the running greatest (or least) element of a tensor of whole
    numbers is as great (or as small) as a limit.
    """

    read: Read
    limit: Term
    axis: Index
    first: bool


def search(fold: Fold) -> Search | None:
    """What a fold looks for, where its points are the positions at which a tensor is so great or so small."""
    match fold.domain, fold.body:
        case Apply("le", (low, high)), Position(axis):
            first = fold.op == "min"
            read, limit = (high, low) if first else (low, high)
            assert isinstance(read, Read)
            return Search(read, limit, axis, first)
    return None


def limits(axis: Axis, span: Interval, spelling: Spelling, inline: bool = False) -> tuple[list[str], list[str]]:
    """The storage positions from which a span may begin, of which the greatest holds, and before which
    it has to end, of which the least holds.
    """
    start = axis.set.start
    lows = [text(t, spelling, -start, inline) for t in span.low]
    return lows, [text(t, spelling, 1 - start, inline) for t in span.high]
