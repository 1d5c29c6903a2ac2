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
        factors, operators = raised(*applied(found, node.operators, functions, ()), functions)
        return replace(node, factors=factors, operators=operators)

    return replace(line, clauses=tuple(replace(c, body=name(c.body)) for c in line.clauses))


def raised(factors: tuple[s.Expression, ...], operators: tuple[str, ...],
           functions: Container[str]) -> tuple[tuple[s.Expression, ...], tuple[str, ...]]:
    """The factors with a power of a function behind what it is applied to: `\\sin^2(x)` is `(\\sin(x))^2`."""
    out: list[s.Expression] = []
    marks: list[str] = []
    for x, mark in zip(factors, operators, strict=True):
        match out[-1] if out and mark == "" else None, x:
            case s.Scripted(s.Word(text) as base, (), (s.Script("upper", power) as script,)), s.Group("(", ")"):
                known = text in functions or (base.quoted and text.lower() in functions)
                inner = power.items[0] if isinstance(power, s.Group) and len(power.items) == 1 else power
                if known and isinstance(inner, s.Number) and inner.text.isdigit() and int(inner.text) > 1:
                    word = base if text in functions else replace(base, text=text.lower())
                    called = s.Product((word, x), ("", ""), base.span.to(x.span))
                    group = s.Group("(", ")", (called,), called.span)
                    out[-1] = s.Scripted(group, (), (script,), called.span)
                    continue
        out.append(x)
        marks.append(mark)
    return tuple(out), tuple(marks)
