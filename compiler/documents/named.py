r"""Names that stand in a sentence, each between its marks, "$Q$, $K$ and \\(V\\)", and what a sentence says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from einc.documents.document import Document, Formula
from einc.errors.report import Span
from einc.syntax import tree as s

Parse = Callable[[Span], Iterable[s.Expression]]  # the names that a piece of the text lists, without their shapes
NAME = r"(?:\$[^$]+\$|\\\((?:(?!\\\)).)+\\\))"
NAMES = rf"{NAME}(?:,\s*(?:and\s+)?{NAME}|,?\s+and\s+{NAME})*"
INNER = re.compile(NAME, re.S)



@dataclass(frozen=True)
class Told:
    """What a sentence says: a line of the language, the formula in which its name stands, and the stretches of the
    text from which it was read.
    """

    formula: Formula
    line: s.Statement
    words: tuple[Span, ...] = ()


def inside(document: Document, start: int, end: int) -> Span:
    """What stands between the marks of a formula."""
    width = 1 if document.source.text[start] == "$" else 2
    return Span(document.source, start + width, end - width)


def each(document: Document, start: int, end: int) -> Iterator[Span]:
    """What stands between the marks of each formula in a stretch of the text."""
    for found in INNER.finditer(document.source.text, start, end):
        yield inside(document, *found.span())
