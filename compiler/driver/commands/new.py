"""`einc new`: a text to begin with."""

from __future__ import annotations

import re
from pathlib import Path

import click

from einc.driver import pipeline, starting
from einc.driver.sources import DISK, ENDING, shipped
from einc.errors.report import EincError, Report, Source, failure


@click.command("new")
@click.argument("name")
@click.option("--like", metavar="SPEC", help="The spec to vary: a name that `einc list` prints, or a file.")
@click.option("--copy", is_flag=True, help="Its whole text, instead of lines that replace some of its equations.")
def command(*, name: str, like: str | None, copy: bool) -> None:
    """Write NAME.ein, a text to begin with; a file that is there is left as it is.

    Without --like it is a small whole spec. With it, it uses that spec, whose equations and masks stand below as
    comments: take one in, and change it.
    \f
    Raises EincError where NAME is no name of a spec, the file is there already, or a spec cannot be used from there.
    """
    path = Path(name if name.endswith(ENDING) else f"{name}{ENDING}")
    if not re.fullmatch(r"[^\W\d]\w*", path.stem):
        raise failure(f"`{path.stem}` is no name of a spec", "letters, digits and `_`, with a letter first: it is the "
                      "name of the function, too")
    if copy and like is None:
        raise failure("--copy is of a spec", "say which: --like gqa")
    text = starting.first() if like is None else _like(path, like, copy)
    try:
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise failure(f"{path} is there already; it is not overwritten", "choose another name, or delete it") from None
    click.echo(f"wrote {path}\n`einc check {path} --watch` checks it whenever it is saved")


def _like(path: Path, like: str, copy: bool) -> str:
    """The text that begins a variant of a spec, or is a copy of it. Raises EincError."""
    report = Report()
    source = pipeline.read_source(like, report)
    if report.errors:
        raise EincError(report.errors)
    if pipeline.is_document(source.name):
        raise failure(f"{like} is a paper, and a variant is one of a spec", "`einc list` prints those that come with "
                      "einc")
    if copy:
        return source.text
    name = like.removesuffix(ENDING)
    beside = Path(f"{like.removesuffix(ENDING)}{ENDING}").absolute().parent == path.absolute().parent
    if shipped(name) is None and not beside:
        raise failure(f"{like} stands in another folder, where `use` does not find it", "copy it: --copy")
    text = starting.variant(Path(name).name if shipped(name) is None else name, source, DISK)
    if pipeline.check(Source(str(path), text), Report(), proved=False) is None:
        raise failure(f"a text that only uses {like} is none that can be checked", "copy it: --copy")
    return text
