"""`einc derive`: the one-pass form that the compiler found, in the notation of the papers, and whether a written one is equal."""

from __future__ import annotations

import click

from einc import pipeline
from einc.commands.common import FILE, typed
from einc.planning.recurrence import as_tex, as_text, recurrences
from einc.planning.written import as_text as told
from einc.planning.written import written


@click.command("derive")
@FILE
@click.option("--tex", "latex", is_flag=True, help="Print LaTeX instead of the language.")
@click.pass_context
def command(ctx: click.Context, *, file: str, latex: bool) -> None:
    """Print the recurrence that was found for each pass of the spec FILE, or the term that keeps it in two passes.

    A recurrence that FILE writes itself is proved equal to it; status 1, and both sides, where it is not.
    """
    program = typed(file, proved=False)
    found = recurrences(pipeline.normal(program))
    if not found:
        click.echo("# nothing is folded that could be carried: every step is a contraction or pointwise")
    for item in found:
        click.echo(as_tex(item) if latex else as_text(item))
    beside = written(program)
    for recur in beside:
        click.echo(told(recur, program.source, "%" if latex else "#"))
    if not all(recur.proved for recur in beside):
        ctx.exit(1)
