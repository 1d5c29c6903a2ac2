"""Pictures of the domains of a program for a page: at small sizes, and without data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from einc.driver.commands.sizes import default, sets
from einc.driver.drawing.domains import named_domains, picture
from einc.driver.drawing.graphs import graph
from einc.driver.drawing.pictures import Picture
from einc.errors.report import EincError, Problem
from einc.ir.indices import INDEX_CLASSES
from einc.ir.plan import Module
from einc.ir.programs import Program, TypedProgram
from einc.ir.terms import Term

_POSITIONS, _OTHER = 24, 4


def small_sizes(program: Program) -> dict[str, int]:
    """Numbers with which a picture is small: positions, and what stands beside them, such as a width."""
    out: dict[str, int] = {}
    for one in sets(program):
        row = INDEX_CLASSES[one.cls]
        for name in one.extent.sizes if row.sequence else ():
            if name not in program.sizes:
                out[name] = _POSITIONS
    used = {name for name in default(program, {}) if not any(name in one.extent.sizes for one in sets(program))}
    return default(program, {**dict.fromkeys(used - program.sizes.keys(), _OTHER), **out})


def small_pictures(program: TypedProgram, sizes: Mapping[str, int]) -> Iterator[Picture | str]:
    """A picture of every domain that leaves pairs of positions out, or a line that says why there is none."""
    for key, domain in named_domains(program):
        yield _one(program, key, domain, sizes)


def _one(program: TypedProgram, key: str, domain: Term, sizes: Mapping[str, int]) -> Picture | str:
    name = program.tensors[key].text
    try:
        return picture(program, key, domain, sizes, {})
    except KeyError as lacking:
        return f"{name}: depends on data, on `{lacking.args[0]}`"
    except (EincError, Problem, ZeroDivisionError) as error:
        return f"{name}: not drawn: {error.message if isinstance(error, Problem) else 'the sizes do not fit'}"


def drawn(program: TypedProgram, plan: Module) -> tuple[tuple[str, str], ...]:
    """The title and the SVG of each domain of a program that needs no data, and of its plan: those of `einc draw`."""
    found = small_pictures(program, small_sizes(program))
    steps = graph(plan, {})
    return (*((one.title, one.svg) for one in found if isinstance(one, Picture)), (steps.title, steps.svg))
