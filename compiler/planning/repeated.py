"""Rounds in order: the plan of what stands between them, and of one round, each as of a program of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from einc.indices import IndexSet
from einc.plan import Buffer, Module, Repeat, Step
from einc.planning.storage import sets_of, sizes_of
from einc.repeats import round_of, stretches
from einc.terms import NormalProgram, Tensor
from einc.terms import Repeat as Rounds

Plan = Callable[[NormalProgram, tuple[Tensor, ...]], Module]


def repeated(program: NormalProgram, asked: tuple[Tensor, ...], plan: Plan) -> Module:
    """The stretches between rounds one after the other, each round planned once."""
    steps: list[Step] = []
    buffers = {t.key: _buffer(t) for t in asked}
    keys: list[tuple[str, IndexSet]] = []
    for piece, repeat in zip_longest(stretches(program), program.repeats):
        if piece.equations:
            made = plan(piece, piece.inputs())
            steps += made.steps
            keys += made.keys
            buffers |= {k: v for k, v in made.buffers.items() if k not in buffers}
        if repeat is not None:
            step = _round(program, repeat, plan)
            steps.append(step)
            outer = {inner: name for inner, name, _ in step.given}
            keys += [(outer[key], over) for key, over in step.body.keys if key in outer]
            buffers |= {state: _buffer(program.tensors[state]) for state, _, _ in step.states}
    given = {t.key for t in asked}
    sizes = frozenset(n for t in asked for s in t.slots for n in s.set.extent.sizes)
    sizes |= {n for e in program.equations for n in sizes_of(e)}
    sizes |= {n for repeat in program.repeats for n in repeat.index.set.extent.sizes}
    sets = dict.fromkeys([*sets_of(program), *(repeat.index.set for repeat in program.repeats)])
    return Module(
        program.name, program.source or program.name, asked, program.outputs, buffers, tuple(steps), dict(program.sizes),
        sizes - program.sizes.keys(), tuple(sets), tuple(dict.fromkeys(k for k in keys if k[0] in given)),
    )  # fmt: skip


def _round(program: NormalProgram, repeat: Rounds, plan: Plan) -> Repeat:
    one = round_of(program, repeat)
    body = plan(one.program, one.program.inputs())
    asked = [t.key for t in body.inputs if t.key != one.counter]
    given = tuple((key, key, one.taken.get(key)) for key in asked)
    sizes = tuple((name, name) for name in sorted(body.sizes))
    counter = one.counter if len(asked) < len(body.inputs) else ""
    return Repeat(repeat.index, body, given, counter, tuple((state, first, key) for state, first, key in repeat.states), sizes)


def _buffer(tensor: Tensor) -> Buffer:
    axes, sets = tuple(s.name for s in tensor.slots), tuple(s.set for s in tensor.slots)
    return Buffer(tensor.key, axes, sets, "integer" if tensor.integer else "real", tensor.role)
