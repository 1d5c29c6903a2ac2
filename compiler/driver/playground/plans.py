"""The plans that a text names, each as `einc show --stage plan --plan NAME` prints it, and that of a step."""

from __future__ import annotations

from einc.driver import compiling, placing
from einc.driver.options import Options
from einc.driver.reports.placements import as_text
from einc.driver.reports.screen import screen
from einc.errors.report import EincError, Problem, render
from einc.ir.plan import Module
from einc.ir.programs import TypedProgram
from einc.ir.requested import Cache

SERVE = "serve"
NONE = "The text has no `plan` block: `plan few:` with a line `store x as int8` below is one.\n"


def serving(program: TypedProgram) -> str:
    """The plan of a step that adds positions to those before."""
    return screen(compiling.generation(program))


def named(program: TypedProgram) -> str:
    """The plan of each block, below its name; why there is none, where that is so."""
    parts = [f"plan {name}\n\n{_one(program, name)}" for name in dict.fromkeys(plan.name for plan in program.plans)]
    return "\n\n".join(parts) if parts else NONE


def _one(program: TypedProgram, name: str) -> str:
    """The plan of one block: of a step where it says what is kept, on each device where it names a mesh."""
    try:
        lines = [line.record for plan in program.plans if plan.name == name for line in plan.lines]
        if any(isinstance(line, Cache) for line in lines) or name == SERVE:
            return screen(compiling.generation(program, plans=dict.fromkeys((SERVE, name))))
        if placing.meshed(program, (name,)):
            return as_text(placing.on_mesh(program, (name,), {}, {}), {})
        made = compiling.planned(program, Options(plan=name))
        assert isinstance(made, Module)
        return screen(made)
    except EincError as error:
        return "\n".join(map(render, error.problems))
    except Problem as problem:
        return render(problem)
