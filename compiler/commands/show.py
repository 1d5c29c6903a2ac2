"""`einc show`: one stage of the compiler as text."""

from __future__ import annotations

import click

from einc import front, pipeline
from einc.commands.common import BACKEND, FILE, NARROW, OWN, SIZES, failure, known_sizes, read_spec, tell, typed
from einc.commands.sizes import names
from einc.errors import Report
from einc.planning.screen import screen
from einc.planning.table import table
from einc.show import show

STAGES = ("syntax", "typed", "normal", "plan", "source")


@click.command("show")
@FILE
@click.option("--stage", type=click.Choice(STAGES), default="typed", show_default=True, help="Which stage to print.")
@click.option("--explicit", is_flag=True, help="Write every implied sum and every domain (typed and normal).")
@click.option("--full", is_flag=True, help="Every equation and whole formula of a plan, not only a screen of it.")
@SIZES
@BACKEND
@NARROW
@OWN
@click.pass_context
def command(ctx: click.Context, *, file: str, stage: str, explicit: bool, full: bool, sizes: dict[str, int], backend: str,
            narrow: bool, own: bool) -> None:
    """Print the spec FILE as one stage of the compiler sees it; a plan with formulas, and with numbers where sizes are given."""
    if explicit and stage not in ("typed", "normal"):
        raise failure(f"--explicit is for the stages typed and normal, not for {stage}")
    if full and stage != "plan":
        raise failure(f"--full is for the stage plan, not for {stage}")
    if sizes and stage != "plan":
        raise failure(f"--sizes is for the stage plan, not for {stage}")
    if stage == "syntax":
        report = Report()
        source = read_spec(file, report)
        if not report.errors:
            click.echo(show(pipeline.syntax(source, report)))
        tell(report)
        ctx.exit(1 if report.errors else 0)
    program = typed(file)
    known_sizes(sizes, names(program), program.sizes, program.idle)
    if stage == "typed":
        click.echo(show(program, explicit=explicit))
        return
    normal = pipeline.normal(program)
    if stage == "normal":
        click.echo(show(normal, explicit=explicit))
        return
    plan = front.plan(program, front.choices(narrow, own, backend))
    if stage == "plan":
        click.echo((table if full else screen)(plan, sizes), nl=False)
    else:
        click.echo(front.emit(plan, backend))
