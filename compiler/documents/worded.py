"""Shapes that sentences say: "the rows of $Q$ have dimension $d$; there are $n$ rows in $Q$" -> `matrix Q : n × d`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from einc.checking.declarations.names import head, size_name
from einc.documents import shapes
from einc.documents.document import Document, Formula
from einc.documents.named import INNER, NAME, Parse, Told, each
from einc.documents.stops import around, limited
from einc.errors.report import Span
from einc.syntax import tree as s

Side = Literal["rows", "columns"]
_NAMES = rf"{NAME}(?:,\s*(?:and\s+)?(?:in\s+)?{NAME}|,?\s+and\s+(?:in\s+)?{NAME})*"
_IN = rf"{NAME}(?:,?\s+(?:and\s+)?(?:in\s+)?{NAME}(?!\s+(?:rows|columns)))*"  # and none that counts others
_STILL = r"(?:(?:still|exactly|now|again|both|all|each|also)\s+)?"
# "the rows of $Q$, $K$ and $V$ all have dimension $d$", and of columns; not where something denies or limits it.
_LONG = re.compile(rf"\b(?P<side>rows|columns)\s+of\s+(?P<names>{_NAMES})\s+{_STILL}(?:have|are\s+of)\s+{_STILL}"
                   rf"(?:the\s+)?(?:same\s+)?(?:dimension|length|size)\s+(?P<size>{NAME})", re.S)
# "there are still $n$ rows in $Q$ and $m$ rows in $K$ and in $V$"
_THERE = re.compile(rf"\bthere\s+are\s+{_STILL}(?P<all>{NAME}\s+(?:rows|columns)\s+in\s+{_IN}"
                    rf"(?:,?\s+and\s+{NAME}\s+(?:rows|columns)\s+in\s+{_IN})*)", re.S | re.I)
_MANY = re.compile(rf"(?P<size>{NAME})\s+(?P<side>rows|columns)\s+in\s+(?P<names>{_IN})", re.S)
# "$Q$ and $K$ have $n$ rows and $d$ columns"
_HAVE = re.compile(rf"(?P<names>{_NAMES})\s+{_STILL}(?:has|have)\s+{_STILL}(?P<one>{NAME})\s+rows\s+and\s+"
                   rf"(?P<other>{NAME})\s+columns\b", re.S)
_SIZED = r"(?P<size>\$[^$]*\\times[^$]*\$|\\\((?:(?!\\\)).)*\\times(?:(?!\\\)).)*\\\))"
# "matrices $Q$ and $K$ of size $n \\times d$", "$Q$ and $K$ are $n \\times d$ matrices", "the $n \\times d$ matrix $Q$"
_MATRICES = tuple(re.compile(x, re.S | re.I) for x in (
    rf"(?P<names>{_NAMES})(?:,)?\s+(?:(?:all|both|each|are|is|be|being|a|matrix|matrices)\s+){{0,3}}"
    rf"(?:of|have|has)\s+(?:the\s+)?(?:same\s+)?(?:size|shape|dimensions?)\s+{_SIZED}",
    rf"(?P<names>{_NAMES})\s+(?:is|are|be)\s+(?:all\s+|both\s+)?(?:an?\s+)?{_SIZED}(?:\s+|-)(?:matrix|matrices)\b",
    rf"\b(?:an?|the|let|with)\s+{_SIZED}(?:\s+|-)matrix\s+(?P<names>{NAME})",
    rf"{_SIZED}(?:\s+|-)matrices\s+(?P<names>{_NAMES})(?!,?\s+(?:and\s+)?\$|\s+(?:are|is)\s+(?:an?\s+)?\$)"))
_VECTORS = re.compile(rf"\bvectors?\s+(?P<names>{_NAMES})\s+of\s+(?:size|length|dimension)\s+(?P<size>{NAME})", re.S)
_BARE = re.compile(r"[=<>∈≤≥]|\\(?:in|le|ge|leq|geq|lt|gt|sim|to)(?![A-Za-z])")


# "$\\otimes$ is the element-wise product"
_SIGN = re.compile(r"\$\s*\\(?P<sign>otimes|ast|star|bullet|boxdot|circledast)\s*\$\s+"
                   r"(?:is|denotes?|represents?|stands\s+for|for)\s+(?:the\s+|an?\s+)?"
                   r"(?:(?:element|component|entry)-?\s?wise|point-?wise|Hadamard)\s+(?:product|multiplication)",
                   re.I)


def signs(text: str) -> frozenset[str]:
    """The macros of signs that the words say to be the product entry by entry."""
    return frozenset(x["sign"] for x in _SIGN.finditer(text) if not doubted(text, x))


def worded(document: Document, parse: Parse) -> Iterator[Told]:
    """The shape line of each symbol of which the sentences of a section say how many rows and columns it has, with the
    formula in which it is named first; none where they say two things of one side.
    """
    found: dict[tuple[int, str], dict[Side, list[s.Expression]]] = {}
    first: dict[tuple[int, str], tuple[Formula, s.Expression]] = {}
    words: dict[tuple[int, str], dict[Span, None]] = {}
    for side, name, size, said in _said(document):
        formula = document.formula_at(name.start)
        names, sizes = list(parse(name)), list(parse(size))
        if formula is None or len(names) != 1 or len(sizes) != 1 or head(names[0]) is None:
            continue
        key = formula.section, shapes.named(names[0].span.text)
        first.setdefault(key, (formula, names[0]))
        found.setdefault(key, {}).setdefault(side, []).append(sizes[0])
        words.setdefault(key, {})[said] = None
    for key, sides in found.items():
        rows, columns = ({size_name(x): x for x in sides.get(side, ())} for side in ("rows", "columns"))
        if len(rows) == len(columns) == 1 and None not in (*rows, *columns):
            formula, symbol = first[key]
            sizes_of = (*rows.values(), *columns.values())
            line = shapes.line(symbol, s.Product(sizes_of, ("", "*"), symbol.span), symbol.span)
            if line is not None:
                yield Told(formula, line, tuple(words[key]))


def sized(document: Document, parse: Parse) -> Iterator[Told]:
    """The shape line of each name of which a sentence says the size as a whole, "$Q$ of size $n \\times d$"."""
    text = document.source.text
    for found in (x for pattern in (*_MATRICES, _VECTORS) for x in pattern.finditer(text) if not doubted(text, x)):
        (size,) = (list(parse(x)) for x in _spans(document, found, "size"))
        named = list(_spans(document, found, "names"))
        said = [n for n, x in enumerate(named) if _BARE.search(x.text)]  # `X \\in \\mathbb{R}^n` says its own shape
        for name in named[said[-1] + 1 if said else 0 :]:
            formula = document.formula_at(name.start)
            names = list(parse(name))
            if formula is not None and len(names) == len(size) == 1:
                line = shapes.line(names[0], size[0], names[0].span)
                if line is not None and line.keyword == ("vector" if found.re is _VECTORS else "matrix"):
                    yield Told(formula, line, (Span(document.source, *found.span()),))


def _spans(document: Document, found: re.Match[str], group: str) -> Iterator[Span]:
    """The formulas in a group, without their marks."""
    yield from each(document, *found.span(group))


def _said(document: Document) -> Iterator[tuple[Side, Span, Span, Span]]:
    """What each sentence says of a side of a symbol: the side, the symbol, the size and the words. The length of rows
    is that of the side of the columns.
    """
    text = document.source.text

    def names(found: re.Match[str], group: str) -> Iterator[Span]:
        return _spans(document, found, group)

    for found in (x for pattern in (_LONG, _HAVE) for x in pattern.finditer(text) if not doubted(text, x)):
        said = Span(document.source, *found.span())
        for name in names(found, "names"):
            if found.re is _LONG:
                size, = names(found, "size")
                yield ("columns" if found["side"] == "rows" else "rows"), name, size, said
            else:
                (one,), (other,) = names(found, "one"), names(found, "other")
                yield "rows", name, one, said
                yield "columns", name, other, said
    for found in (x for x in _THERE.finditer(text) if not doubted(text, x)):
        for part in _MANY.finditer(text, *found.span("all")):
            size, = names(part, "size")
            for name in names(part, "names"):
                said = Span(document.source, *found.span())
                yield ("rows" if part["side"] == "rows" else "columns"), name, size, said


def doubted(text: str, found: re.Match[str]) -> bool:
    """Whether the words of the sentence around it deny or limit what is said."""
    before, behind = around(text, *found.span())
    return limited(re.sub(INNER, " ", f"{before}{found[0]}{behind}"))
