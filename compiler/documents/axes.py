"""The axis of a function as the words of a document say it: "taken row-wise", "over the $m$ positions"."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from einc.checking.matrices.known import COLUMNS, COUNTED, PAST, TOKENS
from einc.documents.document import Document
from einc.documents.facts import bare
from einc.documents.shapes import named
from einc.documents.stops import denied, sentences
from einc.documents.synonyms import SPOKEN
from einc.errors.report import Span

_WISE = re.compile(r"\b(row|column)-?\s?wise\b", re.I)
_EACH = re.compile(r"\b(?:each|every)\s+(row|column)\b(?!\s+of\s+(?:its|the)\s+transpose)", re.I)
_SIZE = re.compile(r"\W+(?:[A-Za-z]+\W+){0,3}?(?:over|along|across)\s+(?:(?:the\s+|all\s+)"
                   r"(?:(?:available|given|different|distinct|possible)\s+)?)?(?:\$|\\\()([^$=]{1,24}?)(?:\$|\\\))")
_FORMULA = re.compile(r"\$([^$]{1,80})\$")
_OF = re.compile(r"\b(row|column)s?\s+of\s+(\$[^$]{1,80}\$(?:,?\s+(?:and\s+)?\$[^$]{1,80}\$"
                 r"(?!\s+(?:is|has|denotes)\b))*)", re.I)
_EACH_OF = re.compile(r"\b(?:a|any|every|each)\s+matrix\b[^.$]{0,40}\$[^$]{1,9}\$[^.$]{0,40}\$[^$]{1,9}\$-?\s?th\s+"
                      r"(row|column)\b")
_LINE = re.compile(r"\b(?:row|column)s?\b", re.I)
# What is said of every function that runs along lines.
_NORMAL = re.compile(r"\bnormali[sz]|\bsums?\s+to\s+(?:one\b|\$?1(?!\d))", re.I)
# What is said of norms, by which a function may be meant or a length.
_NORMS = re.compile(r"\bnorms?\s+(?:is|are)\b", re.I)
_AXIS = re.compile(r"\b(?:(?:first|second|other)\s+(?:axis|dimension)|axis\s*=?\s*\d"
                   r"|(?:over|across)\s+(?:the\s+)?quer\w+|of\s+each\s+\w+\s+sums?)\b", re.I)
# Words of a set of tokens, of which each has entries of its own, and of a function that runs over it.
_TOKEN = (r"(?:tokens?|words?|positions?|samples?|examples?|patch(?:es)?|nodes?|embeddings?|(?:data\s+)?points?"
          r"|vectors?\s+of\s+(?:the\s+)?tokens)")
_OVER = re.compile(rf"\b(?:over|along|across)\s+(?:the\s+|all\s+)?(?:(?:mini-?)?batch|{_TOKEN}|sequence|time)\b", re.I)
_MATRIX = r"(?:\s+of\s+(?:\$|\\\()(?P<name>[^$]{1,60}?)(?:\$|\\\)))?"
_ARE = (r"(?:\s+(?:is|are|be|holds?|contains?|represents?|corresponds?\s+to|stores?))+(?:\s+(?:the|a|an|one|our|all"
        r"|its|input|single|different|embeddings?\s+of|\$[^$]{1,20}\$))*")
_TOKENS_IN_COLUMNS = tuple(re.compile(x, re.I) for x in (
    rf"\bcolumns?{_MATRIX}{_ARE}\s+{_TOKEN}\b",
    rf"\b{_TOKEN}{_ARE}(?:\s+(?:in|as|along))?(?:\s+the)?\s+columns?\b{_MATRIX}",
    rf"\b{_TOKEN}\s+(?:as|in|per|along)\s+(?:the\s+|its\s+)?columns?\b{_MATRIX}"))
# `X = [x_1, …, x_n] ∈ ℝ^{d × n}`
_SIDE_BY_SIDE = re.compile(r"(?P<name>[^$=\n]{1,30})=\s*(?:\\left)?[\[(]\s*(?P<one>[^,$\[\]]{1,30}?)_\{?1\}?\s*,"
                           r"[^;$\n]{1,80}?(?P=one)_\{?(?P<last>\w+)\}?\s*(?:\\right)?[\])]\s*\\in\s*\\mathbb\s*\{?R\}?\s*\^\s*\{"
                           r"[^$]{1,40}?\\times\s*(?P<many>\w+)\s*\}")
_SIZE_OF = r"(?:\$|\\\()(?P<size>[^$=]{1,24}?)(?:\$|\\\))"
_MANY = r"number\s+of\s+(?:\w+\s+)?(?:tokens|words|positions|samples)|(?:sequence|context)\s+length|batch\s+size"
_COUNTS = tuple(re.compile(x, re.I) for x in (
    rf"{_SIZE_OF}\s+(?:input\s+)?(?:tokens|words|positions|patches|samples|examples)\b",
    rf"{_SIZE_OF}\s+(?:is|denotes)\s+the\s+(?:length|{_MANY})", rf"(?:{_MANY}|sequences?\s+of\s+length)\s+{_SIZE_OF}"))
_PAST = re.compile(r"(?<!non-)(?<!non)(?<!un)\b(?:caus(?:al|ally|ality)|auto-?regressive(?:ly)?|masked|masking|masks?"
                     r"|look-?ahead|left-to-right|(?:future|previous|preceding|past)\s+(?:positions?|tokens?|keys)"
                     r"|(?:tokens?|positions?|keys)\s+before|to\s+the\s+left|padding\s+(?:tokens?|positions?|keys)"
                     r"|earlier\s+(?:positions?|tokens?|keys|ones)|(?:upper|lower)[\s-]+triang(?:le|ular)"
                     r"|(?:only\s+(?:sees?|attends?|looks?)|(?:sees?|attends?|looks?)\s+only)\b|cannot\s+(?:see|attend)"
                     r"|(?:above|below)\s+the\s+(?:main\s+)?diagonal|diagonal\s+(?:is|are)\s+excluded)\b", re.I)
_UNSEEN = re.compile(r"\b(?:sees?|attends?\s+to|looks?\s+at)\s+(?:no|itself\s+and)\b|\bcannot\s+(?:see|attend)\b"
                     r"|\b(?:may|must|does|do|can|should)\s+(?:not|never)\s+(?:see|attend)\b", re.I)
_WITHOUT = re.compile(r"\b(?:no(?!\s+weight\b)|without|omit\w*|ignor\w*|drop\w*"
                      r"|leav\w+\s+(?:out|aside)|bidirectional)\b", re.I)


def lines(document: Document, section: int) -> dict[str, frozenset[str]]:
    """Of each matrix whether the words of a section, else of the whole document, speak of its rows or its columns."""
    starts = [x.span.start for x in document.headings]
    own: dict[str, set[str]] = {}
    other: dict[str, set[str]] = {}
    for found in _OF.finditer(document.source.text):
        for into in ((own,) if bisect_right(starts, found.start()) - 1 == section else (other,)):
            for name in _FORMULA.findall(found[2]):
                into.setdefault(named(re.split(r"\\in(?![A-Za-z])", name)[0]), set()).add(found[1].lower())
    for found in _EACH_OF.finditer(document.source.text):  # what is said of every matrix has no name
        other.setdefault("", set()).add(found[1])
    return {name: frozenset(own.get(name) or other[name]) for name in {*own, *other}}


def heard(document: Document, functions: Iterable[str]) -> Iterator[Span]:
    """The words by which sentences say along what functions run, and the names of these in them."""
    called, source = _called(functions), document.source
    for at, sentence in sentences(_prose(document)) if called is not None else ():
        found = list(called.finditer(sentence)) if called is not None else []
        if found and "?" not in (said := _said(sentence, [x.end() for x in found])) and said - {TOKENS}:
            sized = (y for x in found for y in [_SIZE.match(sentence, x.end())] if y is not None)
            for x in (*found, *sized, *(x for form in (_WISE, _EACH) for x in form.finditer(sentence))):
                yield Span(source, at + x.start(), at + x.end())


def _called(functions: Iterable[str]) -> re.Pattern[str] | None:
    """The names and other names of functions; None where there are none."""
    known = frozenset(functions)
    names = sorted({*known, *(word for word, name in SPOKEN.items() if name in known)}, key=len, reverse=True)
    return re.compile(rf"(?<![A-Za-z])({'|'.join(map(re.escape, names))})(?![A-Za-z])", re.I) if names else None


def axes(document: Document, functions: Iterable[str], section: int) -> dict[str, frozenset[str]]:
    """Of each function what the words of a section say that it runs along: `row`, `column`, or the name of a size.
    Where the section says nothing, it is what the whole document says. A sentence that leaves it open says `?`.
    """
    starts = [x.span.start for x in document.headings]
    other = {word: name for word, name in SPOKEN.items() if name in functions}
    names, called = {*functions, *other}, _called(functions)
    own: dict[str, set[str]] = {}
    apart: dict[str, set[str]] = {}
    for at, sentence in sentences(_prose(document)) if called is not None else ():
        found = list(called.finditer(sentence)) if called is not None else []
        said = _said(sentence, [x.end() for x in found])
        if not found and said and _NORMS.search(sentence):
            said.add("?")
        if not found and said and (_NORMAL.search(sentence) or _NORMS.search(sentence)):
            found = [x for x in map(called.match, names) if x is not None] if called is not None else []
        if found and said:
            for into in ((own,) if bisect_right(starts, at) - 1 == section else (apart,)):
                for name in found:
                    into.setdefault(other.get(name[0].lower(), name[0]).lower(), set()).update(said)
    found_ = {name: frozenset(own.get(name) or apart[name]) for name in {*own, *apart}}
    here = (sentence for at, sentence in sentences(_prose(document)) if bisect_right(starts, at) - 1 in (section, -1))
    if any(_UNSEEN.search(x) or (_PAST.search(x) and not (denied(x) or _WITHOUT.search(x))) for x in here):
        found_ |= {x.lower(): found_.get(x.lower(), frozenset()) | {PAST} for x in names}
    return found_ | {COLUMNS: _upright(document.source.text), COUNTED: _counted(document.source.text)}


def _upright(text: str) -> frozenset[str]:
    """The matrices whose columns the words of a text call tokens, "" where they do not say of which."""
    found = [x for pattern in _TOKENS_IN_COLUMNS for x in pattern.finditer(text)]
    found += [x for x in _SIDE_BY_SIDE.finditer(text) if x["last"] == x["many"]]
    return frozenset(named(re.split(r"\\in(?![A-Za-z])|=", x["name"] or "")[0]) for x in found)


def _counted(text: str) -> frozenset[str]:
    """The sizes that count tokens, by the words of a text."""
    return frozenset(bare(x["size"]) for pattern in _COUNTS for x in pattern.finditer(text))


def _said(sentence: str, ends: Iterable[int]) -> set[str]:
    """What a sentence says that the functions in it run along, each of which ends at one of the `ends`. What has rows
    or columns in other words says `?`: `over the rows` may mean either.
    """
    said = {x[1].lower() for pattern in (_WISE, _EACH) for x in pattern.finditer(sentence)}
    said |= {bare(x[1]) for end in ends for x in [_SIZE.match(sentence, end)] if x is not None}
    rest = _EACH.sub("", _WISE.sub("", sentence))
    open_ = _AXIS.search(sentence) or _LINE.search(rest) or (said and denied(sentence))
    return said | ({"?"} if open_ else set()) | ({TOKENS} if _OVER.search(sentence) else set())


def _prose(document: Document) -> str:
    """The text with blanks in place of its displays, whose words are of formulas."""
    out: list[str] = []
    at = 0
    text = document.source.text
    for formula in (x for x in document.formulas if x.display and x.span.start >= at):
        out += [text[at : formula.span.start], " " * (formula.span.end - formula.span.start)]
        at = formula.span.end
    return "".join((*out, text[at:]))
