"""Words that name a function of the language: "$\\sigma$ is the sigmoid function" -> `σ(z) = sigmoid(z)`."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from einc.documents.document import Document
from einc.documents.named import NAME, NAMES, Parse, Told, each
from einc.documents.synonyms import SYNONYMS
from einc.documents.worded import doubted
from einc.errors.report import Span
from einc.ir.primitives import PRIMITIVES
from einc.syntax import tree as s

_KIND = r"(?:(?:usual|standard|logistic|element-?wise|entry-?wise|pointwise)\s+)?"
_WORD = r"(?P<word>(?!functions?\b)[A-Za-z]+)"
_NOUN = r"(?:function|activation|non-?linearity|activation\s+function)"
_END = r"(?=\s*(?:[,.;:)]|\Z|\n\s*\n|\$\$)|\s+(?:and|applied|which|that)\b)"
# "$\sigma$ is the logistic sigmoid function", "$\sigma(\cdot)$ denotes the ReLU"
_IS = re.compile(rf"(?P<name>{NAME}),?\s+(?:is\s+|denotes\s+|stands\s+for\s+|(?=an?\s+|the\s+))(?:the\s+|an?\s+)?"
                 rf"{_KIND}{_WORD}(?P<noun>\s+{_NOUN})?{_END}",
                 re.S)
# "the sigmoid function $\sigma$"
_THE = re.compile(rf"\bthe\s+{_KIND}{_WORD}(?P<noun>\s+{_NOUN})?\s+(?P<name>{NAME})", re.S)
# "all of $\\phi_u, \\phi_v$ are Swish"
_ARE = re.compile(rf"(?P<name>{NAMES})\s+(?:are|denote)\s+(?:all\s+|both\s+)?(?:the\s+)?{_KIND}{_WORD}"
                  rf"(?P<noun>\s+{_NOUN}s?)?{_END}", re.S)
_NUMBERS = ("mean", "sum", "prod")  # what a name may be without being a function
_DOT = re.compile(r"\s*\(\s*(?:\\cdot|·|\.)\s*\)\s*\Z")


def called_functions(document: Document, parse: Parse, functions: Container[str]) -> Iterable[Told]:
    """The definition of each name that sentences say to be one of the `functions`, once for a name and function."""
    text, done = document.source.text, dict[tuple[str, str], Told]()
    for found in (x for pattern in (_IS, _THE, _ARE) for x in pattern.finditer(text) if not doubted(text, x)):
        word = SYNONYMS.get(found["word"].lower(), found["word"].lower())
        formula = document.formula_at(found.end("name") - 1)
        if word not in functions or formula is None or formula.display or formula.code:
            continue
        dotted = _DOT.search(formula.span.text) is not None
        if not (found["noun"] or dotted) and word in {*PRIMITIVES, *_NUMBERS}:
            continue  # "$m$ is the max" is a number
        for name in _names(document, found, parse):
            if _named(name):
                key = name.span.text, word
                first = done.get(key) or Told(formula, _definition(name, word))
                done[key] = replace(first, words=(*first.words, Span(document.source, *found.span())))
    return done.values()


def _names(document: Document, found: re.Match[str], parse: Parse) -> Iterator[s.Expression]:
    """The names of functions in a sentence, without the dots in parentheses that stand for their arguments."""
    for span in each(document, *found.span("name")):
        yield from parse(Span(document.source, span.start, span.start + len(_DOT.sub("", span.text))))


def _named(node: s.Expression) -> bool:
    """Whether it is a name alone, or one with a label below: `σ_R`."""
    return isinstance(node, s.Word) or (isinstance(node, s.Scripted) and isinstance(node.base, s.Word) and not (
        node.accents) and all(k.kind in ("lower", "label_lower") for k in node.scripts))


def _definition(name: s.Expression, word: str) -> s.Statement:
    """`σ(z) = sigmoid(z)`, where the name stands."""
    span = name.span
    given = s.Group("(", ")", (s.Word("z" if name.span.text != "z" else "x", span),), span)
    left, right = (s.Product((x, given), ("", ""), span) for x in (name, s.Word(word, span)))
    return s.Statement("", False, (s.Clause(s.Relation((left, right), ("=",), span), None, span),), (), span)
