"""A program with rounds in order -> programs without: one for what a round makes, and one
for each stretch between rounds.

In a round's program the states and whatever else it reads are inputs; an input of which each round
takes its own part lacks the slot that counts the rounds, and the count itself is an integer input.
So does a value of which each round makes its own part.
Non-goals: what is stored, anything about cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

from einc.ir.dependence import behind
from einc.ir.draft import unused
from einc.ir.elements import INTEGER
from einc.ir.indices import DATA, Index, distinct
from einc.ir.programs import Equation, IndexLoop, NormalProgram, Program, Tensor, slot_of
from einc.ir.rounds import place_of
from einc.ir.terms import (
    Position,
    Read,
    Term,
    bound_indices,
    free_indices,
    reads,
    substitute,
    transform,
    walk,
)


def outside(program: Program) -> tuple[Equation, ...]:
    """The equations that stand in no rounds."""
    inner = {key for repeat in program.repeats for key in repeat.inside}
    return tuple(e for e in program.equations if e.target not in inner)


def part(program: Program, equations: Iterable[Equation], outputs: Iterable[str],
         tensors: Mapping[str, Tensor], loops: Sequence[IndexLoop] = ()) -> NormalProgram:
    """Some of the equations as a program of its own, with these loops: what they read and do not make is its input."""
    made = tuple(equations)
    states = [state for one in loops for loop in one.every for state in loop.states]
    targets = {e.target for e in made} | {state for state, _, _ in states}
    given = ({k for e in made for k in e.reads} | {first for _, first, _ in states}) - targets
    known = {s.set.packed.lengths for k in given | targets for s in tensors[k].slots if s.set.packed is not None}
    view = {k: replace(t, role="input") if k in given and t.role == "local" else t
            for k, t in tensors.items() if k in given or k in targets or k in known}
    named = tuple((key, key) for key in dict.fromkeys(outputs))
    return NormalProgram.of(program).but(equations=made, tensors=view, outputs=named, loops=loops)


# one round


@dataclass(frozen=True)
class Round:
    """What one round makes. `taken` are the inputs of which it takes its own part, and `parts` the values of which it
    makes one, with the place of the slot that counts.
    """

    program: NormalProgram
    repeat: IndexLoop
    taken: Mapping[str, int]
    parts: Mapping[str, int]
    counter: str

    def restored(self, equation: Equation) -> Equation:
        """An equation of the round as one of the whole program."""
        here, places = Position(self.repeat.index), {**self.taken, **self.parts}

        def change(term: Term) -> Term:
            if isinstance(term, Read) and term.tensor in places:
                at = places[term.tensor]
                return Read(term.tensor, (*term.subs[:at], here, *term.subs[at:]))
            return here if isinstance(term, Read) and term.tensor == self.counter else term

        made = _changed(equation, change)
        at = self.parts.get(made.target)
        return made if at is None else replace(made, axes=(*made.axes[:at], here, *made.axes[at:]))

    def whole(self, tensor: Tensor) -> Tensor:
        """A tensor of the round as one of the whole program: with the slot that counts where each round makes a part.
        """
        at = self.parts.get(tensor.key)
        slots = () if at is None else (*tensor.slots[:at], slot_of(self.repeat.index), *tensor.slots[at:])
        return tensor if at is None else replace(tensor, slots=slots)

    def once(self, equations: Iterable[Equation], loops: Iterable[IndexLoop] = ()) -> list[Equation]:
        """Those that are the same in every round, and not longer than one open index; none of the `loops` in it. What
        has a slot that counts the rounds is made in each, were it one number.
        """
        anew = {*(state for state, _, _ in self.repeat.states), *self.taken, *self.parts, self.counter}
        anew = anew.union(*(loop.made for loop in loops))
        kept, once = {key for _, key in self.program.outputs} | anew, []
        for equation in equations:
            if sum(i.set.cls in DATA for i in equation.indices) > 1 or equation.target in kept or equation.reads & anew:
                anew.add(equation.target)
            else:
                once.append(equation)
        return once


def round_of(program: Program, repeat: IndexLoop, own: bool = False) -> Round:
    """What one round makes, as a program whose outputs are the next values of the states, and its parts of what is read
    after the last round.

    With `own` it makes for itself what it reads of numbers that depend on no data: gates
    among them then meet what they gate.
    """
    # What follows from the lengths of requests is there before the first round.
    tensors = {k: replace(t, role="input") if t.role == "derived" else t for k, t in program.tensors.items()}
    equations = [e for e in program.equations if e.target in repeat.inside]
    if own:
        equations = _with_numbers(program, repeat.index, equations, tensors)
    letters = {slot.name for state in repeat.states for key in state for slot in tensors[key].slots}
    name = f"{repeat.index.name}_round" if repeat.index.name in letters else repeat.index.name
    counter = unused(name, tensors)
    tensors[counter] = Tensor(counter, name, (), "input", INTEGER)
    here, taken = Position(repeat.index), _taken(repeat, equations, tensors)
    parts = {e.target: at for e in equations if (at := place_of(repeat.index, e)) is not None}
    places = {**taken, **parts}
    for key, at in places.items():
        slots = tensors[key].slots
        tensors[key] = replace(tensors[key], slots=(*slots[:at], *slots[at + 1 :]))

    def change(term: Term) -> Term:
        if isinstance(term, Read) and term.tensor in places:
            at = places[term.tensor]
            return Read(term.tensor, (*term.subs[:at], *term.subs[at + 1 :]))
        return Read(counter, ()) if term == here else term

    made = [_changed(e, change) for e in equations]
    made = [replace(e, axes=tuple(a for a in e.axes if a != here)) for e in made]
    outputs = [*(following for _, _, following in repeat.states), *program.kept[repeat]]
    return Round(part(program, made, outputs, tensors, repeat.loops), repeat, taken, parts, counter)


def _changed(equation: Equation, change: Callable[[Term], Term]) -> Equation:
    return equation.map(lambda t: transform(t, change))


def _taken(repeat: IndexLoop, equations: Sequence[Equation], tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """The inputs that are read at the round alone, and the slot where it stands."""
    here = Position(repeat.index)
    own = {*(e.target for e in equations), *repeat.made}
    found: dict[str, set[int]] = {}
    for read in (r for e in equations for t in (e.domain, e.body) for r in reads(t) if r.tensor not in own):
        slots = tensors[read.tensor].slots
        at = {n for n, (slot, sub) in enumerate(zip(slots, read.subs, strict=True))
              if slot.set == repeat.index.set and sub == here}
        found[read.tensor] = found.get(read.tensor, at) & at
    return {key: min(places) for key, places in found.items() if places}


def _with_numbers(program: Program, index: Index, equations: list[Equation], tensors: dict[str, Tensor]
                  ) -> list[Equation]:
    """The equations with copies of those outside that depend on no data and that they read. A copy has the index of the
    rounds where a round reads no more of it than its own part; else it has another letter, and is the same in each.
    """
    numbers: dict[str, Equation] = {}
    for equation in outside(program):
        if equation.reads <= numbers.keys():
            numbers[equation.target] = equation
    wanted, names = behind(numbers, (k for e in equations for k in e.reads)), dict[str, str]()
    for key in (k for k in numbers if k in wanted):
        names[key] = unused(f"{key}_round", tensors)
        tensors[names[key]] = replace(tensors[key], key=names[key], text=names[key])

    def change(term: Term) -> Term:
        return Read(names[term.tensor], term.subs) if isinstance(term, Read) and term.tensor in names else term

    parts = _parts(index, {key: numbers[key] for key in names}, equations)
    copies = [replace(numbers[key] if key in parts else _without(numbers[key], index), target=name)
              for key, name in names.items()]
    return [_changed(e, change) for e in (*copies, *equations)]


def _parts(index: Index, copies: Mapping[str, Equation], equations: Sequence[Equation]) -> set[str]:
    """The names of the copies that a round can be given one part of: the index is one of their axes, and all
    `equations` and all other such copies read them at that index alone."""
    found = {key: at for key, e in copies.items() if (at := place_of(index, e)) is not None}
    while True:
        readers = [*equations, *(copies[key] for key in found)]
        elsewhere = {key for e in copies.values() if e.target not in found for key in e.reads}
        elsewhere |= {r.tensor for e in readers for t in (e.domain, e.body) for r in reads(t)
                      if r.tensor in found and r.subs[found[r.tensor]] != Position(index)}
        if not elsewhere & found.keys():
            return {*found}
        found = {key: at for key, at in found.items() if key not in elsewhere}


def _without(equation: Equation, index: Index) -> Equation:
    """The equation with another letter for an index, free or bound."""
    letters = {i.name for term in (*equation.axes, equation.domain, equation.body) for t in walk(term)
               for i in (*bound_indices(t), *free_indices(t))}
    other, nowhere = distinct((index, index), letters | {index.name})
    # The second letter stands nowhere; what it would become makes every sum over the index take another letter.
    by: dict[Index, Term] = {index: Position(other), nowhere: Position(index)}
    made = equation.map(lambda term: substitute(term, by))
    return replace(made, axes=tuple(substitute(axis, by) for axis in equation.axes))


# the stretches between rounds


def stretches(program: Program) -> list[NormalProgram]:
    """For each of the rounds what stands before them, and what stands after the last:
    every equation as late as it can be."""
    count, by = len(program.repeats), {e.target: e for e in outside(program)}
    asked = [_asked(program, repeat) for repeat in program.repeats]
    place = dict.fromkeys(by, count)
    for at in reversed(range(count)):
        place |= dict.fromkeys(asked[at] & by.keys(), at)
    for equation in reversed(by.values()):
        for key in equation.reads & by.keys():
            place[key] = min(place[key], place[equation.target])
    out: list[NormalProgram] = []
    for at in range(count + 1):
        mine = [e for e in by.values() if place[e.target] == at]
        later = {k for e in by.values() if place[e.target] > at for k in e.reads} | {key for _, key in program.outputs}
        later = later.union(*asked[at:])
        out.append(part(program, mine, [e.target for e in mine if e.target in later], program.tensors))
    return out


def _asked(program: Program, repeat: IndexLoop) -> set[str]:
    """What must be there before the first round."""
    read = {k for e in program.equations if e.target in repeat.inside for k in e.reads}
    read |= {first for loop in repeat.every for _, first, _ in loop.states}
    return {first for _, first, _ in repeat.states} | (read - repeat.made)


def in_order(equations: dict[str, Equation], repeats: list[IndexLoop]) -> Iterable[str]:
    """Each equation after what it reads; what reads the states of finished rounds after all of these rounds."""
    within: dict[str, list[IndexLoop]] = {}
    owner: dict[str, IndexLoop] = {}
    for loop in (inner for repeat in repeats for inner in repeat.every):
        owner |= {state: loop for state, _, _ in loop.states}
        for key in loop.inside:
            within.setdefault(key, []).append(loop)
    place = {key: n for n, key in enumerate(equations)}
    before: dict[str, list[str]] = {}
    for key, equation in equations.items():
        found = equation.reads | {first for loop in within.get(key, ()) for _, first, _ in loop.states}
        for repeat in (owner[k] for k in equation.reads if k in owner and owner[k] not in within.get(key, ())):
            found |= {*repeat.inside, *(k for _, first, following in repeat.states for k in (first, following))}
        before[key] = sorted(found & equations.keys(), key=place.__getitem__)
    return TopologicalSorter(before).static_order()
