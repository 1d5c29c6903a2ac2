"""Ways to compute a program: eager torch made of the spec itself, the same compiled, a call of the library where the
plan has one, calls for whole passes by their names, and einc's back ends.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from einc.driver import back_ends, compiling, pipeline
from einc.driver.commands import data
from einc.driver.options import Options
from einc.driver.reports.calls import called, calls
from einc.driver.reports.einsums import UnsaidError, bytes_of
from einc.driver.reports.functions import lines
from einc.errors.report import EincError
from einc.ir.plan import Call, Module, leaves
from einc.ir.programs import TypedProgram

AGAINST = ("eager", "compile", "library", *calls())
Function = Callable[..., Any]


@dataclass(frozen=True)
class Rival:
    """A way by its name: a function of the inputs by their names, or why there is none; `traced` is one that torch's
    compiler makes, whose loops may divide by an extent.
    """

    name: str
    function: Function | None
    why: str = ""
    traced: bool = False


def rivals(program: TypedProgram, against: tuple[str, ...], backends: tuple[str, ...], grad: bool) -> list[Rival]:
    """Every way that is asked for, the others first, in the order asked."""
    made = {"eager": _eager, "compile": _compiled, "library": _library}
    found = [made[name](program, grad) if name in made else by_call(program, name) for name in against]
    return found + [_own(program, name, grad) for name in backends]


def eager(program: TypedProgram) -> Rival:
    """The lines of torch that `einc to einsum` prints, as they stand."""
    told = lines(program)
    if (why := bytes_of(program)) is not None:
        return Rival("eager", None, why)
    if told.unsaid:
        return Rival("eager", None, f"{told.unsaid} of its equations are no lines of torch: see `einc to einsum`")
    return Rival("eager", _loaded(program, told.texts))


def by_call(program: TypedProgram, name: str) -> Rival:
    """What `einc to flex` or `einc to sdpa` prints, with the call as it is meant to be timed."""
    try:
        texts = called(pipeline.normal(program), name).texts
    except UnsaidError as error:
        return Rival(name, None, str(error))
    compiled = calls()[name].compiled
    at = next(n for n, text in enumerate(texts) if text.startswith(("def ", "@")))
    return Rival(name, _loaded(program, [*texts[:at], compiled, *texts[at:]]), traced="torch.compile" in compiled)


def _loaded(program: TypedProgram, texts: Sequence[str]) -> Function:
    """The function of a text, which passes over what it does not take."""
    function = back_ends.load("\n".join(texts) + "\n", program.name, "torch")
    names = set(inspect.signature(function).parameters)

    @wraps(function)
    def run(**given: Any) -> Any:
        return function(**{key: x for key, x in given.items() if key in names})

    return run


def _eager(program: TypedProgram, grad: bool) -> Rival:
    del grad
    return eager(program)


def _compiled(program: TypedProgram, grad: bool) -> Rival:
    """The same under torch's own compiler."""
    del grad
    found = eager(program)
    if found.function is None:
        return Rival("compile", None, found.why)
    return Rival("compile", data.framework().compile(found.function), traced=True)


def _library(program: TypedProgram, grad: bool) -> Rival:
    """The plan that calls a kernel of the library, where one computes a part of the program."""
    plan = compiling.planned(program, Options("torch"))
    called = isinstance(plan, Module) and any(isinstance(step, Call) for step in leaves(plan.steps))
    if not called:
        return Rival("library", None, "the library has no kernel for any part of it")
    return Rival("library", compiling.built(program, Options("torch", grad=grad)).function)


def _own(program: TypedProgram, name: str, grad: bool) -> Rival:
    """A back end of einc with the plan's own kernels."""
    try:
        return Rival(name, compiling.built(program, Options(name, own=True, grad=grad)).function)
    except EincError as error:
        return Rival(name, None, error.problems[0].message)


def outputs(program: TypedProgram, value: Any) -> Mapping[str, Any]:
    """What a function returned, by the names of the outputs."""
    values = value if isinstance(value, tuple) else (value,)
    return {name: each for (name, _), each in zip(program.outputs, values, strict=True)}
