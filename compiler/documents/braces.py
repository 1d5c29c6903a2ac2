r"""Shapes that stand below a brace: `\underbrace{\mathbf{X}}_{T \times d}` -> `matrix X : T × d`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einc.checking.matrices.uses import split
from einc.documents import shapes
from einc.documents.definitions import closing
from einc.documents.document import Document
from einc.documents.named import Parse, Told
from einc.errors.report import Span
from einc.syntax import tree as s

_BRACE = re.compile(r"\\underbrace\s*(?=\{)")
_BELOW = re.compile(r"\s*_\s*(?=\{)")
_KINDS = r"\{(?:[bp]?matrix|array)\}"
_ENVIRONMENT = re.compile(rf"\s*(?:\\left\s*\[\s*)?\\begin\s*{_KINDS}.*\\end\s*{_KINDS}(?:\s*\\right\s*\])?\s*", re.S)
# The name on the left of a matrix written out, which is all of its right side.
_LEFT = re.compile(r"(?:\A|\\\\|\\q?quad|[,&])\s*((?:(?!\\q?quad|\\\\|[,&=]).)+?)\s*&?\s*(?:=|\\equiv)\s*\Z", re.S)
_RIGHT = re.compile(r"\s*(?:\\\\|\\q?quad|\\tag|\\end|[,.]|\Z)")
_SET = re.compile(r"\s*\\in\s*\\mathbb\s*\{?R\}?\s*\^\s*")
_MANY = 10_000  # characters of what stands over a brace


def braces(document: Document, parse: Parse) -> Iterator[Told]:
    """The shape of each name over a brace, and of each name that is equal to a matrix written out over one."""
    text = document.source.text
    for formula in document.formulas:
        start, end = formula.span.start, formula.span.end
        for found in _BRACE.finditer(text, start, end):
            over = closing(text, found.end(), min(end, found.end() + _MANY))
            below = _BELOW.match(text, over + 1, end) if over is not None else None
            last = closing(text, below.end(), min(end, below.end() + _MANY)) if below is not None else None
            if over is None or below is None or last is None:
                continue
            name = _name(text, start, found, over, last + 1, end)
            sides = _sides(text, below.end() + 1, last)
            if name is not None and sides is not None:
                line = _line(list(parse(Span(document.source, *name))), list(parse(Span(document.source, *sides))))
                if line is not None:
                    yield Told(formula, line)


def _name(text: str, start: int, found: re.Match[str], over: int, after: int, end: int) -> tuple[int, int] | None:
    """Where the name stands that has a shape: over the brace, or to the left of a matrix written out there."""
    inside = (found.end() + 1, over)
    if _ENVIRONMENT.fullmatch(text, *inside) is None:
        return inside
    left = _LEFT.search(text[max(start, found.start() - 200) : found.start()])
    if left is None or _RIGHT.match(text, after, end) is None:
        return None
    shift = max(start, found.start() - 200)
    return left.start(1) + shift, left.end(1) + shift


def _sides(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Where a shape stands below a brace: `T × d`, or in `∈ ℝ^{T × d}`."""
    inside = _SET.match(text, start, end)
    if inside is not None:
        start, end = (inside.end() + 1, end - 1) if text[inside.end()] == "{" else (inside.end(), end)
    return (start, end) if r"\times" in text[start:end] or "×" in text[start:end] else None


def _line(names: list[s.Expression], sides: list[s.Expression]) -> s.Statement | None:
    """The shape line of one name; None for what is no name or no shape."""
    if len(names) != 1 or len(sides) != 1 or (use := split(names[0], ())) is None or use.turned:
        return None
    return shapes.line(names[0], sides[0], names[0].span)
