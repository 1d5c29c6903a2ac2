"""A notebook -> Document: its cells of Markdown one after the other, those of code as fences, which are not read.

The text of the document is put together of the cells, so that each place of it is told by a cell and a line of that.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

from markdown_it.token import Token

from einc.documents.document import Document
from einc.documents.markdown import blocks, read_markdown, with_line_feeds
from einc.errors.problems import Unpacked
from einc.errors.report import Help, Piece, Source, Span
from einc.syntax.texts import MAX_CHARACTERS, plain

MAX_CELLS = 5_000
FORMAT = 4  # of notebooks

_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})[ \t]*\Z")
_TICKS = re.compile(r"`{3,}")
_OPENERS = re.compile(r"```|~~~|<")
_LONE = re.compile("[\ud800-\udfff]")  # halves of characters, which JSON may have
_CLOSERS = {"<!--": "-->", "<pre": "</pre>", "<script": "</script>", "<style": "</style>",
            "<textarea": "</textarea>", "<?": "?>", "<![cdata[": "]]>"}


def read_notebook(source: Source) -> Document:
    """The document in the text of a notebook. One that is none has no formulas, and the problem."""
    try:
        cells = _cells(source)
    except Unpacked as problem:
        return Document(source, (), (), problems=(problem,))
    texts = [_shown(cell) for cell in cells]
    joined = "".join(before + text + after for before, text, after in texts)
    if len(joined) > MAX_CHARACTERS:
        return Document(source, (), (), problems=(_wrong(
            source, 0, f"the cells have {len(joined):,} characters, more than the {MAX_CHARACTERS:,} that are read",
            "leave cells out, or split the notebook"),))
    starts = [0, *accumulate(len(before + text + after) for before, text, after in texts)]
    # What is put around a cell is told as its first line.
    pieces = tuple(Piece(starts[n] + len(before), source.name, cell=n + 1) for n, (before, _, _) in enumerate(texts))
    return read_markdown(Source(source.name, joined, pieces))


def _cells(source: Source) -> list[dict[str, Any]]:
    """The cells of a notebook. Problem where the text is none."""
    try:
        page = json.loads(source.text)
    except json.JSONDecodeError as error:
        said = error.msg[:1].lower() + error.msg[1:]
        raise _wrong(source, error.pos, f"the notebook is not JSON: {said}", "save it again as a notebook") from None
    except (RecursionError, ValueError):
        raise _wrong(source, 0, "the notebook is nested too deep, or has a number that is too long",
                     "save it again as a notebook") from None
    if not isinstance(page, dict) or page.get("nbformat") != FORMAT or not isinstance(page.get("cells"), list):
        raise _wrong(source, 0, f"this is no notebook of format {FORMAT}",
                     "`jupyter nbconvert --to notebook` writes that format")
    cells: list[dict[str, Any]] = page["cells"]
    if len(cells) > MAX_CELLS:
        raise _wrong(source, 0, f"the notebook has {len(cells):,} cells, more than the {MAX_CELLS:,} that are read",
                     "split it")
    if wrong := next((n for n, cell in enumerate(cells, 1) if not _is_cell(cell)), None):
        raise _wrong(source, 0, f"cell {wrong} of the notebook has no kind or no text", "save it again as a notebook")
    return cells


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return False
    text = cell.get("source")
    return isinstance(text, str) or (isinstance(text, list) and all(isinstance(line, str) for line in text))


def _wrong(source: Source, at: int, message: str, help_: str) -> Unpacked:
    return Unpacked(message, Span(source, at, min(at + 1, len(source.text))), helps=(Help(help_),))


def _shown(cell: dict[str, Any]) -> tuple[str, str, str]:
    """The text of a cell, with what stands before and after it in the document: code and raw text are in fences, and
    what a cell of Markdown leaves open is closed.
    """
    given = cell["source"]
    text = _LONE.sub("\ufffd", plain(given if isinstance(given, str) else "".join(given)))
    if cell["cell_type"] == "markdown":
        return "", text, _ended(text)
    marks = "`" * (max((len(found[0]) for found in _TICKS.finditer(text)), default=2) + 1)
    return f"{marks}{'python' if cell['cell_type'] == 'code' else 'text'}\n", text, f"\n{marks}\n\n"


def _ended(text: str) -> str:
    """What ends a cell of Markdown: a fence or a comment that it leaves open goes no further than the cell."""
    parser, end = blocks(), ""
    tokens: list[Token] = []
    if _OPENERS.search(text):
        parser.block.parse(with_line_feeds(text), parser, {}, tokens)
    last = tokens[-1] if tokens else None
    if last is not None and last.type == "fence" and not _closed(text, last.markup):
        end = f"\n{last.markup}"
    elif last is not None and last.type == "html_block":
        opened = last.content.lstrip().lower()
        end = next((f"\n{closer}" for opener, closer in _CLOSERS.items() if opened.startswith(opener)
                    and closer not in opened), "")
    return f"{end}\n\n"



def _closed(text: str, markup: str) -> bool:
    """Whether the last line of a text ends a fence that begins with these marks."""
    *before, line = text.rstrip("\n").split("\n")
    found = _FENCE.match(line)
    return bool(before) and found is not None and found["mark"].startswith(markup)
