"""Values that belong to the rank that has a chosen element: what is read there, what is made of that point by point or
by contraction, and sums over the choices, of which each owner has its addends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from einc.ir.programs import Equation, NormalProgram
from einc.ir.terms import Fold, Position, Read
from einc.planning.placing.cuts import Cut, Letter, Needs, equals, placed_at
from einc.planning.placing.rows import at_rows, chosen_rows, in_rows, lying, row_letters
from einc.planning.placing.states import WHOLE, Axis, Owned, Rows, Share, State, rows_of

Asks = Callable[[str, State, State], Fraction]  # how much more a rank sends for a tensor in another state, too


def owned(equation: Equation, program: NormalProgram, state: Callable[[str], State], needs: Needs,
          axis: Axis, asks: Asks, count: Callable[[str], Fraction]) -> Cut | None:
    """The cut of an equation that reads values of their owners; None where it reads none, or in another way, or where
    what it reads in rows goes back first."""
    mine = [(read, s) for read in equation.elements if isinstance(s := state(read.tensor), Owned)]
    if not mine or len({(s.chosen, s.base, s.rows is None) for _, s in mine}) > 1:
        return None
    at = {tuple(read.subs[n] for n in s.places) for read, s in mine}
    (_, first), *_ = mine
    if len(at) > 1 or not all(isinstance(x, Position) for x in next(iter(at))):
        return None
    (places,) = at
    choices = tuple(x.index for x in places if isinstance(x, Position))
    keep: dict[str, State] = {read.tensor: s for read, s in mine}
    rows, letters = first.rows, () if first.rows is None else row_letters(first.rows, choices)

    def made(state: State, letter: Letter | None = None, more: Mapping[str, State] | None = None) -> Cut | None:
        """The cut where a letter is cut beside those of rows; None where what is in rows goes back instead."""
        wanted: dict[str, State] | None = {**(more or {}), **needs(equation, letter, keep)}
        if rows is not None and wanted is not None:
            wanted = in_rows(equation, program, rows, letters, wanted, keep)
            grows = count(equation.target) > sum(map(count, keep))
            if wanted is None or (not grows and _goes_back(equation, state, keep, wanted, asks)):
                return None
        return Cut(state, (*([letter] if letter is not None else []), *letters), wanted or {})

    body = equation.body
    if not set(choices) & set(body.bound if isinstance(body, Fold) else ()):
        if not all(x in equation.axes for x in places):
            return None
        where = tuple(equation.axes.index(x) for x in places)
        some = rows is not None and len(rows.packed) < len(places)  # a row has choices that are not the rank's, too
        return made(Owned(first.chosen, where, first.base, rows and lying(rows, letters, equation.axes)),
                    more={first.chosen: rows.of_chosen} if rows is not None and some else None)
    if not isinstance(body, Fold) or body.op != "sum":
        return None
    chosen = Read(first.chosen, places)
    for place, value in equals(body.domain):
        if value == chosen and isinstance(place, Position) and place.index in equation.indices and (
                place.index.set == first.base and first.base in axis.sets):
            letter = Letter(place.index, first.base)  # rows by the element that they chose: each owner has its own
            found = placed_at(equation.axes, (s.set for s in program.tensors[equation.target].slots), letter)
            if found is None or any(x.index in equation.indices for x in letters):
                return None  # it would lie in rows and in parts
            return made(found, letter)
    lies = rows and lying(rows, letters, equation.axes)
    if rows is not None and lies is None and any(Position(x.index) in equation.axes for x in letters):
        return None  # a sum over some letters of a row, and not over all
    whole: State = WHOLE if rows is None else rows.of_chosen
    result = made(Share("sum", rows=lies), more={first.chosen: whole})
    return result and replace(result, chosen=(chosen, first.base),
                              reason=f"sum over {', '.join(i.name for i in choices if i in body.bound)}")


def _goes_back(equation: Equation, state: State, mine: Mapping[str, State], wanted: Mapping[str, State],
               asks: Asks) -> bool:
    """Whether less is sent where what an equation reads in rows is sent back than where it is made of them there."""
    back = sum(asks(key, one, rows.parted) for key, one in mine.items() if (rows := rows_of(one)) is not None)
    there = sum((asks(key, rows.parted, rows) for key, rows in wanted.items() if isinstance(rows, Rows)), Fraction(0))
    lies = rows_of(state) if isinstance(state, Share) else None
    there += Fraction(0) if lies is None else asks(equation.target, state, lies.parted)
    return back <= there and there > 0


def owned_at(equation: Equation, read: Read, slot: int, program: NormalProgram, state: Callable[[str], State],
             needs: Mapping[str, State], axis: Axis) -> Cut | None:
    """The cut of a value that is read at a place of a slot that is data, where all that says the place is known where
    the value is used: it is its owner's. None where it is not.
    """
    place, base = read.subs[slot], program.tensors[read.tensor].slots[slot].set
    if not isinstance(place, Read) or len(equation.axes) != len(equation.indices):
        return None
    choices = tuple(x.index for x in place.subs if isinstance(x, Position) and x.index in equation.indices)
    if len(choices) < len(place.subs):
        return None
    at = tuple(map(equation.indices.index, choices))
    rows = chosen_rows(place, base, program, state, axis)
    letters = () if rows is None else row_letters(rows, choices)
    # Where a letter of the row stands elsewhere, too, it would be on two ranks: where the row lies, and what it chose.
    wanted = None if rows is None or at_rows(read, letters) else in_rows(
        equation, program, rows, letters, needs, {read.tensor})
    if rows is not None and wanted is not None:
        return Cut(Owned(place.tensor, at, base, lying(rows, letters, equation.axes)), letters, wanted)
    return Cut(Owned(place.tensor, at, base), needs=needs) if len(at) > 1 else None
