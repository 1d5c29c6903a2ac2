"""What einc says of the example of a kind of problem: of a text what the checker does, of
a document what its account does."""

from __future__ import annotations

from einc.driver import pipeline
from einc.driver.reports.coverage import account
from einc.errors.report import Problem, Report, Source


def problems_of(kind: type[Problem]) -> list[Problem]:
    """The problems of this kind, of the others nothing."""
    source, report = Source(kind.example_name, kind.example), Report()
    found = _document(source, report) if pipeline.is_document(source.name) else _spec(source, report)
    return [problem for problem in found if problem.code == kind.code]


def _spec(source: Source, report: Report) -> list[Problem]:
    pipeline.check(source, report)
    return report.problems


def _document(source: Source, report: Report) -> list[Problem]:
    try:
        made = account(pipeline.paper(source, report), kernels=False)
    except Problem as problem:
        return [problem]
    return [*report.problems, *(p for entry in made.entries for p in entry.problems), *made.problems]
