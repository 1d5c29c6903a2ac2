"""Equations of a paper that say something of one name, compared: equal, or which of them holds is a question."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from functools import lru_cache

from einc.checking.declarations.names import left_of
from einc.checking.declarations.scope import Outcomes
from einc.documents.assumed import both_sides
from einc.documents.needs import Needs
from einc.documents.said import Said
from einc.documents.sections import Paper
from einc.driver import pipeline
from einc.driver.reports.restated import as_wide, example, named, total
from einc.errors.problems import NotRestated
from einc.errors.report import Help, Label, Problem, Report, Span
from einc.meaning.prove import Open, Refuted, Verdict, same
from einc.syntax import tree as s

APART = Open("they hold in different domains", 0)


def compared(paper: Paper, section: int, needs: Needs, one: s.Statement, other: s.Statement,
             blamed: tuple[s.Statement, ...] = ()) -> tuple[Verdict, Problem | None]:
    """Whether two equations of a section are the same; what is wrong with the other, or with those to be blamed."""
    assumed = enumerate(paper.assumed(section), 1)
    lines = [replace(named(x, "fact"), span=one.span) for n, line in assumed for x in both_sides(line, n)]
    spans = tuple(x.span for x in blamed or (other,))
    return _verdict(needs.of((one, other, *lines)), len(lines), spans)


@lru_cache(maxsize=256)  # what a section asks to find its equations is asked again of each that restates another
def _verdict(tree: s.SyntaxTree, facts: int, blamed: tuple[Span, ...]) -> tuple[Verdict, Problem | None]:
    """Whether the first two outputs of a text are the same, where those after them, so many, are equal in pairs; what
    is wrong in a place to be blamed."""
    report = Report()
    program, _ = pipeline.check_tree(tree, report, proved=False)
    if program is None or len(program.outputs) != 2 + facts:
        wrong = (p for p in report.errors if p.span is not None and any(inside(p.span, x) for x in blamed))
        return Open("it cannot be read there", 0), next(wrong, None)
    (_, held), (_, again), *rest = program.outputs
    keys = [key for _, key in rest]
    if not as_wide(program, held, again):
        return APART, None
    return same(program, held, again, given=list(zip(keys[::2], keys[1::2], strict=True))), None


def holding(line: s.Statement) -> s.Statement:
    """What holds for the tensor that an equation defines, as an output."""
    left = left_of(line.clauses[0].body)
    return s.Statement("output", False, (s.Clause(left, None, left.span),), (total(left.span),), left.span)


def disputed(paper: Paper, section: int, became: Outcomes, needs: Needs, known: Container[Span]) -> dict[Span, Problem]:
    """The displays of one section that say different things of one name, or say it of different places: which of them
    holds is a question, and nobody knows what the name is. Further sides of one chain are compared with its first.
    """
    by = {x.statement.clauses[0].span: x for x in paper.said if x.statement is not None and x.formula.display}
    out: dict[Span, Problem] = {}
    for place, winner in became.passed.items():
        x, first = by.get(place), by.get(winner)
        if x is None or first is None or x.span in known or not _two(x, first):
            continue
        for problem, said in _contradiction(paper, section, needs, x, first):
            out.setdefault(said.span, problem)
    return out


def _two(one: Said, other: Said) -> bool:
    """Whether two displays are of one section and neither goes on from the other."""
    assert one.statement is not None and other.statement is not None
    lefts = {left_of(x.clauses[0].body).span for x in (one.statement, other.statement)}
    return one.formula.section == other.formula.section and len(lefts) == 2 and not (one.becomes or other.becomes)


def _contradiction(paper: Paper, section: int, needs: Needs, one: Said,
                   first: Said) -> Iterator[tuple[Problem, Said]]:
    """What is wrong with each of two equations where the one is not what the other says."""
    assert one.statement is not None and first.statement is not None
    verdict, wrong = compared(paper, section, needs, holding(one.statement), named(one.statement, "restated"))
    partial = any(len(x.clauses) > 1 for x in (one.statement, first.statement))
    if not (isinstance(verdict, Refuted) or verdict == APART or (wrong is not None and partial)):
        return
    notes = example(verdict) if isinstance(verdict, Refuted) else ("they are said of different places",)
    for said, other in ((one, first), (first, one)):
        number = paper.said.index(other) + 1
        yield NotRestated(
            f"it is not equal to {number}, and which of the two holds is a question", said.span, "here",
            Label(other.span, "and here"), notes=notes, helps=(
                Help("give one of the two another name, or a section of its own"),
                Help("what holds in one place and what holds in another is one equation by cases"))), said


def inside(inner: Span, outer: Span) -> bool:
    """Whether the inner place begins within the outer one, in the same source."""
    return inner.source == outer.source and outer.start <= inner.start <= outer.end
