"""`einc derive`: the one-pass form that the compiler found, in the notation of the papers."""

from __future__ import annotations

import click

from einc import pipeline
from einc.commands.common import FILE, typed
from einc.planning.recurrence import as_tex, as_text, recurrences


@click.command("derive")
@FILE
@click.option("--tex", "latex", is_flag=True, help="Print LaTeX instead of the language.")
def command(*, file: str, latex: bool) -> None:
    """Print the recurrence that was found for each pass of the spec FILE, or the term that keeps it in two passes."""
    found = recurrences(pipeline.normal(typed(file)))
    if not found:
        click.echo("# nothing is folded that could be carried: every step is a contraction or pointwise")
    for item in found:
        click.echo(as_tex(item) if latex else as_text(item))
