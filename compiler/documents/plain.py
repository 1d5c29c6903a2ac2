"""Text with dollars, as it comes out of a PDF -> Document. A heading is a line that stands alone and reads like one."""

from __future__ import annotations

import re

from einc.documents.document import Document
from einc.documents.pieces import Draft
from einc.documents.scanning import scan
from einc.errors.report import Source

_PARAGRAPH = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")
_NUMBERED = re.compile(r"(?P<number>\d{1,2}(?:\.\d{1,2})*)\.?[ \t]+(?P<words>[^\W\d_].*)")
_NOT_TITLES = re.compile(r"[$\\{}^_]|[.,:;?!]\Z")
_SMALL = 4
MOST = 100


def read_plain(source: Source) -> Document:
    """The headings and formulas of a plain text."""
    draft = Draft(source)
    for paragraph in _PARAGRAPH.finditer(source.text):
        text, at = paragraph[0], paragraph.start()
        if draft.code(at, paragraph.end()):
            continue
        if level := _level(text.strip()):
            draft.heading(text, level if draft.headings else 1, at, paragraph.end())
            continue
        for piece in scan(text, markup=False):
            start, end = at + piece.start, at + piece.end
            if piece.kind == "unclosed":
                draft.unclosed(text[piece.start : piece.end], start, piece.text)
            else:
                draft.formula(start, end, piece.kind == "display")
    return draft.done()


def _level(line: str) -> int:
    """How deep a heading is below the title, 0 where the line is none: it has a number,
    or most of its words have capitals."""
    if "\n" in line or len(line) > MOST or _NOT_TITLES.search(line):
        return 0
    numbered = _NUMBERED.fullmatch(line)
    words = [w for w in re.findall(r"[^\W\d_][\w'’-]*", numbered["words"] if numbered else line) if len(w) >= _SMALL]
    capitals = sum(w[0].isupper() for w in words)
    if numbered and numbered["words"][0].isupper():
        return numbered["number"].count(".") + 2
    return 2 if words and line[0].isupper() and 2 * capitals > len(words) else 0
