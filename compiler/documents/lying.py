"""How vectors lie where the words of a document say it of all of them: "All vectors are column vectors"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einc.checking.matrices.known import ALL_VECTORS
from einc.documents.document import Document
from einc.documents.worded import doubted
from einc.errors.report import Span

_ALL = re.compile(r"\b(?:(?:all|our|every)\s+)?vectors?\s+(?:are|is)\s+(?:all\s+|always\s+|assumed\s+to\s+be\s+|"
                  r"taken\s+(?:to\s+be|as)\s+|understood\s+as\s+|treated\s+as\s+|an?\s+)*(?P<side>column|row)s?"
                  r"(?:\s+vectors?)?\b(?!\s+(?:of|in)\b)", re.I)


def heard(document: Document) -> Iterator[Span]:
    """The words that say it."""
    yield from (Span(document.source, *x.span()) for x in _found(document))


def lying(document: Document) -> dict[str, frozenset[str]]:
    """Of all vectors `columns` or `rows`, as which the words say that they lie; nothing where they do not, or say
    both.
    """
    said = {x["side"].lower() for x in _found(document)}
    return {ALL_VECTORS: frozenset({f"{x}s" for x in said})} if len(said) == 1 else {}


def _found(document: Document) -> Iterator[re.Match[str]]:
    text = document.source.text
    return (x for x in _ALL.finditer(text) if not doubted(text, x))
