"""Values that belong to the rank that has a chosen element: what is read there, what is made of that point by point or
by contraction, and sums over the choices, of which each owner has its addends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from einc.ir.programs import Equation, NormalProgram
from einc.ir.terms import Fold, Position, Read
from einc.planning.placing.cuts import Cut, Letter, Needs, equals, placed_at
from einc.planning.placing.refusals import Refused
from einc.planning.placing.rows import at_rows, chosen_rows, in_rows, lying, row_letters
from einc.planning.placing.states import WHOLE, Axis, Owned, Rows, Share, State


def owned(equation: Equation, program: NormalProgram, state: Callable[[str], State], needs: Needs,
          axis: Axis) -> Cut | None:
    """The cut of an equation that reads values of their owners; None where it reads none, or in another way."""
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
    letters = () if first.rows is None else row_letters(first.rows, choices)

    def wanted(letter: Letter | None) -> dict[str, State]:
        """The states in which it reads tensors where a letter is cut beside those of rows."""
        found = needs(equation, letter, keep)
        return found if first.rows is None else in_rows(equation, program, first.rows, letters, found, keep)

    bound = equation.body.bound if isinstance(equation.body, Fold) else ()
    if not set(choices) & set(bound):
        if not all(x in equation.axes for x in places):
            return None
        where = tuple(equation.axes.index(x) for x in places)
        rows = None if first.rows is None else lying(first.rows, letters, equation.axes)
        return Cut(Owned(first.chosen, where, first.base, rows), letters, wanted(None))
    body = equation.body
    if not isinstance(body, Fold) or body.op != "sum":
        return None
    chosen = Read(first.chosen, places)
    for place, value in equals(body.domain):
        if value == chosen and isinstance(place, Position) and place.index in equation.indices and (
                place.index.set == first.base and first.base in axis.sets):
            letter = Letter(place.index, first.base)  # rows by the element that they chose: each owner has its own
            found = placed_at(equation.axes, (s.set for s in program.tensors[equation.target].slots), letter)
            if any(x.index in equation.indices for x in letters):
                return None  # it would lie in rows and in parts: what it is made of goes back
            return None if found is None else Cut(found, (letter, *letters), wanted(letter))
    reason = f"sum over {', '.join(i.name for i in choices if i in bound)}"
    if first.rows is None:
        return Cut(Share("sum"), needs={first.chosen: WHOLE, **wanted(None)}, chosen=(chosen, first.base),
                   reason=reason)
    return Cut(Share("sum", rows=_added(equation, first.rows, letters)), letters,
               {first.chosen: first.rows.of_chosen, **wanted(None)}, reason, chosen=(chosen, first.base))


def owned_at(equation: Equation, read: Read, slot: int, program: NormalProgram, state: Callable[[str], State],
             needs: Mapping[str, State], axis: Axis) -> Cut | None:
    """The cut of a value that is read at a place of a slot that is data, where all that says the place is known where
    the value is used: it is its owner's. None where it is not.
    """
    place, base = read.subs[slot], program.tensors[read.tensor].slots[slot].set
    if not isinstance(place, Read) or len(place.subs) < 2 or len(equation.axes) != len(equation.indices):
        return None
    choices = tuple(x.index for x in place.subs if isinstance(x, Position) and x.index in equation.indices)
    if len(choices) < len(place.subs):
        return None
    at = tuple(map(equation.indices.index, choices))
    rows = chosen_rows(place, base, program, state, axis)
    letters = () if rows is None else row_letters(rows, choices)
    if rows is None or at_rows(read, letters):  # that would be on two ranks: where a row lies, and what it chose
        return Cut(Owned(place.tensor, at, base), needs=needs)
    wanted = in_rows(equation, program, rows, letters, needs, {read.tensor})
    return Cut(Owned(place.tensor, at, base, lying(rows, letters, equation.axes)), letters, wanted)


def _added(equation: Equation, rows: Rows, letters: tuple[Letter, ...]) -> Rows | None:
    """How a sum over choices lies in rows; None where it is over all rows. Raises Refused where it is over some letters
    of a row and not over the first."""
    found = lying(rows, letters, equation.axes)
    if found is None and any(Position(x.index) in equation.axes for x in letters):
        raise Refused("meeting", f"`{equation.target}` is a sum over {letters[0].index.name}, by which the rows that "
                      f"`{rows.chosen}` sends lie, and none over all of a row", "say `by gather` instead")
    return found
