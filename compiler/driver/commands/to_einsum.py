"""`einc to einsum FILE`: a spec as a plain Python function; `einc to flex FILE`: as one that calls a library."""

from __future__ import annotations

from pathlib import Path

import click

from einc.driver import pipeline
from einc.driver.commands.common import FILE, Chosen, counted, typed
from einc.driver.reports.calls import called, calls
from einc.driver.reports.einsums import UnsaidError, bytes_of, partial
from einc.driver.reports.functions import Lines, lines
from einc.errors.report import failure
from einc.ir.programs import TypedProgram


@click.command("to")
@click.argument("what", type=click.Choice(["einsum", *calls()]))
@FILE
@click.option("-o", "--output", type=click.Path(), metavar="OUT.py",
              help="The file to write, instead of standard output.")
@click.pass_context
def command(ctx: click.Context, *, what: str, file: Chosen, output: str | None) -> None:
    """Print the spec FILE as a plain Python function of torch.

    einsum: a sum of products is a line of einsum, the rest is torch. An equation that no such line says is a comment;
    then the status is 1. It is for reading and for other tools, not for speed: `einc compile` writes the fused file.

    flex, sdpa: what a pass of the plan has between its two products is what that function of torch takes beside its
    operands, as `score_mod` and `mask_mod`, or as one array that is added; the rest is einsum. Where a pass is no such
    call, the status is 1 and the reason is told.
    \f
    Raises EincError where the spec has no output, numbers share bytes, or no pass of it is a call of that library.
    """
    program = typed(file)
    if not program.outputs:
        raise failure(f"{file.path} has no output, so there is no function to print",
                      "write `output` in front of the equation that it is to return")
    if (why := bytes_of(program)) is not None:
        raise failure(why, "declare it `: int8` for these lines, or write the file with `einc compile`")
    found = lines(program) if what == "einsum" else _called(file, program, what)
    text = "\n".join(found.texts) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        Path(output).write_text(text, encoding="utf-8", newline="\n")
    if what == "einsum" and partial(program):
        click.echo("note: where a domain has no point einc has 0, and torch may have NaN", err=True)
    if found.unsaid:
        click.echo(f"{counted(found.unsaid, 'equation')} could not be said", err=True)
        ctx.exit(1)


def _called(file: Chosen, program: TypedProgram, what: str) -> Lines:
    """The function with its calls; EincError with the reason where there is none."""
    try:
        return called(pipeline.normal(program), what)
    except UnsaidError as error:
        raise failure(f"{file.path} is no call of {calls()[what].title}: {error}",
                      "`einc to einsum` writes it as plain lines, `einc compile` as kernels") from None
