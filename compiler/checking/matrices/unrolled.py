"""Sums that a listing writes out before its dots, `a_1`, `a_1 + a_2`, …, `Σ_{i=1}^T a_i`: the terms before the dots as
sums again, where they are what the sum behind the dots is for 1, 2, … terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from einc.checking.declarations.names import size_name
from einc.checking.matrices.factors import binds
from einc.checking.matrices.shapes import alike, mapped
from einc.syntax import tree as s


def rolled(before: Sequence[Any], last: Any) -> list[Any] | None:
    """The terms before the dots as `last`, behind them, has its sums; None where they are no first terms of such sums.
    Two terms or more show that the sums grow.
    """
    for size in dict.fromkeys(_ends(last)) if len(before) > 1 else ():
        for first in (1, 0):
            made = [_put(last, size, s.Number(str(n), _span(x))) for n, x in enumerate(before, first)]
            if all(alike(_tidy(_unrolled(a)), _tidy(b)) for a, b in zip(made, before, strict=True)):
                return made
    return None


def _ends(node: Any) -> Iterator[str]:
    """The sizes up to which sums run."""
    if isinstance(node, s.Expression) and binds(node) and (found := _range(node)) is not None:
        name = size_name(found[2])
        yield from () if name is None else (name,)
    for inner in _inside(node):
        yield from _ends(inner)


def _range(node: s.Expression) -> tuple[str, int, s.Expression] | None:
    """The letter of `Σ_{i=1}^T`, where it begins and where it ends; None for another one."""
    match node:
        case s.Scripted(s.Word("sum"), (), (s.Script("lower", low), s.Script("upper", high))) if low and high:
            match _bare(low):
                case s.Relation((s.Word(letter), s.Number(first)), ("=",)):
                    return letter, int(first), _bare(high)
    return None


def _unrolled(node: Any) -> Any:
    """The expression with each sum of so many terms written out."""
    if isinstance(node, tuple):
        return tuple(map(_unrolled, node))
    if not isinstance(node, s.Expression):
        return node
    if isinstance(node, s.Product):
        at = next((n for n, x in enumerate(node.factors) if binds(x)), None)
        found = _range(node.factors[at]) if at is not None else None
        if at is not None and found is not None and isinstance(found[2], s.Number) and found[2].text.isdigit():
            rest = replace(node, factors=node.factors[at + 1 :], operators=("", *node.operators[at + 2 :]))
            values = [s.Number(str(n), node.span) for n in range(found[1], int(found[2].text) + 1)]
            terms = tuple(_unrolled(_put(rest, found[0], x)) for x in values)
            whole = s.Sum(terms, ("+",) * len(terms), node.span) if len(terms) > 1 else terms[0] if terms else node
            return whole if at == 0 else replace(
                node, factors=(*map(_unrolled, node.factors[:at]), whole), operators=node.operators[: at + 1])
    return mapped(node, _unrolled)


def _put(node: Any, name: str, value: s.Number) -> Any:
    """The expression with a number in place of a size or a letter."""
    if isinstance(node, tuple):
        return tuple(_put(x, name, value) for x in node)
    if not isinstance(node, s.Expression):
        return node
    if (isinstance(node, s.Word) and node.text == name) or size_name(node) == name:
        return value
    return mapped(node, lambda x: _put(x, name, value), scripts=True)


def _tidy(node: Any) -> Any:
    """The expression without brackets around one thing, and with sums in sums and products in products joined."""
    if isinstance(node, tuple):
        return tuple(map(_tidy, node))
    if not isinstance(node, s.Expression):
        return node
    made = mapped(_bare(node), _tidy)
    if isinstance(made, s.Sum):
        pairs = [y for x, sign in zip(made.terms, made.signs, strict=True) for y in (
            zip(x.terms, x.signs, strict=True) if isinstance(x, s.Sum) and sign == "+" else [(x, sign)])]
        return replace(made, terms=tuple(x for x, _ in pairs), signs=tuple(sign for _, sign in pairs))
    if isinstance(made, s.Product) and len(made.factors) == 1 and made.operators == ("",):
        return made.factors[0]
    return made


def _bare(node: s.Expression) -> s.Expression:
    """What stands in brackets that hold one expression."""
    while isinstance(node, s.Group) and node.open in "({[" and len(node.items) == 1:
        (node,) = node.items
    return node


def _inside(node: Any) -> tuple[Any, ...]:
    """The nodes directly within an expression or a script, or the items of a tuple; of anything else none."""
    if isinstance(node, tuple):
        return node
    return tuple(getattr(node, f.name) for f in fields(node)) if is_dataclass(node) and isinstance(
        node, s.Expression | s.Script) else ()


def _span(node: Any) -> Any:
    """The place of the first expression in something."""
    while isinstance(node, tuple):
        node = next((x for x in node if x), None)
    return node.span
