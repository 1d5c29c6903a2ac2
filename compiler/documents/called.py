r"""Words by which a display calls what it says: `X W = \text{cache}` names its left side in this display."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from einc.checking.matrices.shapes import mapped, words
from einc.documents.said import Said, left_text
from einc.errors.report import Span
from einc.syntax import tree as s

_UPRIGHT = re.compile(r"\\(?:text|mathrm|textrm|textit|mathit|texttt|mbox)\s*\{[A-Za-z]{2,}\}")


def called(found: list[Said]) -> Iterator[Said]:
    """The equations: one that says that an expression is an upright word, to which nothing else in the document gives a
    meaning, is the value of the expression, which is meant where the word stands in its display.
    """
    defined = {left_text(x) for x in found if x.statement is not None}
    named: dict[int, dict[str, s.Expression]] = {}
    for x in found:
        if (pair := _pair(x)) is not None and "".join(pair[1].span.text.split()) not in defined:
            named.setdefault(x.formula.span.start, {}).setdefault(pair[1].text, pair[0])
    for x in found:
        meant = named.get(x.formula.span.start, {}) if x.formula.display else {}
        pair = _pair(x) if meant else None
        if pair is not None and meant.get(pair[1].text) is pair[0]:
            yield replace(x, statement=_value(x.sides[0], x.span), sides=(), unnamed=True)
        else:
            yield x if not meant else replace(
                x, statement=_meant(x.statement, meant) if x.statement is not None else None,
                sides=tuple(_meant(line, meant) for line in x.sides))


def _pair(said: Said) -> tuple[s.Expression, s.Word] | None:
    """The two sides of what says that an expression is an upright word; None for what says anything else."""
    if not said.formula.display or len(said.sides) != 2:
        return None
    one, other = (line.clauses[0].body for line in said.sides)
    assert isinstance(one, s.Relation) and isinstance(other, s.Relation)
    left, right = one.operands[1], other.operands[1]
    if not isinstance(right, s.Word) or _UPRIGHT.fullmatch(right.span.text) is None:
        return None
    return None if any(w.text == right.text for w in words((left,))) else (left, right)


def _value(line: s.Statement, span: Span) -> s.Statement:
    """The equation of one side as that of a value."""
    clause = line.clauses[0]
    assert isinstance(clause.body, s.Relation)
    name, right = clause.body.operands
    word = name.base if isinstance(name, s.Scripted) else name
    assert isinstance(word, s.Word)
    base = replace(word, text="value")
    left = replace(name, base=base) if isinstance(name, s.Scripted) else base
    return replace(line, clauses=(replace(clause, body=replace(clause.body, operands=(left, right))),), span=span)


def _meant(line: s.Statement, meant: Mapping[str, s.Expression]) -> s.Statement:
    """The line with expressions in place of the words that name them."""
    def put(node: s.Expression) -> s.Expression:
        """The expression with those in place."""
        if isinstance(node, s.Word) and node.text in meant and _UPRIGHT.fullmatch(node.span.text):
            return s.Group("(", ")", (meant[node.text],), node.span)
        return mapped(node, put)

    return replace(line, clauses=tuple(replace(c, body=put(c.body)) for c in line.clauses))
