"""A spec against other ways to compute it: each is checked against float64, and those that are right are timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from einc.driver import compiling
from einc.driver.commands import data, measure
from einc.driver.commands.sizes import asked, default, sets
from einc.driver.options import Options
from einc.driver.timing.clock import Call, Spread, interleaved, spread
from einc.driver.timing.rivals import Rival, outputs
from einc.ir.programs import Program, TypedProgram
from einc.meaning.interpret import interpret

CHECKED = 2**25  # elements of the largest tensor at which a way is held against float64
TRIED = 2**24  # those with which it is tried how much memory a way takes
MOST_LIVE = 128  # bytes that a way may take for each element of the largest tensor: sixteen tensors of float64
WIDTHS = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Result:
    """What became of one way: ok, wrong or cannot, and why; its seconds, how many times as fast it is as the first way
    that was timed, its memory and its error.
    """

    name: str
    status: str
    why: str = ""
    time: Spread | None = None
    speed: Spread | None = None
    memory: str = ""
    error: float | None = None
    disturbed: int = 0  # rounds in which other processes were busy

    @property
    def data(self) -> dict[str, Any]:
        """The result as a dictionary for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Setting:
    """What all ways are given: the sizes, the type, the seed, where tensors lie, and whether gradients are asked."""

    sizes: Mapping[str, int]
    dtype: str
    seed: int
    place: str
    grad: bool
    settle: Call


def contest(program: TypedProgram, ways: list[Rival], setting: Setting, rounds: int,
            step: Callable[[str], None] = lambda _: None) -> list[Result]:
    """Checks each way against the interpreter, times the right ones in turns, and gives their results in order."""
    small = checked_at(program, setting.sizes)
    errors = {way.name: _error(program, way, small, setting) for way in ways}
    right = {name for name, (status, _, _) in errors.items() if status == "ok"}
    for way in ways:
        if way.name in right and (why := _too_large(program, way, setting)):
            errors[way.name] = ("cannot", why, errors[way.name][2])
            right.remove(way.name)
    inputs, numbers = _inputs(program, setting.sizes, setting) if right else ({}, {})
    works = {way.name: _work(program, way, inputs, numbers, setting) for way in ways if way.name in right}
    memory = {}
    for name, work in list(works.items()):
        try:
            memory[name] = measure.with_memory(work)[1].partition(" above")[0]
        except (RuntimeError, MemoryError) as error:
            errors[name] = ("cannot", _first(error), None)
            del works[name]
    series = interleaved({name: partial(_finished, work, setting.settle) for name, work in works.items()}, rounds,
                         tick=step)
    first = next(iter(series.times.values()), [])
    times = {name: spread(taken) for name, taken in series.times.items()}
    speeds = {name: spread([one / own for one, own in zip(first, taken, strict=True)])
              for name, taken in series.times.items()}
    return [Result(way.name, *errors[way.name][:2], times.get(way.name), speeds.get(way.name),
                   memory.get(way.name, ""), errors[way.name][2], series.disturbed)
            for way in ways]


def _finished(work: Call, settle: Call) -> None:
    """One run, and all that it set going."""
    work()
    settle()


