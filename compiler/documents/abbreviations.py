r"""Abbreviations that sentences declare: after "we write $\theta^{t/d}$ as $\theta^t$", `θ^2` is `θ^{2/d}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from einc.checking.declarations.names import Name, head, index_name, left_of, size_name
from einc.checking.matrices.factors import binds
from einc.checking.matrices.shapes import mapped, parts, plain, words
from einc.documents.document import Document, Formula
from einc.documents.phrases import before, everywhere, phrases
from einc.documents.said import Known, Said, scripts
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help, Label, Problem, Report, Span
from einc.syntax import tree as s
from einc.syntax.parse import parse_formula

_THROUGH = (r"(?:throughout|in|for)(?:\s+(?:the|this))?(?:\s+(?:whole|entire|rest\s+of\s+(?:the|this)))?"
            r"\s+(?:paper|text|document|section)|throughout")
# A sentence that declares one and says nothing else: what stands before the two formulas, between them and behind them.
_WRITE = re.compile(
    r"(?:\A|[.:;!?]\s|\n\s*\n|\n\s*[-*]\s|\$\$|\\\]|\\end\{[a-z]+\*?\})\s*(?P<lead>(?:to|for)\s+[^.$]*,\s*"
    r"|(?:from\s+(?:here|now)(?:\s+on)?|henceforth"
    rf"|{_THROUGH}|in\s+what\s+follows),?\s*|and\s+|,?\s*where\s+)?"
    r"we\s+(?:(?:will|shall|simply|then|also|now)\s+)*(?:write|abbreviate|shorten|denote)\s*(?:\$|\\\()\s*\Z", re.I)
_AS = re.compile(r"\s*(?:\$|\\\))\s*(?:simply\s+)?(?:as|to|by)\s+(?:just\s+|simply\s+)?(?:\$|\\\()\s*", re.I)
_FOR = re.compile(r"\s*(?:\$|\\\))\s*(?:(?:in\s+place|instead)\s+of|(?:short\s+)?for)\s+(?:\$|\\\()\s*", re.I)
_AND = re.compile(r"\s*(?:\$|\\\))\s*,?\s*(?:and\s+)?(?:\$|\\\()\s*", re.I)
# The beginning of a sentence that may declare one; what else it says may not be understood.
_WRITES = re.compile(r"[^.$]*\bwe\s+(?:\w+\s+){0,3}(?:write|abbreviate|shorten|denote)\s*(?:\$|\\\()\s*\Z", re.I)
_WHERE = re.compile(r"\W*(?:where|with|here)\b", re.I)  # what begins so belongs to the display above it
_ELSEWHERE = re.compile(r"\bin\s+(?:the\s+)?(?:appendix|section|chapter)\b", re.I)
_END = re.compile(r"\s*(?:\$|\\\))\s*(?:(?:for\s+(?:short|brevity|simplicity|convenience)|in\s+short|hereafter"
                  rf"|{_THROUGH})\s*)?"
                  r"(?:[.;](?:\s|\Z)|\Z|\n\s*\n)", re.I)


@dataclass(frozen=True)
class Abbreviation:
    """What `short` stands for from a place of a section on; those of the small letters in its scripts that are indices
    stand for any place.
    """

    short: s.Scripted
    whole: s.Expression
    section: int
    start: int
    letters: frozenset[str]
    words: Span

    def of(self, node: s.Expression) -> s.Expression:
        """The expression with what it stands for wherever it stands."""
        if _met(self.whole, node, self.letters, {}):
            return node
        first: s.Expression = node
        rest: tuple[s.Script, ...] = ()
        if isinstance(node, s.Scripted) and (many := len(self.short.scripts)) < len(node.scripts):
            first, rest = replace(node, scripts=node.scripts[:many]), node.scripts[many:]
        found: dict[str, s.Expression] = {}
        if _met(self.short, first, self.letters, found) and self._free(found) and all(x.kind == "upper" for x in rest):
            made = _put(self.whole, found, node.span)
            return s.Scripted(s.Group("(", ")", (made,), node.span), (), rest, node.span) if rest else made
        return mapped(node, self.of, scripts=True)

    def _free(self, found: Mapping[str, s.Expression]) -> bool:
        """Whether what stands for its letters has none of the other letters below the name that it abbreviates."""
        below = [x.content for x in self.whole.scripts if x.kind == "lower" and x.content is not None] if isinstance(
            self.whole, s.Scripted) else []
        own = {w.text for w in words(below)} - self.letters
        return not any(w.text in own for w in words(found.values()))


@dataclass(frozen=True)
class Unread:
    """A name of which a sentence says what it stands for, in a way that is not read."""

    short: s.Expression
    section: int
    start: int
    entries: bool = False  # the sentence speaks of its entries, so that nobody knows what it is with other scripts

    def problem(self, span: Span) -> Problem:
        """The problem of an equation at `span` in which the name stands."""
        name = self.short.span
        return BadDeclaration(f"a sentence says what `{name.text}` stands for, and it is not read", span, "",
                              Label(name, "said here"), helps=(Help(f"say it in a display: `{name.text} = …`"),))


def _same(short: s.Expression, node: s.Expression) -> bool:
    """Whether two names are one, whatever stands in their scripts beside labels."""
    a, b = head(short), head(node)
    return a is not None and b is not None and a[0] == b[0] and [x.kind for x in a[1]] == [x.kind for x in b[1]]


def declared(document: Document, found: Iterable[Said], functions: frozenset[str],
             known: Known) -> tuple[Abbreviation | Unread, ...]:
    """The abbreviations that the sentences of a document declare, and what they say of names that is not read."""
    return tuple(_declared(document, functions, _letters(found, known), known))


def spelled_out(document: Document, found: Iterable[Said], said: Iterable[Abbreviation | Unread],
                cases: Iterable[Said] = ()) -> Iterator[Said]:
    """The equations with what abbreviations stand for, behind the sentences that declare these, in their sections. What
    the `cases` in lines of text define is a question in theirs.
    """
    declared = tuple(said)
    told = [a for a in declared if isinstance(a, Abbreviation)]
    unread = [a for a in declared if isinstance(a, Unread)]
    unread += [Unread(left, x.formula.section, 0, any(k.kind == "lower" for k in scripts(left))) for x in cases
               if x.statement and (left := left_of(x.statement.clauses[0].body))]
    for x in found:
        around = document.around(x.formula.section)
        own = [a for a in told if a.start <= x.span.start and a.section in around]
        lines = () if x.skip or x.indices or x.fact else x.sides or (() if x.statement is None else (x.statement,))
        open_: dict[Name, list[Unread]] = {}
        for a in (*unread, *_disagreeing(own)):
            if a.start <= x.span.start and a.section in around and (name := head(a.short)) is not None:
                open_.setdefault(name[0], []).append(a)
        doubt = next(_standing(lines, open_), None)
        if doubt is not None:
            yield replace(x, statement=None, sides=(), problem=doubt.problem(x.span))
        elif x.skip or x.indices or not own:
            yield x
        else:
            statement = None if x.statement is None else _changed(x.statement, own)
            yield replace(x, statement=statement, sides=tuple(_changed(side, own) for side in x.sides))


def _disagreeing(known: list[Abbreviation]) -> Iterator[Unread]:
    """The names of which two sentences that hold in one place say different things."""
    for n, a in enumerate(known):
        for b in known[:n]:
            if _same(a.short, b.short) and plain((a.short, a.whole)) != plain((b.short, b.whole)):
                yield Unread(a.short, a.section, a.start)


def _letters(found: Iterable[Said], known: Known) -> tuple[frozenset[str], frozenset[str]]:
    """The letters that are indices: declared, or bound in the text; and those that may be, of left sides and of big
    operators.
    """
    found = tuple(found)
    sure = known.indices | {name for x in found for n in x.indices if (name := index_name(n)) is not None}
    bodies = [c.body for x in found if x.statement is not None for c in x.statement.clauses]
    names = [*(left_of(x) for x in bodies), *(y for x in bodies for y in parts(x) if binds(y))]
    inner = (k.content for x in names for k in scripts(x) if k.content is not None)
    return frozenset(sure), frozenset(w.text for w in words(inner))


def _standing(lines: Iterable[s.Statement], known: Mapping[Name, Iterable[Unread]]) -> Iterator[Unread]:
    """What stands in some lines of which a sentence says something that is not read."""
    if known:
        for node in (x for line in lines for c in line.clauses for x in parts(c.body)):
            if (name := head(node)) is not None:
                yield from (a for a in known.get(name[0], ()) if a.entries or _same(a.short, node))


def _changed(line: s.Statement, known: Iterable[Abbreviation]) -> s.Statement:
    """The equation without abbreviations."""
    for one in known:
        line = replace(line, clauses=tuple(replace(c, body=one.of(c.body)) for c in line.clauses))
    return line


@dataclass(frozen=True)
class _Pair:
    """Two formulas of a sentence of which one stands for the other; `told`: the sentence says nothing else, and
    `begin` is where its words begin.
    """

    short: Formula
    whole: Formula
    start: int
    everywhere: bool
    told: bool
    begin: int = 0

    @property
    def section(self) -> int:
        """The section in which it holds."""
        return -1 if self.everywhere else self.short.section


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
    wide = everywhere(document, min(first, key=lambda x: x.span.start), max(found[-1], key=lambda x: x.span.start))
    for short, whole in found:
        begin = lead.start("lead") if lead is not None and lead["lead"] else min(short.span.start, whole.span.start)
        yield _Pair(short, whole, start, wide, lead is not None and closed, begin)


def _declared(document: Document, functions: frozenset[str], letters: tuple[frozenset[str], frozenset[str]],
              known: Known) -> Iterator[Abbreviation | Unread]:
    """The abbreviations that sentences declare, and what they say that is not read, or is said otherwise twice."""
    pairs = [_ordered(document, x, functions) for x in _pairs(document)]
    read = [(pair, _abbreviation(document, pair, functions, letters)) for pair in pairs]
    found = [x for _, x in read if x is not None]
    for pair, one in read:
        same = [x for x in found if one is not None and plain(x.short.base) == plain(one.short.base)
                and x.section == one.section]
        if one is not None and all(plain((x.short, x.whole)) == plain((one.short, one.whole)) for x in same):
            yield one
        elif (short := _read(document, pair.short, functions)) is not None and head(short) is not None and (
                plain(short) != plain(_read(document, pair.whole, functions))):
            yield Unread(short, pair.section, pair.start)
    said = {frozenset((x.short.span.start, x.whole.span.start)) for x in pairs}
    for one_, other in phrases(document):
        if frozenset((one_.span.start, other.span.start)) not in said:
            yield from _loose(document, one_, other, functions, known)


def _loose(document: Document, one: Formula, other: Formula, functions: frozenset[str],
           known: Known) -> Iterator[Unread]:
    """What a sentence says of a name by an expression that is no name, no number and no size."""
    first, last = sorted((one, other), key=lambda x: x.span.start)
    above = [x.span.start for x in document.formulas if x.display and x.span.end < first.span.start]
    start = above[-1] if above and _WHERE.match(before(document, first)) else last.span.end
    pair = _ordered(document, _Pair(one, other, start, everywhere(document, first, last), False), functions)
    short, whole = (_read(document, x, functions) for x in (pair.short, pair.whole))
    if short is None or whole is None or head(short) is None or not isinstance(whole, s.Product | s.Sum | s.Fraction):
        return
    size = size_name(short) in known.sizes or index_name(short) in known.indices
    shape = (isinstance(whole, s.Product) and "*" in whole.operators) or all(
        size_name(x) in known.sizes for x in parts(whole) if head(x) is not None)
    order = isinstance(whole, s.Product) and plain(whole.factors[0]) in [plain(s.Word(x, whole.span)) for x in "OΘ"]
    if not (size or shape or order):
        yield Unread(short, pair.section, pair.start)


def _ordered(document: Document, pair: _Pair, functions: frozenset[str]) -> _Pair:
    """The pair, of which the short one is a name where one of them is."""
    short, whole = (_read(document, x, functions) for x in (pair.short, pair.whole))
    turned = short is not None and whole is not None and head(short) is None and head(whole) is not None
    return replace(pair, short=pair.whole, whole=pair.short) if turned else pair


def _abbreviation(document: Document, pair: _Pair, functions: frozenset[str],
                  letters: tuple[frozenset[str], frozenset[str]]) -> Abbreviation | None:
    """The abbreviation that two formulas of a sentence declare; None where they declare none that can be read."""
    short, whole = (_read(document, x, functions) for x in (pair.short, pair.whole))
    if short is None or whole is None or not pair.told or not isinstance(short, s.Scripted):
        return None
    places, named = {*_places(short)}, {w.text for w in words((whole,))}
    own = places | {w.text for w in words((short.base,))}
    sure, maybe = letters[0] | _computed(whole), letters[1]
    if not places or not own <= named or plain(short) == plain(whole) or (places - sure) & maybe:
        return None
    words_ = Span(document.source, pair.begin, max(pair.short.span.end, pair.whole.span.end) + 1)
    return Abbreviation(short, whole, pair.section, pair.start, frozenset(places & sure), words_)


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


def _computed(whole: s.Expression) -> frozenset[str]:
    """The words in scripts that are computed, t of `θ^{t/d}`: no label is divided."""
    contents = (_bare(k.content) for x in parts(whole) for k in scripts(x) if k.content is not None)
    return frozenset(w.text for w in words(x for x in contents if isinstance(x, s.Product | s.Sum | s.Fraction)))


def _bare(node: s.Expression) -> s.Expression:
    """What stands in brackets that hold one expression."""
    while isinstance(node, s.Group) and len(node.items) == 1:
        (node,) = node.items
    return node


def _enclosed(node: s.Expression | None) -> bool:
    """Whether a script stands in parentheses, which make it a label."""
    while isinstance(node, s.Group) and node.open == "{" and len(node.items) == 1:
        (node,) = node.items
    return isinstance(node, s.Group) and node.open == "("


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
                pattern.content is node.content or (_enclosed(pattern.content) == _enclosed(node.content) and _met(
                    pattern.content, node.content, letters, found)))
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
