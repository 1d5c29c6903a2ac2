"""Numbers of which a text speaks: "$\\tau$, a scalar", "a constant $\\epsilon$", "$\\gamma = 0.5$" -> `vector τ : 1`.

What a line of text says of a value is an example, and none is taken from it: that the name is of a number is.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from einc.checking.matrices.shapes import parts
from einc.documents import shapes
from einc.documents.document import Document
from einc.documents.named import INNER, NAME, NAMES, Parse, Told, inside
from einc.documents.said import Said, left_text, scripts
from einc.documents.worded import doubted
from einc.errors.report import Span
from einc.syntax import tree as s

_KIND = r"(?:small|positive|negative|real|fixed|given|global|learned|learnable|trainable|single)"
# "a scalar decay"; not "a scalar product", "a scalar multiple of", "a constant matrix".
_NOUN = (r"(?:scalars?(?:\s+(?!product|multipl|function|times|field|valued|matri|vector"
         r"|(?:and|of|for|on|per|with|that|which)\b)[a-z]+)?"
         r"|(?:constant|coefficient|temperature|hyper-?parameter|real\s+number)s?)")
# "the scalars $a$ and $b$"
_BEFORE = re.compile(rf"\b(?:{_KIND}\s+)*{_NOUN}\s+(?P<names>{NAMES})", re.S)
_END = r"(?=\s*(?:[,.;:)]|\Z|\n)|\s+(?:and|which|that|with|shared|in\s+\$))"
# "$\tau$, a scalar", of one name; "$a$ and $b$ are positive constants", of all.
_BEHIND = re.compile(rf"(?P<names>{NAME})(?:\s*[,(]|\s+(?:is|be|denotes)\b)?\s*(?:an?|the|some)\s+"
                     rf"(?:{_KIND}\s+)*{_NOUN}{_END}", re.S)
_ARE = re.compile(rf"(?P<names>{NAMES})\s+(?:are|be|denote)\s+(?:both\s+)?(?:{_KIND}\s+)*{_NOUN}{_END}", re.S)
_RELATED = re.compile(r"[=<>∈≤≥]|\\(?:in|le|ge|leq|geq|lt|gt|sim|to)(?![A-Za-z])")
_ABOVE = re.compile(r"\s*(?:>|≥|\\(?:gt|ge|geq)(?![A-Za-z]))\s*0\s*(?:\$|\\\))\Z")  # `\epsilon > 0`


def numeric(document: Document, parse: Parse) -> Iterator[Told]:
    """The shape line of each name that the words beside it say to be of a number."""
    text = document.source.text
    for found in (x for pattern in (_BEFORE, _BEHIND, _ARE) for x in pattern.finditer(text) if not doubted(text, x)):
        names = list(INNER.finditer(text, *found.span("names")))
        # `X \\in \\mathbb{R}^{n}` says another thing
        said = [n for n, x in enumerate(names) if _RELATED.search(_ABOVE.sub("", x[0]))]
        for name in names[said[-1] + 1 if said else 0 :]:
            formula = document.formula_at(name.end() - 1)
            span = inside(document, *name.span())
            above = _ABOVE.search(name[0])
            end = span.end if above is None else name.start() + above.start()
            read = list(parse(Span(span.source, span.start, end)))
            if formula is None or formula.display or formula.code or len(read) != 1 or shapes.number(
                    text, formula.span.start):
                continue
            line = shapes.line(read[0], s.Number("1", read[0].span), read[0].span)
            if line is not None:
                yield Told(formula, line, (Span(document.source, *found.span()),))


def valued(found: Iterable[Said], known: Container[str]) -> Iterator[Told]:
    """The shape line of each name of which a line of text says a value, `\\gamma = 0.5`: a small letter that a display
    reads, which nothing `known` is, which stands in no script, is bound by nothing, and has nothing below it anywhere.
    """
    found = tuple(found)
    every = [x for said in found if said.statement is not None and said.fact != "a value"
             for c in said.statement.clauses for x in parts(c.body)]
    taken = {w.span.text for x in every for k in scripts(x) if k.content is not None for w in parts(k.content)}
    taken |= {x.base.span.text for x in every if any(k.kind in ("lower", "label_lower") for k in scripts(x))
              and isinstance(x, s.Scripted)}
    taken |= {x.span.text for said in found for x in said.indices}
    used = {y for said in found if said.statement is not None and said.formula.display and not said.fact
            for c in said.statement.clauses for x in parts(c.body) for y in (x.span.text, *_letters(x))}
    for said in found:
        name = left_text(said)
        if said.fact != "a value" or said.formula.display or said.statement is None:
            continue
        if name in taken or name in known or name not in used:
            continue
        body = said.statement.clauses[0].body
        left = body.operands[0] if isinstance(body, s.Relation) else body
        if not isinstance(left, s.Word) or name[:1].isupper() or re.match(r"\\(?:math|text|bold|bm|[A-Z])", name):
            continue
        line = shapes.line(left, s.Number("1", left.span), left.span)
        if line is not None:
            yield Told(said.formula, line)


def _letters(node: s.Expression) -> str:
    """The letters that may stand side by side in a word, `kX`."""
    return node.text if isinstance(node, s.Word) and node.text.isascii() and node.text.isalpha() else ""
