"""A program with its gradient -> the plans of both: of what is computed first, and of what is given when cotangents
come in.
"""

from __future__ import annotations

from dataclasses import replace

from einc.ir.choices import Choices
from einc.ir.elements import EXACT, WIDE
from einc.ir.plan import Call, Gradient, Module, SegmentedModule, leaves
from einc.ir.programs import Program
from einc.ir.terms import Read
from einc.planning.analysis.fills import surely_finite
from einc.planning.analysis.signs import least
from einc.planning.analysis.storage import kept_wide
from einc.planning.planner import plan
from einc.planning.repeated import chained, trusting
from einc.transforms.gradients.backward import Derived, derive
from einc.transforms.normal.normalise import normalise


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


def second(found: Derived, forward: Module) -> Program:
    """The second program as it is planned: what the plan of the first saves in a wider type comes in that type."""
    first = normalise(found.forward)
    signs = least(first, [made for made, _ in found.saved])
    tensors = dict(found.backward.tensors)
    for made, key in found.saved:
        kept = forward.buffers[made].element
        element = kept if kept in (WIDE, EXACT) else tensors[key].element
        tensors[key] = replace(tensors[key], element=element, least=signs[made],
                               infinite=not surely_finite(Read(made, ()), first.by_target))
    return replace(found.backward, tensors=tensors)


def _halves(program: Program, choices: Choices, inner: Choices) -> Gradient:
    """The two plans; where no output depends on an input of real numbers the second is of nothing."""
    found, first = derived(program)
    forward = plan(normalise(first), program.inputs(), inner)
    if not found.gradients:
        return Gradient(forward, replace(forward, inputs=(), outputs=(), buffers={}, steps=(), keys=()), (), (), ())
    program_of_second = second(found, forward)
    backward = plan(normalise(program_of_second), program_of_second.inputs(), inner)
    backward = trusting(backward, frozenset(key for _, key in found.saved))
    plain = plan(normalise(program), program.inputs(), choices) if choices.rows else None
    # A library may compute the results faster alone than with what is saved.
    called = plain is not None and any(isinstance(step, Call) for step in leaves(plain.steps))
    return Gradient(forward, backward, found.saved, found.cotangents, found.gradients, plain if called else None)
