"""A tensor that is kept in few bits: where it is read, the rounded numbers times their scale are read in its place.

A scale belongs to the numbers along the last axis of the tensor, or to each block of these, so that it is settled with
the numbers themselves, whatever comes later. This changes values, as a `cache … as …` line of a plan asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from einc.ir.draft import Draft
from einc.ir.indices import SEQUENCE, Index, IndexSet, distinct
from einc.ir.narrow import Narrow
from einc.ir.programs import BlockLoop, Equation, TypedProgram
from einc.ir.terms import Apply, Pack, Position, Read, Term, conjuncts, const, substitute, transform
from einc.transforms.rounding import UnroundableError, blocks_of, fresh_letter, scaled


@dataclass(frozen=True, slots=True)
class Kept:
    """The program that reads rounded numbers, and the names of these and of their scales."""

    program: TypedProgram
    few: str
    scale: str


def kept(program: TypedProgram, key: str, row: Narrow, count: int) -> Kept:
    """The program with the tensor `key` read as numbers of a type times their scales, one for the last axis, or for
    each `count` numbers of it. Raises UnroundableError where such a scale would depend on other positions.
    """
    tensor, equation = program.tensors[key], program.equation(key)
    if not tensor.slots or tensor.slots[-1].set.cls in SEQUENCE:
        raise UnroundableError(f"the last axis of `{key}` is one of positions, over which no scale is settled"
                               if tensor.slots else f"`{key}` is one number, which has no axis for a scale")
    if tensor.constant:
        raise UnroundableError(f"`{key}` holds whole numbers, or numbers of few bits already")
    if equation is None and tensor.role == "local":
        raise UnroundableError(f"`{key}` is made by rounds, which carry it with all its bits")
    draft, around = Draft(program.tensors), program.around(key)
    letters = _letters(program, key, tuple(loop.index for loop in around))
    known = () if equation is None or not equation.has_letters else conjuncts(
        substitute(equation.domain, dict(zip(equation.indices, map(Position, letters), strict=True))))
    split = _split(program, letters[-1].set, count) if count else None
    if split is None:
        scale, few = scaled(draft, key, Read(key, tuple(map(Position, letters))), letters, letters[:-1], known, row)
    else:
        scale, few = _by_blocks(draft, key, letters, split, known, row)
    made = Kept(program, few.tensor, scale.tensor)

    def read(term: Term) -> Term:
        return _times_scale(term, made, count) if isinstance(term, Read) and term.tensor == key else term

    mine, others = list[Equation](), list[Equation]()
    for e in program.equations:
        mine.append(e.map(lambda t: transform(t, read)))
        mine += draft.equations if e.target == key else []
    others = [] if equation is not None else draft.equations
    names = tuple(e.target for e in draft.equations)
    loops = [x.map(lambda e: e.map(lambda t: transform(t, read))) if isinstance(x, BlockLoop)
             else x.beside(key, names) for x in program.loops]
    found = program.but(equations=(*others, *mine), tensors=draft.tensors, loops=loops)
    splits = {} if split is None else {letters[-1].set: tuple(i.set for i in split)}
    return replace(made, program=replace(found, splits={**found.splits, **splits}))


def _letters(program: TypedProgram, key: str, rounds: tuple[Index, ...]) -> tuple[Index, ...]:
    """A letter for each axis of a tensor; an axis that runs with rounds has their own."""
    slots, equation = program.tensors[key].slots, program.equation(key)
    axes = (None,) * len(slots) if equation is None else equation.axes
    fresh = distinct((Index(slot.name, slot.set) for slot in slots), [index.name for index in rounds])
    return tuple(axis.index if isinstance(axis, Position) and axis.index in rounds else letter
                 for axis, letter in zip(axes, fresh, strict=True))


def _split(program: TypedProgram, of: IndexSet, count: int) -> tuple[Index, Index]:
    """The letters of a block of the last axis and of a place in it."""
    blocks, places = blocks_of(of, count, program)
    block = fresh_letter(program, blocks)
    return block, fresh_letter(program, places, (block,))


def _by_blocks(draft: Draft, key: str, letters: tuple[Index, ...], split: tuple[Index, Index],
               known: tuple[Term, ...], row: Narrow) -> tuple[Read, Read]:
    """The scale of each block of the last axis, and the numbers of the axis that are rounded by it. Changes
    `draft.equations`, `draft.tensors` and `draft`."""
    block, place = split
    last = Pack((Position(block), Position(place)), (block.set, place.set), letters[-1].set)
    there = tuple(substitute(c, {letters[-1]: last}) for c in known)
    before = tuple(map(Position, letters[:-1]))
    scale, few = scaled(draft, key, Read(key, (*before, last)), (*letters[:-1], block, place),
                        (*letters[:-1], block), there, row)
    whole = draft.equations.pop()
    draft.tensors[few.tensor] = replace(draft.tensors[few.tensor], slots=(
        *draft.tensors[few.tensor].slots[:-2], draft.tensors[key].slots[-1]))
    draft.add(replace(whole, axes=(*before, last)))
    return scale, Read(few.tensor, (*before, last))


def _times_scale(term: Read, made: Kept, count: int) -> Term:
    """An element of the tensor as a rounded number times its scale. Raises UnroundableError where it is read by the
    parts of its last axis and scales are those of blocks."""
    *before, last = term.subs
    if count and isinstance(last, Pack):
        raise UnroundableError(f"`{term.tensor}` is read by the parts of its last axis, which are no blocks")
    at = (*before, Apply("ceil", (Apply("div", (last, const(count))),))) if count else tuple(before)
    return Apply("mul", (Read(made.scale, at), Read(made.few, term.subs)))
