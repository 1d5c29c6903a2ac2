"""`einc check` of a whole paper. It is loaded when a paper is given: checking a spec needs none of it."""

from __future__ import annotations

import click

from einc.documents.report import problems as report_of
from einc.documents.report import summary
from einc.driver import pipeline
from einc.driver.commands.common import Chosen, read, tally, tell, tell_json
from einc.driver.papers import unread
from einc.driver.reports.coverage import account
from einc.errors.report import Report, failure


def checked(file: Chosen, report: Report, style: str, fix: bool, strict: bool = False) -> int:
    """Every equation of a paper: its problems, and how many there are of each status; the exit status. Changes
    `report`."""
    if fix:
        raise failure("--fix is for specs: a paper is its author's",
                      "mend it by hand, or say it otherwise in a side file")
    source = read(file.path, report)
    paper = pipeline.paper(source, report, file.side_file(report))
    found = None if unread(report) else account(paper, kernels=False, strict=strict)
    for problem in report_of(found) if found is not None else ():
        # What a line of text says in passing is told by `einc doc`.
        if problem.span is None or problem.code[:3] in ("E08", "W08") or problem.severity == "warning":
            report.add(problem)
    pipeline.advise(source, report)
    if style == "json":
        tell_json(report, None)
        return int(bool(report.errors))
    tell(report)
    if found is None or report.errors:
        click.echo(tally(report), err=True)
        return 1
    click.echo(f"ok: {found.document.source.name}, {summary(found.entries)}")
    return 0
