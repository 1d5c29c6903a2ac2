"""What depends on weights alone is computed once: a program in two, the first of which makes tensors of the weights,
which the second takes in place of these.

A value that each round of a loop makes of its own weights is made for all rounds, with an axis for them in front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from einc.ir.indices import INDEX_CLASSES
from einc.ir.programs import BlockLoop, Equation, IndexLoop, Slot, TypedProgram, sets_of
from einc.ir.terms import Position, Read, Term, free_indices, transform, walk


@dataclass(frozen=True, slots=True)
class Parts:
    """`once` makes values of weights, its outputs; `rest` is given them as weights of its own."""

    once: TypedProgram
    rest: TypedProgram


def parts(program: TypedProgram) -> Parts | None:
    """The program in two; None where nothing but weights themselves depends on weights alone."""
    loops = {key: loop for loop in program.repeats for key in loop.inside}
    made = _of_weights(program, loops)
    read = {r.tensor for e in program.equations if e.target not in made for r in e.elements}
    read |= {r.tensor for loop in program.recurs for e in loop.equations for r in e.elements}
    read |= {first for loop in program.every_repeat for _, first, _ in loop.states}
    kept = [key for key in made if key in read]
    if not kept:
        return None
    lifted = {key: loops[key] for key in made if key in loops and loops[key].index not in made[key].indices
              and _turns(key, loops[key], made)}
    first = tuple(_lifted(e, lifted, e.target) for e in made.values())
    others = tuple(_lifted(e, lifted) for e in program.equations if e.target not in made)
    tensors = {key: t if key not in lifted else replace(t, slots=(_slot(lifted[key]), *t.slots))
               for key, t in program.tensors.items()}
    given = {**tensors, **{key: replace(tensors[key], role="weight") for key in kept}}
    once = replace(program, name=f"{program.name}_once", tensors=tensors, equations=first, loops=(), plans=(),
                   outputs=tuple((key, key) for key in kept))
    rest = program.but(equations=others, tensors=given, loops=[_without(x, made, lifted) for x in program.loops])
    return Parts(once, rest)


def _of_weights(program: TypedProgram, loops: Mapping[str, IndexLoop]) -> dict[str, Equation]:
    """The equations of values that depend on weights and the sizes of these alone, and on one weight at least, in their
    order: not those of positions, of which a call may have more."""
    results = {key for _, key in program.outputs}
    states = {key for loop in program.every_repeat for state in loop.states for key in state}
    states |= {key for loop in program.recurs for key in loop.targets}
    weights = [t for t in program.inputs() if t.role == "weight"]
    fixed = {name for t in weights for slot in t.slots for name in slot.set.extent.sizes} | program.sizes.keys()
    found: dict[str, Equation] = {}
    for e in program.equations:
        sound = all(program.tensors[key].role == "weight" or key in found for key in e.reads)
        sound = sound and not any(x.extent.sizes - fixed for t in (*e.axes, e.domain, e.body) for u in walk(t)
                                  for x in sets_of(u) if INDEX_CLASSES[x.cls].data)
        # What differs from position to position in rounds of layers is one of positions, too.
        sound = sound and not any(loop.index in free_indices(t) for loop in program.around(e.target)[1:]
                                  for t in (e.domain, e.body))
        if sound and e.reads and e.target not in results | states and all(
                loops.get(key) in (None, loops.get(e.target)) for key in e.reads):
            found[e.target] = e
    return found


def _turns(key: str, loop: IndexLoop, made: Mapping[str, Equation]) -> bool:
    """Whether a value differs from round to round."""
    equation = made[key]
    return any(loop.index in free_indices(t) for t in (equation.domain, equation.body)) or any(
        _turns(name, loop, made) for name in equation.reads if name in made and name in loop.inside)


def _lifted(equation: Equation, lifted: Mapping[str, IndexLoop], target: str = "") -> Equation:
    """An equation that reads what is made for all rounds at its own round; that of a value which is made so has an axis
    for the rounds."""
    def at(term: Term) -> Term:
        if isinstance(term, Read) and term.tensor in lifted:
            return Read(term.tensor, (Position(lifted[term.tensor].index), *term.subs))
        return term

    changed = equation.map(lambda t: transform(t, at))
    if target not in lifted:
        return changed
    return replace(changed, axes=(Position(lifted[target].index), *changed.axes))


def _slot(loop: IndexLoop) -> Slot:
    """The axis of the rounds."""
    return Slot(loop.index.set, "label", loop.index.name)


def _without(loop: BlockLoop | IndexLoop, made: Mapping[str, Equation],
             lifted: Mapping[str, IndexLoop]) -> BlockLoop | IndexLoop:
    """A loop without what is made before it."""
    return loop.map(lambda e: _lifted(e, lifted)) if isinstance(loop, BlockLoop) else _but(loop, made)


def _but(loop: IndexLoop, made: Mapping[str, Equation]) -> IndexLoop:
    """A loop in order, and those in it, without what is made before."""
    return replace(loop, inside=tuple(key for key in loop.inside if key not in made),
                   loops=tuple(_but(inner, made) for inner in loop.loops))
