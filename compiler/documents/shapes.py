"""Shapes that a document says of its symbols, `$Q, K \\in \\mathbb{R}^{T \\times d}$` -> `matrix Q, K : T × d`."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import replace

from einc.checking.declarations.names import head
from einc.checking.matrices.factors import BOLD, enclosed
from einc.checking.matrices.shapes import dimensions, mapped
from einc.checking.matrices.slots import undressed
from einc.documents.symbols import Symbol, fixed
from einc.errors.report import Problem, Span
from einc.syntax import tree as s

_FONT = re.compile(r"\\(?:text[a-z]*|mathrm|mathbf|mathsf|boldsymbol|operatorname)(?![A-Za-z])")  # of other letters
FACT = "a shape"  # the kind of fact that it is
_DRESS = re.compile(r"\\(?:math[a-z]+|text[a-z]*|operatorname|bm|boldsymbol|left|right)(?![A-Za-z])|[\s{}&]|\\[,;:!]")
_KEYWORDS = {1: "vector", 2: "matrix"}
# `a scalar decay $\\gamma$`; not of what is named beside another thing, `the scalar product $q k$`.
_NUMBER = re.compile(r"(?<!not a )\bscalars?(?:\s+(?!product|multipl|function|times|field|valued|of\b|for\b|on\b|per\b)"
                     r"[a-z]+)?\s+(?:\$|\\\()\s*\Z")


def number(text: str, start: int) -> bool:
    """Whether the words before a formula, which starts at a place of a text, say that it is a number."""
    return _NUMBER.search(text, max(start - 60, 0), start) is not None


def shape(node: s.Expression, sizes: Container[str] = ()) -> s.Expression | None:
    """What stands above the ℝ of `… ∈ \\mathbb{R}^{T \\times d}`, or above a set of numbers, `\\{0,1\\}^{n \\times d}`,
    the last of a relation; 1 for an interval, `(0, 1)`, and None for anything else. The `sizes` are the names that the
    text writes as sizes.
    """
    if not isinstance(node, s.Relation) or node.operators[-1] != "in":
        return None
    match counted(node.operands[-1]):
        case s.Word("R", quoted=True) as real if real.span.text.startswith("\\mathbb"):
            return s.Number("1", real.span)
        case s.Group("(" | "[", _, (low, high)) as interval if _value(low) and _value(high):
            return s.Number("1", interval.span)
        case s.Scripted(s.Group("{", _, values), (), (s.Script("upper", content),)) if content is not None and (
                all(map(_value, values))):
            return _sides(content, sizes)
        case s.Scripted(s.Word("R", quoted=True) as real, (), (s.Script("upper", content),)) if content is not None:
            if _FONT.match(real.span.text) is not None:
                return None
            return _sides(content, sizes)
    return None


def _sides(content: s.Expression, sizes: Container[str]) -> s.Expression:
    """What stands above a set, as `T × d`."""
    while isinstance(content, s.Group) and content.open == "{" and len(content.items) == 1:
        (content,) = content.items
    content = _bare(content, sizes)
    listed = isinstance(content, s.Group) and content.open == "(" and len(content.items) > 1
    return _times(content.items, content.span) if isinstance(content, s.Group) and listed else content


def _value(node: s.Expression) -> bool:
    """Whether it is a number that is written out, or infinity."""
    match node:
        case s.Number() | s.Infinity():
            return True
        case s.Sum((inner,)) | s.Group("(" | "{", _, (inner,)):
            return _value(inner)
    return False


def _bare(node: s.Expression, sizes: Container[str]) -> s.Expression:
    """The expression of a shape with every size under a name without primes and labels above."""
    return undressed(node, sizes) if isinstance(node, s.Scripted) else mapped(node, lambda x: _bare(x, sizes))


def counted(node: s.Expression) -> s.Expression:
    """The expression with every length `|x|` as the size `x_len`."""
    if not isinstance(node, s.Product):
        return mapped(node, counted, scripts=True)
    factors: list[s.Expression] = []
    operators: list[str] = []
    for factor, operator in zip(node.factors, node.operators, strict=True):
        match factors[-1:], factor:
            case [s.Word("abs") as bar], s.Group("(", ")", (s.Word() as name,)) if operator == "":
                label = s.Script("lower", s.Word("len", name.span, quoted=True), "", name.span)
                factors[-1] = s.Scripted(name, (), (label,), bar.span.to(factor.span))
            case _:
                factors.append(counted(factor))
                operators.append(operator)
    return factors[0] if len(factors) == 1 else replace(node, factors=tuple(factors), operators=tuple(operators))


def _times(sides: tuple[s.Expression, ...], span: Span) -> s.Expression:
    """`(T, P)` as `T × P`."""
    return s.Product(tuple(map(enclosed, sides)), ("", *("*" for _ in sides[1:])), span)


def without(clause: s.Clause) -> s.Clause:
    """The clause without the set at its end: `S = Q K^⊤` of `S = Q K^⊤ ∈ ℝ^{N × N}`."""
    body = clause.body
    assert isinstance(body, s.Relation)
    span = body.operands[0].span.to(body.operands[-2].span)
    kept = replace(body, operands=body.operands[:-1], operators=body.operators[:-1], span=span)
    return replace(clause, body=kept if kept.operators else kept.operands[0], span=span)


def line(name: s.Expression, sides: s.Expression, span: Span) -> s.Statement | None:
    """The `matrix` or `vector` line of a symbol; None for what is no name or has no such shape."""
    try:
        keyword = _KEYWORDS.get(len(dimensions(sides)))
    except Problem:
        return None
    if keyword is None or (found := head(name)) is None or several(name, found[0].base):
        return None
    return s.Statement(keyword, False, (s.Clause(name, None, name.span),), (s.Clause(sides, None, sides.span),), span)


def several(name: s.Expression, base: str) -> bool:
    """Whether a name is letters side by side, which are a product: `XW`, `\\mathbf{XW}`."""
    word = name.base if isinstance(name, s.Scripted) else name
    return len(base) > 1 and base.isascii() and base.isalpha() and isinstance(word, s.Word) and (
        BOLD.match(word.span.text) is not None or not word.quoted) and word.span.text.endswith((base, base + "}"))


def chosen(said: Iterable[tuple[int, s.Statement]], around: tuple[int, ...],
           declared: Container[str], letters: Container[str]) -> list[tuple[int, s.Statement]]:
    """The shape lines that hold in a section with the sections that say them, of all that the text says: the section's
    own, else those of the sections `around` it from the inside out, else that on which the others agree, and none of a
    symbol that is `declared`. Symbols are the same that differ in `letters` alone.
    """
    by_symbol: dict[tuple[Symbol, tuple[str, ...]], list[tuple[int, s.Statement]]] = {}
    for at, one in said:
        name = one.clauses[0].body
        by_symbol.setdefault((Symbol.of(name), fixed(name, letters)), []).append((at, one))
    found: list[tuple[int, s.Statement]] = []
    for all_of in by_symbol.values():
        own = next((mine for at in around if (mine := [x for x in all_of if x[0] == at])), all_of)
        if not any(written(one) in declared for _, one in own) and len({sides(one) for _, one in own}) == 1:
            found.append(own[0])
    return found


def written(line: s.Statement) -> str:
    """The symbol of a shape line, as `named` tells it from others."""
    return named(line.clauses[0].span.text)


def named(text: str) -> str:
    """A symbol as it is written, without spaces, braces and fonts, and with its scripts in one order."""
    return "".join(_pieces(text))


def defined(text: str) -> frozenset[str]:
    """The symbols that a left side may define, as `named` tells them: `L_{ij}` is of `L` too."""
    here = re.sub(r"(?<=[A-Za-z])\s*[+-]\s*\w+(?=\s*[},])", "", text)  # `S_t` of `S_{t+1}`
    return frozenset({named(text), named(here), "".join(x for x in _pieces(text) if x[:1] not in ("_", "^"))})


def _pieces(text: str) -> list[str]:
    return sorted(re.split(r"(?=[_^])", _DRESS.sub("", text)))


def sides(line: s.Statement) -> tuple[tuple[str, ...], ...]:
    """The sizes of a shape line, side by side."""
    return dimensions(line.tail[0].body)