def checked_at(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes at which ways are held against float64: these, with as few positions as the interpreter can take."""
    return fewer(program, sizes, CHECKED)


def fewer(program: Program, sizes: Mapping[str, int], elements: int) -> dict[str, int]:
    """The sizes with as few positions that no tensor has more than so many elements, but no fewer than 16."""
    known = dict(sizes)
    positions = [n for one in sets(program) if one.cls == "time" for n in one.extent.sizes if n not in program.sizes]
    while _largest(program, known) > elements and any(known[n] > 16 for n in positions):
        known |= {n: max(16, known[n] // 2) for n in dict.fromkeys(positions)}
    return known


def _largest(program: Program, sizes: Mapping[str, int]) -> int:
    """How many elements the largest tensor of a program has."""
    found = [1]
    for equation in program.equations:
        found.append(int(np.prod([float(i.set.extent.at(sizes)) for i in equation.indices] or [1.0])))
    return max(found)


def _too_large(program: TypedProgram, way: Rival, setting: Setting) -> str:
    """Why a way would not fit, before anything is taken; empty where it does, or the system does not say.

    What it takes is foretold from what it took of fewer positions, and of fewer still.
    """
    room = measure.free() if setting.place == "cpu" else None
    if room is None or MOST_LIVE * _largest(program, setting.sizes) < room:
        return ""
    given = sum(math.prod(s.set.extent.at(setting.sizes) for s in t.slots) for t in program.inputs())
    needed = int(given) * WIDTHS[setting.dtype] * (2 if setting.grad else 1)
    sizes, points = fewer(program, setting.sizes, TRIED), list[tuple[float, float]]()
    for some in (fewer(program, sizes, _largest(program, sizes) // 2), sizes):
        if needed > room:
            break
        inputs, numbers = _inputs(program, some, setting)
        _, found = measure.taken(_work(program, way, inputs, numbers, setting))
        points.append((float(_largest(program, some)), float(found[1] if found else 0)))
    (count, first), (more, second) = points if len(points) == 2 else ((1.0, 0.0), (1.0, 0.0))
    if second > 0 and more > count:
        power = math.log(second / first, more / count) if 0 < first < second else 0.0
        needed += int(second * (_largest(program, setting.sizes) / more) ** min(power, 1.0))
    return f"it would take about {needed / 1e9:.3g} GB, and {room / 1e9:.3g} GB are free" if needed > room else ""


def _inputs(program: TypedProgram, sizes: Mapping[str, int], setting: Setting) -> tuple[dict[str, Any], dict[str, int]]:
    """Random inputs, and the sizes that a call asks for."""
    known = default(program, sizes)
    made = data.randoms(program, known, setting.dtype, setting.seed)
    tensors = {key: x.to(setting.place) for key, x in made.items()}
    if setting.grad:
        for x in tensors.values():
            if x.is_floating_point():
                x.requires_grad_()
    return tensors, {name: known[name] for name in asked(program)}


Verdict = tuple[str, str, float | None]  # the status, why it is not ok, and the error


def _error(program: TypedProgram, way: Rival, sizes: Mapping[str, int], setting: Setting) -> Verdict:
    """Whether a way computes what the language says, and how far it is from that. Its gradients are held against those
    of einc in float64.
    """
    if way.function is None:
        return "cannot", way.why, None
    empty = [str(one.extent) for one in sets(program) if one.extent.at(default(program, sizes)) == 0]
    if way.traced and empty:
        return "cannot", "there is nothing to compute", None
    inputs, numbers = _inputs(program, sizes, setting)
    try:
        value = outputs(program, _work(program, way, inputs, numbers, setting)())
        setting.settle()
    except Exception as error:  # a rival may raise anything: it is what is told of it
        said = f"torch has no such function of no elements, and {empty[0]} = 0" if empty else _first(error)
        return "cannot", said, None
    right = interpret(program, {key: data.exact(x) for key, x in inputs.items()}, numbers)
    far = [measure.distance(data.exact(x), right[name], data.dtype_of(x)) for name, x in value.items()]
    if setting.grad:
        far += [measure.distance(data.exact(inputs[key].grad), exact, setting.dtype)
                for key, exact in _gradients(program, inputs, numbers).items() if inputs[key].grad is not None]
    worst = max(far, key=lambda one: one.relative)
    if all(one.good for one in far):
        return "ok", "", worst.relative
    if worst.relative == math.inf:
        return "wrong", "it holds what is not a number, or has another shape, where the text has numbers", None
    return "wrong", f"relative error {worst.relative:.1e}, bound {worst.bound:.0e}", worst.relative


def _gradients(program: TypedProgram, inputs: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, Any]:
    """The gradients of the sum of all outputs by einc's own derivation, in float64."""
    made = compiling.built(program, Options("torch", own=True, grad=True)).function
    wide = {key: x.detach().cpu().double().requires_grad_() if x.is_floating_point() else x.cpu()
            for key, x in inputs.items()}
    value = outputs(program, made(**wide, **numbers))
    sum(x.sum() for x in value.values() if x.requires_grad).backward()
    return {key: data.exact(x.grad) for key, x in wide.items() if x.is_floating_point() and x.grad is not None}


def _work(program: TypedProgram, way: Rival, inputs: Mapping[str, Any], numbers: Mapping[str, int],
          setting: Setting) -> Call:
    """One run of a way; with the gradient of the sum of what it returns, where that is asked for."""
    def run() -> Any:
        assert way.function is not None
        value = way.function(**inputs, **numbers)
        if setting.grad:
            for x in inputs.values():
                x.grad = None
            sum(x.sum() for x in outputs(program, value).values() if x.requires_grad).backward()
        return value

    return run


def _first(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
