"""What reads the parts that rounds make of a value, made in the rounds: then only one part is ever there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from einc.ir.indices import Index
from einc.ir.programs import Equation, IndexLoop, Program
from einc.ir.rounds import place_of
from einc.ir.terms import Position, bound_indices, free_indices, substitute, walk
from einc.transforms.slicing.repeats import in_order

P = TypeVar("P", bound=Program)


def with_readers(program: P, repeat: IndexLoop) -> P:
    """The program with what reads the parts of rounds made in the rounds, where it sums over letters of such a part and
    nothing else reads that: so the part of one round is all that is ever there.
    """
    kept = {key for key in program.kept[repeat] if key not in {k for _, k in program.outputs}}
    for key in sorted(kept):
        readers = [e for e in program.equations if key in e.reads and e.target not in repeat.inside]
        letters = {e.target: _position(program, repeat, key, e) for e in readers}
        inner = any(e.target in other.inside for e in readers for other in program.repeats)
        if inner or any(letter is None for letter in letters.values()):
            continue
        made = {}
        for e in readers:
            letter = letters[e.target]
            assert letter is not None
            here = {letter: Position(repeat.index)}
            made[e.target] = replace(e.map(lambda t: substitute(t, here)),  # noqa: B023
                                     axes=tuple(substitute(a, here) for a in e.axes))
        grown = replace(repeat, inside=(*repeat.inside, *made))
        loops = tuple(grown if loop == repeat else loop for loop in program.loops)
        by = {e.target: made.get(e.target, e) for e in program.equations}
        ordered = [by[k] for k in in_order(by, [loop for loop in loops if isinstance(loop, IndexLoop)])]
        program, repeat = program.but(equations=ordered, loops=loops), grown
    return program


def _position(program: Program, repeat: IndexLoop, key: str, reader: Equation) -> Index | None:
    """The letter of a reader that says of which round it reads its part; None where it reads other parts too, where it
    has every letter of the part, or where it reads what a state is after the last round.
    """
    at = place_of(repeat.index, program.by_target[key])
    found = [r for r in reader.elements if r.tensor in repeat.inside]
    places = {r.subs[place] if (place := place_of(repeat.index, program.by_target[r.tensor])) is not None else None
              for r in found}
    letter = next(iter(places)) if len(places) == 1 else None
    if at is None or not isinstance(letter, Position) or letter not in reader.axes or {
            *reader.reads} & {state for state, _, _ in repeat.states}:
        return None
    spoken = {i for t in (*walk(reader.body), *walk(reader.domain)) for i in bound_indices(t)} | {*reader.indices}
    if repeat.index != letter.index and repeat.index in spoken:
        return None
    after = holding(program.by_target, {*repeat.inside, *(state for state, _, _ in repeat.states)})
    if {*reader.reads} & (after.keys() - {*repeat.inside}):
        return None
    whole = {i for r in found if r.tensor == key for i in free_indices(r)}
    return letter.index if not whole <= {*reader.indices} else None


def holding(by: Mapping[str, Equation], names: Iterable[str]) -> dict[str, Equation]:
    """The equations that read one of the names, directly or through each other."""
    known, grown = {*names}, True
    while grown:
        more = {key for key, e in by.items() if key not in known and e.reads & known}
        known |= more
        grown = bool(more)
    return {key: e for key, e in by.items() if key in known}
