"""Products that a line of a paper leaves open: `1/2x` is half of x to one author and 1/(2x) to another, `dO` d times
O or a gradient, `V[2]` twice V or an entry. `K_{:t}` is a column to one author and the first t rows to another.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from itertools import pairwise

from einc.checking.declarations.names import head, size_name
from einc.checking.declarations.raised import exponent
from einc.checking.matrices.factors import binds
from einc.checking.matrices.shapes import parts
from einc.documents.document import Document
from einc.documents.said import Said
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Problem, Span
from einc.syntax import tree as s

_TENSOR_E = re.compile(r"(?<![A-Za-z\\])e\s*_|\\(?:mathbf|boldsymbol|bm)\s*(?:\{\s*e\s*\}|e)\s*_")


def doubtful(lines: Iterable[s.Statement], sizes: Container[str], functions: Container[str]) -> Problem | None:
    """The question of the first slice or product in some lines that has two readings; None where there is none."""
    nodes = [x for line in lines for c in line.clauses for x in parts(c.body)]
    if (asked := next((x for x in map(_slice, nodes) if x is not None), None)) is not None:
        return asked
    products = (x for x in nodes if isinstance(x, s.Product))
    return next((found for product in products for n in range(len(product.factors) - 1)
                 for find in (_quotient, _differential, _subscript, _digits)
                 if product.operators[n + 1] == "" and (found := find(product, n, sizes, functions)) is not None), None)


def exponential(document: Document, said: Said, letters: Container[str]) -> Problem | None:
    """The question of `e^t` or `e^2` in a section with a tensor `e_t`: an exponential, or the tensor at a place."""
    lines = said.sides or (() if said.statement is None else (said.statement,))
    nodes = [x for line in lines for c in line.clauses for x in parts(c.body)]
    raised = [x for x in nodes if isinstance(x, s.Scripted) and isinstance(x.base, s.Word) and x.base.text == "e"
              and [k.kind for k in x.scripts] == ["upper"] and (above := exponent(x.scripts[0])) is not None
              and (isinstance(above, s.Number) or (isinstance(above, s.Word) and above.text in letters))]
    own = (x.span.text for x in document.formulas if x.section == said.formula.section) if raised else ()
    if not any(map(_TENSOR_E.search, own)):
        return None
    text = raised[0].span.text
    return OpenReading(f"is `{text}` an exponential, or the tensor `e` of the text at a place?", raised[0].span, helps=(
        Help(f"write `\\exp({text.partition('^')[2].strip('{}')})` for the exponential"),))


def _slice(node: s.Expression) -> Problem | None:
    """`K_{:t}` and `K_{t:}`, which may be a line of a matrix, or all its rows before or behind a place. With a comma,
    `K_{:,t}`, it is a line.
    """
    for script in node.scripts if isinstance(node, s.Scripted) else ():
        items = script.content.items if isinstance(script.content, s.Group) and script.kind == "lower" else ()
        for one, other in pairwise(items):
            between = Span(node.span.source, one.span.end, other.span.start)
            if ":" in (one.span.text, other.span.text) and "," not in between.text.replace("\\,", ""):
                place = (other if one.span.text == ":" else one).span.text
                name = node.span.source.text[node.span.start : script.span.start].strip() or node.span.text
                return OpenReading(f"is this one row or column of `{name}`, or all its rows up to `{place}` or from it "
                                   "on?", node.span, helps=(
                    Help(f"write `{name}_{{:,{place}}}` for the column, `{name}_{{{place},:}}` for the row"),))
    return None


def _quotient(product: s.Product, n: int, sizes: Container[str], functions: Container[str]) -> Problem | None:
    """`a/b c`. A factor behind a quotient belongs to what is divided where nobody would divide by it: behind a size or
    a root, `1/d x_t`, and where it is a sum, an application or in brackets.
    """
    below, after = product.factors[n : n + 2]
    applied = n + 2 < len(product.factors) and isinstance(product.factors[n + 2], s.Group)
    if n == 0 or product.operators[n] != "/" or not _divides(below, sizes) or applied or not _name(after, functions):
        return None
    above, one, two = (x.span.text for x in (product.factors[n - 1], below, after))
    return OpenReading(f"is `{two}` below the line here, or beside it?", below.span.to(after.span), helps=(
        Help(f"write `({above}/{one}) {two}`, or `{above}/({one} {two})`"),))


def _differential(product: s.Product, n: int, _sizes: Container[str], functions: Container[str]) -> Problem | None:
    """`d x` in a derivative or as a gradient, where d may be a number, too; `2 d x` and `1/d x` are products."""
    d, after = product.factors[n : n + 2]
    counted = n > 0 and (product.operators[n] == "/" or isinstance(product.factors[n - 1], s.Number))
    if not (isinstance(d, s.Word) and d.text == "d" and not d.quoted) or counted or not _name(after, functions):
        return None
    text = after.span.text
    return OpenReading(f"is this `d` times `{text}`, or the differential or gradient of it?", d.span.to(after.span),
                       helps=(Help(f"write `d \\cdot {text}` for the product, and `\\text{{d{text}}}` for a name"),))


def _subscript(product: s.Product, n: int, sizes: Container[str], functions: Container[str]) -> Problem | None:
    """`V[2]` and `E[x]`, which may be an entry or an application, and `V(2)` and `T(x)` of what is no function."""
    name, group = product.factors[n : n + 2]
    if not isinstance(group, s.Group) or len(group.items) != 1 or not _name(name, functions):
        return None
    (item,) = group.items
    alone = isinstance(item, s.Number) or head(item) is not None
    read = group.open == "[" or isinstance(item, s.Number) or size_name(name) in sizes
    if not alone or not read or group.open not in ("(", "["):
        return None
    text = group.span.text
    return OpenReading(f"is `{name.span.text}{text}` a product, or `{name.span.text}` at a place or applied?",
                       name.span.to(group.span), helps=(
        Help(f"write `{name.span.text} \\cdot {item.span.text}` for a product, `_{{{item.span.text}}}` for a place"),))


def _digits(product: s.Product, n: int, _sizes: Container[str], _functions: Container[str]) -> Problem | None:
    """`1 000`, which is one number to most, and a product here."""
    one, other = product.factors[n : n + 2]
    if not (isinstance(one, s.Number) and isinstance(other, s.Number)):
        return None
    return OpenReading("is this one number, or a product of two?", one.span.to(other.span), helps=(
        Help(f"write `{one.text}{other.text}`, or `{one.text} \\cdot {other.text}`"),))


def _divides(node: s.Expression, sizes: Container[str]) -> bool:
    """Whether more than this may stand below a line: it is a number or a name, and no size."""
    return isinstance(node, s.Number) or (head(node) is not None and size_name(node) not in sizes)


def _name(node: s.Expression, functions: Container[str]) -> bool:
    """Whether it is the name of a tensor or of a number."""
    found = head(node)
    return found is not None and not binds(node) and found[0].base not in functions
