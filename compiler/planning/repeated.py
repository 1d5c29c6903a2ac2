"""Rounds in order: the plan of what stands between them, and of one round, each as of a program of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

from einc.ir.elements import RANGED, WIDE
from einc.ir.finite import surely_finite
from einc.ir.indices import INDEX_CLASSES, IndexSet
from einc.ir.plan import (
    Buffer,
    Flatten,
    Gather,
    Gradient,
    GradientLoop,
    Kernel,
    Let,
    Load,
    Loop,
    Module,
    Recurrence,
    SegmentedModule,
    Slice,
    StateScan,
    Step,
    Subscript,
    replaced,
    summed,
)
from einc.ir.programs import IndexLoop as Rounds
from einc.ir.programs import NormalProgram, Program, Slot, Tensor, definitions
from einc.ir.terms import Read
from einc.planning.analysis.ranges_of_sums import scaled_sums
from einc.planning.analysis.storage import is_statistic, lengths_of, sets_of, sizes_of
from einc.planning.recurrences.affine import with_affine
from einc.planning.recurrences.steps import step_of
from einc.transforms.normal.normalise import with_normal
from einc.transforms.slicing.lags import with_lags
from einc.transforms.slicing.repeats import Round, round_of, stretches

Plan = Callable[[NormalProgram, tuple[Tensor, ...]], Module]
Derive = Callable[[Program], Gradient]
P = TypeVar("P", bound=Program)
Keys = tuple[tuple[str, IndexSet], ...]


def repeated(program: NormalProgram, asked: tuple[Tensor, ...], plan: Plan) -> Module:
    """The stretches between rounds one after the other, each round planned once."""
    program, found = with_affine(with_wide(program))
    program = with_normal(program) if found else program
    steps: list[Step] = []
    buffers, checked = {t.key: buffer_of(t) for t in asked}, {t.key for t in asked}
    keys: list[tuple[str, IndexSet]] = []
    for piece, repeat in zip_longest(stretches(program), program.repeats):
        if piece.equations:
            piece = beside(piece, program, buffers)
            made = plan(piece, piece.inputs())
            steps += [clamped(step, {key for key, _ in made.keys} - checked) for step in made.steps]
            keys += made.keys
            buffers |= {k: v for k, v in made.buffers.items() if k not in buffers}
        if repeat is not None:
            affine = found.get(repeat)
            step = _round(program, repeat, plan, checked) if affine is None else step_of(program, repeat, affine)
            steps.append(step)
            keys += step.body.keys if isinstance(step, Loop) else ()
            buffers |= {key: buffer_of(program.tensors[key]) for key in (*_derived(program, step.reads), *step.writes)}
    return whole(program, asked, buffers, tuple(steps), tuple(dict.fromkeys(k for k in keys if k[0] in checked)))


def _derived(program: Program, keys: Iterable[str]) -> Iterator[str]:
    """The tensors among some that follow from the lengths of requests."""
    return (key for key in keys if key in program.tensors and program.tensors[key].role == "derived")


def beside(piece: P, program: Program, buffers: Mapping[str, Buffer]) -> P:
    """The piece with the names of its program, and of the buffers that other pieces have made, as names that are taken:
    the steps of all pieces stand in one module, where a name means one buffer."""
    taken = {key: Tensor(key, key, tuple(Slot(over, "lower", name) for over, name in zip(b.sets, b.axes, strict=True)),
                         "local") for key, b in buffers.items()}
    taken |= {key: replace(tensor, role="local") for key, tensor in program.tensors.items()}
    return piece.but(tensors={**taken, **piece.tensors})


def whole(
    program: Program, asked: tuple[Tensor, ...], buffers: dict[str, Buffer], steps: tuple[Step, ...], keys: Keys
) -> Module:
    """The module of a program in pieces, from their buffers, steps and `keys` (index tensors to check against a set).
    Its sizes are all that the inputs, equations and loops name, less those that the program fixes."""
    sizes = frozenset(n for t in asked for s in t.slots for n in s.set.extent.sizes)
    sizes |= {n for e in program.equations for n in sizes_of(e)}
    sizes |= {n for repeat in program.every_repeat for n in repeat.index.set.extent.sizes}
    sets = dict.fromkeys([*sets_of(program), *(repeat.index.set for repeat in program.every_repeat)])
    return Module(
        program.name, program.source or program.name, asked, program.outputs, buffers, steps, dict(program.sizes),
        sizes - program.sizes.keys(), tuple(sets), keys, lengths_of(sets, buffers),
    )  # fmt: skip


def with_wide(program: P) -> P:
    """What is one number for each row says so itself: what a part of the program makes is an output of that part. So do
    sums before a scale, the states of rounds over positions, and what may be no finite number for another reason than a
    divisor of 0, which another part reads as an input.
    """
    known = definitions(program.by_target)
    outputs = {key for _, key in program.outputs}
    states = [{*state} for repeat in program.repeats for state in repeat.states]
    shown = outputs.union(*(s for s in states if s & outputs))
    # What many rounds add to would lose what is small beside it.
    long = {key for repeat in program.repeats if INDEX_CLASSES[repeat.index.set.cls].before
            for state in repeat.states for key in state} - {*itertools.chain(*program.kept.values())}
    wide = {key for key, t in program.tensors.items() if is_statistic(t) or key in long}
    elements = {**dict.fromkeys(scaled_sums(program), RANGED), **dict.fromkeys(wide, WIDE)}
    tensors = {
        key: replace(t, element=elements.get(key, t.element))
        if t.role == "local" and key not in shown and not t.integer else t
        for key, t in program.tensors.items()
    }
    for e in program.equations:
        if not surely_finite(Read(e.target, e.axes), known, "filled"):
            tensors[e.target] = replace(tensors[e.target], told=replace(tensors[e.target].told, infinite=True))
    return replace(program, tensors=tensors)


def chained(program: Program, asked: tuple[Tensor, ...], derive: Derive) -> SegmentedModule:
    """A program with loops as pieces that have gradients: `derive` plans a stretch between loops, or one round."""
    return _chained(program, asked, derive, {t.key for t in asked})


def _chained(program: Program, asked: tuple[Tensor, ...], derive: Derive, checked: Set[str]) -> SegmentedModule:
    """The pieces of a program, or of a round in which loops stand; whole numbers are a caller's in `checked` alone."""
    program, found = with_affine(with_wide(with_lags(program)))
    pieces: list[Gradient | GradientLoop | Recurrence | StateScan] = []
    buffers = {t.key: buffer_of(t) for t in asked}
    for stretch, repeat in zip_longest(stretches(program), program.repeats):
        if stretch.equations:
            made = joined(derive(stretch), asked, checked)
            pieces.append(made)
            buffers |= {key: made.forward.buffers[key] for _, key in made.shown}
        if repeat in found:
            step = step_of(program, repeat, found[repeat])
            pieces.append(step)
            buffers |= {key: buffer_of(program.tensors[key]) for key in (*_derived(program, step.reads), *step.writes)}
        elif repeat is not None:
            one = round_of(program, repeat, own=True)
            body = (_chained(one.program, one.program.inputs(), derive, checked) if repeat.loops
                    else joined(derive(one.program), asked, checked))
            turns = derived_loop(one, body, program.kept[repeat])
            pieces.append(turns)
            inputs = [t.key for t in turns.body.asked]
            known = (*_derived(program, inputs), *(key for key, _, _ in (*turns.states, *turns.kept)))
            buffers |= {key: buffer_of(program.tensors[key]) for key in known}
    return SegmentedModule(whole(program, asked, buffers, (), ()), tuple(pieces))


