"""Factors of products: which take the rest of it, which need parentheses, and names with one entry renamed."""

from __future__ import annotations

from dataclasses import replace

from einc.checking.declarations.names import size_name
from einc.errors.report import Span
from einc.syntax import tree as s
from einc.syntax.spelling import is_fold


def product(nodes: tuple[s.Expression, ...], marks: tuple[str, ...], span: Span) -> s.Expression:
    """A product of expressions, each a factor of it."""
    return s.Product(tuple(enclosed(x, mark == "/") for x, mark in zip(nodes, marks, strict=True)), marks, span)


def enclosed(node: s.Expression, divisor: bool = False) -> s.Expression:
    """An expression as a factor: in parentheses where it is a sum, a product with a quotient or a big operator, or a
    product that is a divisor.
    """
    inner = isinstance(node, s.Product) and (divisor or "/" in node.operators or any(map(binds, node.factors)))
    return s.Group("(", ")", (node,), node.span) if inner or isinstance(node, s.Sum) else node


def binds(node: s.Expression) -> bool:
    """Whether it is `Σ_i`, which takes the rest of its product."""
    return isinstance(node, s.Scripted) and isinstance(node.base, s.Word) and is_fold(node.base.text)


def renamed(node: s.Expression, old: str, new: str) -> s.Expression | None:
    """A name with one entry of its scripts renamed; None where it has none of that name, or several."""
    if not isinstance(node, s.Scripted):
        return None
    found = 0

    def change(x: s.Expression) -> s.Expression:
        nonlocal found
        match x:
            case s.Word(text) | s.Number(text) if text == old:
                found += 1
                return s.Word(new, x.span)
            case s.Scripted() if size_name(x) == old:
                found += 1
                return s.Word(new, x.span)
            case s.Group(items=items):
                return replace(x, items=tuple(map(change, items)))
            case s.Product(factors=factors):
                return replace(x, factors=tuple(map(change, factors)))
        return x

    scripts = tuple(replace(k, content=change(k.content)) if k.content is not None else k for k in node.scripts)
    return replace(node, scripts=scripts) if found == 1 else None
