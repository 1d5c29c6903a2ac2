"""Lines and names of a text with matrix notation: index lines that are made, names and where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from einc.checking.declarations.names import head, left_of, size_name
from einc.checking.matrices.shapes import is_name, parts, power, within, words
from einc.checking.matrices.slots import sized
from einc.errors.report import Span
from einc.syntax import tree as s


def index(letter: str, cls: str, sizes: tuple[str, ...], parts: tuple[str, ...], span: Span) -> s.Statement:
    """`index k : feature(d_k)`, `… = (i v)` of parts, `index x : feature = c ⊕ p` of a size `d_c+d_p`."""
    factors = tuple(sized(x, span) for x in sizes)
    extent: s.Expression = factors[0] if len(factors) == 1 else s.Product(factors, ("",) * len(factors), span)
    kind: s.Expression = s.Product((s.Word(cls, span), s.Group("(", ")", (extent,), span)), ("", ""), span)
    if parts:
        inner = tuple(s.Word(x, span) for x in parts)
        summed = len(sizes) == 1
        together = s.Product(inner, ("",) * len(inner), span)
        made: s.Expression = s.DirectSum(inner, span) if summed else s.Group("(", ")", (together,), span)
        kind = s.Relation((s.Word(cls, span) if summed else kind, made), ("=",), span)
    named = s.Clause(s.Word(letter, span), None, span)
    return s.Statement("index", False, (named,), (s.Clause(kind, None, span),), span)


def taken(lines: Iterable[s.Statement]) -> frozenset[str]:
    """The names in a text and their labels of one letter, which no new index may have; not the labels of sizes."""
    bodies = [c.body for line in lines for c in (*line.clauses, *line.tail)]
    found = [x for body in bodies for x in parts(body) if isinstance(x, s.Word | s.Scripted)]
    hung = {id(w): size_name(x) is None for x in found if isinstance(x, s.Scripted)
            for w in words(k.content for k in x.scripts if k.content is not None)}
    return frozenset(x.text for x in found if isinstance(x, s.Word) and hung.get(id(x), True))


def laid_out(line: s.Statement) -> bool:
    """Whether a matrix that is written out stands in an equation of a paper for a name without letters."""
    found = head(left_of(line.clauses[0].body)) if line.rank is not None else None
    nodes = (x for c in line.clauses for x in parts(c.body)) if found is not None and not found[1] else ()
    return any(isinstance(x, s.Matrix) for x in nodes)


def names(node: s.Expression) -> Iterator[s.Expression]:
    """The names in an expression, with their scripts; not those inside of scripts, but for powers of e."""
    if (inner := power(node)) is not None:
        yield from names(inner)
    if is_name(node):
        yield node
    else:
        for x in within(node):
            yield from names(x)


def placed(node: s.Expression) -> Iterator[tuple[s.Expression, tuple[s.Expression, ...], s.Expression | None]]:
    """The names in an expression, each with the factors before it in a product and the one that it multiplies next."""
    if (inner := power(node)) is not None:
        yield from placed(inner)
    if is_name(node):
        yield node, (), None
    for at, x in enumerate(within(node) if not is_name(node) else ()):
        if isinstance(node, s.Product) and is_name(x):
            after = node.factors[at + 1] if at + 1 < len(node.factors) and node.operators[at + 1] in ("", "*") else None
            yield x, node.factors[:at], after
            yield from () if (inner := power(x)) is None else placed(inner)
        else:
            yield from placed(x)


def above(node: s.Expression) -> Iterator[str]:
    """The letters that hang above a name, not in parentheses."""
    for x in parts(node):
        for script in x.scripts if isinstance(x, s.Scripted) else ():
            if script.kind == "upper" and script.content is not None:
                yield from (w.text for w in words((script.content,)))
