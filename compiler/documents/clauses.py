r"""The prose of a document: its sentences without formulas, code and comments, and the clauses of a sentence.

In the words of a sentence each letter stands where it stands in the document: a formula in a line is a mark that is as
long as the formula, and what is no prose is blanks.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from einc.documents.document import Document, Formula
from einc.documents.pieces import outside
from einc.documents.stops import limited, sentences
from einc.errors.report import Span

MARK, _MORE = "\ue010", "\ue011"  # no author writes these
FORMULA = f"{MARK}{_MORE}*"
# "(see Vaswani et al., 2017; Shaw, 2018b)": names of people, and years.
_PEOPLE = r"[A-Z][\w.'’-]*(?:,?\s+(?:et\s+al\.?|and|&|[A-Z][\w.'’-]*)){0,6}"
_YEARS = r"(?:1[89]|20)\d\d[a-z]?(?:\s*,\s*(?:(?:1[89]|20)\d\d)?[a-z]\b)*"
_CITED = (rf"\((?:(?:see|cf\.|e\.g\.,?|following|as\s+in)\s+)?(?:{_PEOPLE},?\s+)?{_YEARS}"
          rf"(?:\s*[;,]\s*{_PEOPLE},?\s+{_YEARS})*\)")
# What a text has besides its words: code, comments, citations, links, and commands with what they name.
_NO_WORDS = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`|<!--.*?(?:-->|\Z)|</?[A-Za-z][^<>\n]{0,60}>|(?<![\\\d])%[^\n]*"
    rf"|https?://\S+|!\[[^\[\]\n]*\]\([^()\n]*\)|\]\([^()\n]*\)|{_CITED}|\[[\d, –-]+\]"
    r"|\\(?:cite\w*|[a-z]*ref|label|begin|end|usepackage|documentclass|bibliography\w*|input|include|newcommand"
    r"|renewcommand|author|title|date|vspace|hspace)\*?(?:\[[^\[\]]*\])?\{[^{}]*\}(?:\[[^\[\]]*\]|\{[^{}]*\})*"
    r"|\\[A-Za-z]+\*?|\b(?:[Ee]qs?|[Ff]igs?|[Ss]ecs?|[Tt]ab|[Aa]pp|cf|al|vs|resp)\.(?=\s)", re.S)
_REFERENCE = re.compile(r"\\(?:eq|c|auto|C)?ref\*?\{(?P<label>[^{}]*)\}"
                        r"|\b[Ee]q(?:uation|n)?s?\.?\s*[~(]*(?P<number>\d+)")
_ASSERTS = re.compile(r"\b(?:is|are|has|have|means|denotes?|we)\b", re.I)
_UPRIGHT = re.compile(r"\\(?:text\w*|mbox|mathrm)\s*\{(?P<words>[^{}$]*)\}")
_SEVERAL = re.compile(r"[^\W\d_]\s+[^\W\d_]|\(\s*[^\W\d_]{2}")
_BREAK = re.compile(r"\n[ \t>]*\n")
_CLAUSE = re.compile(r"[,;:()]|\s—\s|--+|\s(?:because|since|although|so\s+that|such\s+that|if|when|while|whereas|and"
                     r"|but|or|which|where|that|then)(?=\s)", re.I)


@dataclass(frozen=True)
class Sentence:
    """A sentence, its words with a mark for each formula, and these formulas."""

    span: Span
    words: str
    formulas: tuple[Formula, ...]

    def at(self, mark: int) -> Formula:
        """The formula whose mark stands at a place of the words."""
        return self.formulas[bisect_left(self.formulas, self.span.start + mark, key=lambda x: x.span.end)]

    def formula(self, mark: int) -> str:
        """The text of that formula."""
        return self.at(mark).span.text

    def clauses(self, words: str) -> Iterator[tuple[int, str]]:
        """The clauses of the words, or of others that are as long, and where each begins."""
        at = 0
        for found in _CLAUSE.finditer(words):
            yield at, words[at : found.start()]
            at = found.end()
        yield at, words[at:]

    @property
    def references(self) -> Iterator[str]:
        """The labels and the numbers of equations to which it refers."""
        return (x["label"] or x["number"] for x in _REFERENCE.finditer(self.span.text))


@dataclass(frozen=True)
class Prose:
    """The sentences of a document, and which of them stand beside a formula."""

    document: Document
    text: str
    sentences: tuple[Sentence, ...]

    @classmethod
    def of(cls, document: Document) -> Prose:
        """The prose of a document."""
        text = _without_formulas(document)
        found, lines = list[Sentence](), [x for x in document.formulas if not (x.display or x.code)]
        for start, words in sentences(text):
            start, words = start + len(words) - len(words.lstrip()), words.strip()
            if any(c.isalpha() for c in words):
                end = start + len(words)
                inside = lines[bisect_left(lines, start, key=lambda x: x.span.start) :
                               bisect_left(lines, end, key=lambda x: x.span.start)]
                found.append(Sentence(Span(document.source, start, end), words, tuple(inside)))
        found += [Sentence(x, x.text, ()) for x in (*_titles(document), *_in_displays(document))]
        return cls(document, text, tuple(sorted(found, key=lambda x: x.span.start)))

    def beside(self, formula: Formula) -> tuple[Sentence, ...]:
        """The sentences of the paragraph of a formula, of the one before it and, behind a display that ends its
        paragraph, of the next, each up to a heading or another display. Displays without words between them are one.
        """
        start, end = outside(self.document.source.text, formula.span.start, formula.span.end, formula.display)
        above, below = bisect_right(self._ends, start) - 1, bisect_left(self._starts, end)
        while above >= 0 and self._bounds[above][2] and self._is_blank(self._ends[above], start):
            start, above = self._starts[above], above - 1
        while below < len(self._starts) and self._bounds[below][2] and self._is_blank(end, self._starts[below]):
            end, below = self._ends[below], below + 1
        first = self._before(self._ends[above] if above >= 0 else 0, start)
        last = self._behind(end, self._starts[below] if below < len(self._starts) else len(self.text))
        own = bisect_left(self.sentences, first, key=lambda x: x.span.end)
        found = self.sentences[own : bisect_left(self.sentences, last, key=lambda x: x.span.start)]
        title = self.document.headings[formula.section].span if 0 <= formula.section < len(
            self.document.headings) else None
        return (*(x for x in self._titles.get(title.start if title is not None else -1, ())), *found)

    @cached_property
    def _titles(self) -> dict[int, tuple[Sentence, ...]]:
        """The headings that say something, by where they begin."""
        starts = {x.span.start for x in self.document.headings}
        return {x.span.start: (x,) for x in self.sentences if x.span.start in starts}

    def leads(self, sentence: Sentence) -> bool:
        """Whether a sentence goes on in a display, which says the rest of it."""
        end = sentence.span.end
        below = bisect_left(self._starts, end)
        shown = below < len(self._starts) and self._bounds[below][2] and self._is_blank(end, self._starts[below])
        return shown and sentence.words.rstrip()[-1:] not in ".!?;"

    @cached_property
    def _bounds(self) -> list[tuple[int, int, bool]]:
        """Where headings and displays begin and end, with the signs around these, and which of them are displays."""
        text, found = self.document.source.text, self.document.formulas
        shown = [(*outside(text, x.span.start, x.span.end, x.display), True) for x in found if x.display or x.code]
        titles = (*self.document.headings, *self.document.algorithms)
        return sorted([*shown, *((x.span.start, x.span.end, False) for x in titles)])

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _, _ in self._bounds]

    @cached_property
    def _ends(self) -> list[int]:
        return [end for _, end, _ in self._bounds]

    def _is_blank(self, start: int, end: int) -> bool:
        return not any(c.isalnum() or c == MARK for c in self.text[start:end])

    def _before(self, low: int, end: int) -> int:
        """Where the paragraph before that of a place begins, or that which ends there, no earlier than `low`."""
        begins = [low, *(x.end() for x in _BREAK.finditer(self.text, low, end))]
        filled = [a for a, b in zip(begins, [*begins[1:], end], strict=True) if not self._is_blank(a, b)]
        within = 2 if filled and filled[-1] == begins[-1] else 1
        return filled[max(-within, -len(filled))] if filled else end

    def _behind(self, start: int, high: int) -> int:
        """Where the paragraph of a place ends, or the next where it is over there, no later than `high`."""
        ends = [*(x.start() for x in _BREAK.finditer(self.text, start, high)), high]
        return next((x for x in ends if not self._is_blank(start, x)), start)


def _titles(document: Document) -> Iterator[Span]:
    """The headings that say something: those with a verb, or with words that deny or limit."""
    yield from (x.span for x in document.headings if _ASSERTS.search(x.title) or limited(x.title))


def _in_displays(document: Document) -> Iterator[Span]:
    """The words of displays: upright text of more than one word, or in brackets."""
    for formula in (x for x in document.formulas if x.display and not x.code):
        for found in _UPRIGHT.finditer(document.words, formula.span.start, formula.span.end):
            if _SEVERAL.search(found["words"]) is not None:
                yield Span(document.source, *found.span("words"))


def _without_formulas(document: Document) -> str:
    """The text with marks for formulas in lines, and blanks for all else that is no prose."""
    text, cuts = re.sub(f"[{MARK}{_MORE}]", " ", document.words), list[tuple[int, int, str]]()
    for x in document.formulas:
        start, end = outside(text, x.span.start, x.span.end, x.display)
        cuts.append((start, end, "" if x.display or x.code else MARK))
    others = [x.span for x in (*document.headings, *document.algorithms)] + [x.span for x in document.fences]
    cuts += [(x.start, x.end, "") for x in (*others, *document.definitions())]
    out, at = list[str](), 0
    for start, end, mark in sorted(cuts):
        if start >= at:
            many = end - start
            out += [text[at:start], mark + _MORE * (many - 1) if mark else "\n\n"[:many] + " " * (many - 2)]
            at = end
    return _NO_WORDS.sub(lambda x: re.sub(r"\S", " ", x[0]), "".join([*out, text[at:]]))
