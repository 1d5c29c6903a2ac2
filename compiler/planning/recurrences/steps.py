"""What is found of a loop -> the step of the plan that computes it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import assert_never

from einc.ir.indices import Extent, Index, number
from einc.ir.plan import Cost, Recurrence, StateScan, Vectors
from einc.ir.programs import IndexLoop, Program
from einc.ir.rounds import place_of
from einc.planning.recurrences.found import Affine, Operand, Scanned
from einc.syntax.printing.show import equation_text

# Positions of a tile: where a triangular system is solved in each, smaller ones cost less. Measured flat from 32 to 64.
_TILE, _SOLVED = 64, 32
_BYTES = 4


def step_of(program: Program, loop: IndexLoop, found: Affine | Scanned) -> Recurrence | StateScan:
    """The step of one loop of one state."""
    texts = tuple(equation_text(program, e) for e in program.equations if e.target in loop.inside)
    match found:
        case Affine():
            return _recurrence(loop, found, texts)
        case Scanned():
            return _scan(program, loop, found, texts)
    assert_never(found)


def _recurrence(loop: IndexLoop, found: Affine, texts: tuple[str, ...]) -> Recurrence:
    """The step of a state in tiles: it reads the operands in the order that `Recurrence` names, and makes what is read
    of the state at each position, then the last state."""
    (state, first, _), = loop.states
    lengths = _lengths(loop)
    through = (*found.batch, *found.passing)
    order = (*found.batch, *found.met, *found.passing)
    given: list[Operand] = [found.gate, Operand(first, found.letters), *(x for pair in found.known for x in pair),
                            *(x for three in found.unknown for x in three), *(q for _, q, _ in found.reads)]
    made = [(name, (loop.index, *(i for i in found.letters if i in through))) for name, _, _ in found.reads]
    made.append((state, found.letters))
    tile = _SOLVED if found.unknown else _TILE
    return Recurrence(
        reads=(*(x.tensor for x in given), *lengths), ragged=bool(lengths),
        writes=tuple(name for name, _ in made), texts=texts,
        cost=_cost(loop.index, found, tile), letters=tuple(_names(x.letters) for x in given),
        made=tuple(_names(letters) for _, letters in made),
        groups=(_names(found.batch), (loop.index.name,), _names(found.met), _names(found.passing)),
        extents=tuple((i.name, i.set.extent) for i in (loop.index, *order)),
        vectors=Vectors(len(found.known), len(found.unknown), tuple(own for _, _, own in found.reads)), tile=tile)


def _scan(program: Program, loop: IndexLoop, found: Scanned, texts: tuple[str, ...]) -> StateScan:
    """The step of a state whose elements meet no letter: it makes the states after every position, the last state, and
    the states before every position where something reads those."""
    (state, first, every), = loop.states
    lengths = _lengths(loop)
    made = program.by_target[every]
    many = _many((loop.index, *found.letters))
    given = (found.gate, Operand(first, found.letters), found.added)
    moved = number(_BYTES) * many
    return StateScan(
        reads=(*(x.tensor for x in given), *lengths), ragged=bool(lengths),
        writes=(every, state, *filter(None, [found.before])), texts=texts,
        cost=Cost(number(4) * many, number(2) * moved, moved, number(0)),
        letters=tuple(_names(x.letters) for x in given), axis=place_of(loop.index, made) or 0,
        axes=_names((loop.index, *found.letters)), largest=found.largest,
        extents=tuple((i.name, i.set.extent) for i in (loop.index, *found.letters)))


def _lengths(loop: IndexLoop) -> tuple[str, ...]:
    """The tensor of the lengths of requests, where the positions of several stand one after the other."""
    packed = loop.index.set.packed
    return () if packed is None else (packed.lengths,)


def _names(letters: Iterable[Index]) -> tuple[str, ...]:
    return tuple(i.name for i in letters)


def _many(letters: Iterable[Index]) -> Extent:
    return reduce(lambda total, i: total * i.set.extent, letters, number(1))


def _cost(index: Index, found: Affine, tile: int) -> Cost:
    """Operations: the pairs of a tile, counted half, and the state that each position reads and writes."""
    met, passing, rows = _many(found.met), _many(found.passing), _many((index, *found.batch))
    solved, known, reads = len(found.unknown), len(found.known), len(found.reads)
    pairs = number((solved + reads) * (solved + known)) * (met + passing) + number(solved * solved) * met
    states = number(2 * (2 * solved + known + reads)) * met * passing
    both = number(solved + reads) * met + number(known + solved) * passing
    return Cost(rows * (number(tile) * pairs + states), number(_BYTES) * rows * both,
                number(_BYTES * reads) * rows * passing, number(0))
