"""How vectors lie where the words of a document say it of all of them: "All vectors are column vectors"."""

from __future__ import annotations

import re

from einc.checking.matrices.known import ALL_VECTORS
from einc.documents.document import Document
from einc.documents.worded import doubted

_ALL = re.compile(r"\b(?:(?:all|our|every)\s+)?vectors?\s+(?:are|is)\s+(?:all\s+|always\s+|assumed\s+to\s+be\s+|"
                  r"taken\s+(?:to\s+be|as)\s+|understood\s+as\s+|treated\s+as\s+|an?\s+)*(?P<side>column|row)s?"
                  r"(?:\s+vectors?)?\b(?!\s+(?:of|in)\b)", re.I)


def lying(document: Document) -> dict[str, frozenset[str]]:
    """Of all vectors `columns` or `rows`, as which the words say that they lie; nothing where they do not, or say
    both.
    """
    text = document.source.text
    said = {found["side"].lower() for found in _ALL.finditer(text) if not doubted(text, found)}
    return {ALL_VECTORS: frozenset({f"{x}s" for x in said})} if len(said) == 1 else {}
