"""Functions that sentences define by a matrix: "$F(\\cdot)$ multiplies a vector by the matrix $R$" -> `F(x) = R x`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einc.checking.declarations.names import head, index_name
from einc.checking.matrices.pieces import EACH
from einc.checking.matrices.slots import undressed
from einc.documents.document import Document
from einc.documents.named import NAME, Parse, Told, inside
from einc.documents.worded import doubted
from einc.errors.report import Span
from einc.syntax import tree as s

FACT = "a function"  # the kind of fact that it is
# What is multiplied: all of what the function is applied to, or each of the runs of entries of which that consists.
_WHOLE = r"(?:it|its\s+argument|its\s+input|an?\s+vector|vectors|the\s+vector|each\s+vector|every\s+vector)"
_RUNS = (rf"(?P<runs>(?:each|every)\s+(?:part|piece|block|run)\s+of\s+(?P<size>{NAME})\s+"
         r"(?:entries|coordinates|components|numbers)(?:,[^$.;]{0,60},)?)")
_SENTENCE = re.compile(rf"(?P<function>(?:\$|\\\()[^$()]+\(\s*(?:\\cdot|·)\s*\)\s*(?:\$|\\\)))\s+multiplies\s+"
                       rf"(?:{_WHOLE}|{_RUNS})\s+by\s+(?:an?|the)\s+"
                       r"(?:(?:given|fixed|learned|same|rotation|rotary)\s+)*matrix\s+"
                       rf"(?P<matrix>{NAME})(?=\s*(?:[.;]|\Z))", re.S)
# What tells the place of a vector, which the matrix shares.
_PLACE = re.compile(r"\b(?:an?|every|each|the)\s+vector\s+(?:that\s+belongs\s+to|at|of|in)\s+(?:the\s+)?"
                    rf"(?:token|position|time\s+step|step)\s+(?P<letter>{NAME}),?\s*\Z", re.S | re.I)


def multiplied(document: Document, parse: Parse) -> Iterator[Told]:
    """The equation of each function that a sentence defines so, with the formula in which it is named."""
    text = document.source.text
    for found in _SENTENCE.finditer(text):
        start = found.start("function")
        formula = document.formula_at(start + 2)
        place = _PLACE.search(text, max(start - 120, 0), start)
        bracket = text.index("(", start + 2)
        named = list(parse(Span(document.source, start + _width(text, start), bracket)))
        matrix = list(parse(inside(document, *found.span("matrix"))))
        letter = list(parse(inside(document, *place.span("letter")))) if place is not None else []
        if formula is None or doubted(text, found) or len(named) != 1 or len(matrix) != 1 or head(named[0]) is None:
            continue
        sizes = list(parse(inside(document, *found.span("size")))) if found["size"] is not None else []
        if len(letter) > 1 or len(sizes) > 1 or any(index_name(x) is None for x in letter):
            continue
        line = _line(named[0], matrix[0], letter[0] if letter else None, sizes[0] if sizes else None)
        begin = place.start() if place is not None else start
        yield Told(formula, line, (Span(document.source, begin, found.end()),))


def _width(text: str, start: int) -> int:
    return 1 if text[start] == "$" else 2


def _line(name: s.Expression, matrix: s.Expression, letter: s.Expression | None,
          size: s.Expression | None) -> s.Statement:
    """`F(x) = M x`, or `M` times each piece of a `size` of x; at the place of x where a `letter` says so."""
    span = name.span
    argument = s.Word("x@", span)
    place = letter if letter is not None else s.Number("0", span)
    run = s.Number("0", span) if size is None else undressed(size)
    given = s.Group("(", ")", (place, matrix, argument, run), span)
    right = s.Product((s.Word(EACH, span), given), ("", ""), span)
    left = s.Product((name, s.Group("(", ")", (argument,), span)), ("", ""), span)
    return s.Statement("", False, (s.Clause(s.Relation((left, right), ("=",), span), None, span),), (), span)
