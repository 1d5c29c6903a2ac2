"""A file -> Document, by the ending of its name; and where its encoding is damaged."""

from __future__ import annotations

import re
from pathlib import PurePath

from einc.documents.document import Document
from einc.documents.latex import read_latex
from einc.documents.markdown import read_markdown
from einc.documents.plain import read_plain
from einc.errors.report import Source, Span

READERS = {".md": read_markdown, ".markdown": read_markdown, ".tex": read_latex, ".txt": read_plain}

# What two to four bytes of UTF-8 become where each is read as a letter of Windows-1252 or of its relatives.
_LEAD = {1: "ÂÃÄÅÆÇÈÉÊËÌÍÎÏĞÑÐÒÓÔÕÖØÙÚÛÜÝŞÞß", 2: "àáâãäåæçèéêëìíîï", 3: "ğðñòóô"}
_TRAIL = "".join(bytes([b]).decode(c, "ignore") for c in ("cp1252", "cp1254", "latin-1") for b in range(0x80, 0xC0))
_GARBLED = re.compile("|".join(rf"[{lead}][{re.escape(_TRAIL)}]{{{n}}}" for n, lead in _LEAD.items())
                      + rf"|[{_LEAD[2]}{_LEAD[3]}][{re.escape(_TRAIL)}]{{1,2}}|\ufffd+")


def reads(name: str) -> bool:
    """Whether a file of this name is a document."""
    return PurePath(name).suffix.lower() in READERS


def read(source: Source) -> Document:
    """The document in a file; one with an ending that is not known is read as Markdown."""
    return READERS.get(PurePath(source.name).suffix.lower(), read_markdown)(source)


def damage(source: Source) -> list[Span]:
    """Where the text was decoded as something that it is not, so that characters are lost."""
    return [Span(source, found.start(), found.end()) for found in _GARBLED.finditer(source.text)]
