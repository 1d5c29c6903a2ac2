r"""Conditions on positions in the words beside a display: `A_{ts} = x_t z_s` "for $s \le t$" holds there alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from einc.checking.declarations.names import left_of
from einc.checking.matrices.shapes import parts, plain, words
from einc.documents.document import Document, Formula
from einc.documents.said import Known, Said
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help
from einc.syntax import tree as s

Read = Callable[[Formula], s.Expression | None]  # the expression that a formula is

_WORD = r"(?:for|if|when|whenever|where|with|provided(?:\s+that)?|as\s+long\s+as)"
_ALL = r"(?:\s+(?:all|any|each|every|only))?"
_IN = r"\s*(?:\$|\\\()\s*"
_BEHIND = re.compile(rf"(?:[\s,$\\\]&}}]|\\end\{{[a-z]+\*?\}})*(?:but\s+|only\s+)*{_WORD}{_ALL}{_IN}", re.I)
_LEAD = re.compile(rf"\b(?:for|if|when|whenever){_ALL}{_IN}\Z", re.I)
_BEFORE = re.compile(r"\s*(?:\$|\\\))\s*,?\s*(?:then\s+)?(?:let|we\s+[\w-]+|the\s+[\w-]+(?:\s+[\w-]+)?\s+"
                     r"(?:is|are|becomes?)|it\s+is|this\s+is)?[\s,:]*(?:then\b)?[\s,:]*"
                     r"(?:\$\$|\\\[|\\begin\{[a-z]+\*?\}|\s)*", re.I)
_COMPARED = frozenset({"<", "<=", ">", ">=", "!="})


def within(document: Document, found: list[Said], known: Known, read: Read) -> Iterator[Said]:
    """The equations, with the conditions on their letters that words beside their displays say. Where such a condition
    is of letters that the left side does not have, what it limits is a question.
    """
    formulas = document.formulas
    at = {x.span.start: n for n, x in enumerate(formulas)}
    last = {x.formula.span.start: x.span.start for x in found if _equation(x)}
    for x in found:
        n = at.get(x.formula.span.start)
        if n is None or not _equation(x):
            yield x
            continue
        near = [formulas[n + 1]] if n + 1 < len(formulas) and _behind(document, n) else []
        near += [formulas[n - 1]] if n > 0 and _before(document, n) else []
        for condition in map(read, near):
            x = _limited(x, condition, known, last[x.formula.span.start]) if condition is not None else x
        yield x


def _equation(said: Said) -> bool:
    """Whether something that was read is an equation in a display, and no fact or list of indices."""
    return said.formula.display and said.statement is not None and not (said.fact or said.indices)


def _behind(document: Document, n: int) -> bool:
    """Whether a formula in the words right behind a display says where it holds."""
    a, b = document.formulas[n : n + 2]
    between = document.source.text[a.span.end : b.span.start]
    return not b.display and len(between) < 80 and a.span.text.rstrip()[-1:] != "." and (
        _BEHIND.fullmatch(between) is not None)


def _before(document: Document, n: int) -> bool:
    """Whether a formula in the words right before a display says where it holds."""
    a, b = document.formulas[n - 1 : n + 1]
    text = document.source.text
    between = text[a.span.end : b.span.start]
    lead = text[max(a.span.start - 60, 0) : a.span.start]
    return not a.display and len(between) < 100 and _BEFORE.fullmatch(between) is not None and (
        _LEAD.search(lead) is not None)


def _limited(said: Said, condition: s.Expression, known: Known, last: int) -> Said:
    """An equation under a condition that compares letters; another condition says nothing here. It may limit in another
    way the equation of a display that begins at `last`.
    """
    if not isinstance(condition, s.Relation) or not {*condition.operators} <= _COMPARED or said.statement is None:
        return said
    letters = _letters(condition, known)
    if len(letters) < 2 or any(w.text not in letters for w in words((condition,))):
        return said
    body = said.statement.clauses[0].body
    if any(plain(x) == plain(condition) for c in said.statement.clauses for x in parts(c.body)):
        return said
    if letters <= _letters(left_of(body), known):
        clause = s.Clause(condition, None, condition.span, ",")
        return replace(said, statement=replace(said.statement, clauses=(*said.statement.clauses, clause)))
    if not letters <= _letters(body, known) or said.span.start != last:
        return said
    return replace(said, statement=None, problem=BadDeclaration(
        f"does `{condition.span.text.strip()}` beside it limit what is summed?", said.span, helps=(
            Help(f"write it where it limits: `\\sum_{{{condition.span.text.strip()}}}`"),)))


def _letters(node: s.Expression, known: Known) -> frozenset[str]:
    """The indices among the words of an expression: `ts` in a script may be t and s."""
    found = {w.text for w in words((node,)) if not w.quoted}
    return frozenset(y for x in found for y in ((x,) if x in known.indices else x) if y in known.indices)