def derived_loop(one: Round, body: Gradient | SegmentedModule, kept: tuple[str, ...]) -> GradientLoop:
    """Rounds of which one has a gradient, `body`; `kept` are the values of which each round makes a part."""
    inputs = [t.key for t in body.asked]
    given = tuple((key, key, one.taken.get(key)) for key in inputs if key != one.counter)
    sizes = tuple((name, name) for name in sorted(body.sizes))
    return GradientLoop(one.repeat.index, body, given, one.counter if one.counter in inputs else "", one.repeat.states,
                        tuple((key, key, one.parts[key]) for key in kept), sizes)


def joined(piece: Gradient, asked: tuple[Tensor, ...], checked: Set[str] | None = None) -> Gradient:
    """The piece in a whole: whole numbers are checked where they are `checked`, by default those that are asked, and
    not where another piece made them; some input tells the type of the data."""
    like = tuple(t for t in asked if not t.constant)[:1] if all(t.constant for t in piece.forward.inputs) else ()
    checked = {t.key for t in asked} if checked is None else checked
    forward, backward = _unchecked(piece.forward, checked), _unchecked(piece.backward, checked)
    plain = None if piece.plain is None else _unchecked(piece.plain, checked)
    forward = replace(forward, inputs=(*forward.inputs, *like))
    return replace(piece, forward=forward, backward=backward, plain=plain
                   and replace(plain, inputs=(*plain.inputs, *like)))


