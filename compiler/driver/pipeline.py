"""A text -> what it means, be it a spec or a paper. What reads papers is loaded where one is read: checking a spec
needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from einc.driver import flow
from einc.driver.flow import (
    check_spec,
    check_tree,
    claims,
    find,
    formatted,
    indexed,
    known,
    normal,
    read_source,
    syntax,
    used,
)
from einc.driver.sources import DISK, Sources, is_spec, packed
from einc.errors.report import Report, Source
from einc.ir.narrow import NARROW
from einc.ir.programs import TypedProgram
from einc.ir.requested import ROWS
from einc.ir.terms import Apply

if TYPE_CHECKING:
    from einc.documents.sections import Paper

__all__ = ["advise", "check", "check_tree", "claims", "examine", "find", "formatted", "indexed", "is_document", "known",
           "normal", "paper", "read_source", "syntax", "used"]


def check(source: Source, report: Report, *, strict: bool = False, proved: bool = True, section: str = "",
          equation: str = "", side: Source | None = None, sources: Sources = DISK) -> TypedProgram | None:
    """What a spec means, or one `section` or `equation` of a document; None where there are errors. `strict` makes
    every warning an error. Problems go to the report.

    Rounds mean something where their result is `proved` not to depend on how their domain is cut. `side` is a file
    with the declarations that a document lacks, `sources` has the specs that are used.
    """
    if not is_document(source.name):
        found = check_spec(source, report, strict=strict, proved=proved, sources=sources)
        return _swapped(_narrow(found, source, report), report)
    made: TypedProgram | None = import_module("einc.driver.papers").check_section(
        source, report, strict=strict, proved=proved, section=section, equation=equation, side=side, sources=sources)
    return made


def _narrow(program: TypedProgram | None, source: Source, report: Report) -> TypedProgram | None:
    """The program where its plans do what they may in few bits; else None. Problems go to the report, with what is told
    of roundings."""
    if program is None:
        return None
    asks = any(plan.narrows for plan in program.plans)
    rounds = any(isinstance(term, Apply) and term.op in NARROW for term in program.terms)
    if not (asks or rounds):
        return program
    found = import_module("einc.driver.narrowing")
    refused = found.refused(program) if asks else ()
    for problem in (*refused, *(found.doubtful(program, source) if rounds else ())):
        report.add(problem)
    return None if refused or report.errors else program


def _swapped(program: TypedProgram | None, report: Report) -> TypedProgram | None:
    """The program where every letter by which its plans cut instead is there to be cut, and rows that are sent are
    there; else None. Problems go to the report."""
    passes = [] if program is None else [x for plan in program.plans for cut, _ in plan.cuts() for x in cut.passes]
    if program is None or not any(x.by or x.way in ROWS for x in passes):
        return program
    for problem in (refused := import_module("einc.driver.meshes").refused(program)):
        report.add(problem)
    return None if refused else program


def examine(source: Source, report: Report, *, strict: bool = False, proved: bool = True, section: str = "",
            equation: str = "", side: Source | None = None) -> TypedProgram | None:
    """What a text means, as `check` gives it, and the edits that its problems offer are tried: those that mend nothing
    are dropped. Changes the report."""
    program = check(source, report, strict=strict, proved=proved, section=section, equation=equation, side=side)
    advise(source, report)
    return program


def advise(source: Source, report: Report, sources: Sources = DISK) -> None:
    """Gives the errors of a text the edits that mend them, tried one by one. A document keeps the words of what is
    offered: it is its author's.
    """
    if is_document(source.name):
        import_module("einc.checking.fixits").untried(report.problems)
    else:
        flow.advise(source, report, sources)


def is_document(name: str) -> bool:
    """Whether a file of this name is a paper, in one of the formats that are read, or a folder or an archive of one."""
    return packed(name) or (not is_spec(name) and import_module("einc.documents.reading").reads(name) is True)


def paper(source: Source, report: Report, side: Source | None = None) -> Paper:
    """A document with what declares its names: its own `ein` fences, and a side file. Problems go to the report."""
    made: Paper = import_module("einc.driver.papers").paper(source, report, side)
    return made
