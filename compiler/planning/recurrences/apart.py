"""States that others read -> a loop of their own before that of the others, to which their values are data.

A reference that a state is relative to, m' = max(m + f, i), is such a state: given m, the others are affine. It is done
where a state that is read is small, since its values of all positions are stored: it has no axis of a width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from einc.ir.dependence import behind, reached
from einc.ir.draft import unused
from einc.ir.indices import INDEX_CLASSES, Index
from einc.ir.programs import Equation, IndexLoop, Program, Tensor, local
from einc.ir.rounds import place_of
from einc.ir.terms import TRUE, Position, Read, Term, transform
from einc.planning.recurrences.readers import holding
from einc.planning.recurrences.states import live
from einc.transforms.slicing.repeats import in_order

P = TypeVar("P", bound=Program)


def with_states_apart(program: P, repeat: IndexLoop) -> P:
    """The program with the loop as two, where some of its states are read by others and read none of them."""
    by = {key: program.by_target[key] for key in repeat.inside}
    early = _read_by_others(repeat, by)
    slots = [slot for state in early for slot in program.tensors[state].slots]
    if not early or len(early) == len(repeat.states) or any(INDEX_CLASSES[slot.set.cls].width for slot in slots):
        return program
    return _Apart(program, repeat, by, early).run()


def _read_by_others(repeat: IndexLoop, by: Mapping[str, Equation]) -> set[str]:
    """The states that the update of another one reads, with all that their own updates read."""
    names = {state for state, _, _ in repeat.states}
    reads = {state: {key for inner in behind(by, [following]) for key in by[inner].reads & names}
             for state, _, following in repeat.states}
    others = {r for state, found in reads.items() for r in found - {state}}
    return set(reached(others, lambda state: sorted(reads[state])))


class _Apart(Generic[P]):
    """One loop as two: `first` are the values that the first one makes, `later` those that hold a state of the second.
    All others are made for all positions at once; `names` are the names of what has no axis of positions in the text.
    """

    def __init__(self, program: P, repeat: IndexLoop, by: Mapping[str, Equation], early: set[str]) -> None:
        """Divides what the loop holds; a state of the second loop that the first one makes is copied."""
        self.program, self.repeat, self.by, self.early, self.index = program, repeat, dict(by), early, repeat.index
        self.tensors: dict[str, Tensor] = dict(program.tensors)
        states = {state: following for state, _, following in repeat.states}
        self.first = behind(by, [states[state] for state in early])
        rest = [state for state in states if state not in early]
        for state in rest:
            if states[state] in self.first:
                states[state] = self._copy(state, by[states[state]])
        self.states = tuple((state, first, states[state]) for state, first, _ in repeat.states)
        self.later = {*holding(self.by, rest), *(states[state] for state in rest)}
        self.names: dict[str, str] = {}

    def run(self) -> P:
        """The program in which a loop computes the states first and another what reads them: values that the second
        needs are stored for every position."""
        made: dict[str, Equation] = {}
        for state, _, following in self.states:
            if state in self.early:
                letters = tuple(i for i in self.by[following].indices if i != self.index)
                self._keep(made, state, f"{state}_before", letters)
                if place_of(self.index, self.by[following]) is None:
                    self._keep(made, following, f"{following}_all", letters)
        befores = tuple(made)
        for key in (key for key in self.by if key not in self.later):
            if key not in self.names and place_of(self.index, self.by[key]) is None:
                self.names[key] = self._tensor(f"{key}_all", (self.index, *self.by[key].indices))
        for key, equation in self.by.items():
            if key in self.first:
                made[key] = equation
            if key in self.later:
                made[key] = equation.map(self._known)
            elif self.names.get(key) not in befores and (key not in self.first or key in self.names):
                name, here = self.names.get(key, key), (Position(self.index),) * (key in self.names)
                made[name] = replace(equation.map(self._known), target=name, axes=(*here, *equation.axes))
        return self._program(made, befores)

    def _program(self, made: dict[str, Equation], befores: tuple[str, ...]) -> P:
        """The program with the loop of the early states before that of the others, without what nothing reads: `made`
        are all equations of both, and `befores` those of them that hand on the early states of each round."""
        states = self.states
        by = {e.target: e for e in self.program.equations if e.target not in self.by} | made
        read = {key for e in by.values() for key in e.reads}
        one = IndexLoop(self.index, tuple(s for s in states if s[0] in self.early),
                        (*(key for key in self.by if key in self.first), *(key for key in befores if key in read)))
        two = IndexLoop(self.index, tuple(s for s in states if s[0] not in self.early),
                        tuple(key for key in self.by if key in self.later))
        loops = [x for loop in self.program.loops for x in ((one, two) if loop == self.repeat else (loop,))]
        repeats = [loop for loop in loops if isinstance(loop, IndexLoop)]
        alive = live({key: e for key, e in by.items() if key in read or key not in befores}, repeats,
                     [key for _, key in self.program.outputs])
        repeats = [loop for loop in repeats if not alive.isdisjoint(loop.inside)]
        loops = [loop for loop in loops if not isinstance(loop, IndexLoop) or loop in repeats]
        ordered = [by[key] for key in in_order({key: e for key, e in by.items() if key in alive}, repeats)]
        return self.program.but(equations=ordered, tensors=self.tensors, loops=loops)

    def _copy(self, state: str, made: Equation) -> str:
        """A value of the second loop that a state of it becomes, in place of one that the first loop makes. Adds its
        tensor."""
        name = unused(f"{state}_next", self.tensors)
        self.tensors[name] = replace(self.tensors[state], key=name, text=name)
        axes = tuple(axis for axis in made.axes if axis != Position(self.index))
        self.by[name] = Equation(name, axes, TRUE, Read(made.target, made.axes))
        return name

    def _known(self, term: Term) -> Term:
        """A term with what is known of all positions read at its own."""
        def change(t: Term) -> Term:
            if isinstance(t, Read) and t.tensor in self.names:
                return Read(self.names[t.tensor], (Position(self.index), *t.subs))
            return t

        return transform(term, change)

    def _keep(self, made: dict[str, Equation], key: str, stem: str, letters: tuple[Index, ...]) -> None:
        """Adds to `made` what the first loop has of a value in each of its rounds."""
        name = self.names[key] = self._tensor(stem, (self.index, *letters))
        axes = tuple(map(Position, letters))
        made[name] = Equation(name, (Position(self.index), *axes), TRUE, Read(key, axes))

    def _tensor(self, stem: str, letters: tuple[Index, ...]) -> str:
        name = unused(stem, self.tensors)
        self.tensors[name] = local(name, letters)
        return name
