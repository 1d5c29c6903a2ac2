"""Functions as papers write them: their names in upright type, and what they are applied to without parentheses."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from einc.checking.matrices.factors import applied
from einc.checking.matrices.shapes import mapped
from einc.syntax import tree as s


def spelled(line: s.Statement, functions: Container[str]) -> s.Statement:
    """The line with upright names of functions as the language spells them, `relu` of `\\text{ReLU}`, and with
    parentheses around the one factor that stands behind a function at the end of a product, `\\log \\frac{a}{b}`.
    """
    def name(node: s.Expression) -> s.Expression:
        """The expression with each such name in its place."""
        if not isinstance(node, s.Product):
            return mapped(node, name)
        after = zip(node.factors, (*node.factors[1:], None), (*node.operators[1:], ""), strict=True)
        found = tuple(
            replace(x, text=x.text.lower()) if isinstance(x, s.Word) and x.quoted and not mark and isinstance(
                given, s.Group) and x.text not in functions and x.text.lower() in functions else name(x)
            for x, given, mark in after)
        factors, operators = applied(found, node.operators, functions, ())
        return replace(node, factors=factors, operators=operators)

    return replace(line, clauses=tuple(replace(c, body=name(c.body)) for c in line.clauses))
