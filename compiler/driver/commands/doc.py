"""`einc doc`: what has become of every equation of a paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from einc.checking.fixits import untried
from einc.documents.asking import side_file
from einc.documents.coverage import Account, Entry
from einc.documents.naming import find
from einc.documents.page import page
from einc.documents.reading import endings, reads
from einc.documents.report import as_json, as_text, problems
from einc.documents.sections import Paper
from einc.driver import pipeline
from einc.driver.commands.common import BACKEND, FILE, Chosen, read, unreadable
from einc.driver.files import same
from einc.driver.papers import unread
from einc.driver.reports.coverage import account
from einc.errors.report import Report, failure


@click.command("doc", help=f"Account for every equation of the paper FILE ({endings()}): compiled, restating another, "
                           "a definition, or left out and why; `-` is Markdown from standard input.")
@FILE
@click.option("--format", "style", type=click.Choice(["text", "json", "html"]), default=None,
              help="A table, data for programs, or a page for a browser; by default what the ending of -o says, else a "
                   "table.")
@click.option("-o", "--output", type=click.Path(), metavar="OUT", help="The file to write, instead of standard output.")
@BACKEND
@click.option("--strict", is_flag=True, help="Leave out equations with sentences beside them that are not understood; "
                                             "status 1 where a display is left out and its author does not say so, and "
                                             "where an input is inferred.")
@click.option("--ask", is_flag=True, help="Print the side file that would settle what is open, to be filled in.")
@click.pass_context
def command(ctx: click.Context, *, file: Chosen, style: str | None, output: str | None, backend: str,
            strict: bool, ask: bool) -> None:
    """The table, data or page of a paper's account.
    \f
    Raises EincError where FILE is no document, OUTPUT is the document itself, or options exclude each other.
    """
    if ask and style is not None:
        raise failure("--ask prints a side file, which has no format", "give one of --ask and --format")
    report = Report()
    source = replace(read("-", report), name="<stdin>.md") if file.path == "-" else read(file.path, report)
    if output is not None and same(output, source.name):
        raise failure(f"{output} is the paper itself; it is not overwritten")
    if not report.errors and not reads(source.name):
        raise failure(f"{file.path} is no document",
                      f"a document is a {endings()} file; a spec is told by `einc check`")
    paper = None if report.errors else pipeline.paper(source, report, file.side_file(report))
    if paper is None or unread(report):
        unreadable(source, report)
    chosen, asked = find(paper, file.equation) if file.equation else (
        paper.find(file.section) if file.section else None, ())
    ending = Path(output).suffix.lower() if output is not None else ""
    style = "ask" if ask else style or {".json": "json", ".html": "html", ".htm": "html"}.get(ending, "text")
    with _progress(paper) as progress:
        task = progress.add_task("", total=len(paper.sections))

        def step(title: str) -> None:
            progress.update(task, description=title[:40], advance=1)

        made = account(paper, backend=backend, kernels=style in ("json", "html"), strict=strict, step=step)
    untried(problems(made))
    if chosen is not None:
        spans = {x.span for x in asked}
        made = replace(made, entries=tuple(e for e in made.entries if e.section == chosen and (
                           not asked or e.span in spans)),
                       made=tuple(m for m in made.made if m.section == chosen))
    shown = _WRITERS[style](made)
    if output is None:
        click.echo(shown, nl=False)
    else:
        Path(output).write_text(shown, encoding="utf-8", newline="\n")
        click.echo(f"wrote {output}", err=True)
    guessed = list(dict.fromkeys(x.text for one in made.made for x in one.inferred))
    if strict and guessed:
        click.echo(f"inferred: {', '.join(guessed)}; `einc doc --ask` prints the lines that declare them", err=True)
    if report.errors:
        ctx.exit(1)
    if strict and (guessed or any(_left_out(e) for e in made.entries)):
        ctx.exit(1)


def _as_data(account: Account) -> str:
    return json.dumps(as_json(account), ensure_ascii=False, indent=2) + "\n"


_WRITERS: dict[str, Callable[[Account], str]] = {
    "text": as_text, "json": _as_data, "html": page, "ask": side_file}


def _left_out(entry: Entry) -> bool:
    """Whether an equation is left out without a word of its author."""
    return any(p.severity == "error" and p.code.startswith("E08") for p in entry.problems)


def _progress(paper: Paper) -> Progress:
    console = Console(stderr=True)
    return Progress(TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), console=console,
                    transient=True,
                    disable=not console.is_terminal or len(paper.sections) < 2)
