"""`einc compile`: a spec to a plain Python file."""

from __future__ import annotations

from pathlib import Path

import click

from einc import front
from einc.commands.common import BACKEND, FILE, NARROW, OWN, STRICT, failure, typed


@click.command("compile")
@FILE
@click.option("-o", "--output", type=click.Path(), metavar="OUT.py", help="The file to write, instead of standard output.")
@BACKEND
@STRICT
@NARROW
@OWN
def command(*, file: str, output: str | None, backend: str, strict: bool, narrow: bool, own: bool) -> None:
    """Write the Python file that computes the spec FILE; it needs no einc to run."""
    if output is not None and Path(output).resolve() == Path(file).resolve():
        raise failure(f"{output} is the spec itself; it is not overwritten")
    text = front.emit(front.plan(typed(file, strict), front.choices(narrow, own)), backend)
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        Path(output).write_text(text, encoding="utf-8", newline="\n")
