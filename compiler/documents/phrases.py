"""Sentences that say what a name stands for: which words stand before two formulas, between them and behind them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from einc.documents.document import Document, Formula
from einc.documents.stops import CLAUSE

REACH = 300  # characters of a sentence before a formula that are looked at
Short = Literal["first", "second"]


@dataclass(frozen=True)
class Phrase:
    """A way to say that one formula stands for another: a word that stands somewhere before the two in their sentence,
    the words between them, and which of them is the short one.
    """

    lead: str
    link: str
    short: Short


_WRITE = r"\b(?:writ(?:e|es|ing)|denot(?:e|es|ing)|abbreviat(?:e|es|ing)|shorten(?:s|ing)?|shorthand|notation|symbol)\b"
_SUCH = r"(?:a|an|the|its|their|just|simply|normali[sz]ed|scaled|rescaled)"
_NOUN = r"(?:ratio|quotient|product|sum|difference|quantity|value|term|expression|vector|scalar|matrix|number|result)"
PHRASES = (
    Phrase(_WRITE, r"(?:as|to|by)", "second"),
    Phrase(_WRITE, r"(?:(?:short )?for|in place of|instead of)", "first"),
    Phrase(r"\b(?:let|where|with|here|and|set|now)\b",
           r"(?:denotes?|be|is|are|equals?|stands? for|represents?|means?)", "first"),
    Phrase(r"\b(?:define|defining|set|setting|let|call|take)\b", r"(?:as|to|to be|by|equal to|be)", "first"),
    Phrase("", r"(?:(?:is|are|be) )?(?:defined|given) (?:as|by|to be)", "first"),
    Phrase("", r",? ?(?:which )?(?:(?:is|are|we|will be) )?(?:denoted?|abbreviated?|written|write) (?:by|as|to)",
           "second"),
    Phrase("", r"(?:denotes?|stands? for|abbreviates?|is|equals|is (?:just |simply )?short(?:hand)? for)", "first"),
    Phrase(r"\bcall(?:ed|ing)?\b", r"(?:(?:the|its|a|an|simply) )?(?!and\b|or\b)(?:[\w-]+(?: [\w-]+)?)?", "second"),
)
_ROWS = [(re.compile(x.lead, re.I), re.compile(rf"{x.link}(?: {_SUCH})*(?: {_NOUN})?(?: of)?", re.I), x.short)
         for x in PHRASES]
_CLOSE, _OPEN = re.compile(r"\s*(?:\$|\\\))\s*"), re.compile(r"\s*(?:\$|\\\()\s*\Z")
# Behind one of these a name is not what the sentence speaks of: "the rank of $W$ is", "if $u$ is".
_OTHER = re.compile(r"\b(?:of|in|for|by|at|on|to|from|between|if|when|than|that)\s*(?:\$|\\\()?\s*\Z", re.I)
_ELSEWHERE = re.compile(r"\bin\s+(?:the\s+)?(?:appendix|section|chapter)\b", re.I)
_EVERYWHERE = re.compile(
    r"\bthroughout\b(?!\s+(?:the|this)\s+(?:sub)?section)|\beverywhere\b"
    r"|\b(?:whole|entire|in\s+this|(?:rest|remainder)\s+of\s+(?:the|this))\s+(?:paper|text|document|article|work)\b",
    re.I)


def phrases(document: Document) -> Iterator[tuple[Formula, Formula]]:
    """The short and the whole formula of each pair in a sentence of which one is said to stand for the other."""
    text = document.source.text
    for a, b in pairwise(document.formulas):
        if a.display or b.display or b.span.start - a.span.end > 80 or a.section != b.section:
            continue
        between = _OPEN.sub("", _CLOSE.sub("", text[a.span.end : b.span.start], count=1))
        between = " ".join(between.split())
        if not between or text[b.span.end : b.span.end + 3].lstrip("$)\\").startswith("-"):
            continue
        lead = before(document, a)
        found = next((short for first, link, short in _ROWS if link.fullmatch(between) and first.search(lead)), None)
        of_other = re.match(r"(?:is|are|be|equals?)\b", between) is not None and _OTHER.search(lead) is not None
        if found is not None and not of_other and not _ELSEWHERE.search(lead):
            yield (a, b) if found == "first" else (b, a)


def before(document: Document, formula: Formula) -> str:
    """The words of a sentence before a formula."""
    text, end = document.source.text, formula.span.start
    start = max(end - REACH, 0)
    at = bisect_left(document.formulas, start, key=lambda x: x.span.end)
    out = []
    for x in document.formulas[at:]:
        if x.span.start >= end:
            break
        out.append(text[start : max(x.span.start, start)])
        start = x.span.end
    return CLAUSE.split("<>".join([*out, text[start:end]]))[-1]


def everywhere(document: Document, first: Formula, last: Formula) -> bool:
    """Whether a sentence with two formulas says that it holds in the whole text."""
    text, end = document.source.text, last.span.end
    behind = CLAUSE.split(text[end : end + 120])[0]
    return _EVERYWHERE.search(f"{before(document, first)} <> {behind}") is not None
