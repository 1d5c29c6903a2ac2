"""Planning a gradient, with the kernels of the library that compute one. Loaded where a gradient is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from einc.driver import pipeline
from einc.driver.checking import typed
from einc.driver.library import made_row, written
from einc.errors.report import EincError, Help, Problem
from einc.ir.choices import PLAIN, Choices, Row
from einc.ir.plan import Chain, Gradient
from einc.ir.terms import Program, TypedProgram
from einc.planning import halves, plan


def gradient(program: TypedProgram, choices: Choices = PLAIN) -> Gradient | Chain:
    """The plans of a program and of its gradient with respect to every input of real numbers. EincError where it has
    none.
    """
    if not program.outputs or all(t.integer for t in program.inputs()):
        raise constant(program)
    inner = replace(choices, rows=library_with_halves()) if choices.rows else choices
    return halves.gradient(program, choices, inner)


def constant(program: Program) -> EincError:
    """What is said of a program that has no gradient."""
    return EincError([Problem(f"`{program.name}` has no gradient: nothing it returns depends on an input of real numbers",
                              helps=(Help("return something that changes with one: what is rounded, counted or compared does not"),
                                     Help("leave the gradient out")))])


@cache
def library_with_halves() -> tuple[Row, ...]:
    """The kernels of the library, with those that compute a spec and what its gradient needs, or that gradient."""
    return tuple(_half(one) if "half" in one else made_row(one, typed(one["spec"])) for one in written())


def _half(told: Mapping[str, Any]) -> Row:
    """One row as it is written: of a gradient d before a name is what belongs to it, and `saved` is what is no
    output.
    """
    spec = typed(told["spec"])
    (found, forward), shown = halves.derived(spec), {key for _, key in spec.outputs}
    if told["half"] == "backward":
        first = pipeline.normal(forward)
        program = halves.second(found, plan(first, forward.inputs(), PLAIN))
        words = {d: f"d{key}" for key, d in found.cotangents} | {made: f"d{key}" for key, made in found.gradients}
        words |= {key: made if made in shown else "saved" for made, key in found.saved}
    else:
        program, words = forward, {made: "saved" for made, _ in found.saved if made not in shown}
    by = {words.get(key, key): key for _, key in program.outputs}
    return made_row(told, program, words, tuple(by[word] for word in told["results"]))
