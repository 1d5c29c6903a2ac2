"""Values that belong to the rank that has a chosen element: what is read there, what is made of that point by point or
by contraction, and sums over the choices, of which each owner has its addends.
"""

from __future__ import annotations

from collections.abc import Callable

from einc.ir.programs import Equation, NormalProgram
from einc.ir.terms import Fold, Position, Read
from einc.planning.placing.cuts import Cut, Letter, Needs, equals, placed_at
from einc.planning.placing.states import WHOLE, Axis, Owned, Share, State


def owned(equation: Equation, program: NormalProgram, state: Callable[[str], State], needs: Needs,
          axis: Axis) -> Cut | None:
    """The cut of an equation that reads values of their owners; None where it reads none, or in another way."""
    mine = [(read, s) for read in equation.elements if isinstance(s := state(read.tensor), Owned)]
    if not mine or len({(s.chosen, s.base) for _, s in mine}) > 1:
        return None
    at = {tuple(read.subs[n] for n in s.places) for read, s in mine}
    (_, first), *_ = mine
    if len(at) > 1 or not all(isinstance(x, Position) for x in next(iter(at))):
        return None
    (places,) = at
    choices = tuple(x.index for x in places if isinstance(x, Position))
    keep = {read.tensor: s for read, s in mine}
    bound = equation.body.bound if isinstance(equation.body, Fold) else ()
    if not set(choices) & set(bound):
        if not all(x in equation.axes for x in places):
            return None
        where = tuple(equation.axes.index(x) for x in places)
        return Cut(Owned(first.chosen, where, first.base), needs=needs(equation, None, keep))
    body = equation.body
    if not isinstance(body, Fold) or body.op != "sum":
        return None
    chosen = Read(first.chosen, places)
    for place, value in equals(body.domain):
        if value == chosen and isinstance(place, Position) and place.index in equation.indices and (
                place.index.set == first.base and first.base in axis.sets):
            letter = Letter(place.index, first.base)  # rows by the element that they chose: each owner has its own
            found = placed_at(equation.axes, (s.set for s in program.tensors[equation.target].slots), letter)
            return None if found is None else Cut(found, (letter,), needs(equation, letter, keep))
    wanted = needs(equation, None, keep)
    return Cut(Share("sum"), needs={first.chosen: WHOLE, **wanted}, chosen=(chosen, first.base),
               reason=f"sum over {', '.join(i.name for i in choices if i in bound)}")
