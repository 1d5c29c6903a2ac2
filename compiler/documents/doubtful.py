"""Quotients that a line of a paper leaves open: `1/2x` is half of x to one author and 1/(2x) to another."""

from __future__ import annotations

from collections.abc import Container, Iterable

from einc.checking.declarations.names import head, size_name
from einc.checking.matrices.factors import binds
from einc.checking.matrices.shapes import parts
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Problem
from einc.syntax import tree as s


def doubtful(lines: Iterable[s.Statement], sizes: Container[str], functions: Container[str]) -> Problem | None:
    """The question of the first quotient in a line that has two readings; None where there is none.

    A factor behind a quotient belongs to what is divided where nobody would divide by it: behind a size or a root,
    `1/d x_t`, and where it is a sum, an application or in brackets.
    """
    for product in (x for line in lines for c in line.clauses for x in parts(c.body) if isinstance(x, s.Product)):
        for n in range(1, len(product.factors) - 1):
            below, after = product.factors[n], product.factors[n + 1]
            applied = n + 2 < len(product.factors) and isinstance(product.factors[n + 2], s.Group)
            if product.operators[n] == "/" and product.operators[n + 1] == "" and _divides(below, sizes) and (
                    _name(after, functions) and not applied):
                above, one, two = (x.span.text for x in (product.factors[n - 1], below, after))
                return OpenReading(f"is `{two}` below the line here, or beside it?", below.span.to(after.span), helps=(
                    Help(f"write `({above}/{one}) {two}`, or `{above}/({one} {two})`"),))
    return None


def _divides(node: s.Expression, sizes: Container[str]) -> bool:
    """Whether more than this may stand below a line: it is a number or a name, and no size."""
    return isinstance(node, s.Number) or (head(node) is not None and size_name(node) not in sizes)


def _name(node: s.Expression, functions: Container[str]) -> bool:
    """Whether it is the name of a tensor or of a number."""
    found = head(node)
    return found is not None and not binds(node) and found[0].base not in functions
