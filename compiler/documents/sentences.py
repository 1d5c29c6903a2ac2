"""The paper's own words on its indices -> declarations: `$t,s\\in\\{1..T\\}$ (time)` is `index t, s : time(T)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from einc.checking.declarations.names import index_name
from einc.documents.document import Document
from einc.documents.equations import Said, ranged
from einc.errors.report import Span
from einc.ir.indices import CLASSES
from einc.syntax import tree as s

# The word in parentheses after the formula: `(request id)`, `(experts)`, `(latent for MLA)`.
_AFTER = re.compile(r"[$\\)\s]*\(([^)\n]{1,60})\)")
_NEVER = re.compile(r"[Tt]emporal\s+ind(?:ex|ices)\s+([^.]{1,80}?)\s+are\s+(?:\*\*)?never", re.S)
_LETTER = re.compile(r"\\?[A-Za-z]+|[α-ω]")
_DEFAULT = "feature"


def index_lines(document: Document, equations: Iterable[Said]) -> Iterator[tuple[Said, s.Statement]]:
    """An `index` line for each sentence that says over what letters run.

    The class is the one that the words after it name; `time` for what the paper calls temporal; else `feature`.
    """
    temporal = {letter for found in _NEVER.finditer(document.source.text) for letter in _LETTER.findall(found[1])}
    for said in equations:
        if said.indices and said.statement is not None:
            names = [n for n in said.indices if index_name(n) is not None]
            over = ranged(said.statement.clauses[-1].body)
            if names and over is not None:
                yield said, _line(names, over, _class(said, names, temporal), said.span)


def _class(said: Said, names: list[s.Expression], temporal: set[str]) -> str:
    if any(n.span.text.strip() in temporal for n in names):
        return "time"
    after = _AFTER.match(said.span.source.text, said.formula.span.end)
    words = re.findall(r"[a-z]+", after[1].lower()) if after else []
    return next((cls for cls in CLASSES for word in words if word.startswith(cls)), _DEFAULT)


def _line(names: list[s.Expression], over: s.Range, cls: str, span: Span) -> s.Statement:
    whole = isinstance(over.low, s.Number) and over.low.text == "1"
    inner = over.high if whole else over
    set_ = s.Product((s.Word(cls, span), s.Group("(", ")", (inner,), inner.span)), ("", ""), span)
    clauses = tuple(s.Clause(name, None, name.span, "," if at else "") for at, name in enumerate(names))
    return s.Statement("index", False, clauses, (s.Clause(set_, None, span),), span)
