"""Edits of a text that may be ways out of an error: what is tried, by the kind of the error.

An edit is proposed here and judged in `fixits.py`. Non-goal: to know whether it mends anything.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from einc.errors.report import Problem, Source, Span
from einc.syntax.brackets import Word
from einc.syntax.lines import Line
from einc.syntax.spelling import edit_distance

Edit = tuple[int, int, str]

_FLIPS = (("<=", ">="), ("≤", "≥"), ("<", ">"), ("\\le", "\\ge"), ("\\leq", "\\geq"))
_BEFORE = 5  # words in front of an argument in which its function's script is looked for
_OPENERS, _CLOSERS = {"LPAR": "(", "LSQB": "(", "LBRACE": "{"}, {"RPAR": "(", "RSQB": "(", "RBRACE": "{"}
_PARTNER = {"(": ")", "{": "}"}
_NAMES = ("WORD", "GREEK")
_LETTERS = (*_NAMES, "LABEL_LOW", "LABEL_UP", "TEXT")
_LABELS = ("LABEL_LOW", "LABEL_UP")
_TERM_END = ("SIGN", "COMMA", "COLON", "REL", "STOP", "WITH", "DISPLAY", "NEWLINE", "LINEEND")
_HEAD_END = ("REL", "COLON")
_JOINS = ("COMMA", "AND", "OR", "NOT", "COLON")
OF_BRACKETS = ("E0101", "E0102")
OF_NAMES = ("E0201", "E0204", "E0207", "E0210", "E0212", "E0215")
_OF_DOMAINS = ("E0501", "E0503", "E0701")
_OF_BINDERS = ("E0106",)
_OF_COUNTS = ("E0205", "E0210")
_OF_REQUESTS = ("E0408",)


@dataclass(frozen=True)
class Text:
    """A text with its lines, and the words of the line that an error stands in."""

    source: Source
    lines: list[Line]
    known: frozenset[str]  # words of the language that are names: functions and classes

    def at(self, span: Span) -> tuple[Word, ...]:
        """The words of the line that a place stands in; none where it is in no line."""
        return next((x.words for x in self.lines if x.words[0].start <= span.start and span.end <= x.words[-1].end), ())

    @property
    def indices(self) -> list[str]:
        """The indices that the text declares."""
        heads = (line.words for line in self.lines if line.words[0].type == "INDEX")
        return list(dict.fromkeys(w.value for found in heads for w in _before_colon(found)))

    def others(self, name: str) -> set[str]:
        """The letters whose declaration says another set than that of a letter."""
        sets = dict[str, str]()
        for head in (line.words for line in self.lines if line.words[0].type == "INDEX"):
            each = re.split(r"\s*,(?![^()]*\))\s*",
                            self.source.text[head[0].start : head[-1].end].partition(":")[2].strip())
            sets |= {w.value: each[min(n, len(each) - 1)] for n, w in enumerate(_before_colon(head))}
        return {other for other, said in sets.items() if said != sets.get(name, said)}

    @property
    def words(self) -> list[Word]:
        """Every word of the text."""
        return [w for line in self.lines for w in line.words]


def edits(text: Text, problem: Problem) -> Iterator[tuple[Edit, bool]]:
    """Edits by the kind of an error, and whether it is evident what was meant: so with brackets where
    one is missing and names that nothing has; not so with domains and indices in scripts, where
    others may be meant that were not tried."""
    assert problem.span is not None
    spans = (problem.span, *(x.span for x in problem.labels if x.span.source == text.source))
    for help_ in problem.helps:
        if (help_.span is not None and help_.new is not None and help_.span.source == text.source
            and "\n" not in help_.new):
            yield (help_.span.start, help_.span.end, help_.new), problem.code in (*OF_BRACKETS, *OF_NAMES)
    if problem.code in OF_BRACKETS:
        yield from ((edit, True) for edit in _brackets(text, text.at(problem.span)))
        return
    alone = _word(text, problem.span) if problem.code == "E0201" else None
    if alone is not None and len(alone.value) == 1:
        return  # a letter that stands for a number is no slip of another one
    if problem.code in OF_NAMES:
        yield from ((edit, True) for edit in _names(text, problem.span))
    if alone is not None:
        return  # there are no indices to exchange
    if problem.code in _OF_BINDERS:
        yield from ((edit, False) for edit in _wrapped(text, problem.span))
        return
    domains, counts = problem.code in _OF_DOMAINS, problem.code in _OF_COUNTS
    if problem.code in _OF_REQUESTS:
        by_place = [_requests(text, span) for span in spans]
    else:
        by_place = [_domains(text, span) if domains else _scripts(text, span, counts) for span in spans]
    yield from ((edit, False) for row in zip_longest(*by_place) for edit in row if edit is not None)


def _word(text: Text, span: Span) -> Word | None:
    """The word that a place is that of, without a script; None for any other place."""
    return next((w for w in text.at(span) if (w.start, w.end) == (span.start, span.end)), None)


def _brackets(text: Text, here: tuple[Word, ...]) -> Iterator[Edit]:
    """A bracket put in wherever all of them have partners then; what is one too many taken out."""
    often = Counter(w.value for w in text.words)
    for kind in ("{", "("):
        lack = sum((_OPENERS.get(w.type) == kind) - (_CLOSERS.get(w.type) == kind) for w in here)
        if lack not in (1, -1):
            continue
        new = _PARTNER[kind] if lack > 0 else kind
        types = [w.type for w in here]
        put = {"}": "RBRACE", ")": "RPAR", "{": "LBRACE", "(": "LPAR"}[new]
        for at in range(len(here) + 1):
            if not _nested([*types[:at], put, *types[at:]]):
                continue
            place = here[at - 1].end if lack > 0 and at else here[min(at, len(here) - 1)].start
            yield place, place, new
            if lack < 0 and at < len(here) and (here[at].type in _LABELS or often[here[at].value] == 1):
                # Without its bracket a name has run into what it stood in front of.
                ends = (here[at].start + 1,) if here[at].type in _LABELS else range(here[at].start + 1, here[at].end)
                yield from ((inside, inside, new) for inside in ends)
        for at, word in enumerate(here):
            if (_OPENERS if lack > 0 else _CLOSERS).get(word.type) == kind and _nested([*types[:at], *types[at + 1 :]]):
                yield word.start, word.end, ""


def _wrapped(text: Text, span: Span) -> Iterator[Edit]:
    """The term with its sign that follows a big operator, in parentheses: up to the next
    sign or the end of what is around it."""
    line, depth = text.at(span), 0
    rest = [w for w in line if w.start >= span.end]
    for word, following in pairwise(rest):
        depth += (word.type in _OPENERS) - (word.type in _CLOSERS)
        if depth == 0 and (following.type in (*_CLOSERS, *_TERM_END) or following is rest[-1]):
            end = following.end if following is rest[-1] and following.type not in (*_CLOSERS, *_TERM_END) else word.end
            start = rest[0].start
            yield start, end, f"({text.source.text[start:end]})"
            return


def _nested(types: Iterable[str]) -> bool:
    stack: list[str] = []
    for kind in types:
        if kind in _OPENERS:
            stack.append(_OPENERS[kind])
        elif kind in _CLOSERS and (not stack or stack.pop() != _CLOSERS[kind]):
            return False
    return not stack


def _names(text: Text, span: Span) -> Iterator[Edit]:
    """A word for one of the text that is spelled much the same; and the other way round,
    where that stands there alone."""
    everything = [w for w in text.words if w.type in _LETTERS]
    counts: dict[str, int] = {}
    for word in everything:
        counts[word.value] = counts.get(word.value, 0) + 1
    indices = text.indices
    for wrong in (w for w in everything if span.start <= w.start and w.end <= span.end):
        # What is written otherwise once, and more often so, is more likely the slip.
        others = [w for w in everything
                  if counts[w.value] == 1 and w.value != wrong.value and _near(w.value, wrong.value)]
        turned = [_respelled(text.source, w, wrong.value) for w in others]
        yield from turned if counts[wrong.value] > 1 else ()
        words = (*counts, *sorted(text.known - counts.keys()))
        known = [other for other in words if other != wrong.value and _near(wrong.value, other)]
        near = sorted((edit_distance(wrong.value, other), other not in indices, other) for other in known)
        yield from (_respelled(text.source, wrong, other) for *_, other in near[:12])
        yield from turned if len(wrong.value) == 1 else ()


def _near(a: str, b: str) -> bool:
    most = max(1, max(len(a), len(b)) // 3)
    return abs(len(a) - len(b)) <= most and max(len(a), len(b)) < 40 and edit_distance(a, b) <= most


def _respelled(source: Source, word: Word, new: str) -> Edit:
    """The letters of a word alone: a label keeps its sign."""
    lead = 1 if word.type in ("LABEL_LOW", "LABEL_UP") else 0
    return word.start + lead, word.end, new


def _scripts(text: Text, span: Span, counts: bool) -> Iterator[Edit]:
    """An index in a script near the error exchanged, left out or put in; those that are rare in the line first."""
    indices = text.indices
    line = Counter(w.value for w in text.at(span) if w.type in _NAMES and w.value in indices)
    choices = sorted(line, key=lambda i: line[i]) + [i for i in indices if i not in line]
    often = Counter(w.value for w in text.words)
    here = [w for w in text.at(span) if w.type in _NAMES and span.start <= w.start and w.end <= span.end]
    if text.at(span)[:1] and text.at(span)[0].type == "INDEX":
        here = [w for w in here if w.value in indices]  # a class and an extent have no indices
    inside = [w for w in here if w.value in indices or (len(w.value) == 1 and often[w.value] == 1)]
    exchanged = [(w.start, w.end, other) for other in choices for w in inside if other != w.value]
    fewer = [(w.start, w.end, "") for w in inside]
    more = [(at, at, new) for other in choices for w in inside
            for at, new in ((w.end, f" {other}"), (w.start, f"{other} "))]
    more += [(w.end, w.end, f"_{other}") for other in choices for w in here[:1]]
    more += [(span.end, span.end, f"^{other}") for other in choices if here]
    yield from (*fewer, *more, *exchanged) if counts else (*exchanged, *fewer, *more)


def _requests(text: Text, span: Span) -> Iterator[Edit]:
    """A letter before a position of a script, and a letter of its own set in its place."""
    line, indices = text.at(span), text.indices
    for before, word in pairwise(line):
        if span.start <= word.start and word.end <= span.end and word.type in _NAMES and word.value in indices:
            alone = before.type in ("LOW", "UP")
            yield from ((word.start, word.end, f"{{{new} {word.value}}}" if alone else f"{new} {word.value}")
                        for new in indices if new != word.value)
            yield from ((word.start, word.end, new) for new in indices
                        if new != word.value and new not in text.others(word.value))


def _domains(text: Text, span: Span) -> Iterator[Edit]:
    """A comparison that stands alone the other way round: one of a chain, `s < u ≤ t`, would leave no interval. An
    index under an operator, there or just before, bounded by one of its set, beside the conditions that it has.
    """
    line = text.at(span)
    inside = [n for n, w in enumerate(line) if span.start <= w.start and w.end <= span.end]
    for n in (n for n in inside if line[n].type == "REL" and not _in_chain(line, n)):
        word = line[n]
        written = text.source.text[word.start : word.end]
        for signs in _FLIPS:
            if written in signs:
                yield word.start, word.end, signs[1 - signs.index(written)]
    others = list(dict.fromkeys(w.value for w in line if w.type in _NAMES and len(w.value) == 1))
    first = inside[0] if inside else 0
    for at in (n for n in (*inside, *range(max(0, first - _BEFORE), first)) if line[n].type == "LOW"):
        braced = at + 1 < len(line) and line[at + 1].type == "LBRACE"
        word = line[min(at + 1 + braced, len(line) - 1)]
        if word.type in _NAMES and (not braced or line[min(at + 3, len(line) - 1)].type == "RBRACE"):
            for bound in _bounds(text, word.value, others):
                yield word.start, word.end, bound if braced else f"{{{bound}}}"
        elif braced and (end := _partner(line, at + 1)) is not None:
            place = line[end].start
            names = dict.fromkeys(w.value for w in line[at + 2 : end] if w.type in _NAMES and w.value in text.indices)
            yield from ((place, place, f", {bound}") for name in names for bound in _bounds(text, name, others))


def _bounds(text: Text, name: str, others: Iterable[str]) -> Iterator[str]:
    """That an index stands no later than another one of its set."""
    return (f"{name} ≤ {other}" for other in others if other != name and other not in text.others(name))


def _in_chain(line: Sequence[Word], at: int) -> bool:
    """Whether a comparison is one of several in a chain: no word between it and the next one joins conditions, and no
    bracket around it ends.
    """
    for way, into, out in ((line[at + 1 :], _OPENERS, _CLOSERS), (line[:at][::-1], _CLOSERS, _OPENERS)):
        depth = 0
        for word in way:
            depth += (word.type in into) - (word.type in out)
            if depth < 0 or (depth == 0 and word.type in _JOINS):
                break
            if depth == 0 and word.type == "REL":
                return True
    return False


def _partner(line: Sequence[Word], at: int) -> int | None:
    """The place of the brace that closes the one at a place."""
    depth = 0
    for n in range(at, len(line)):
        depth += (line[n].type == "LBRACE") - (line[n].type == "RBRACE")
        if depth == 0:
            return n
    return None


def _before_colon(found: tuple[Word, ...]) -> Iterator[Word]:
    for word in found[1:]:
        if word.type in _HEAD_END:
            return
        if word.type in _NAMES:
            yield word
