r"""Algorithms in displays: `\text{for } 1 \leq i \leq N \text{ do}` … `\text{return } m_N`.

Such a display is a program of its own: its equations are the body of the loop, its names are its own, and what it does
not define is what the section around it says. The line of the loop says what its letter counts.
"""

from __future__ import annotations

import re
from dataclasses import replace

from einc.documents.document import Document, Heading
from einc.errors.report import Span
from einc.syntax import tree as s

_WORD = r"(?:\\(?:text|textbf|mathbf|mathrm|operatorname)\s*\{{\s*{0}\s*\}}|{0}(?![A-Za-z]))"
_LE = r"(?:\\leq?(?![A-Za-z])|≤)"
_FOR = re.compile(
    rf"[\s&]*{_WORD.format('for')}\s*(?:1\s*{_LE}\s*(?P<a>[a-z])\s*{_LE}\s*(?P<A>[A-Z])"
    rf"|(?P<b>[a-z])\s*(?:=|\\in)\s*\\?\{{?\s*1\s*,?\s*(?:\\[lc]?dots|…|\.\.\.?)\s*,?\s*(?P<B>[A-Z])\s*\\?\}}?)"
    rf"\s*(?:{_WORD.format('do')})?\s*:?[\s&]*")
_RETURN = re.compile(rf"[\s&]*{_WORD.format('return')}.*", re.S)
_BESIDE = re.compile(r"&\s*&")  # between algorithms that stand beside each other
_TAG = re.compile(r"\\tag\*?\s*\{([^{}]*)\}|\\q?quad\s*\((\d{1,4}[a-z]?)\)\s*\Z")
ROUNDS, RETURNS = "rounds", "what it returns"  # the kinds of facts that its lines are


def placed(document: Document) -> Document:
    """The document with a section of its own for each algorithm, inside the one in which it stands."""
    found = [n for n, x in enumerate(document.formulas) if x.display and _begins(x.span.text)]
    if not found:
        return document
    headings, parents, formulas = [], [], list(document.formulas)
    for n in found:
        formula = document.formulas[n]
        headings.append(Heading(_title(document, formula.span, formula.section), 0, formula.span))
        parents.append(formula.section)
        formulas[n] = replace(formula, section=len(document.headings) + len(headings) - 1)
    return replace(document, formulas=tuple(formulas), algorithms=tuple(headings), parents=tuple(parents))


def kind(text: str) -> str:
    """The kind of fact that a line of an algorithm is; "" of what is none."""
    lines = _BESIDE.split(text)
    return ROUNDS if all(map(_FOR.fullmatch, lines)) else RETURNS if _RETURN.fullmatch(text) else ""


def rounds(span: Span) -> s.Relation | None:
    """What the line of a loop says that its letter counts, `i = 1..N`; None for what is no such line."""
    found = _FOR.fullmatch(_BESIDE.split(span.text)[0])
    if found is None:
        return None
    letter, size = ("a", "A") if found["a"] is not None else ("b", "B")
    places = [Span(span.source, span.start + found.start(x), span.start + found.end(x)) for x in (letter, size)]
    over = s.Range(s.Number("1", places[1]), s.Word(found[size], places[1]), places[1])
    return s.Relation((s.Word(found[letter], places[0]), over), ("=",), places[0].to(places[1]))


def _begins(text: str) -> bool:
    """Whether some row of a display is the line of a loop."""
    inner = re.sub(r"\\(?:begin|end)\{(?:aligned|alignedat|gathered|split)\}", "", text)
    return any(kind(row) == ROUNDS for row in re.split(r"\\\\", inner))


def _title(document: Document, span: Span, section: int) -> str:
    """The title of the section of an algorithm: that of the one around it, with its number or its line."""
    tag = _TAG.search(span.text)
    name = f"({tag[1] or tag[2]})" if tag is not None else f"line {span.source.place(span.start).line}"
    return " ".join(x for x in (document.title(section), name) if x)
