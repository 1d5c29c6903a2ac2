"""Rows of a display that may go on from the rows above them: a factor, without a sign before it."""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import pairwise

from einc.checking.declarations.names import head
from einc.documents import algorithms, shapes
from einc.documents.said import ranged
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Label, Problem, Span
from einc.syntax import tree as s

_BREAK = re.compile(r"\\\\")
_CLOSED = re.compile(r"[,;.]\s*(?:\\q?quad\s*)?&?\s*\Z")
_EQUALS = ("=", ":=", "<-")


def wrapped(rows: list[s.Statement], letters: Container[str]) -> dict[int, Problem]:
    """The question of each row of a display that may go on from the equation above it, and of that equation, by where
    they start: such a row is an expression without a name and without a sign before it, and nothing ends the row above.
    """
    out: dict[int, Problem] = {}
    above: list[s.Statement] = []  # the equation and the rows that may go on from it
    for before, row in pairwise(rows):
        above = above or [before]
        if not _goes_on(above[0], before, row, letters):
            above = []
            continue
        above.append(row)
        out |= {x.span.start: _problem(x, above) for x in above}
    return out


def _goes_on(first: s.Statement, before: s.Statement, row: s.Statement, letters: Container[str]) -> bool:
    """Whether a row may go on from the one before it, which belongs to the equation `first`."""
    text, left, body = row.span.source.text, first.clauses[0].body, row.clauses[0].body
    between = text[before.span.end : row.span.start]
    if not isinstance(left, s.Relation) or left.operators[0] not in _EQUALS or first.keyword or row.keyword:
        return False
    parts = _BREAK.split(between)
    if len(parts) < 2 or _CLOSED.search(parts[0]) or algorithms.kind(row.span.text):
        return False
    if isinstance(body, s.Relation):  # in the column of the right sides, an equation of no name
        aligned = "&" in parts[-1] and "&" in text[left.operands[0].span.end : left.operands[1].span.start]
        return aligned and body.operators[0] in _EQUALS and head(body.operands[0]) is None
    return not isinstance(body, s.Range) and ranged(body) is None and shapes.shape(body, letters) is None


def _problem(row: s.Statement, above: list[s.Statement]) -> Problem:
    """The question of one of several rows."""
    last = above[-1].span.text
    what = f"does the row `{last}` go on from the row above it?" if row is not above[-1] else (
        "does this row go on from the row above it?")
    return OpenReading(what, row.span, helps=(
        Help("begin the row with its sign, `+` or `\\cdot`; or end the row above with a comma, or give it a name"),))


def unopened(span: Span, before: Span) -> Problem:
    """The question of a display that begins with a sign of equality, where the one before it leaves no left side."""
    return OpenReading("what does this display go on from?", span, "", Label(before, "nothing here is left open"),
                       helps=(Help("repeat the left side in this display"),))
