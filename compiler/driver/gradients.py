"""Planning a gradient, with the kernels of the library that compute one. Loaded where a gradient is asked for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

from einc.driver import pipeline
from einc.driver.library import library, made_row, program, rows_as_written
from einc.errors.report import EincError, Help, Problem
from einc.ir.choices import PLAIN, Choices, LibraryKernel, LibraryRow
from einc.ir.plan import Gradient, SegmentedModule
from einc.ir.programs import Equation, Program, TypedProgram
from einc.planning import halves, plan
from einc.transforms.gradients.backward import Derived
from einc.transforms.gradients.declared import declared


def gradient(of: TypedProgram, choices: Choices = PLAIN, exact: bool = False) -> Gradient | SegmentedModule:
    """The plans of a program and of its gradient with respect to every input of real numbers. EincError where it has
    none, or where it is to be `exact` and passes a function whose slope is declared.
    """
    if not of.outputs or all(t.constant for t in of.inputs()):
        raise constant(of)
    inner = replace(choices, rows=library_with_halves()) if choices.rows else choices
    passed = by_declaration(of, exact)
    return replace(halves.gradient(of, choices, inner), declared=passed)


def by_declaration(of: Program, exact: bool) -> tuple[str, ...]:
    """The functions that a gradient passes by a declared slope. EincError where it is to be `exact`."""
    passed = dict(declared(of))
    if exact and passed:
        raise EincError([_inexact(of, op, equation) for op, equation in passed.items()])
    return tuple(passed)


def _inexact(of: Program, op: str, equation: Equation) -> Problem:
    """What is said of a function whose slope is declared, where gradients are to be exact."""
    return Problem(f"the gradient of `{of.name}` passes `{op}`, whose slope is declared: 1 between the ends of the "
                   f"type, 0 beyond them",
                   notes=(f"it stands in the equation of `{equation.target}`"
                          + (f": {equation.source}" if equation.source else ""),
                          "the slope of the rounding itself is 0 wherever it has one, so that no gradient would pass"),
                   helps=(Help("ask for the gradient without `exact`: the head of the file says what is declared"),))


def constant(of: Program) -> EincError:
    """What is said of a program that has no gradient."""
    return EincError([Problem(f"`{of.name}` has no gradient: nothing it returns depends on an input of real numbers",
                              helps=(Help("return something that changes with one: what is rounded, counted or "
                                          "compared does not"),
                                     Help("leave the gradient out")))])


@cache
def library_with_halves() -> tuple[LibraryRow, ...]:
    """The rows of the library, with those that compute a spec and what its gradient needs, or that gradient."""
    return (*library(), *(LibraryRow(len(one["results"]), partial(_half, n)) for n, one in enumerate(rows_as_written())
                          if "half" in one))


@cache
def _derived(spec: str) -> tuple[Derived, Program]:
    """The gradient of a spec of the library, which several rows ask for."""
    return halves.derived(program(spec))


@cache
def _half(number: int) -> LibraryKernel:
    """The row with this number in `rows_as_written()`: of a gradient d before a name is what belongs to it, and `saved`
    is what is no output.
    """
    told = rows_as_written()[number]
    (found, forward), shown = _derived(told["spec"]), {key for _, key in program(told["spec"]).outputs}
    if told["half"] == "backward":
        first = pipeline.normal(forward)
        computed = halves.second(found, plan(first, forward.inputs(), PLAIN).buffers)
        words = {d: f"d{key}" for key, d in found.cotangents} | {made: f"d{key}" for key, made in found.gradients}
        words |= {key: made if made in shown else "saved" for made, key in found.saved}
    else:
        computed, words = forward, {made: "saved" for made, _ in found.saved if made not in shown}
    by = {words.get(key, key): key for _, key in computed.outputs}
    return made_row(told, computed, words, tuple(by[word] for word in told["results"]))
