"""Equations whose letters run over the rows that chose an element of a rank's part.

A value that is read at a chosen element, `W^{C_t^r}`, is made by the rank that has the element. Where what chooses lies
in parts of its own letters, t, each rank is sent what it has to know of the rows that chose its part and of no others:
a row for each choice, (t, r), or one for each t with a choice there, of the letters of positions and texts. The letters
of a row run over a rank's rows then, the first over all of them and the others over one element, and no number of
theirs is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from einc.ir.indices import INDEX_CLASSES, Index, IndexSet, number, size
from einc.ir.programs import Equation, NormalProgram
from einc.ir.requested import ROWS
from einc.ir.terms import Position, Read, Term, children
from einc.planning.analysis.cost import volume
from einc.planning.placing.cuts import Letter, as_numbers
from einc.planning.placing.states import Axis, Part, Rows, State


def chosen_rows(place: Read, base: IndexSet, program: NormalProgram, state: Callable[[str], State],
                axis: Axis) -> Rows | None:
    """The rows of what chooses elements of a set, where the axis sends these, as what is chosen lies in them; None
    where it sends none, or where every rank has all that chooses.
    """
    way = next((m.way for m in axis.meetings if m.way in ROWS and m.by == base), None)
    here, slots = state(place.tensor), program.tensors[place.tensor].slots
    if way is None or not isinstance(here, Part) or here.component >= 0 or here.blocks > 1:
        return None
    others = tuple(n for n, slot in enumerate(slots) if n != here.slot and (way == "rows" or (
        INDEX_CLASSES[slot.set.cls].data and slot.set.cls != base.cls)))
    packed = (here.slot, *others)
    each = volume([slot.set for n, slot in enumerate(slots) if n not in packed])
    if each.constant is not None:
        each = number(min(each.constant, Fraction(axis.ranks)))
    extents = tuple(slots[n].set.extent for n in packed)
    usual = axis.part(prod(extents, start=each))
    return Rows(place.tensor, base, packed, packed, f"{axis.name}.{place.tensor}.rows", usual, each, extents)


def row_letters(rows: Rows, places: Sequence[Index]) -> tuple[Letter, ...]:
    """The letters of a row, where what is chosen is read at these letters."""
    return tuple(Letter(places[n], places[n].set, row=number(1) if k else size(rows.count))
                 for k, n in enumerate(rows.packed))


def lying(rows: Rows, letters: Sequence[Letter], terms: Sequence[Term]) -> Rows | None:
    """How a tensor lies in rows of which it is read, or made, at some letters; None where the first is not there."""
    at = tuple(next((n for n, term in enumerate(terms) if term == Position(x.index)), -1) for x in letters)
    return replace(rows, at=at) if at[0] >= 0 else None


def at_rows(read: Read, letters: Iterable[Letter]) -> frozenset[Index]:
    """The letters of rows at which a tensor is read, not those at which it is said where."""
    mine = {x.index for x in letters}

    def found(term: Term) -> set[Index]:
        match term:
            case Position(index):
                return {index} & mine
            case Read():
                return set()
        return set[Index]().union(*map(found, children(term)))
    return frozenset(set[Index]().union(*map(found, read.subs)))


def in_rows(equation: Equation, program: NormalProgram, rows: Rows, letters: Sequence[Letter],
            wanted: Mapping[str, State], fixed: Iterable[str]) -> dict[str, State] | None:
    """The states in which an equation reads tensors whose letters run over rows; of those that are `fixed`, as `wanted`
    has them. None where it asks for what is not known of rows: numbers of their letters, or what stands at others.
    """
    known, seen = frozenset(fixed), dict[str, State]()
    if as_numbers(equation, program) & {x.index for x in letters}:
        return None
    for read in equation.elements:
        here = at_rows(read, letters)
        if not here or read.tensor in known:
            continue
        found = lying(rows, letters, read.subs)
        plain = sum(isinstance(sub, Position) and sub.index in here for sub in read.subs)
        if found is None or plain != len(here) or isinstance(wanted.get(read.tensor), Part) or seen.setdefault(
                read.tensor, found) != found:
            return None
    return {**wanted, **seen}
