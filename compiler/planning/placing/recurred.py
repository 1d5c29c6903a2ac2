"""A recurrence on a mesh: on each axis it is cut by a letter that its state and all that it is made of have, so that a
rank passes over the positions of its own part and nothing is sent; where there is none each rank does all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from einc.ir.indices import Index
from einc.ir.plan import Recurrence, StateScan
from einc.ir.programs import IndexLoop, Program
from einc.planning.placing.states import WHOLE, Axis, Part, State, States
from einc.planning.recurrences.found import Affine, Operand, Scanned
from einc.planning.recurrences.steps import step_of

Found = Mapping[IndexLoop, Affine | Scanned]


@dataclass(frozen=True)
class Recurred:
    """How the loop of one state is cut: `cut` are its letters with the axes that cut them, `needs` the states in which
    it reads tensors, `made` those of what it makes.
    """

    loop: IndexLoop
    found: Affine | Scanned
    cut: Mapping[Index, Axis]
    needs: Mapping[str, States]
    made: Mapping[str, States]

    def step(self, program: Program) -> Recurrence | StateScan:
        """The recurrence that one rank computes, over its own part of each letter that is cut."""
        own = {i: Index(i.name, replace(i.set, extent=axis.part(i.set.extent))) for i, axis in self.cut.items()}
        return step_of(program, self.loop, _lettered(self.found, own))


def recurred(program: Program, loop: IndexLoop, found: Affine | Scanned, mesh: tuple[Axis, ...]) -> Recurred:
    """The cut of a loop of one state by letters that everything has."""
    operands = [*_operands(found), Operand(loop.states[0][1], found.letters)]
    everywhere = [i for i in found.letters if all(i in one.letters for one in operands)]
    if isinstance(found, Affine):
        everywhere = [i for i in everywhere if i in found.batch]
    cut: dict[Index, Axis] = {}
    for axis in mesh:
        free = (i for base in axis.given for i in everywhere if i.set == base and i not in cut)
        if (letter := next(free, None)) is not None:
            cut[letter] = axis
    needs = {one.tensor: _states(one.letters, cut, mesh) for one in operands}
    made = {name: _states(letters, cut, mesh) for name, letters in _made(program, loop, found)}
    return Recurred(loop, found, cut, needs, made)


def _made(program: Program, loop: IndexLoop, found: Affine | Scanned) -> Iterator[tuple[str, list[Index]]]:
    """What a loop makes, with the letters of its slots."""
    step, by = step_of(program, loop, found), {i.name: i for i in (loop.index, *found.letters)}
    match step:
        case Recurrence():
            yield from ((name, [by[x] for x in letters]) for name, letters in zip(step.writes, step.made, strict=True))
        case StateScan():
            every, state, *before = step.writes
            inner = [by[x] for x in step.axes if x != loop.index.name]
            yield every, [*inner[:step.axis], loop.index, *inner[step.axis:]]
            yield state, inner
            yield from ((name, [loop.index, *inner]) for name in before)


def _operands(found: Affine | Scanned) -> Iterator[Operand]:
    """The gate of a recurrence, and all else that its rounds read from outside."""
    yield found.gate
    match found:
        case Affine():
            yield from (x for pair in found.known for x in pair)
            yield from (x for three in found.unknown for x in three)
            yield from (x for _, x, _ in found.reads)
        case Scanned():
            yield found.added


def _states(letters: tuple[Index, ...] | list[Index], cut: Mapping[Index, Axis], mesh: tuple[Axis, ...]) -> States:
    """The states of a tensor that has these letters in its slots."""
    def on(axis: Axis) -> State:
        return next((Part(n) for n, i in enumerate(letters) if cut.get(i) == axis), WHOLE)

    return tuple(map(on, mesh))


def _lettered(found: Affine | Scanned, own: Mapping[Index, Index]) -> Affine | Scanned:
    """What is found of a loop, with other letters for some."""
    def some(letters: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(own.get(i, i) for i in letters)

    def one(operand: Operand) -> Operand:
        return Operand(operand.tensor, some(operand.letters))

    if isinstance(found, Scanned):
        return replace(found, letters=some(found.letters), gate=one(found.gate), added=one(found.added))
    return replace(found, letters=some(found.letters), batch=some(found.batch), met=some(found.met),
                   passing=some(found.passing), gate=one(found.gate),
                   known=tuple((one(k), one(v)) for k, v in found.known),
                   unknown=tuple((one(u), one(c), one(w)) for u, c, w in found.unknown),
                   reads=tuple((name, one(q), after) for name, q, after in found.reads))
