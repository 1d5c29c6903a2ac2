"""Checking a spec: its problems, or the program that it means."""

from __future__ import annotations

from pathlib import Path

from einc.driver import pipeline
from einc.driver.options import DEFAULTS, Options
from einc.errors.report import EincError, Help, Problem, Report
from einc.ir.programs import TypedProgram


def check(path_or_text: str | Path, *, strict: bool = False) -> list[Problem]:
    """Every problem of a spec, in the order of the text; none means that it is sound."""
    report = Report()
    pipeline.examine(pipeline.read_source(path_or_text, report), report, strict=strict)
    return report.sorted()


def typed(path_or_text: str | Path, options: Options = DEFAULTS) -> TypedProgram:
    """The program that a spec means, or one section or equation of a paper. EincError where it has errors, or under
    `strict` warnings, and where both a section and an equation are named.
    """
    if options.section and options.equation:
        raise EincError([Problem("`equation` says more than `section`", helps=(Help("give one of the two"),))])
    report = Report()
    beside = None if options.side is None else pipeline.read_source(options.side, report)
    program = pipeline.examine(pipeline.read_source(path_or_text, report), report, strict=options.strict,
                               section=options.section, equation=options.equation, side=beside)
    if program is None:
        raise EincError(report.sorted())
    return program
