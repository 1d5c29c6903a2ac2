"""Lets: the values of a tile, each with the one operation that makes it, and the subscripts of loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from einc.ir.elements import Kind
from einc.ir.indices import Extent, Index, IndexSet
from einc.ir.terms import Position, Term

# Subscripts of a load: an axis, the parts of a composite, a part of a direct sum, or a computed whole number.


@dataclass(frozen=True, slots=True)
class AxisRef:
    axis: str


@dataclass(frozen=True, slots=True)
class Flatten:
    """One number for the elements of several sets, those of the last one next to each other."""

    parts: tuple[Subscript, ...]
    sets: tuple[IndexSet, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a direct sum: `extent` elements after `before`."""

    item: Subscript
    before: Extent
    extent: Extent


@dataclass(frozen=True, slots=True)
class Gather:
    """The argument of the load at place `arg`, a whole number of the slot's set; `safe`
    where it provably stays in range.

    With `told`, which is the read as the language writes it, a value out of range is an error;
    else it stands at a place that nobody reads.
    """

    arg: int
    set: IndexSet
    safe: bool
    told: str = ""


Subscript = AxisRef | Flatten | Slice | Gather


def axes_of(sub: Subscript) -> tuple[str, ...]:
    """The axes along which a subscript goes, in their order; those of a computed number are not among them."""
    match sub:
        case AxisRef(axis):
            return (axis,)
        case Flatten(parts):
            return tuple(a for p in parts for a in axes_of(p))
        case Slice(item):
            return axes_of(item)
        case Gather():
            return ()
    assert_never(sub)


# Operations of a let. None names a value: the arguments are the let's, in the order that the docstring says.


@dataclass(frozen=True, slots=True)
class Load:
    """Elements of a buffer; the arguments are the whole numbers that its subscripts speak of by their places."""

    buffer: str
    subs: tuple[Subscript, ...]


@dataclass(frozen=True, slots=True)
class Iota:
    """The numbers at which an axis stands."""

    axis: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number made of constants and extents."""

    term: Term


@dataclass(frozen=True, slots=True)
class Map:
    """A primitive of the arguments, point by point; `floordiv` and `ceildiv` are the
    exact quotients of whole numbers."""

    op: str


@dataclass(frozen=True, slots=True)
class Dot:
    """The product of the arguments summed over axes. `loose`: rounding it to the type of the data does no harm."""

    over: tuple[str, ...]
    may_round: bool = False


def end(index: Index, which: Literal["first", "last"]) -> Position:
    """Where the tile of an axis begins or ends; no letter of a source has a blank in it."""
    return Position(Index(f"{which} {index.name}", index.set))


@dataclass(frozen=True, slots=True)
class Interval:
    """Positions of an axis, for one tile: low ≤ position ≤ high for every bound, where each of `when` is ≥ 0.

    The terms are whole numbers made of the tile's ends; a fold in them runs over rows of the tile, over an axis that
    is whole, or over all positions of the axis itself: the first (last) one at which a tensor is so great (so small).
    """

    low: tuple[Term, ...] = ()
    high: tuple[Term, ...] = ()
    when: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduce:
    """The fold of the argument over axes. `full`: every row surely has a point."""

    fold: str
    over: tuple[str, ...]
    full: bool


@dataclass(frozen=True, slots=True)
class Select:
    """Of a condition and a value the value where the condition holds, else a number."""

    otherwise: float
    # a tile that meets none of these is in the condition as a whole; None if unknown
    cut: tuple[Interval, ...] | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """For each element n of `axis` the fold of the argument's elements along `over` up to n + shift, counted from 0.

    `back`: from that element on.
    """

    fold: str
    over: str
    axis: str
    shift: Extent
    back: bool


@dataclass(frozen=True, slots=True)
class ScatterAdd:
    """Of a value and a number: for each element of `axis` the sum of the value at the
    points of `over` whose number names it.

    Numbers count from 0; one that names no element counts for nothing.
    """

    axis: str
    over: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreviousCarry:
    """What the argument, a carried let that may stand later, was when this tile began."""


Op = Load | Iota | Scalar | Map | Dot | Reduce | Select | Scan | ScatterAdd | PreviousCarry


@dataclass(frozen=True, slots=True)
class Carry:
    """A let that is one tile's share of a fold: it is merged into what the tiles before gave.

    With a `reference` (another carried let, a running maximum) the old value is first scaled by base^(r − r′).
    `full`: the first tile visited surely has a point in every row, so the reference is never −∞ after it.
    """

    fold: str
    reference: str | None
    base2: bool
    full: bool


@dataclass(frozen=True, slots=True)
class Let:
    """One value of a tile. `text` is the equation that it completes, as the language writes it."""

    name: str
    axes: tuple[str, ...]
    kind: Kind
    op: Op
    args: tuple[str, ...] = ()
    text: str = ""
    carry: Carry | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The lets of the same tile that it reads: its arguments, but for one that the tile before made."""
        return () if isinstance(self.op, PreviousCarry) else self.args

    @property
    def over(self) -> tuple[str, ...]:
        """The axes of its operands that the operation folds away or runs along."""
        match self.op:
            case Dot(axes) | Reduce(_, axes) | ScatterAdd(_, axes):
                return axes
            case Scan(_, axis):
                return (axis,)
        return ()

    def with_args(self, names: Callable[[str], str]) -> Let:
        """The let with other names for its arguments."""
        return replace(self, args=tuple(map(names, self.args)))
