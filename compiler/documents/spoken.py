r"""Conditions that a display writes behind its right side: `y_t = x_t \text{ for } t > 1` and `y_t = x_t \quad (t > 1)`
are `y_t = x_t, t > 1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import replace

from einc.checking.matrices.shapes import parts, words
from einc.syntax import tree as s

_WORDS = re.compile(r"\s*(?:,\s*)?(?:for|if|when|whenever)(?:\s+(?:all|each|every|any|that|only))?\s*,?\s*")
_QUAD = re.compile(r"\\q?quad(?![A-Za-z])")
_COMPARED = frozenset({"<", "<=", ">", ">=", "!=", "in"})


def conditioned(line: s.Statement, letters: Set[str]) -> s.Statement:
    """The line, with such conditions on some letters, and ranges, as clauses of their own behind the one in which they
    stand. A condition on values is none of these: it may be a case, or what the text takes for granted.
    """
    if line.keyword or not all(_of_letters(x, letters) for x in _conditions(line)):
        return line
    clauses = (*line.clauses[:1], *(replace(c, body=_without(c.body)) for c in line.clauses[1:]))
    found = [(c, _apart(c.body)) for c in clauses]
    if all(more is None for _, (_, more) in found):
        return replace(line, clauses=clauses)
    out: list[s.Clause] = []
    for clause, (body, more) in found:
        out.append(replace(clause, body=body, span=body.span) if more is not None else clause)
        out += [s.Clause(more, None, more.span, ",")] if more is not None else []
    return replace(line, clauses=tuple(out))


def _conditions(line: s.Statement) -> Iterator[s.Expression]:
    """What such a line says behind its right sides."""
    for n, clause in enumerate(line.clauses):
        body = _without(clause.body) if n else clause.body
        more = _apart(body)[1]
        yield from (x for x in (more, body if body is not clause.body else None) if x is not None)


def _of_letters(condition: s.Expression, letters: Set[str]) -> bool:
    """Whether it is a range, or compares letters and numbers alone."""
    counts = any(isinstance(x, s.Range) for x in parts(condition))
    return counts or all(w.text in letters for w in words((condition,)))


def _without(body: s.Expression) -> s.Expression:
    """A condition without the word before it: `t > 1` of `\\text{for } t > 1`."""
    match body:
        case s.Relation((s.Product((s.Word(text, quoted=True), *_)) as first, *rest), operators) if (
                _WORDS.fullmatch(text) and ({*operators} <= _COMPARED or isinstance(rest[-1], s.Range))):
            return replace(body, operands=(_some(first, 1, len(first.factors)), *rest))
    return body


def _apart(body: s.Expression) -> tuple[s.Expression, s.Expression | None]:
    """An equation and the condition behind its right side, None where it has none."""
    if not isinstance(body, s.Relation) or body.operators[0] not in ("=", ":="):
        return body, None
    left, right, *rest = body.operands
    last, condition = _said(right, rest, body) if rest else _bracketed(right)
    if condition is None:
        return body, None
    return s.Relation((left, last), body.operators[:1], left.span.to(last.span)), condition


def _said(right: s.Expression, rest: list[s.Expression],
          body: s.Relation) -> tuple[s.Expression, s.Expression | None]:
    """The right side before a word, and the comparison behind the word."""
    term = right.terms[-1] if isinstance(right, s.Sum) else right
    counts = body.operators[1:] == ("=",) and isinstance(rest[-1], s.Range)
    if not (counts or {*body.operators[1:]} <= _COMPARED) or not isinstance(term, s.Product):
        return right, None
    at = next((n for n, x in enumerate(term.factors)
               if isinstance(x, s.Word) and x.quoted and _WORDS.fullmatch(x.text)), 0)
    if not 0 < at < len(term.factors) - 1:
        return right, None
    first = _some(term, 0, at)
    said = _some(term, at + 1, len(term.factors))
    condition = s.Relation((said, *rest), body.operators[1:], said.span.to(rest[-1].span))
    return _ending(right, first), condition


def _bracketed(right: s.Expression) -> tuple[s.Expression, s.Expression | None]:
    """The right side before a comparison in parentheses that stands apart."""
    term = right.terms[-1] if isinstance(right, s.Sum) else right
    match term:
        case s.Product((*_, before, s.Group("(", ")", (s.Relation(_, operators) as condition,), span))) if (
                {*operators} <= _COMPARED and _QUAD.search(span.source.text, before.span.end, span.start)):
            return _ending(right, _some(term, 0, len(term.factors) - 1)), replace(condition, span=span)
    return right, None


def _some(term: s.Product, first: int, end: int) -> s.Expression:
    """Some factors of a product."""
    factors = term.factors[first:end]
    if len(factors) == 1:
        return factors[0]
    return s.Product(factors, ("", *term.operators[first + 1 : end]), factors[0].span.to(factors[-1].span))


def _ending(right: s.Expression, last: s.Expression) -> s.Expression:
    """The right side of an equation with its last term replaced by `last`."""
    if not isinstance(right, s.Sum):
        return last
    return replace(right, terms=(*right.terms[:-1], last), span=right.terms[0].span.to(last.span))
