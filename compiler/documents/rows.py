"""Rows that the words of a document name: `$x_t$ is the $t$-th row of $X$` -> `x_t = X_t`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einc.checking.declarations.names import head, index_name
from einc.documents.document import Document
from einc.documents.named import INNER, NAME, NAMES, Parse, Told, each
from einc.documents.worded import doubted
from einc.errors.report import Span
from einc.syntax import tree as s
from einc.syntax.slices import WHOLE

FACT = "a row"  # the kind of fact that it is
_IS = r"\s+(?:is|are|be|for|as|denotes?)\s+the\s+"
_ROW = re.compile(rf"(?P<parts>{NAMES}){_IS}(?P<letter>{NAME})-?\s*th\s+"
                  rf"(?:row|column)s?\s+of\s+(?P<wholes>{NAME}(?:(?:,|,?\s+and|,\s+and)\s+{NAME}(?!{_IS}))*)", re.S)
# "$X$ has the rows $x_i$", "the matrix $X$ with rows $x_i$", "$X$, whose rows are $x_i$"
_HAS = re.compile(rf"(?P<wholes>{NAMES}),?\s+(?:has|have|with|whose)\s+(?:as\s+)?(?:the\s+)?"
                  rf"(?:(?:{NAME}-?\s*th\s+)?rows?)\s+(?:is\s+|are\s+)?(?P<parts>{NAMES})", re.S)

# Words by which a name is of rows or columns, read or not: "$a_1, …, a_n$ are the columns", "with columns $a_j$",
# "we denote the columns of $A$ by $a_j$".
_ARE = r"(?:\s+(?:is|are|be|being|given|denoted|written|called|named|as|the|by|vectors?))"
_SPOKEN = (
    re.compile(rf"(?P<names>{NAMES})(?:\s+[a-z]+){{0,3}}\s+(?:{NAME}-?\s*(?:th|st|nd|rd)\s+|the\s+|for\s+|its\s+)"
               r"(?:row|column)s?\b(?!-)", re.S | re.I),
    re.compile(rf"\b(?:row|column)s?(?:\s+vectors?)?(?:\s+{NAME})?(?:\s+of\s+{NAMES},?)?(?!\s+by){_ARE}*\s+"
               rf"(?P<names>{NAMES})", re.S | re.I),
    re.compile(rf"\b(?:denot|writ|call|nam|label|index)\w*\s+(?:\w+\s+)?(?:row|column)s?(?:\s+of\s+{NAMES})?\s+"
               rf"(?:by|as)\s+(?P<names>{NAMES})", re.S | re.I))
_HEAD = re.compile(r"((?:\\[A-Za-z]+\s*)*\{*[A-Za-z]?\}*)\s*[_^]")


def spoken(document: Document) -> frozenset[str]:
    """The heads of names with scripts of which the words speak as rows or columns: they are vectors, and where nothing
    says which, they are no numbers.
    """
    text = document.source.text
    names = (x.text for pattern in _SPOKEN for found in pattern.finditer(text)
             for x in each(document, *found.span("names")))
    found = (_HEAD.match(x.strip()) for x in names)
    return frozenset("".join(x[1].split()).replace("{", "").replace("}", "") for x in found if x) - {""}


def rows(document: Document, parse: Parse) -> Iterator[Told]:
    """The equation of each row that a sentence names, with the formula in which its name stands; none where a row has
    the name of its matrix, for `X_t` is a row of `X` already.
    """
    text = document.source.text
    for found in _ROW.finditer(text):
        (parts, wholes, letters) = (
            [x for place in each(document, *found.span(group)) if "=" not in place.text  # a range, and no name
             for x in parse(place)]
            for group in ("parts", "wholes", "letter"))
        place = found.start("parts")
        formula = document.formula_behind(place)
        wholes = wholes[: len(parts)] if re.match(r",\s+and\b", _between(text, found, len(parts))) else wholes
        if len(parts) != len(wholes) or len(letters) != 1 or formula is None or index_name(letters[0]) is None:
            continue
        for part, whole in zip(parts, wholes, strict=True):
            if (line := _line(part, whole, letters[0])) is not None:
                yield Told(formula, line, (Span(document.source, *found.span()),))


def _between(text: str, found: re.Match[str], at: int) -> str:
    """What stands before one of the matrices that a sentence names, by how many stand before it; "" for no such one."""
    places = list(INNER.finditer(found["wholes"]))
    return found["wholes"][places[at - 1].end() : places[at].start()] if 0 < at < len(places) else ""


def whole_rows(document: Document, parse: Parse) -> Iterator[Told]:
    """The equation of each matrix whose rows a sentence names, `X_{i,:} = x_i` of "$X$ has the rows $x_i$"."""
    text = document.source.text
    for found in _HAS.finditer(text):
        parts, wholes = ([x for place in each(document, *found.span(group)) for x in parse(place)]
                         for group in ("parts", "wholes"))
        formula = document.formula_behind(found.start("wholes"))
        apart = re.match(r",\s+and\b", _between(text, found, len(wholes) - len(parts)))
        wholes = wholes[-len(parts) :] if parts and apart else wholes  # those before are of another clause
        if len(parts) != len(wholes) or formula is None or doubted(text, found):
            continue
        for part, whole in zip(parts, wholes, strict=True):
            named, other = head(part), head(whole)
            script = part.scripts[-1] if isinstance(part, s.Scripted) and part.scripts else None
            inner = script.content.items[0] if script is not None and isinstance(script.content, s.Group) else (
                script.content if script is not None else None)
            if named is None or other is None or script is None or inner is None or script.kind != "lower" or (
                    index_name(inner) is None or other[1] or named[0] == other[0]):
                continue
            places = s.Group("{", "}", (inner, s.Word(WHOLE, inner.span)), inner.span)
            hung = (*(whole.scripts if isinstance(whole, s.Scripted) else ()),
                    s.Script("lower", places, "", inner.span))
            base, accents = (whole.base, whole.accents) if isinstance(whole, s.Scripted) else (whole, ())
            left = s.Scripted(base, accents, hung, whole.span)
            clause = s.Clause(s.Relation((left, part), ("=",), whole.span), None, whole.span)
            line = s.Statement("", False, (clause,), (), whole.span)
            yield Told(formula, line, (Span(document.source, *found.span()),))


def _line(part: s.Expression, whole: s.Expression, letter: s.Expression) -> s.Statement | None:
    """The statement that a row is one of a matrix, such as `x_t = X_t`; None where the two have no names, or the same
    one."""
    one, other = head(part), head(whole)
    if one is None or other is None or one[0] == other[0]:
        return None
    script = s.Script("lower", s.Group("{", "}", (letter,), letter.span), "", letter.span)
    row = s.Scripted(whole.base, whole.accents, (*whole.scripts, script), whole.span) if isinstance(
        whole, s.Scripted) else s.Scripted(whole, (), (script,), whole.span)
    span = part.span.to(whole.span)
    clause = s.Clause(s.Relation((part, row), ("=",), span), None, span)
    return s.Statement("", False, (clause,), (), span)
