"""`einc show`: one stage of the compiler as text."""

from __future__ import annotations

from dataclasses import replace

import click

from einc.checking.plans import chosen
from einc.driver import back_ends, compiling, pipeline, placing
from einc.driver.commands.common import (
    BACKEND,
    FILE,
    MESH,
    NARROW,
    OWN,
    PLAN,
    SIZES,
    Chosen,
    known_sizes,
    read_spec,
    typed,
    unreadable,
)
from einc.driver.commands.sizes import names
from einc.driver.commands.watching import WATCH
from einc.driver.gradients import constant
from einc.driver.options import Options
from einc.driver.reports.placements import as_text
from einc.driver.reports.screen import screen
from einc.driver.reports.staged import as_text as staged
from einc.driver.reports.table import table
from einc.errors.report import Report, failure
from einc.ir.plan import Module, SegmentedModule
from einc.ir.programs import TypedProgram
from einc.ir.requested import Mesh
from einc.syntax.printing.show import show

STAGES = ("syntax", "typed", "normal", "plan", "source")


@click.command("show")
@FILE
@WATCH
@click.option("--stage", type=click.Choice(STAGES), default="typed", show_default=True, help="Which stage to print.")
@click.option("--explicit", is_flag=True, help="Write every implied sum and every domain (typed and normal).")
@click.option("--full", is_flag=True, help="Every equation and whole formula of a plan, not only a screen of it.")
@click.option("--grad", is_flag=True, help="The plan of the gradient.")
@PLAN
@MESH
@SIZES
@BACKEND
@NARROW
@OWN
def command(*, file: Chosen, stage: str, explicit: bool, full: bool, grad: bool, plan: str,
            mesh: dict[str, int], sizes: dict[str, int], backend: str, narrow: bool, own: bool) -> None:
    """Print the spec FILE as one stage of the compiler sees it; a plan with formulas, and
    with numbers where sizes are given. On a mesh of devices, which `--mesh` or a chosen plan names, a plan says what
    each device has, and which collectives there are, and why.
    \f
    Raises EincError where an option is not for that stage.
    """
    if explicit and stage not in ("typed", "normal"):
        raise failure(f"--explicit is for the stages typed and normal, not for {stage}")
    if full and stage != "plan":
        raise failure(f"--full is for the stage plan, not for {stage}")
    if sizes and stage != "plan":
        raise failure(f"--sizes is for the stage plan, not for {stage}")
    if grad and stage != "plan":
        raise failure(f"--grad is for the stage plan, not for {stage}",
                      "`einc derive --grad` prints the gradient as a spec, `einc compile --grad` the file with it")
    options = Options(backend, narrow=narrow, own=own, plan=plan)
    if options.serves and grad:
        raise failure("what serves has no gradient", "leave out one of the two")
    if plan != "call" and (stage == "syntax" or (options.serves and stage not in ("plan", "source"))):
        raise failure(f"--plan {plan} is not for the stage {stage}", "the stages plan and source show what serves")
    if mesh and stage != "plan":
        raise failure(f"--mesh is for the stage plan, not for {stage}")
    if stage == "syntax":
        report = Report()
        source = read_spec(file.path, report)
        tree = None if report.errors else pipeline.syntax(source, report)
        click.echo("" if tree is None else show(tree))
        return unreadable(source, report) if report.errors else None
    program, options = compiling.parted(typed(file), options)
    if not options.serves:
        known_sizes(sizes, names(program), program.sizes, program.idle)
    if stage == "plan" and not options.serves and (mesh or placing.meshed(program, options.plans)):
        if (stages := placing.in_stages(program, options.plans, mesh)) is not None:
            click.echo(staged(stages, sizes, grad, full, narrow), nl=False)
            return
        click.echo(as_text(placing.on_mesh(program, options.plans, mesh, sizes, grad), sizes, full, narrow), nl=False)
        return
    if stage == "plan" and (mesh or any(chosen(program.plans, options.plans).asked(Mesh).ranks.values())):
        found = placing.served_on_mesh(program, options.plans, mesh, sizes, compiling.choices(options))
        asked = {name for link in found.links for name in names(link.forward.program)}
        known_sizes(sizes, sorted(asked), program.sizes, program.idle)
        click.echo(as_text(found, sizes, full, narrow), nl=False)
        return
    if stage in ("typed", "normal"):
        changed, _ = compiling.asked(program, options)
        click.echo(show(pipeline.normal(changed) if stage == "normal" else changed, explicit=explicit))
        return
    plans = _backward(program, options) if grad else [_module(program, options)]
    if options.serves:
        known_sizes(sizes, sorted({*names(program), *plans[0].sizes}), program.sizes, program.idle)
    if stage == "source":
        click.echo(back_ends.emit(plans[0], backend))
    else:
        click.echo("\n".join((table if full else screen)(plan, sizes) for plan in plans), nl=False)


def _module(program: TypedProgram, options: Options) -> Module:
    """The plan of a program without its gradient."""
    made = compiling.planned(program, options)
    assert isinstance(made, Module)
    return made


def _backward(program: TypedProgram, options: Options) -> list[Module]:
    """The plans of the gradient in the order in which they run: with rounds that of one, and of what stands around
    them. Raises EincError where no output has a gradient."""
    made = compiling.planned(program, replace(options, grad=True))
    assert not isinstance(made, Module)
    pieces = [piece for piece, _ in made.gradients] if isinstance(made, SegmentedModule) else [made]
    plans = [piece.backward for piece in reversed(pieces) if piece.gradients]
    if not plans:
        raise constant(program)
    return plans
