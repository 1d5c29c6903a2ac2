"""Sentences that say that a formula means another one: "instead of $W$ we use $V$", "the scores are divided by 2".

A clause says so where its verb is one of those verbs of change that `altering_words.txt` of the grammar has, and its
subject, or that to which something is done, is a letter of an equation, a function of it, or what it computes. What
leads to a display is said by that, and a factor that formulas have is said by these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from einc.documents.clauses import FORMULA, MARK, Prose, Sentence
from einc.documents.denoted import mentions
from einc.documents.document import Document
from einc.documents.facts import sizes
from einc.documents.lexicon import keys_of, letters, lexicon
from einc.documents.said import Said
from einc.documents.signs import ALTERING, SIGNS
from einc.documents.stops import limited
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Problem

_VERBS = rf"(?:(?:{ALTERING['changed']})\b|(?:{ALTERING['changes']})\b)"
_BE = r"\b(?:is|are|be)\s+(?:\w+\s+){0,3}?"
_AT = r"(?=\b(?:to|by|with|in|for|before|after|at|from|into)\b|\Z)"
_FORMS = tuple(re.compile(x, re.I) for x in (
    rf"(?P<thing>.*?){_BE}{_VERBS}(?P<rest>.*)",
    rf"\b(?:we|you|one)\s+(?:\w+\s+){{0,2}}?(?:{ALTERING['change']})\b\s+(?P<thing>.*?){_AT}(?P<rest>.*)",
    rf"\b(?:instead|in\s+place|in\s+lieu)\s+of\s+(?P<thing>{FORMULA})(?P<rest>.*)",
    rf"(?P<thing>.*?)\b(?:{ALTERING['said']})\b(?P<rest>.*)",
    rf"(?P<thing>.*?){_BE}over\s+(?:{ALTERING['axes']})\b(?P<rest>.*)",
))
# What is short for a formula is read as that, but for one that has the name itself: "$W$ is short for $W^2$".
_SHORT = re.compile(rf"(?P<name>{FORMULA})\s+(?:{ALTERING['abbreviates']})\s+(?P<value>{FORMULA})", re.I)
_HEAD = re.compile(rf"\W*(?:\Z|{MARK}|(?:of|and|or|in|for|from|with|to|by|on|as|below|above)\b)", re.I)
_WHOLE = re.compile(r"\b(?:all|every|each|the|any)\s+(?:matri\w+|vectors?|products?|numbers?|results?)\W*\Z"
                    r"|\A\W*(?:an?\s+)?(?:\w+\s+)?(?:tokens?|rows?|columns?)\W*\Z", re.I)
_INSTEAD = re.compile(r"\binstead\b", re.I)
_FOLLOWS = re.compile(r"\bfollow(?:s|ing)\b", re.I)
_ONE_OVER = re.compile(r"^(?:1/|\\[dt]?frac\{?1\}?)")
_LAYOUT = re.compile(r"\\left|\\right|[\s&]|\\[,;:!]")


@dataclass(frozen=True)
class Rewriting:
    """A sentence that says that formulas mean others, and what it speaks of: `all` of those beside it, or the names and
    functions in its `keys`.
    """

    sentence: Sentence
    keys: frozenset[str]
    all: bool

    def touches(self, said: Said, prose: Prose, keys: set[str]) -> bool:
        """Whether it speaks of an equation with these keys."""
        return not self.keys.isdisjoint(keys) or (self.all and self.sentence in prose.beside(said.formula))

    def question(self, said: Said) -> Problem:
        """The question what an equation means."""
        words = " ".join(self.sentence.span.text.split())
        return OpenReading(f"the words `{words}` say that it means another formula", said.span, helps=(
            Help("write the formula that is meant"),))


def rewritten(document: Document, found: list[Said]) -> list[Said]:
    """The equations, of which those are questions of which a sentence says that they mean others."""
    prose, known = Prose.of(document), sizes(document)
    told = [*_rewritings(prose, known)] if found else []

    def asked(said: Said) -> Said:
        if said.statement is None or said.indices or said.fact or said.formula.code:
            return said
        keys = keys_of(said.span.text, known)
        one = next((x for x in told if x.touches(said, prose, keys)), None)
        return said if one is None else replace(said, statement=None, sides=(), problem=one.question(said))

    return [*map(asked, found)] if told else found


def _rewritings(prose: Prose, known: frozenset[str]) -> Iterator[Rewriting]:
    """The sentences that say that formulas mean others."""
    shown = " ¶ ".join(_LAYOUT.sub("", x.span.text) for x in prose.document.formulas if x.display)
    for one in prose.sentences:
        if limited(_INSTEAD.sub("", one.words)) or _FOLLOWS.search(one.words) or prose.leads(one):
            continue
        things = [x for start, clause in one.clauses(one.words) for x in _things(one, start, clause, shown)]
        keys = frozenset(x for start, text in things for x in _keys(one, start, text, known))
        keys |= {x for found in _SHORT.finditer(one.words) for x in letters(one.formula(found.start("name")), known)
                 if x in letters(one.formula(found.start("value")), known)}
        whole = any(_WHOLE.search(text.rstrip()) for _, text in things)
        if keys or whole:
            yield Rewriting(one, keys, whole)


def _things(sentence: Sentence, start: int, clause: str, shown: str) -> Iterator[tuple[int, str]]:
    """What a clause says is changed, and where it stands in its sentence."""
    for form in _FORMS:
        found = form.search(clause)
        if found is None:
            continue
        values = (sentence.formula(start + found.start("rest") + x.start()) for x in re.finditer(MARK, found["rest"]))
        if not any(_ONE_OVER.sub("", _LAYOUT.sub("", x)).strip("{}") in shown for x in values):
            yield start + found.start("thing"), found["thing"]


def _keys(sentence: Sentence, start: int, text: str, known: frozenset[str]) -> Iterator[str]:
    """The letters and functions that are the heads of some words of a sentence: "ReLU", not "the ReLU technique"."""
    for x in re.finditer(MARK, text):
        if "=" not in (formula := sentence.formula(start + x.start())):
            yield from letters(formula, known)
    shown = sentence.span.text[start : start + len(text)]
    functions = mentions(shown)
    yield from (f"function {SIGNS.index(x.sign)}" for x in functions if _HEAD.match(shown, x.end))
    names = [text[: x.end].rstrip() for x in functions]  # what these say more of is an aside: "the ReLU technique"
    yield from (f"words {n}" for n, (words, _) in enumerate(lexicon().named) for x in words.finditer(text)
                if _HEAD.match(text, x.end()) and text[: x.start()].rstrip() not in names)
