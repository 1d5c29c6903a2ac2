"""Formulas of a document -> its equations, one by one, each with what it could be read as."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from einc.checking.declarations.names import head, index_name
from einc.documents.document import Document, Formula
from einc.errors.problems import BadDeclaration, UnknownMacro
from einc.errors.report import Help, Problem, Report, Span
from einc.syntax import tree as s
from einc.syntax.parse import parse_formula

_EQUALS = ("=", ":=", "<-")
# What an inline formula has that says something; others are names in a sentence.
_SAYS = re.compile(r"=|←|≔|∈|\\leftarrow|\\gets|\\coloneqq|\\in(?![A-Za-z])")

# `j = 0, 1, \dots, N - 1`: over what a letter runs, element by element.
_LISTED = re.compile(r"\\?[A-Za-z]+\s*=\s*[01]\s*,\s*[12]\s*,(?:\s*[23]\s*,)?\s*\\[lc]?dots\s*,[^=]+")


@dataclass(frozen=True)
class Said:
    """One equation of a document, or one definition of indices.

    `statement` is the equation alone, with its restrictions and local definitions; `indices` the letters that it says
    run over a range, which is the last operand of the statement's relation. `problem` says why it cannot be read.
    """

    formula: Formula
    span: Span
    statement: s.Statement | None = None
    indices: tuple[s.Expression, ...] = ()
    problem: Problem | None = None
    skip: str = ""


def said(document: Document, functions: frozenset[str], indices: Iterable[str]) -> tuple[Said, ...]:
    """Every equation in the order of the file. `functions` are names that a macro may
    spell, `indices` the declared ones."""
    letters = frozenset(indices)
    return tuple(x for formula in document.formulas for x in _formula(document, formula, functions, letters))


def _formula(document: Document, formula: Formula, functions: frozenset[str],
             indices: frozenset[str]) -> Iterator[Said]:
    """The equations of one formula. One that is skipped or cannot be read gives an entry that says so; inline ones
    without a relation give none.
    """
    span = formula.span
    if formula.skip:
        yield Said(formula, _trimmed(span), skip=formula.skip)
        return
    if formula.problem is not None:
        yield Said(formula, span, problem=formula.problem)
        return
    if not formula.display and not _SAYS.search(span.text):
        return
    if _LISTED.fullmatch(span.text.strip()):
        yield Said(formula, _trimmed(span), indices=(s.Word(span.text.split("=")[0].strip(), _trimmed(span)),))
        return
    report = Report()
    macros = {name: (m.arguments, m.body) for name, m in document.macros.items()}
    found = parse_formula(document.source, report, functions, (span.start, span.end), formula.holes, macros)
    if report.errors or not found:
        # A macro that is not mathematics of indices says more than the brackets that it leaves open.
        problem = min(report.sorted(), key=lambda p: not isinstance(p, UnknownMacro)) if report.errors else None
        if formula.display or "=" in span.text or "←" in span.text or "leftarrow" in span.text:
            yield Said(formula, _trimmed(span), problem=problem or _nothing(span))
        return
    for statement in found:
        yield from _statement(formula, statement, indices)


def _nothing(span: Span) -> Problem:
    return BadDeclaration("there is no equation in it", _trimmed(span),
                          helps=(Help("an equation is written `NAME = …`"),))


def _trimmed(span: Span) -> Span:
    text = span.text
    return Span(span.source, span.start + len(text) - len(text.lstrip()), span.start + len(text.rstrip()))


def _statement(formula: Formula, statement: s.Statement, indices: frozenset[str]) -> Iterator[Said]:
    """The equations of a list; what follows one and is none belongs to it."""
    groups: list[list[s.Clause]] = []
    lead: list[s.Clause] = []  # names that a range after them is said of
    for clause in statement.clauses:
        if ranged(clause.body) is not None and not groups:
            yield _indices(formula, [*lead, clause])
            lead = []
        elif _starts(clause, indices, not groups):
            groups.append([clause])
        elif groups:
            groups[-1].append(clause)
        else:
            lead.append(clause)
    if lead and not groups and formula.display:
        yield Said(formula, lead[0].span.to(lead[-1].span), problem=_nothing(lead[0].span.to(lead[-1].span)))
    for group in groups:
        yield from _chain(formula, statement, group)


def _starts(clause: s.Clause, indices: frozenset[str], first: bool) -> bool:
    body = clause.body
    if clause.after == "with" or not isinstance(body, s.Relation) or body.operators[0] not in _EQUALS:
        return False
    if first or body.operators[0] != "=":
        return True
    name = index_name(body.operands[0])
    return head(body.operands[0]) is not None and not (name is not None and name.rstrip("'") in indices)


def _chain(formula: Formula, statement: s.Statement, group: list[s.Clause]) -> Iterator[Said]:
    """`a = b = c` says a = b and a = c."""
    first, *rest = group
    assert isinstance(first.body, s.Relation)
    if head(first.body.operands[0]) is None:
        span = first.body.operands[0].span
        yield Said(formula, first.span, problem=BadDeclaration(f"`{span.text}` is no name of a tensor", span, helps=(
            Help("a tensor is a name with indices: what it depends on stands in its scripts"),)))
        return
    left, operators = first.body.operands[0], first.body.operators
    chained = len(operators) > 1 and all(o in ("=", ":=") for o in operators)
    rights = first.body.operands[1:] if chained else (None,)
    for right in rights:
        body = first.body if right is None else s.Relation((left, right), ("=",), left.span.to(right.span))
        clause = replace(first, body=body, span=body.span, after="")
        last = rest[-1].span if rest and right in (None, rights[-1]) else body.span
        span = body.span.to(last)
        yield Said(formula, span, replace(statement, clauses=(clause, *rest), span=span))


def ranged(node: s.Expression) -> s.Range | None:
    """The range of `t ∈ {1..T}`; None for what is no such relation."""
    match node:
        case s.Relation((_, s.Group("{", "}", (s.Range() as over,))), ("in",)):
            return over
    return None


def _indices(formula: Formula, clauses: list[s.Clause]) -> Said:
    last = clauses[-1].body
    assert isinstance(last, s.Relation)
    span = clauses[0].span.to(clauses[-1].span)
    names = (*(c.body for c in clauses[:-1]), last.operands[0])
    return Said(formula, span, s.Statement("", False, tuple(clauses), (), span), names)
