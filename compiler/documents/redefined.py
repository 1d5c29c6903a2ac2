r"""Signs to which the words of a document give another meaning than the language: "$\odot$ is the outer product"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from einc.checking.matrices.shapes import ENTRYWISE, TRANSPOSE, parts
from einc.documents.denoted import other_meaning
from einc.documents.document import Document, Macro
from einc.documents.said import Said
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Problem
from einc.syntax import tree as s
from einc.syntax.brackets import NORM

_ENTRIES = (r"(?:element|component|entry|coordinate|channel|dimension)s?(?:-?\s?wise|\s+by\s+\w+)|point-?\s?wise"
            r"|hadamard|schur|gat(?:e|es|ing)\b")
_BASE = r"(?:\$\s*)?(?!\s*(?:\\math\w+\s*\{?\s*|\{)?e\b)(?:\w|\\)"
_BARS = r"(?:\\\||\\[lr]?Vert(?![A-Za-z])|‖|\|\|)"


@dataclass(frozen=True)
class Sign:
    """A sign of the language: `alone` is the formula in a line of text that is the sign and no more, `words` are words
    that speak of it. What these say is its meaning here where it is `usual`, and another where it is of the `other`
    kind, by default anything else. `stands` says whether it is in an expression, written as one of the `macros`.
    """

    alone: str
    usual: str
    stands: Callable[[s.Expression], bool]
    words: str = r"(?!)"
    other: str = r"[A-Za-z]{3}"
    macros: str = ""


def _beside(node: s.Expression) -> bool:
    """Whether two names or groups stand side by side."""
    return isinstance(node, s.Product) and any(
        o == "" and not isinstance(a, s.Number) for a, o in zip(node.factors, node.operators[1:], strict=False))


def _between(node: s.Expression) -> bool:
    """Whether there is a sign of products entry by entry."""
    return isinstance(node, s.Product) and ENTRYWISE in node.operators


def _named(*names: str) -> Callable[[s.Expression], bool]:
    """Whether it is one of the words by which the tree has a sign."""
    return lambda node: isinstance(node, s.Word) and node.text in names


_LETTER = r"(?:[A-Za-z]\s*|\\mathbf\s*\{[A-Za-z]\}\s*|\\cdot\s*)?"
SIGNS = (
    Sign(rf"{_LETTER}(?:\\odot(?![A-Za-z])|⊙)\s*{_LETTER}", _ENTRIES, _between, macros=r"\\odot(?![A-Za-z])|⊙"),
    Sign(rf"{_LETTER}(?:\\circ(?![A-Za-z])|∘)\s*{_LETTER}", _ENTRIES, _between, macros=r"\\circ(?![A-Za-z])|∘"),
    Sign(rf"(?:\\left\s*)?{_BARS}\s*(?:\\cdot|·|\.|[a-z])?\s*(?:\\right\s*)?{_BARS}",
         r"euclid|\\ell_?\s*\{?2|\bl_?\s*\{?2|ℓ_?2|\b(?:2|two)-?\s*norm|length|magnitude|second\s+norm", _named(NORM)),
    Sign(r"(?:[A-Za-z]|\(?\\cdot\)?)?\s*\{?\s*\^?\s*\{?\s*\\(?:top|intercal)\s*\}?", r"transpos", _named(TRANSPOSE)),
    Sign(r"\\log|\\(?:text|mathrm|operatorname)\s*\{\s*log\s*\}", r"natural|\bbase[\s-]*\$?\s*(?:\\math\w+\{)?e\b",
         _named("log"), r"\b(?:logarithms?|logs?)\b",
         rf"\bbase[\s-]+(?:of\s+)?{_BASE}|\b(?:binary|dyadic|decimal)\b|common\s+logarithm|\\log_|\bbits\b"),
    Sign(r"[A-Z]\s*[A-Z]|[a-z]\s*[a-z]", r"usual|ordinary|standard|composition", _beside,
         r"\bjuxtaposition\b|\bproducts?\s+of\s+(?:two\s+)?matrices\b|\bmatrix\s+(?:products?|multiplications?)\b",
         rf"\b(?:{_ENTRIES}|kronecker|outer\s+product|tensor\s+product|convolution|commutator|entries)"),
)
_FORMULA = re.compile(r"(?:\$|\\\()(?P<inner>[^$\n]{1,60}?)(?:\$|\\\))")
# What ends a sentence, and so do displays.
_STOP = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?;](?=[\s)]|\Z)|\n[ \t>]*\n|\$\$|\\\]|\\end\{")
_DENIED = re.compile(r"\b(?:not|never|nor|rather|instead)\b|n't\b", re.I)
_BY = re.compile(r"\b(?:by|with|as|written|symbol|sign|operator)\s*\Z", re.I)
_SAYS = re.compile(r"\s*,?\s*(?:(?:will|shall|to)\s+)?(?:(?:denotes?|means?|stands?|represents?|refers?|for)\b"
                   r"|(?:is|be)\s+(?:\w[\w-]*\s+){0,4}"
                   r"(?:product|multiplication|convolution|composition|operation|sum|division))", re.I)


def redefined(document: Document, said: Said) -> Problem | None:
    """The question of an equation with a sign of which the words of the document say another meaning; None where there
    is none.
    """
    lines = said.sides or (() if said.statement is None else (said.statement,))
    nodes = [x for line in lines for c in line.clauses for x in parts(c.body)]
    for sign, words in (*_said(document.source.text), *_defined(document.texts)) if nodes else ():
        if any(map(sign.stands, nodes)) and (not sign.macros or _written(sign, document, said.span.text)):
            return _question(said, words)
    macros = {name: x.body for name, (_, meanings) in document.macros.lines.items()
              for x in meanings if isinstance(x, Macro)}
    told = other_meaning(document.source.text, said.span.text, macros, any(map(_beside, nodes))) if nodes else None
    return None if told is None else _question(said, told)


def _question(said: Said, words: str) -> Problem:
    """The question of an equation with a sign of which words say another meaning."""
    return OpenReading(f"the words `{words}` say what a sign of it means, and are not read", said.span,
                       helps=(Help("write it with signs of the language, or in a side file"),))


def _written(sign: Sign, document: Document, text: str) -> bool:
    """Whether a formula has a sign as it is written, or a macro that stands for it."""
    own = [name for name, (_, meanings) in document.macros.lines.items()
           if any(isinstance(x, Macro) and re.search(sign.macros, x.body) for x in meanings)]
    return re.search("|".join((sign.macros, *(rf"\\{re.escape(x)}(?![A-Za-z])" for x in own))), text) is not None


@lru_cache(maxsize=8)
def _defined(texts: tuple[str, ...]) -> tuple[tuple[Sign, str], ...]:
    """The signs that one of these equations defines, `A \\odot B = A B^\\top`, with that equation, whose right side
    lacks them."""
    found = list[tuple[Sign, str]]()
    for text in texts:
        left, equals, right = text.partition("=")
        alone = left.strip(" :&\\n")
        found += [(y, text.strip()) for y in SIGNS if equals and y.macros and re.fullmatch(y.alone, alone)
                  and not re.search(y.macros, right)]
    return tuple(found)


@lru_cache(maxsize=8)
def _said(text: str) -> tuple[tuple[Sign, str], ...]:
    """The signs with another meaning in a text, with the words that say it."""
    stops = [0, *(x.end() for x in _STOP.finditer(text)), len(text)]
    return tuple((sign, " ".join(words.split())) for a, b in pairwise(stops) for sign in SIGNS
                 for words in _meanings(sign, text[a:b]) if _other(sign, words))


def _other(sign: Sign, words: str) -> bool:
    """Whether words about a sign say another meaning than that of the language."""
    usual = re.search(sign.usual, words, re.I) is not None and _DENIED.search(words) is None
    return not usual and re.search(sign.other, words, re.I) is not None


def _meanings(sign: Sign, sentence: str) -> Iterator[str]:
    """What a sentence says of a sign: behind it, or before it where it is named "by" it."""
    signs = [x for x in _FORMULA.finditer(sentence) if any(re.fullmatch(y.alone, x["inner"].strip()) for y in SIGNS)]
    for at, x in enumerate(signs):
        if re.fullmatch(sign.alone, x["inner"].strip()):
            before = sentence[signs[at - 1].end() if at else 0 : x.start()]
            after = sentence[x.end() : signs[at + 1].start() if at + 1 < len(signs) else len(sentence)]
            named = (by := _BY.search(before)) is not None and re.search(r"[A-Za-z]{3}", before[: by.start()])
            behind = re.search(r"[A-Za-z]{3}", after) is not None and not named
            operands = re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", x["inner"])) is not None
            if not operands or _SAYS.match(after) or (not behind and by):
                yield after if behind else before
    if not signs and re.search(sign.words, sentence, re.I):
        yield sentence
