"""Equations that say again what others say: under names of their own, beside each other in one program."""

from __future__ import annotations

from dataclasses import replace

from einc.errors.report import Span
from einc.ir.domains import proves
from einc.ir.programs import TypedProgram
from einc.ir.terms import TRUE, Position, substitute
from einc.meaning.prove import Refuted
from einc.syntax import tree as s


def words(node: s.Expression) -> list[s.Word]:
    """The names of an expression's tensors, not the letters of their scripts."""
    match node:
        case s.Relation(operands=inner) | s.Product(factors=inner) | s.Sum(terms=inner) | s.Group(items=inner):
            return [w for x in inner for w in words(x)]
        case s.Scripted(base=s.Word() as word) | (s.Word() as word):
            return [word]
    return [s.Word(node.span.text, node.span)]


def as_wide(program: TypedProgram, held: str, again: str) -> bool:
    """Whether a restatement holds where the first does; one that says nothing of a domain is meant there."""
    one, other = program.equation(held), program.equation(again)
    if one is None or other is None or other.domain == TRUE:
        return True
    by = {i: Position(j) for i, j in zip(other.indices, one.indices, strict=False)}
    domain = substitute(other.domain, by)
    return proves(one.domain, domain) and proves(domain, one.domain)


def total(span: Span) -> s.Clause:
    """`: all`, which says that an output may read every position."""
    return s.Clause(s.Word("all", span), None, span)


def named(statement: s.Statement, label: str) -> s.Statement:
    """The equation under its name with a label, as an output."""
    first, *rest = statement.clauses
    assert isinstance(first.body, s.Relation)
    left, *right = first.body.operands
    script = s.Script("label_upper", None, label, left.span)
    name = replace(left, scripts=(script, *left.scripts)) if isinstance(left, s.Scripted) else (
        s.Scripted(left, (), (script,), left.span))
    clause = replace(first, body=replace(first.body, operands=(name, *right)))
    return replace(statement, keyword="output", clauses=(clause, *rest), tail=(total(left.span),), rank=None)


def example(verdict: Refuted) -> tuple[str, ...]:
    """A line that says at which letters two sides differ, and their values there."""
    found = verdict.example
    point, left, right = found.points[0]
    at = ", ".join(f"{name} = {value}" for name, value in zip(found.letters, point, strict=True))
    return (f"with random numbers{' at ' + at if at else ''} this is {right:.6g}, and the other {left:.6g}",)
