r"""Words that only name what a formula says: "The dispatch weights are" before a display, "a decay $\gamma > 0$".

What a display computes and what is given may be called anything. Of a name that an equation computes the words may say
another thing than the equation, so those before it are not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from einc.documents.clauses import FORMULA, MARK, Prose, Sentence
from einc.documents.roles import NUMBERS
from einc.documents.said import left_text
from einc.documents.sections import Paper
from einc.documents.shapes import FACT as SHAPE
from einc.documents.signs import ALTERING
from einc.errors.report import Span

# Neither words of numbers, denials, prepositions and verbs of being, nor words that say what was done.
_PLAIN = (rf"(?!(?:{ALTERING['linking']}|(?:{'|'.join(NUMBERS)})(?:e?s)?)\b|(?:un|de|re|non-)?[a-z]+(?:ed|ing|ly)\b)"
          r"[A-Za-z][a-z]+(?:-[a-z]+)*")
_PHRASE = rf"(?P<phrase>{_PLAIN}(?:\s+{_PLAIN}){{0,3}})"
_OPENS = r"(?:(?:the|an?|our|each|its|their|where|so|thus|hence|here|then|finally|now)\s+)*"
_LEAD = re.compile(rf"\W*{_OPENS}{_PHRASE}\s+(?:(?:is|are)"
                   r"(?:\s+(?:updated|given|computed|defined|obtained|formed)\s+(?:by|as))?"
                   r"|reads?|becomes?)\s*:?\s*\Z", re.I | re.S)
_NAME = rf"(?P<name>{FORMULA})"
_TITLES = tuple(re.compile(rf"(?:\A|[.;:,(])\W*{x}\s+{_NAME}", re.I) for x in (
    rf"{_PHRASE}\s*:", rf"(?:the|an?|our)\s+{_PHRASE}"))
_GIVEN = re.compile(rf"\b(?:an?|the|our|for|with|given|let|of|to|from|in)\s+{_PHRASE}\s+{_NAME}", re.I)
_OF = rf"of(?!\s+{MARK}|\s+(?:the\s+)?\w+\s+{MARK})"
_CALLED = re.compile(rf"{_NAME}\s*,?\s+(?:(?:is|are|be|denotes?)\s+)?(?:an?|the|our)\s+{_PHRASE}"
                     rf"(?=\s*(?:[,.;:)]|\Z)|\s+(?:and|or|{_OF}|for|with)\b)", re.I)
# How many there are: "the $n$ queries".
_MANY = re.compile(rf"(?P<phrase>{FORMULA})(?=\s+(?:[a-z]+\s+)?[a-z]+s\b)")


def heard(paper: Paper, prose: Prose) -> Iterator[Span]:
    """The words that name what a display says, and those that name what is given."""
    computed = {left_text(x) for x in paper.said if x.statement is not None and not (x.fact or x.indices)}
    lines = [x for x in paper.said if not x.formula.display]
    declared = {x.formula.span.start for x in lines if x.fact == SHAPE}
    equations = {x.formula.span.start for x in lines if x.statement is not None and not (x.fact or x.indices)}
    for sentence in prose.sentences:
        if prose.leads(sentence):
            *_, (start, clause) = sentence.clauses(sentence.words)
            last = max(clause.rfind(MARK), 0)  # what stands before a formula is judged by itself
            found = _LEAD.match(clause, last)
            yield from _spans(sentence, start, (found,) if found is not None else ())
        for form in (_GIVEN, _CALLED) if sentence.formulas else ():
            for found in form.finditer(sentence.words):
                formula = sentence.at(found.start("name"))
                names = re.split(r"\\in(?![A-Za-z])|∈|,", "".join(formula.span.text.split()))
                if not computed & {*names} and (form is _CALLED or formula.span.start in declared):
                    yield from _spans(sentence, 0, (found,))
        yield from _spans(sentence, 0, (x for x in _MANY.finditer(sentence.words) if re.fullmatch(
            r"\s*[a-z]\s*", sentence.formula(x.start()))))
        for found in (x for form in _TITLES if sentence.formulas for x in form.finditer(sentence.words)):
            if sentence.at(found.start("name")).span.start in equations:
                yield from _spans(sentence, 0, (found,))


def _spans(sentence: Sentence, start: int, found: Iterable[re.Match[str]]) -> Iterator[Span]:
    """Where the phrases of some matches in the words of a sentence stand in the document."""
    at = sentence.span.start + start
    yield from (Span(sentence.span.source, at + x.start("phrase"), at + x.end("phrase")) for x in found)
