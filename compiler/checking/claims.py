"""Claims: both sides are read by the rules, so that a claim says something; proving it is another command's work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from einc import syntax as s
from einc.checking.elaborate import Work
from einc.checking.expressions import value
from einc.checking.scripts import Level
from einc.checking.signatures import left_side
from einc.checking.values import Context, Parameter
from einc.errors import Help, Report
from einc.indices import Index
from einc.problems import BadDeclaration
from einc.terms import Position, Read


def claims(work: Work, statements: Iterable[s.Statement]) -> None:
    """Every claim of the text. One that assumes something speaks of what only the assumption names: it is left to its proof."""
    for statement in statements:
        if statement.keyword == "claim":
            with work.scope.telling(statement):
                _claim(work, statement)


def _claim(work: Work, statement: s.Statement) -> None:
    first, *rest = statement.clauses
    body = first.body
    if not isinstance(body, s.Relation) or body.operators not in (("=",), (":=",)):
        raise BadDeclaration("a claim is written `claim LEFT = RIGHT`", first.span, helps=(Help("give it two sides"),))
    if statement.tail:
        return
    made = work.made.apart()
    context = Context(work.scope, Report(), made, "·", None, value, work.settle)
    for clause in rest:
        if clause.after == "with" and isinstance(clause.body, s.Relation):
            context = _with(work, context, clause.body)
    for side in body.operands:
        context.value(side)
    made.drop()


def _with(work: Work, context: Context, relation: s.Relation) -> Context:
    left = left_side(work.scope, relation.operands[0], "local", declare=False)
    letters = tuple(i for axis in left.axes for i in axis)
    found = replace(context, left=frozenset(letters)).value(relation.operands[1])
    slots: tuple[tuple[Index, Level], ...] = tuple((i, x.level) for i, x in zip(letters, left.signature.slots, strict=True))
    term = Read(context.made.fresh("·"), tuple(Position(i) for i in letters))
    return replace(context, params=(*context.params, Parameter(left.signature.name, slots, replace(found, term=term, free={}))))
