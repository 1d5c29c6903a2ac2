"""The paper's own words on its indices -> declarations: `$t,s\\in\\{1..T\\}$ (time)` is `index t, s : time(T)`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einc.checking.declarations.names import index_name, left_of, size_name
from einc.checking.matrices.factors import renamed
from einc.checking.matrices.progressions import listing
from einc.checking.matrices.shapes import DOTS, TRANSPOSE, parts, plain, words
from einc.documents.document import Document
from einc.documents.said import Said, neighbours, ranged, scripts
from einc.documents.shapes import FACT
from einc.errors.report import Span
from einc.ir.indices import CLASSES
from einc.syntax import tree as s

# The word in parentheses after the formula, `(request id)`, `(latent for MLA)`, or after what it is: `be rows (time)`.
_ASIDE = re.compile(r"[$\\)\s]*(?:(?:be|are|is|denotes?|index(?:es)?)\s+[A-Za-z ]{1,40})?\(([^)\n]{1,60})\)")
# The noun that ends a phrase after the formula, `are the positions`, and the one before it: `each token`.
_AFTER = re.compile(r"[$\\)]*\s+(?:(?:be|are|is|denotes?|index(?:es)?)\s+)?(?:the\s+)?(?:[A-Za-z]+ )?([A-Za-z]+)"
                    r"(?:\s*(?=[.,;:(]|and\b|\Z)|[ \t]*\n[ \t]*\n)")
_RUNS = re.compile(r"([A-Za-z]+)\s+(?:runs?|ranges?|goes|go)\s+(?:over|from|through)\s+[$\\(]*\Z")
_BEFORE = re.compile(r"([A-Za-z]+),?\s+[$\\(]*\Z")
# Words beside a letter that stands alone: `token $t$`, `the $t$-th token`, `$t$ counts tokens`, `at time $t$`.
_ONE = r"(?:\$|\\\()(?P<letter>\s*\\?[A-Za-z]+'*\s*)(?:\$|\\\))"
_AT_TIME = re.compile(rf"\b(?:[Aa]t|[Ee]ach|[Ee]very)\s+(?P<word>time)(?:\s+step)?\s+{_ONE}")
_ALONE = (re.compile(rf"\b(?P<word>[A-Za-z]+)\s+{_ONE}(?!-)"), re.compile(rf"{_ONE}-?\s*th\s+(?P<word>[A-Za-z]+)"),
          re.compile(rf"{_ONE}\s+(?:counts|indexes|numbers|runs\s+over|ranges\s+over)\s+(?:the\s+|all\s+)?"
                     r"(?P<word>[A-Za-z]+)"), _AT_TIME)
_SPOKEN = {"position": "time", "token": "time", "timestep": "time", "channel": "feature", "dimension": "feature",
           "vocabulary": "vocab"}
_SPOKEN |= {cls: cls for cls in CLASSES}
# What is said in parentheses, up to a preposition; `(not a time)` and `(Section 4)` say no class.
_LINKS = r"(?:of|for|in|per|to|with|over)\b"
_PHRASE = re.compile(rf"(?!.*\b(?:not|no)\b)(?:(?!{_LINKS})[a-z-]+ ?)+(?=\Z|{_LINKS})")
_NEVER = re.compile(r"[Tt]emporal\s+ind(?:ex|ices)\s+([^.]{1,80}?)\s+are\s+(?:\*\*)?never", re.S)
_LETTER = re.compile(r"\\?[A-Za-z]+|[α-ω]")
_DEFAULT, _FAMILY = "feature", "head"


def index_lines(document: Document, equations: Iterable[Said]) -> Iterator[tuple[Said, s.Statement]]:
    """An `index` line for each sentence that says over what letters run.

    The class is the one that the words beside it name; `time` for what the paper calls temporal. Where there is none it
    is `feature` for what is an element of a set, `t ∈ {1..T}`, and for a list up to a part of a size, `i = 1, …, d/2`;
    another list of numbers, `t = 1, …, T`, then declares nothing, but where it counts matrices, `W_i ∈ ℝ^{d × k}`: they
    are a family, of the class that no product sums.
    """
    equations, beside = tuple(equations), _alone(document)
    families = {w.text for x in equations if x.fact == FACT and x.statement is not None
                for w in words(k.content for k in scripts(x.statement.clauses[0].body) if k.content is not None)}
    temporal = {letter for found in _NEVER.finditer(document.source.text) for letter in _LETTER.findall(found[1])}
    ordered = {x for said in equations if said.statement is not None
               for c in said.statement.clauses for x in neighbours(c.body)}
    for said in equations:
        if said.indices and said.statement is not None:
            names = [n for n in said.indices if index_name(n) is not None]
            body = said.statement.clauses[-1].body
            over, (cls, _) = ranged(body), _class(said, names, temporal)
            alone = set().union(*(beside.get((said.formula.section, n.span.text.strip()), set()) for n in names))
            cls = cls or (alone.pop() if len(alone) == 1 else "")
            cls = cls or ("time" if any(index_name(n) in ordered for n in names) else "")
            cls = cls or (_FAMILY if {index_name(n) for n in names} <= families else "")
            braced = isinstance(body, s.Relation) and _braced(body.operands[-1])
            if names and over is not None and (cls or braced or is_extent(over.high)):
                yield said, _line(names, over, cls or _DEFAULT, said.span)
    yield from _listed(equations)


def heard(equations: Iterable[Said]) -> Iterator[Span]:
    """The words beside ranges that name a class for their letters."""
    for said in (x for x in equations if x.indices and x.statement is not None):
        _, words = _class(said, [], set())
        yield from (words,) if words is not None else ()


def counted(equations: Iterable[Said], section: int) -> Iterator[tuple[str, str]]:
    """The letters that the words count from 1 to a size, `i = 1, …, n`, with these sizes: as a section says it, else as
    all others do.
    """
    own: dict[str, set[str]] = {}
    other: dict[str, set[str]] = {}
    for said in (x for x in equations if x.indices and x.statement is not None):
        over = ranged(said.statement.clauses[-1].body) if said.statement is not None else None
        from_one = over is not None and isinstance(over.low, s.Number) and over.low.text == "1"
        size = size_name(over.high) if over is not None and from_one else None
        for name in filter(None, map(index_name, said.indices)) if size is not None else ():
            (own if said.formula.section == section else other).setdefault(name, set()).add(size or "")
    for name in sorted({*own, *other}):
        if len(sizes := own.get(name) or other[name]) == 1:
            yield name, next(iter(sizes))


def _listed(equations: tuple[Said, ...]) -> Iterator[tuple[Said, s.Statement]]:
    """The letter of what is listed from the first to the last, `(A_1, …, A_h)`: that of its equation, `A_i = …`."""
    read = [x for x in equations if x.statement is not None and isinstance(x.statement.clauses[0].body, s.Relation)]
    lefts = [left_of(x.statement.clauses[0].body) for x in read if x.statement is not None]
    names = _Names.of(equations)
    for said in read:
        nodes = [x for c in said.statement.clauses for x in parts(c.body)] if said.statement is not None else []
        for first, last in (x.items for x in nodes if isinstance(x, s.Group) and len(x.items) == 2):
            text = said.span.source.text[first.span.end : last.span.start]
            size = _counted(last)
            if DOTS.search(text) is None or size is None or plain(renamed(first, "1", size.text)) != plain(last):
                continue
            over = s.Range(s.Number("1", size.span), size, size.span)
            for left, letter in ((x, letter) for x in lefts if (letter := _counted(x)) is not None):
                if letter.text != size.text and plain(renamed(left, letter.text, size.text)) == plain(last):
                    yield said, _line([letter], over, _FAMILY, said.span)
        for node in (x for x in nodes if isinstance(x, s.Matrix) and x.form == "list"):
            yield from _written(said, node, names)


@dataclass(frozen=True)
class _Names:
    """The names of a document that have scripts, without places, and the small letters in these, both by their base."""

    plain: Mapping[str, set[object]]
    letters: Mapping[str, Mapping[str, s.Word]]

    @classmethod
    def of(cls, equations: Iterable[Said]) -> _Names:
        """The names in all these equations, with their scripts."""
        found: dict[str, set[object]] = {}
        letters: dict[str, dict[str, s.Word]] = {}
        for x in (x for said in equations if said.statement is not None for c in said.statement.clauses
                  for x in parts(c.body)):
            if isinstance(x, s.Scripted) and isinstance(x.base, s.Word):
                found.setdefault(x.base.text, set()).add(plain(_unturned(x)))
                inside = words(k.content for k in x.scripts if k.content is not None)
                letters.setdefault(x.base.text, {}).update(
                    {w.text: w for w in inside if len(w.text) == 1 and w.text.islower() and not w.quoted})
        return cls(found, letters)


def _written(said: Said, node: s.Matrix, names: _Names) -> Iterator[tuple[Said, s.Statement]]:
    """The letters under which a text has what `[q_1; …; q_h]` lists from the first to the last."""
    counted, last = listing(node, ""), node.written[-1]
    if counted is None or not isinstance(last, s.Scripted) or not isinstance(last.base, s.Word):
        return
    ends = (x for k in last.scripts if k.content is not None for x in parts(k.content))
    end = next((x for x in ends if size_name(x) == counted[1]), None)
    for text, letter in names.letters[last.base.text].items():
        term = listing(node, text)
        if end is None or term is None or text == counted[1]:
            continue
        if plain(term[0]) in names.plain[last.base.text]:
            yield said, _line([letter], s.Range(s.Number("1", end.span), end, end.span), _FAMILY, said.span)


def _unturned(node: s.Scripted) -> s.Scripted:
    """A name without the sign of a transpose."""
    return replace(node, scripts=tuple(k for k in node.scripts if k.kind != "upper" or k.content is None or not any(
        w.text == TRANSPOSE for w in words((k.content,)))))


def _counted(node: s.Expression) -> s.Word | None:
    """The letter alone in the last script of a name."""
    content = scripts(node)[-1].content if scripts(node) else None
    inner = content.items[0] if isinstance(content, s.Group) and len(content.items) == 1 else content
    inner = inner.items[0] if isinstance(inner, s.Group) and inner.open == "(" and len(inner.items) == 1 else inner
    return inner if isinstance(inner, s.Word) and len(inner.text) == 1 and not inner.quoted else None


def _braced(node: s.Expression) -> bool:
    """Whether it is a set of numbers, in braces or, where it is a range, in brackets."""
    return isinstance(node, s.Group) and (node.open == "{" or (node.open == "[" and isinstance(
        node.items[0], s.Range)))


def is_extent(node: s.Expression) -> bool:
    """Whether the end of a range is a part or a multiple of a size, `d/2`: what it counts is of the size's kind."""
    return isinstance(node, s.Product) and any(size_name(x) is not None for x in node.factors) and all(
        isinstance(x, s.Number) or size_name(x) is not None for x in node.factors)


