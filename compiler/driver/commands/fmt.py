"""`einc fmt`: a spec in one spelling and one layout."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from einc.driver import pipeline
from einc.driver.commands.common import FILE, Chosen, read_spec, unreadable
from einc.errors.report import Report, failure
from einc.syntax.printing.writer import Spelling


@click.command("fmt")
@FILE
@click.option("--spelling", type=click.Choice(["unicode", "latex", "ascii"]), default="unicode", show_default=True,
              help="Which of the spellings to write.")
@click.option("--indices", is_flag=True, help="Write matrix notation as the index notation that it stands for.")
@click.option("-o", "--output", type=click.Path(), metavar="OUT.ein",
              help="The file to write, instead of standard output.")
@click.option("-w", "--in-place", "in_place", is_flag=True, help="Rewrite FILE itself.")
@click.option("--check", is_flag=True, help="Write nothing; status 1 if FILE is not written so.")
@click.option("--diff", is_flag=True, help="Print what would change.")
@click.pass_context
def command(ctx: click.Context, *, file: Chosen, spelling: Spelling, indices: bool, output: str | None, in_place: bool,
            check: bool, diff: bool) -> None:
    """Write the spec FILE in one spelling, one statement a line; comments, blank lines, broken lines and displays stay.

    It means the same afterwards: einc checks that. A file that cannot be read is told and left as it is.
    \f
    Raises EincError where FILE is no file that can be rewritten, or options exclude each other.
    """
    if (output is not None) + in_place + (check or diff) > 1:
        raise failure("-o, -w, and --check or --diff exclude each other", "give one of them")
    if in_place and not Path(file.path).is_file():
        raise failure(f"{file.path} is no file, so it cannot be rewritten", "write a copy with -o")
    report = Report()
    source = read_spec(file.path, report)
    written = pipeline.indexed if indices else pipeline.formatted
    text = None if report.errors else written(source, spelling, report)
    if text is None:
        unreadable(source, report)
    if diff:
        lines = difflib.unified_diff(source.text.splitlines(), text.splitlines(), source.name,
                                     f"{source.name} ({spelling})",
                                     lineterm="")
        click.echo("".join(f"{line}\n" for line in lines), nl=False)
    elif check and text != source.text:
        click.echo(f"{source.name} is not written in {spelling} by `einc fmt`", err=True)
    elif in_place:
        _rewrite(Path(file.path), source.text, text)
    elif output is not None:
        Path(output).write_text(text, encoding="utf-8")
    elif not check:
        click.echo(text, nl=False)
    if check and text != source.text:
        ctx.exit(1)


def _rewrite(path: Path, before: str, text: str) -> None:
    """Writes the text into the file, which keeps its line ends and byte order mark; nothing is written where nothing
    changes.
    """
    if text == before:
        return
    data = path.read_bytes()
    with open(path, "w", encoding="utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8",
              newline="\r\n" if b"\r\n" in data else "\n") as file:
        file.write(text)
