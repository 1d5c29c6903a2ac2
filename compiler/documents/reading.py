"""A file -> Document, by the format that the ending of its name says; and where its encoding is damaged."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath

from einc.documents import prose
from einc.documents.document import Document
from einc.documents.latex import read_latex
from einc.documents.markdown import read_markdown
from einc.documents.notebook import read_notebook
from einc.documents.parts import NOWHERE, Folder, joined
from einc.documents.plain import read_plain
from einc.errors.report import Source, Span


@dataclass(frozen=True)
class Format:
    """A format of documents: the endings of its files, how one is read, and how its prose is rendered as HTML. A reader
    is given the folder of the document, which it may take files in from.

    A reader may give a document over another text than that of the file, whose name it keeps: places are those of
    `Document.source`.
    """

    name: str
    endings: tuple[str, ...]
    read: Callable[[Source, Folder], Document]
    prose: Callable[[Document], str]


def _alone(read: Callable[[Source], Document]) -> Callable[[Source, Folder], Document]:
    """The reader of a format whose documents take no files in."""
    return lambda source, folder: read(source)


def _tex(source: Source, folder: Folder) -> Document:
    """A document in LaTeX with the files that it takes in."""
    whole, problems = joined(source, folder)
    return replace(read_latex(whole), problems=problems)


MARKDOWN = Format("Markdown", (".md", ".markdown"), _alone(read_markdown), prose.markdown)
FORMATS = (
    MARKDOWN,
    Format("LaTeX", (".tex",), _tex, prose.latex),
    Format("plain text", (".txt",), _alone(read_plain), prose.plain),
    Format("Jupyter", (".ipynb",), _alone(read_notebook), prose.markdown),
)

# What two to four bytes of UTF-8 become where each is read as a letter of Windows-1252 or of its relatives.
_LEAD = {1: "ÂÃÄÅÆÇÈÉÊËÌÍÎÏĞÑÐÒÓÔÕÖØÙÚÛÜÝŞÞß", 2: "àáâãäåæçèéêëìíîï", 3: "ğðñòóô"}
_TRAIL = "".join(bytes([b]).decode(c, "ignore") for c in ("cp1252", "cp1254", "latin-1") for b in range(0x80, 0xC0))
_GARBLED = re.compile("|".join(rf"[{lead}][{re.escape(_TRAIL)}]{{{n}}}" for n, lead in _LEAD.items())
                      + rf"|[{_LEAD[2]}{_LEAD[3]}][{re.escape(_TRAIL)}]{{1,2}}|\ufffd+")


def format_of(name: str) -> Format | None:
    """The format of a file of this name, None where it is no document."""
    ending = PurePath(name).suffix.lower()
    return next((one for one in FORMATS if ending in one.endings), None)


def reads(name: str) -> bool:
    """Whether a file of this name is a document."""
    return format_of(name) is not None


def read(source: Source, folder: Folder = NOWHERE) -> Document:
    """The document in a file; one with an ending that is not known is read as Markdown. What it takes in stands in
    `folder`.
    """
    return (format_of(source.name) or MARKDOWN).read(source, folder)


def prose_of(document: Document) -> str:
    """The prose of a document as HTML, with a mark for each formula and heading, for `prose.body`."""
    return (format_of(document.source.name) or MARKDOWN).prose(document)


def endings() -> str:
    """The endings of documents, for a sentence."""
    *first, last = (ending for one in FORMATS for ending in one.endings)
    return f"{', '.join(first)} or {last}"


def damage(source: Source) -> list[Span]:
    """Where the text was decoded as something that it is not, so that characters are lost."""
    return [Span(source, found.start(), found.end()) for found in _GARBLED.finditer(source.text)]
