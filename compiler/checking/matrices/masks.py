"""Matrices whose entries an equation gives by cases: where they are 0, and where they are −∞.

A product has nothing where such a matrix is 0. What runs along lines, and for which a point at −∞ is as none, runs over
the other points alone. So a mask that is multiplied or added is a domain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einc.checking.matrices.shapes import words
from einc.syntax import tree as s

_OPPOSITE = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "=": "!=", "!=": "="}


@dataclass(frozen=True)
class Mask:
    """The entries of a matrix at two letters: the condition under which they are not 0, None where nothing says so,
    those under which they are −∞, and whether they are 0 everywhere else. `apart`: it says so for all other letters,
    `loose`: some entries are infinite, and nothing says which way.
    """

    letters: tuple[str, str]
    support: s.Expression | None
    barred: tuple[s.Expression, ...]
    nothing: bool
    apart: bool = False
    loose: bool = False


def mask(right: s.Expression, at: tuple[s.Expression | None, ...]) -> Mask | None:
    """What the right side of an equation for the entries at two letters says by indicators; None where some term of it
    has none.
    """
    letters = tuple(x.text for x in at if isinstance(x, s.Word))
    rows = list(_rows(right))
    if len(letters) != 2 or len(set(letters)) != 2 or any(x is None for x, _ in rows):
        return None
    conditions = tuple((x, infinite) for x, infinite in rows if x is not None)
    barred = tuple(x for x, infinite in conditions if infinite)
    found = tuple(x for x, _ in conditions)
    support = found[0] if len(found) == 1 else s.Logic("or", found, right.span)
    return Mask((letters[0], letters[1]), support, barred, len(barred) == len(conditions))


def _rows(node: s.Expression) -> Iterator[tuple[s.Expression | None, bool]]:
    """The terms of a sum: the condition under which each is there, None for one without, and whether it is −∞."""
    node = _bare(node)
    terms, signs = (node.terms, node.signs) if isinstance(node, s.Sum) and not infinite(node) else ((node,), ("+",))
    for term, sign in zip(terms, signs, strict=True):
        conditions: list[s.Expression] = []
        rest: list[s.Expression] = []
        factors = term.factors if isinstance(term, s.Product) else (term,)
        for n, x in enumerate(factors):
            after = factors[n + 1] if n + 1 < len(factors) else None
            if isinstance(x, s.Group) and x.open == "[":
                conditions += x.items
            elif not (isinstance(x, s.Number) and x.text == "1" and isinstance(after, s.Group) and after.open == "["):
                rest.append(x)
        barred = sign == "+" and len(rest) == 1 and infinite(rest[0])
        yield (_all(conditions) if conditions else None), barred


def _bare(node: s.Expression) -> s.Expression:
    while isinstance(node, s.Group) and node.open == "(" and len(node.items) == 1:
        node = node.items[0]
    return node


def infinite(node: s.Expression) -> bool:
    """Whether an expression is −∞ as it is written in masks."""
    match _bare(node):
        case s.Sum((s.Infinity(),), ("-",)):
            return True
    return False


def _all(conditions: list[s.Expression]) -> s.Expression:
    first = conditions[0]
    return first if len(conditions) == 1 else s.Logic("and", tuple(conditions), first.span.to(conditions[-1].span))


def opposite(condition: s.Expression, letter: str) -> s.Expression:
    """What holds where a condition on letters does not, with a letter on the left where it stands alone on the right.
    """
    match condition:
        case s.Logic("not", (inner,)):
            return _turned(inner, letter)
        case s.Relation((a, b), (sign,), span) if sign in _OPPOSITE:
            return _turned(s.Relation((a, b), (_OPPOSITE[sign],), span), letter)
    return s.Logic("not", (condition,), condition.span)


def _turned(condition: s.Expression, letter: str) -> s.Expression:
    match condition:
        case s.Relation((a, s.Word(text) as b), (sign,), span) if text == letter and letter not in {
                w.text for w in words((a,))}:
            mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
            return s.Relation((b, a), (mirrored.get(sign, sign),), span)
    return condition
