"""A program with its gradient -> the plans of both: of what is computed first, and of what is given when cotangents
come in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from einc.ir.choices import Choices
from einc.ir.elements import EXACT, RANGED, WIDE
from einc.ir.finite import surely_finite
from einc.ir.plan import Buffer, Call, Gradient, SegmentedModule, leaves
from einc.ir.programs import Equation, Program, Tensor
from einc.ir.sums import factors
from einc.ir.terms import Apply, Read, walk
from einc.planning.analysis.signs import told
from einc.planning.analysis.storage import kept_wide
from einc.planning.planner import plan
from einc.planning.repeated import chained, trusting
from einc.transforms.gradients.backward import Derived, derive
from einc.transforms.gradients.running_products import with_recurrences
from einc.transforms.normal.normalise import normalise
from einc.transforms.normal.operands import vanishes


def gradient(program: Program, choices: Choices, inner: Choices) -> Gradient | SegmentedModule:
    """The plans of a program and of its gradient; of one with rounds those of each stretch and of each round.

    `inner` are the choices of the two halves, which may call kernels of a library that the program alone may not.
    """
    if program.repeats:
        return chained(program, program.inputs(), lambda piece: _halves(piece, choices, inner))
    return _halves(program, choices, inner)


def derived(program: Program) -> tuple[Derived, Program]:
    """The gradient of a program, and the first of its two programs as it is planned."""
    found = derive(program)
    shown = {key for _, key in program.outputs}
    return found, kept_wide(found.forward, {made for made, _ in found.saved} - shown)


def second(found: Derived, saved: Mapping[str, Buffer | Tensor]) -> Program:
    """The second program as it is planned: what the first, of whose buffers or tensors some are `saved`, has in a wider
    type comes in that type."""
    first, below = normalise(found.forward), _divisors(found)
    tensors = dict(found.backward.tensors)
    for made, key in found.saved:
        kept = saved[made].element
        element = kept if kept in (WIDE, RANGED, EXACT) else tensors[key].element
        infinite = not surely_finite(Read(made, ()), first.by_target)
        tensors[key] = replace(tensors[key], element=element, told=replace(
            told(first, made, infinite), gone=tuple(_gone(made, first.by_target, below))))
    return replace(found.backward, tensors=tensors)


def _divisors(found: Derived) -> dict[str, str]:
    """What the second program divides by, and what that is in the first."""
    saved = {key: made for made, key in found.saved}
    below = (term.args[1] for e in found.backward.equations for term in walk(e.body)
             if isinstance(term, Apply) and term.op == "div")
    return {f.tensor: saved.get(f.tensor, f.tensor) for x in below for f in factors(x) if isinstance(f, Read)}


def _gone(key: str, by: Mapping[str, Equation], below: Mapping[str, str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What a value of the first program is 0 with, of what the second divides by: see `Told.gone`."""
    if (mine := by.get(key)) is None or not mine.has_letters:
        return
    for name, made in below.items():
        other = by.get(made)
        if other is None or other is mine or not other.has_letters:
            continue
        options = [[n for n, i in enumerate(mine.indices) if i.set == x.set] for x in other.indices]
        for places in product(*options):
            there = Read(made, tuple(mine.axes[n] for n in places))
            if len({*places}) == len(places) and vanishes(Read(key, mine.axes), there, by, {}):
                yield name, places


def _halves(program: Program, choices: Choices, inner: Choices) -> Gradient:
    """The two plans; where no output depends on an input of real numbers the second is of nothing."""
    found, first = derived(program)
    forward = plan(normalise(first), program.inputs(), inner)
    if not found.gradients:
        return Gradient(forward, replace(forward, inputs=(), outputs=(), buffers={}, steps=(), keys=()), (), (), ())
    program_of_second = with_recurrences(second(found, forward.buffers))
    backward = plan(normalise(program_of_second), program_of_second.inputs(), inner)
    backward = trusting(backward, frozenset(key for _, key in found.saved))
    plain = plan(normalise(program), program.inputs(), choices) if choices.rows else None
    # A library may compute the results faster alone than with what is saved.
    called = plain is not None and any(isinstance(step, Call) for step in leaves(plain.steps))
    return Gradient(forward, backward, found.saved, found.cotangents, found.gradients, plain if called else None)
