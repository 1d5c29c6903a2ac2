r"""Abbreviations that sentences declare: after "we write $\theta^{t/d}$ as $\theta^t$", `θ^2` is `θ^{2/d}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einc.checking.declarations.names import Name, head
from einc.checking.matrices.shapes import mapped, parts, plain, words
from einc.documents.document import Document, Formula
from einc.documents.said import Said
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Label, Problem, Report, Span
from einc.syntax import tree as s
from einc.syntax.parse import parse_formula

# A sentence that declares one and says nothing else: what stands before the two formulas, between them and behind them.
_WRITE = re.compile(
    r"(?:\A|[.:;!?]\s|\n\s*\n|\n\s*[-*]\s|\$\$|\\\]|\\end\{[a-z]+\*?\})\s*(?P<lead>(?:to|for)\s+[^.$]*,\s*|(?:from\s+(?:here|now)(?:\s+on)?|henceforth"
    r"|throughout(?:\s+(?:the|this)\s+(?:paper|text|document|section))?|in\s+what\s+follows),?\s*|and\s+|,?\s*where\s+)?"
    r"we\s+(?:(?:will|shall|simply|then|also|now)\s+)*(?:write|abbreviate|shorten|denote)\s*(?:\$|\\\()\s*\Z", re.I)
_AS = re.compile(r"\s*(?:\$|\\\))\s*(?:simply\s+)?(?:as|to|by)\s+(?:just\s+|simply\s+)?(?:\$|\\\()\s*", re.I)
_FOR = re.compile(r"\s*(?:\$|\\\))\s*(?:(?:in\s+place|instead)\s+of|(?:short\s+)?for)\s+(?:\$|\\\()\s*", re.I)
_AND = re.compile(r"\s*(?:\$|\\\))\s*,?\s*(?:and\s+)?(?:\$|\\\()\s*", re.I)
# The beginning of a sentence that may declare one; what else it says may not be understood.
_WRITES = re.compile(r"[^.$]*\bwe\s+(?:\w+\s+){0,3}(?:write|abbreviate|shorten|denote)\s*(?:\$|\\\()\s*\Z", re.I)
_ELSEWHERE = re.compile(r"\bin\s+(?:the\s+)?(?:appendix|section|chapter)\b", re.I)
_END = re.compile(r"\s*(?:\$|\\\))\s*(?:(?:for\s+(?:short|brevity|simplicity|convenience)|in\s+short|hereafter)\s*)?"
                  r"(?:[.;](?:\s|\Z)|\Z|\n\s*\n)", re.I)


@dataclass(frozen=True)
class Abbreviation:
    """What `short` stands for from a place of a section on; small letters in its scripts stand for any place."""

    short: s.Scripted
    whole: s.Expression
    section: int
    start: int

    def of(self, node: s.Expression) -> s.Expression:
        """The expression with what it stands for wherever it stands."""
        if _met(self.whole, node, self._letters, {}):
            return node
        first: s.Expression = node
        rest: tuple[s.Script, ...] = ()
        if isinstance(node, s.Scripted) and (many := len(self.short.scripts)) < len(node.scripts):
            first, rest = replace(node, scripts=node.scripts[:many]), node.scripts[many:]
        found: dict[str, s.Expression] = {}
        if _met(self.short, first, self._letters, found) and self._free(found) and all(x.kind == "upper" for x in rest):
            made = _put(self.whole, found, node.span)
            return s.Scripted(s.Group("(", ")", (made,), node.span), (), rest, node.span) if rest else made
        return mapped(node, self.of, scripts=True)

    def _free(self, found: Mapping[str, s.Expression]) -> bool:
        """Whether what stands for its letters has none of the other letters below the name that it abbreviates."""
        below = [x.content for x in self.whole.scripts if x.kind == "lower" and x.content is not None] if isinstance(
            self.whole, s.Scripted) else []
        own = {w.text for w in words(below)} - self._letters
        return not any(w.text in own for w in words(found.values()))

    @property
    def _letters(self) -> frozenset[str]:
        return frozenset(_places(self.short))


@dataclass(frozen=True)
class Unread:
    """A name of which a sentence says what it stands for, in a way that is not read."""

    short: s.Expression
    section: int
    start: int

    def problem(self, span: Span) -> Problem:
        """The problem of an equation at `span` in which the name stands."""
        name = self.short.span
        return BadDeclaration(f"a sentence says what `{name.text}` stands for, and it is not read", span, "",
                              Label(name, "said here"), helps=(Help(f"say it in a display: `{name.text} = …`"),))


def _same(short: s.Expression, node: s.Expression) -> bool:
    """Whether two names are one, whatever stands in their scripts beside labels."""
    a, b = head(short), head(node)
    return a is not None and b is not None and a[0] == b[0] and [x.kind for x in a[1]] == [x.kind for x in b[1]]


def spelled_out(document: Document, found: Iterable[Said], functions: frozenset[str]) -> Iterator[Said]:
    """The equations with what abbreviations stand for, behind the sentences that declare these, in their sections."""
    known = list(_declared(document, functions))
    told = [a for a in known if isinstance(a, Abbreviation)]
    open_: dict[Name, list[Unread]] = {}
    for a in known:
        if isinstance(a, Unread) and (name := head(a.short)) is not None:
            open_.setdefault(name[0], []).append(a)
    for x in found:
        around = document.around(x.formula.section)
        own = [a for a in told if a.start <= x.span.start and a.section in around]
        lines = () if x.skip or x.indices or x.fact else x.sides or (() if x.statement is None else (x.statement,))
        doubt = next((a for a in _standing(lines, open_) if a.start <= x.span.start and a.section in around), None)
        if doubt is not None:
            yield replace(x, statement=None, sides=(), problem=doubt.problem(x.span))
        elif x.skip or x.indices or not own:
            yield x
        else:
            statement = None if x.statement is None else _changed(x.statement, own)
            yield replace(x, statement=statement, sides=tuple(_changed(side, own) for side in x.sides))


def _standing(lines: Iterable[s.Statement], known: Mapping[Name, Iterable[Unread]]) -> Iterator[Unread]:
    """What stands in some lines of which a sentence says something that is not read."""
    if known:
        for node in (x for line in lines for c in line.clauses for x in parts(c.body)):
            if (name := head(node)) is not None:
                yield from (a for a in known.get(name[0], ()) if _same(a.short, node))


def _changed(line: s.Statement, known: Iterable[Abbreviation]) -> s.Statement:
    """The equation without abbreviations."""
    for one in known:
        line = replace(line, clauses=tuple(replace(c, body=one.of(c.body)) for c in line.clauses))
    return line


@dataclass(frozen=True)
class _Pair:
    """Two formulas of a sentence of which one stands for the other; `told`: the sentence says nothing else."""

    short: Formula
    whole: Formula
    start: int
    everywhere: bool
    told: bool


def _pairs(document: Document) -> Iterator[_Pair]:
    """What the sentences of a document write for what: one pair, or several, `we write A as B and C as D`."""
    text, at = document.source.text, 0
    while at + 1 < len(document.formulas):
        first = document.formulas[at]
        loose = None if first.display else _WRITES.search(text, max(first.span.start - 90, 0), first.span.start)
        loose = None if loose is None or _ELSEWHERE.search(loose[0]) else loose
        found: list[tuple[Formula, Formula]] = []
        closed = False
        while loose is not None and at + 1 < len(document.formulas):
            a, b = document.formulas[at : at + 2]
            between = text[a.span.end : b.span.start]
            if a.display or b.display or not (_AS.fullmatch(between) or _FOR.fullmatch(between)):
                break
            found.append((b, a) if _AS.fullmatch(between) else (a, b))
            at += 2
            closed = _END.match(text, b.span.end) is not None
            if at == len(document.formulas) or not _AND.fullmatch(text, b.span.end, document.formulas[at].span.start):
                break
        at += 0 if found else 1
        if found:
            lead = _WRITE.search(text, max(first.span.start - 200, 0), first.span.start)
            yield from _told(document, found, lead, closed)


def _told(document: Document, found: list[tuple[Formula, Formula]], lead: re.Match[str] | None,
          closed: bool) -> Iterator[_Pair]:
    """The pairs of one sentence, with the place from which they hold."""
    first, last = found[0], max(x.span.end for x in found[-1])
    said = (lead["lead"] or "").strip(" ,\n").lower() if lead is not None else ""
    start = last
    if said == "where":  # it belongs to the display above it
        begin = min(x.span.start for x in first)
        start = max((x.span.start for x in document.formulas if x.display and x.span.end < begin), default=last)
    everywhere = said.startswith("throughout") and not said.endswith("section")
    for short, whole in found:
        yield _Pair(short, whole, start, everywhere, lead is not None and closed)


def _declared(document: Document, functions: frozenset[str]) -> Iterator[Abbreviation | Unread]:
    """The abbreviations that sentences declare, and what they say that is not read, or is said otherwise twice."""
    read = [(pair, _abbreviation(document, pair, functions)) for pair in _pairs(document)]
    found = [x for _, x in read if x is not None]
    for pair, one in read:
        same = [x for x in found if one is not None and plain(x.short.base) == plain(one.short.base)
                and x.section == one.section]
        if one is not None and all(plain((x.short, x.whole)) == plain((one.short, one.whole)) for x in same):
            yield one
        elif (short := _read(document, pair.short, functions)) is not None and head(short) is not None and (
                plain(short) != plain(_read(document, pair.whole, functions))):
            yield Unread(short, pair.short.section, pair.start)


def _abbreviation(document: Document, pair: _Pair, functions: frozenset[str]) -> Abbreviation | None:
    """The abbreviation that two formulas of a sentence declare; None where they declare none that can be read."""
    short, whole = (_read(document, x, functions) for x in (pair.short, pair.whole))
    if short is None or whole is None or not pair.told or not isinstance(short, s.Scripted):
        return None
    letters, named = {*_places(short)}, {w.text for w in words((whole,))}
    own = letters | {w.text for w in words((short.base,))}
    if not letters or not own <= named or plain(short) == plain(whole):
        return None
    return Abbreviation(short, whole, -1 if pair.everywhere else pair.short.section, pair.start)


def _read(document: Document, formula: Formula, functions: frozenset[str]) -> s.Expression | None:
    """The expression that a formula is; None for another one."""
    report, within = Report(), (formula.span.start, formula.span.end)
    found = parse_formula(document.source, report, functions, within, formula.holes, document.macros)
    if report.errors or len(found) != 1 or len(found[0].clauses) != 1:
        return None
    body = found[0].clauses[0].body
    return None if isinstance(body, s.Relation) else body


def _places(short: s.Scripted) -> Iterator[str]:
    """The small letters in the scripts of a name, which stand for any place."""
    for x in (x for script in short.scripts if script.content is not None for x in parts(script.content)):
        if isinstance(x, s.Word) and len(x.text) == 1 and x.text.islower() and not x.quoted:
            yield x.text


def _bare(node: s.Expression) -> s.Expression:
    """What stands in brackets that hold one expression."""
    while isinstance(node, s.Group) and len(node.items) == 1:
        (node,) = node.items
    return node


def _met(pattern: object, node: object, letters: frozenset[str], found: dict[str, s.Expression]) -> bool:
    """Whether an expression is a pattern with something in place of its letters, which is `found`; adds to that."""
    if isinstance(pattern, s.Expression) and isinstance(node, s.Expression):
        pattern, node = _bare(pattern), _bare(node)
        if isinstance(pattern, s.Word) and pattern.text in letters:
            return plain(found.setdefault(pattern.text, node)) == plain(node)
    if isinstance(pattern, tuple) and isinstance(node, tuple):
        return len(pattern) == len(node) and all(_met(a, b, letters, found) for a, b in zip(pattern, node, strict=True))
    match pattern, node:
        case s.Scripted(), s.Scripted():
            return pattern.accents == node.accents and plain(pattern.base) == plain(node.base) and _met(
                pattern.scripts, node.scripts, letters, found)
        case s.Script(), s.Script():
            return (pattern.kind, pattern.text) == (node.kind, node.text) and (
                pattern.content is node.content or _met(pattern.content, node.content, letters, found))
        case s.Product(), s.Product():
            return pattern.operators == node.operators and _met(pattern.factors, node.factors, letters, found)
        case s.Fraction(), s.Fraction():
            return _met((pattern.above, pattern.below), (node.above, node.below), letters, found)
        case s.Sum(), s.Sum():
            return pattern.signs == node.signs and _met(pattern.terms, node.terms, letters, found)
        case s.Group(), s.Group():
            return pattern.open == node.open and _met(pattern.items, node.items, letters, found)
    return isinstance(pattern, s.Expression) and plain(pattern) == plain(node)


def _put(node: s.Expression, found: dict[str, s.Expression], span: Span) -> s.Expression:
    """The expression with what is found in place of letters, all of it where the abbreviation stands."""
    if isinstance(node, s.Word) and node.text in found:
        inner = found[node.text]
        return inner if isinstance(inner, s.Word | s.Number | s.Scripted) else s.Group("(", ")", (inner,), inner.span)
    made = mapped(node, lambda x: _put(x, found, span), scripts=True)
    if isinstance(made, s.Scripted):
        made = replace(made, scripts=tuple(replace(x, span=span) for x in made.scripts))
    return replace(made, span=span)
