"""The axis of a function as the words of a document say it: "taken row-wise", "over the $m$ positions"."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from einc.documents.document import Document
from einc.documents.facts import bare

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n\s*\n")
_LINE = re.compile(r"\b(row|column)s?-?\s?wise\b"
                   r"|\b(?:along|over|across|by|in|on|of|to)\s+(?:the\s+|each\s+|every\s+|all\s+|its\s+)?(row|column)s?\b"
                   r"|\b(?:each|every)\s+(row|column)\b", re.I)
_SIZE = re.compile(r"\b(?:along|over|across)\s+(?:the\s+|all\s+)?(?:\$|\\\()([^$=]{1,24}?)(?:\$|\\\))")
_DENIED = re.compile(r"\b(?:not|never|nor|instead|rather|unlike)\b|n't\b", re.I)


def axes(document: Document, functions: Iterable[str], section: int) -> dict[str, frozenset[str]]:
    """Of each function what the words of a section say that it runs along: `row`, `column`, or the name of a size.
    Where the section says nothing, it is what the whole document says. A sentence that denies something says `?`.
    """
    starts = [x.span.start for x in document.headings]
    names = sorted(functions, key=len, reverse=True)
    called = re.compile(rf"(?<![A-Za-z])({'|'.join(map(re.escape, names))})(?![A-Za-z])", re.I) if names else None
    own: dict[str, set[str]] = {}
    other: dict[str, set[str]] = {}
    for at, sentence in _sentences(document.source.text) if called is not None else ():
        found = {x[0].lower() for x in called.finditer(sentence)} if called is not None else set()
        said = {"?"} if _DENIED.search(sentence) else set()
        said |= {next(x for x in line.groups() if x).lower() for line in _LINE.finditer(sentence)}
        said |= {bare(x) for x in _SIZE.findall(sentence)}
        if found and said - {"?"}:
            for into in ((own,) if bisect_right(starts, at) - 1 == section else (other,)):
                for name in found:
                    into.setdefault(name, set()).update(said)
    return {name: frozenset(own.get(name) or other[name]) for name in {*own, *other}}


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a text and where each begins."""
    at = 0
    for end in _SENTENCE.finditer(text):
        yield at, text[at : end.start()]
        at = end.end()
    yield at, text[at:]
