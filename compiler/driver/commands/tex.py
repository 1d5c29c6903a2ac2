"""`einc tex`: a spec as LaTeX, for a reader."""

from __future__ import annotations

from pathlib import Path

import click

from einc.driver import pipeline
from einc.driver.commands.common import FILE, Chosen, read_spec, typed, unreadable
from einc.errors.report import Report, Source, failure
from einc.syntax.printing.page import document, page
from einc.syntax.printing.show import show


def _explicit(file: Chosen) -> Source:
    """What a spec means, with every sum and domain, as a text. Raises EincError where it has no output."""
    program = typed(file, proved=False)
    if not program.outputs:
        raise failure(f"{file.path} has no output, so there is nothing to write out",
                      "leave out --explicit: claims print as written")
    return Source(file.path, show(program, explicit=True))


@click.command("tex")
@FILE
@click.option("--explicit", is_flag=True, help="Write every implied sum and every domain, as einc reads them.")
@click.option("--document", "whole", is_flag=True, help="A file for pdflatex, with its preamble (so is OUT.tex).")
@click.option("-o", "--output", type=click.Path(), metavar="OUT.tex",
              help="The file to write, instead of standard output.")
def command(*, file: Chosen, explicit: bool, whole: bool, output: str | None) -> None:
    """Print the spec FILE as LaTeX: declarations as sentences, equations in displays, comments as prose."""
    report = Report()
    source = read_spec(file.path, report) if not explicit else _explicit(file)
    tree = None if report.errors else pipeline.syntax(source, report)
    if tree is None or report.errors:
        unreadable(source, report)
    title = Path(source.name.strip("<>")).stem
    text = page(tree, pipeline.known(pipeline.used(tree)), title)
    text = document(text) if whole or (output is not None and output.endswith(".tex")) else text
    if output is None:
        click.echo(text, nl=False)
    else:
        Path(output).write_text(text, encoding="utf-8")
