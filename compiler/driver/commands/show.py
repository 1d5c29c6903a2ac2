"""`einc show`: one stage of the compiler as text."""

from __future__ import annotations

import click

from einc.driver import back_ends, front, pipeline
from einc.driver.commands.common import BACKEND, FILE, NARROW, OWN, SIZES, failure, known_sizes, read_spec, tell, typed
from einc.driver.commands.sizes import names
from einc.driver.reports.screen import screen
from einc.driver.reports.table import table
from einc.errors.report import Report
from einc.ir.choices import Choices
from einc.ir.plan import Chain, Module, Turns
from einc.ir.terms import TypedProgram
from einc.syntax.printing.show import show

STAGES = ("syntax", "typed", "normal", "plan", "source")


@click.command("show")
@FILE
@click.option("--stage", type=click.Choice(STAGES), default="typed", show_default=True, help="Which stage to print.")
@click.option("--explicit", is_flag=True, help="Write every implied sum and every domain (typed and normal).")
@click.option("--full", is_flag=True, help="Every equation and whole formula of a plan, not only a screen of it.")
@click.option("--grad", is_flag=True, help="The plan of the gradient.")
@click.option("--plan", "kind_of_plan", type=click.Choice(["call", "serve"]), default="call",
              help="serve: of a step that adds positions to a cache (plan and source); its size `past` is what the cache has.")
@SIZES
@BACKEND
@NARROW
@OWN
@click.pass_context
def command(ctx: click.Context, *, file: str, stage: str, explicit: bool, full: bool, grad: bool, kind_of_plan: str,
            sizes: dict[str, int], backend: str, narrow: bool, own: bool) -> None:
    """Print the spec FILE as one stage of the compiler sees it; a plan with formulas, and with numbers where sizes are given."""
    if explicit and stage not in ("typed", "normal"):
        raise failure(f"--explicit is for the stages typed and normal, not for {stage}")
    if full and stage != "plan":
        raise failure(f"--full is for the stage plan, not for {stage}")
    if sizes and stage != "plan":
        raise failure(f"--sizes is for the stage plan, not for {stage}")
    if grad and stage != "plan":
        raise failure(f"--grad is for the stage plan, not for {stage}",
                      "`einc derive --grad` prints the gradient as a spec, `einc compile --grad` the file with it")
    serve = kind_of_plan == "serve"
    if serve and (grad or stage not in ("plan", "source")):
        raise failure("what serves has no gradient" if grad else f"--plan is for the stages plan and source, not for {stage}")
    if stage == "syntax":
        report = Report()
        source = read_spec(file, report)
        if not report.errors:
            click.echo(show(pipeline.syntax(source, report)))
        tell(report)
        ctx.exit(1 if report.errors else 0)
    program = typed(file)
    if not serve:
        known_sizes(sizes, names(program), program.sizes, program.idle)
    if stage == "typed":
        click.echo(show(program, explicit=explicit))
        return
    normal = pipeline.normal(program)
    if stage == "normal":
        click.echo(show(normal, explicit=explicit))
        return
    choices = front.choices(narrow, own, backend)
    if serve:
        made = front.generation(program, choices)
        known_sizes(sizes, sorted({*names(program), *made.sizes}), program.sizes, program.idle)
        told = table(made, sizes) if full else screen(made, sizes)
        click.echo(told if stage == "plan" else back_ends.emit(made, backend), nl=stage != "plan")
    elif stage == "plan":
        plans = _backward(program, choices) if grad else [front.plan(program, choices)]
        click.echo("\n".join((table if full else screen)(plan, sizes) for plan in plans), nl=False)
    else:
        click.echo(back_ends.emit(front.plan(program, choices), backend))


def _backward(program: TypedProgram, choices: Choices) -> list[Module]:
    """The plans of the gradient in the order in which they run: with rounds that of one, and of what stands around them."""
    made = front.gradient(program, choices)
    pieces = [piece.body if isinstance(piece, Turns) else piece for piece in (made.pieces if isinstance(made, Chain) else (made,))]
    plans = [piece.backward for piece in reversed(pieces) if piece.gradients]
    if not plans:
        raise front.constant(program)
    return plans
