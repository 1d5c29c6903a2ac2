r"""Equal pieces of a matrix: `[Q_1; Q_2] = X W`, and "$Z$ is split into $Z_1$ and $Z_2$", an equation for each piece.

Along which side they follow each other the shape decides: that which is so many times another size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from einc.checking.declarations.names import head
from einc.checking.matrices.pieces import PART
from einc.documents.document import Document
from einc.documents.named import NAME, NAMES, Parse, Told, each
from einc.documents.worded import doubted
from einc.errors.report import Span
from einc.syntax import tree as s

_INTO = (r"(?:along\s+(?:the\s+)?(?:channels?|features?|columns|last|hidden)(?:\s+(?:dimension|axis))?\s+)?"
         r"(?:evenly\s+|equally\s+)?(?:in|into)\s+"
         r"(?:(?:the|two|three|four|equal|halves|parts|pieces|blocks|chunks)\s+){0,3}")
_SPLIT = re.compile(rf"\b(?:splits?|divides?|partitions?|splitting|chunks)\s+(?P<whole>{NAME})\s+{_INTO}"
                    rf"(?P<parts>{NAMES})"
                    rf"|(?P<whole2>{NAME})\s+is\s+(?:\w+\s+)?(?:split|divided|partitioned|chunked)\s+{_INTO}"
                    rf"(?P<parts2>{NAMES})", re.S)
_WORDS = frozenset({"split", "chunk"})


def in_words(document: Document, parse: Parse) -> Iterator[Told]:
    """The equations of the pieces that a sentence names, with the formula in which the first of them stands."""
    text = document.source.text
    for found in (x for x in _SPLIT.finditer(text) if not doubted(text, x)):
        named = "" if found["whole"] is not None else "2"
        whole, parts = ([y for x in each(document, *found.span(group + named)) for y in parse(x)]
                        for group in ("whole", "parts"))
        formula = document.formula_behind(found.start("parts" + named))
        if len(whole) != 1 or len(parts) < 2 or formula is None or any(head(x) is None for x in (*whole, *parts)):
            continue
        for line in _equations(tuple(parts), whole[0]):
            yield Told(formula, line, (Span(document.source, *found.span()),))


def parted(left: s.Expression, right: s.Expression) -> tuple[s.Statement, ...]:
    """The equations of the names that a left side lists; none where it is no list of two names or more."""
    match left:
        case s.Matrix(cells) if 1 in (len(cells), max(map(len, cells))):
            names = tuple(x for row in cells for x in row if x is not None)
            dots = any(x is None for row in cells for x in row)
        case s.Group("[" | "(", _, items):
            names, dots = items, False
        case _:
            return ()
    several = len(names) > 1 and all(head(x) is not None for x in names) and len({x.span.text for x in names}) > 1
    match right:
        case s.Product((s.Word(text), s.Group("(", ")", (inner,))), ("", "")) if text.lower() in _WORDS:
            right = inner
    return _equations(names, right) if several and not dots else ()


def _equations(names: tuple[s.Expression, ...], whole: s.Expression) -> tuple[s.Statement, ...]:
    """`A = part(1, 2, X)`, `B = part(2, 2, X)`, where the names stand."""
    out: list[s.Statement] = []
    for n, name in enumerate(names, 1):
        numbers = (s.Number(str(n), name.span), s.Number(str(len(names)), name.span))
        given = s.Group("(", ")", (*numbers, whole), whole.span)
        span = Span(name.span.source, min(name.span.start, whole.span.start), max(name.span.end, whole.span.end))
        body = s.Relation((name, s.Product((s.Word(PART, name.span), given), ("", ""), whole.span)), ("=",), span)
        out.append(s.Statement("", False, (s.Clause(body, None, span),), (), span))
    return tuple(out)