def _unchecked(module: Module, checked: Set[str]) -> Module:
    made = {key for key, _ in module.keys} - checked
    steps = tuple(clamped(step, made) for step in module.steps)
    return replace(module, steps=steps, keys=tuple(k for k in module.keys if k[0] in checked))


def _round(program: NormalProgram, repeat: Rounds, plan: Plan, checked: Set[str]) -> Loop:
    """The `Loop` step of one repeat: its body is planned once with `plan`, and its cost is that of a round times the
    rounds. Index tensors that are not in `checked` were made by the program itself and are clamped."""
    one = round_of(program, repeat)
    body = plan(one.program, one.program.inputs())
    made = {key for key, _ in body.keys} - checked
    return loop(one, replace(body, steps=tuple(clamped(step, made) for step in body.steps)), program.kept[repeat])


def loop(one: Round, body: Module, kept: tuple[str, ...]) -> Loop:
    """The step of rounds of which one is planned: its cost is that of a round times the rounds. `kept` are the values
    of which each round makes a part.
    """
    repeat = one.repeat
    asked = [t.key for t in body.inputs if t.key != one.counter]
    counter = one.counter if len(asked) < len(body.inputs) else ""
    return Loop(
        reads=(*asked, *(first for _, first, _ in repeat.states)),
        writes=(*(state for state, _, _ in repeat.states), *kept),
        index=repeat.index, body=body, given=tuple((key, one.taken.get(key)) for key in asked), counter=counter,
        following=tuple(key for _, _, key in repeat.states),
        parts=tuple((key, one.parts[key]) for key in kept),
        sizes=tuple((name, name) for name in sorted(body.sizes)),
        cost=summed((step.cost for step in body.steps), repeat.index.set.extent))


def buffer_of(tensor: Tensor) -> Buffer:
    """The buffer of a tensor, with its axes and its part in the program."""
    axes, sets = tuple(s.name for s in tensor.slots), tuple(s.set for s in tensor.slots)
    return Buffer(tensor.key, axes, sets, tensor.element, tensor.role)


def trusting(module: Module, made: Set[str]) -> Module:
    """A module some of whose inputs another one made: whole numbers among them are not a
    caller's, and may name nothing."""
    steps = tuple(clamped(step, {key for key, _ in module.keys} & made) for step in module.steps)
    return replace(module, steps=steps, keys=tuple(k for k in module.keys if k[0] not in made))


def clamped(step: Step, made: Set[str]) -> Step:
    """The step where whole numbers that the program made itself stand in slots: unlike a
    caller's, nobody checks them."""
    return replaced(step, lambda kernel: _kernel(kernel, made))


def _kernel(kernel: Kernel, made: Set[str]) -> Kernel:
    doubtful = {let.name for let in kernel.lets if isinstance(let.op, Load) and let.op.buffer in made}
    return replace(kernel, lets=tuple(_within_reach(let, doubtful) for let in kernel.lets)) if doubtful else kernel


def _within_reach(let: Let, doubtful: Set[str]) -> Let:
    """The let with every gather of a load marked unsafe whose index stands in `doubtful`; a place out of range is then
    clamped. Other lets stay as they are."""

    def changed(sub: Subscript) -> Subscript:
        match sub:
            case Gather(arg) if let.args[arg] in doubtful:
                return replace(sub, safe=False)
            case Flatten(parts):
                return replace(sub, parts=tuple(map(changed, parts)))
            case Slice(item):
                return replace(sub, item=changed(item))
        return sub

    return replace(let, op=replace(let.op, subs=tuple(map(changed, let.op.subs)))) if isinstance(let.op, Load) else let