def _class(said: Said, names: list[s.Expression], temporal: set[str]) -> tuple[str, Span | None]:
    """The class that the text names beside a range, "" where it names none, and the words that name it."""
    if any(n.span.text.strip() in temporal for n in names):
        return "time", None
    text, start, end = said.span.source.text, said.formula.span.start, said.formula.span.end
    aside, nouns = _ASIDE.match(text, end), (_AFTER.match(text, end), _BEFORE.search(text, max(start - 40, 0), start))
    words = _PHRASE.match(aside[1].lower()) if aside else None
    inner = [(x, aside) for x in (words[0].split() if words is not None else [])]
    beside = [(found[1].lower(), found) for found in nouns if found if found[1].lower() not in ("time", "times")]
    runs = _RUNS.search(text, max(start - 40, 0), start)
    beside += [(runs[1].lower(), runs)] if runs is not None else []
    return next(((cls, Span(said.span.source, *found.span())) for word, found in (*inner[-1:], *inner, *beside)
                 if found is not None and (cls := _spoken(word))), ("", None))


def _alone(document: Document) -> dict[tuple[int, str], set[str]]:
    """The classes that the words of each section name beside a letter where it stands alone."""
    found: dict[tuple[int, str], set[str]] = {}
    starts = [x.span.start for x in document.headings]
    for form in _ALONE:
        for x in form.finditer(document.source.text):
            letter, word = x["letter"].strip(), x["word"].lower()
            cls = "time" if form is _AT_TIME else "" if word == "time" else _spoken(word)
            if cls:
                found.setdefault((bisect_right(starts, x.start()) - 1, letter), set()).add(cls)
    return found


def _spoken(word: str) -> str:
    """The class that a word names, alone or in the plural; "" where it names none, as of `times`."""
    return "" if word == "times" else _SPOKEN.get(word, _SPOKEN.get(word.removesuffix("s"), ""))


def _line(names: list[s.Expression], over: s.Range, cls: str, span: Span) -> s.Statement:
    whole = isinstance(over.low, s.Number) and over.low.text == "1"
    high = over.high.items[0] if isinstance(over.high, s.Group) and len(over.high.items) == 1 else over.high
    inner = high if whole else over
    set_ = s.Product((s.Word(cls, span), s.Group("(", ")", (inner,), inner.span)), ("", ""), span)
    clauses = tuple(s.Clause(name, None, name.span, "," if at else "") for at, name in enumerate(names))
    return s.Statement("index", False, clauses, (s.Clause(set_, None, span),), span)
