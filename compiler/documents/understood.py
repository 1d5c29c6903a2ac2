r"""What of a document readers of words have used: a sentence is understood where they used all that may change it.

A reader gives what it understood together with the stretches of the text that say it. A formula in a line of text is
understood where it was read, where it is a part of an equation, and where it is a name that equations have.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from einc.checking.matrices.shapes import parts, plain
from einc.documents import axes, denoted, described, lying, sentences
from einc.documents.clauses import Prose, Sentence
from einc.documents.document import Formula
from einc.documents.facts import bare
from einc.documents.lexicon import letters
from einc.documents.said import Said
from einc.documents.sections import Paper
from einc.syntax import tree as s

_LAYOUT = re.compile(r"\\left|\\right|[\s{}&]|\\[,;:!]|\\(?:math|bold)[a-z]*(?![A-Za-z])")
_NAME = r"(?:\\[A-Za-z]+\s*)?\{*\s*(?:\\?[A-Za-z]+|[Α-ω]|ℓ)'*\s*\}*"
_BELOW = r"(?:\s*_\s*(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\?[^\W_]+))"
_ABOVE = r"(?:\s*\^\s*(?!\{?\s*(?:-|\d|\\top|T\s*\}?\s*\Z|\\dagger))(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\?[^\W_]))"
_ONE = re.compile(rf"\s*{_NAME}(?:\s*\{{\}})?(?:{_BELOW}|{_ABOVE})*(?:\s*\(\s*(?:\\cdot|·|\.|[a-z])\s*\))?\s*")
# Names in brackets: `(t, h)`, `\{x_i\}`.
_LISTED = re.compile(r"\s*(?:\(|\[|\\\{)(?P<names>.*)(?:\)|\]|\\\})\s*", re.S)
_COST = re.compile(r"\s*(?:\\mathcal\s*\{?\s*)?[OΘ]\}?\s*\(")
_NTH = re.compile(r"\^\s*\{?\s*\\(?:text|mathrm|textrm)\s*\{\s*(?:th|st|nd|rd)\s*\}\s*\}?")
# A Greek letter that is said to be positive, or a share: `\beta > 0`, `\gamma \in (0, 1)`.
_SIGNED = re.compile(r"\s*\\[a-z]+(?:_\w)?\s*(?:(?:>|\\geq?|≥)\s*0|(?:\\in|∈)\s*(?:[(\[]\s*0\s*,\s*1\s*[)\]]"
                     r"|\\mathbb\s*\{?R\}?(?:_\{?(?:\+|>\s*0)\}?|\^\+)?))\s*")
_VALUE = "a value"


@dataclass(frozen=True)
class Understood:
    """The stretches that readers used, in order and apart, the formulas in lines of text that were read, by where they
    begin, the formulas of equations, the bare names of sizes, and the letters that formulas in lines of text `said`.
    """

    stretches: tuple[tuple[int, int], ...]
    read: frozenset[int]
    shown: str
    sizes: frozenset[str]
    said: frozenset[str]

    @classmethod
    def of(cls, paper: Paper, prose: Prose) -> Understood:
        """What readers used of a paper."""
        document = paper.document
        used = (*paper.heard, *lying.heard(document), *axes.heard(document, paper.functions), *denoted.heard(document),
                *sentences.heard(paper.said), *described.heard(paper, prose))
        read = [x for x in paper.said if _is_read(x, paper.sizes)]
        shown = [x.span.text for x in document.formulas if x.display]
        shown += [x.span.text for x in read if x.statement is not None and not (x.fact or x.indices)]
        said = frozenset(y for x in read for y in letters(x.span.text, paper.sizes))
        return cls(_apart((x.start, x.end) for x in used), frozenset(x.formula.span.start for x in read),
                   " ¶ ".join(shown), paper.sizes, said)

    def without(self, sentence: Sentence, words: str) -> str:
        """The words of a sentence, or others that are as long, with `~` in place of those that readers used."""
        start = sentence.span.start
        at = bisect_right(self._ends, start)
        while at < len(self.stretches) and self.stretches[at][0] < sentence.span.end:
            a, b = (min(max(x - start, 0), len(words)) for x in self.stretches[at])
            words, at = words[:a] + re.sub(r"\S", "~", words[a:b]) + words[b:], at + 1
        return words

    def knows(self, formula: Formula) -> bool:
        """Whether a formula in a line of text was read, says a cost, or names what equations have or sizes."""
        text = _NTH.sub("", formula.span.text)
        if formula.span.start in self.read or _COST.match(text):
            return True
        plain = _LAYOUT.sub("", text)
        if len(plain) > 1 and re.search("[A-Za-z]", plain) and plain in self._plain:
            return True
        sides = {bare(x) for x in re.split(r"\\times|\\cdot|\\ll|[-+*/,<>()]", text) if x.strip()}
        if sides & self.sizes and all(x in self.sizes or x.isdigit() for x in sides):
            return True
        if _SIGNED.fullmatch(text):
            return True
        listed = _LISTED.fullmatch(text)
        text = text if listed is None else listed["names"]
        names = [x for x in re.split(r",(?![^{]*\})|\\[lc]?dots|…", text) if x.strip()]
        return all(_ONE.fullmatch(x) for x in names) and self._letters.issuperset(letters(text, self.sizes))

    @cached_property
    def _ends(self) -> list[int]:
        return [end for _, end in self.stretches]

    @cached_property
    def _letters(self) -> frozenset[str]:
        return self.said | frozenset(letters(self.shown, self.sizes, scripts=True))

    @cached_property
    def _plain(self) -> str:
        return _LAYOUT.sub("", self.shown)


def _is_read(said: Said, sizes: frozenset[str]) -> bool:
    """Whether a formula in a line of text says something that was used: a number is a value of a size, an example."""
    if said.formula.display or said.problem is not None:
        return False
    body = said.statement.clauses[0].body if said.statement is not None else None
    if isinstance(body, s.Relation) and not said.fact:
        nodes = [x for y in body.operands[1:] for x in parts(y)]
        bases = {id(x.base) for x in nodes if isinstance(x, s.Scripted)}
        if any(plain(x) == plain(body.operands[0]) for x in nodes if id(x) not in bases):
            return False  # an equation for a name that it reads itself
    return said.fact != _VALUE or body is not None or bare(said.span.text.split("=")[0]) in sizes


def _apart(stretches: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Stretches in order, those that meet as one."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return tuple(out)
