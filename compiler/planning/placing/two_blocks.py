"""The elements of a rank's part that is in two blocks, in the program of all ranks: as composites of a block and of
what is in it, or, of a set that is a composite already, by numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

from einc.ir.indices import Extent, Index, IndexSet, number
from einc.ir.programs import Equation
from einc.ir.sums import added, product
from einc.ir.terms import ONE, Apply, Fold, Pack, Position, Size, Term, Where, const, transform
from einc.planning.placing.states import Axis

CLASS = "rank"


@dataclass(frozen=True)
class InTwo:
    """An element of a rank's part, `own`, its place in the whole, and its number there. An element `at` of the whole is
    that of the rank `holder`, where it is the one at the place `there`.
    """

    own: Pack
    place: Pack
    number: Term
    at: Pack
    holder: Term
    there: Pack


@dataclass(frozen=True)
class ByNumbers:
    """The same of a set that is a composite already: places are numbers."""

    own: Term
    place: Term
    at: Term
    holder: Term
    there: Term


def in_two(splits: dict[IndexSet, tuple[IndexSet, ...]], axis: Axis, rank: Index, whole: IndexSet, own: Index,
           ends: bool) -> InTwo:
    """An element of a rank's part of two blocks, side by side in the whole or, where they are of both `ends`, one as
    far from the end as the other is from the start. Notes the composites in `splits`.
    """
    block = replace(own.set, extent=own.set.extent * number(Fraction(1, 2)))
    every, two = (IndexSet(CLASS, number(n)) for n in (2 * axis.ranks, 2))
    side, inner = Index(f"{own.name}_2", two), Position(Index(f"{own.name}_1", block))
    splits.setdefault(whole, (every, block))
    splits.setdefault(own.set, (two, block))
    back = product((const(2 * axis.ranks + 1), from_0(Position(side))))
    place = Apply("max", (Position(rank), Apply("sub", (back, Position(rank))))) if ends else added(
        (product((const(2), from_0(Position(rank)))), Position(side)))
    at = Position(Index(f"{own.name}_3", every))
    holder, its_side = _held(axis, at, ends)
    return InTwo(Pack((Position(side), inner), (two, block), own.set), Pack((place, inner), (every, block), whole),
                 added((product((from_0(place), Size(block.extent))), inner)),
                 Pack((at, inner), (every, block), whole), holder, Pack((its_side, inner), (two, block), own.set))


def by_numbers(axis: Axis, rank: Index, letter: Index, own: Index, ends: bool) -> ByNumbers:
    """The same by the numbers of the elements."""
    here, block = Position(own), own.set.extent * number(Fraction(1, 2))
    second = Apply("floor", (Apply("div", (Apply("sub", (here, const(own.set.start))), Size(block))),))
    place = added((here, before(rank, block), product((second, _between(axis, rank, block)))) if ends else
                  (here, before(rank, own.set.extent)))
    at = Apply("sub", (Position(letter), const(letter.set.start)))
    holder, side = _held(axis, added((Apply("floor", (Apply("div", (at, Size(block))),)), ONE)), ends)
    there = added((product((from_0(side), Size(block))), Apply("mod", (at, Size(block))), const(own.set.start)))
    return ByNumbers(here, place, Position(letter), holder, there)


def _held(axis: Axis, block: Term, ends: bool) -> tuple[Term, Term]:
    """The rank that has a block, and which of its two it is."""
    if not ends:
        row = added((Apply("floor", (Apply("div", (from_0(block), const(2))),)), ONE))
        return row, added((Apply("mod", (from_0(block), const(2))), ONE))
    last = const(axis.ranks)  # of the ranks, each of which has one of the first blocks
    behind = Apply("lt", (last, block))
    second = Where(behind, Apply("sub", (const(2 * axis.ranks + 1), block)))
    return added((Where(Apply("le", (block, last)), block), second)), added((ONE, Where(behind, ONE)))


def in_halves(equation: Equation, by: Mapping[Index, Pack]) -> Equation:
    """The equation with two letters for each of some."""
    if not by:
        return equation

    def change(term: Term) -> Term:
        """The term with each letter that is cut replaced by its two parts, in folds, packed positions and on its own.
        """
        match term:
            case Position(index):
                return by.get(index, term)
            case Fold(op, bound, domain, body):
                letters = (_letters(by[i]) if i in by else (i,) for i in bound)
                return Fold(op, tuple(chain(*letters)), domain, body)
            case Pack(parts, sets, into):
                inner = [(part.parts, part.sets) if isinstance(part, Pack) else ((part,), (of,))
                         for part, of in zip(parts, sets, strict=True)]
                return Pack(tuple(chain(*(p for p, _ in inner))), tuple(chain(*(s for _, s in inner))), into)
        return term

    axes = tuple(transform(axis, change) for axis in equation.axes)
    return replace(equation.map(lambda term: transform(term, change)), axes=axes)


def _letters(pack: Pack) -> tuple[Index, ...]:
    """The letters of a composite of letters."""
    return tuple(part.index for part in pack.parts if isinstance(part, Position))


def from_0(number_: Term) -> Term:
    """A number that counts from 1 as one that counts from 0."""
    return Apply("sub", (number_, ONE))


def before(rank: Index, part: Extent) -> Term:
    """How many elements the ranks before one have."""
    return Apply("mul", (from_0(Position(rank)), Size(part)))


def _between(axis: Axis, rank: Index, block: Extent) -> Term:
    """How much farther apart the two blocks of a rank are than they would be side by side."""
    return Apply("mul", (Size(block), Apply("sub", (const(2 * axis.ranks), product((const(2), Position(rank)))))))
