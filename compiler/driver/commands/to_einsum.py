"""`einc to einsum FILE`: a spec as a plain Python function."""

from __future__ import annotations

from pathlib import Path

import click

from einc.driver.commands.common import FILE, Chosen, counted, typed
from einc.driver.reports.einsums import lines, partial
from einc.errors.report import failure


@click.command("to")
@click.argument("what", type=click.Choice(["einsum"]))
@FILE
@click.option("-o", "--output", type=click.Path(), metavar="OUT.py",
              help="The file to write, instead of standard output.")
@click.pass_context
def command(ctx: click.Context, *, what: str, file: Chosen, output: str | None) -> None:
    """Print the spec FILE as a plain Python function: a sum of products is a line of einsum, the rest is torch.

    It is for reading and for other tools, not for speed: `einc compile` writes the fused file. An equation that no such
    line says is a comment; then the status is 1.
    """
    program = typed(file)
    if not program.outputs:
        raise failure(f"{file.path} has no output, so there is no function to print")
    found = lines(program)
    text = "\n".join(found.texts) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        Path(output).write_text(text, encoding="utf-8", newline="\n")
    if partial(program):
        click.echo("note: where a domain has no point einc has 0, and torch may have NaN", err=True)
    if found.unsaid:
        click.echo(f"{counted(found.unsaid, 'equation')} could not be said", err=True)
        ctx.exit(1)
