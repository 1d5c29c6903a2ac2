"""Index letters, as each text of a program sees them: its own, and those that the texts that it uses bring along.

What a text declares holds in its lines, whatever a used text calls so. Of a used text come the letters of the index
sets of its inputs, weights and outputs, and those that the reader's lines ask for. In a program one letter is over one
set: a letter that means something else elsewhere stands aside, under another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import chain, product

from einc.checking.declarations.names import head, index_name, left_of
from einc.errors.problems import DefinedTwice, NotBrought
from einc.errors.report import Help, Label, Report, Source, Span
from einc.ir.indices import Index, IndexSet
from einc.syntax import tree as s
from einc.syntax.spelling import GREEK

LETTERS = (*"abcdfghijklmnopqrstuvwxyz", *dict.fromkeys(GREEK.values()))  # for what has to be called anew
Splits = Mapping[IndexSet, tuple[IndexSet, ...]]


@dataclass(eq=False)
class Text:
    """The lines of one text, the texts that it uses, the indices that it declares, and all that its lines see."""

    source: Source
    statements: tuple[s.Statement, ...] = ()
    uses: list[Text] = field(default_factory=list)
    indices: dict[str, Index] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    seen: dict[str, Index] = field(default_factory=dict)

    def brought(self) -> dict[str, Index]:
        """Every letter of the text and of those that it uses; its own stand for others of their name."""
        out: dict[str, Index] = {}
        for used in self.uses:
            out.update((name, index) for name, index in used.brought().items() if name not in out)
        return {**out, **self.indices}

    def whole(self) -> tuple[Text, ...]:
        """The texts that it uses, in the order in which they are read, and itself."""
        return (*dict.fromkeys(x for used in self.uses for x in used.whole()), self)

    def place(self, name: str) -> Span | None:
        """Where the text, or one that it uses, declares a letter."""
        own = self.spans.get(name)
        return own or next((x for used in self.uses if (x := used.place(name)) is not None), None)


def stood_aside(texts: Iterable[Text], avoided: Iterable[str]) -> dict[Index, Index]:
    """New letters for indices whose letter another text, nearer to the reader, means in another way."""
    ordered = list(texts)
    taken: dict[str, IndexSet | None] = {}
    out: dict[Index, Index] = {}
    for text in ordered:
        for name, index in text.indices.items():
            if taken.setdefault(name, index.set) != index.set:
                out.setdefault(index, index)
        for name in _bare_names(text.statements):
            taken.setdefault(name, None)
    if not out:
        return {}
    busy = {*avoided, *(x for text in ordered for line in text.statements for x in _words(line))}
    free = (x for x in chain(LETTERS, map("".join, product(LETTERS, repeat=2))) if x not in busy)
    return {index: Index(next(free), index.set) for index in out}


def see(text: Text, splits: Splits, report: Report, told: bool = True) -> None:
    """Finds what the lines of a text, and of those that it uses, see. A letter that two texts bring along over
    different sets is an error where it is written; one that is not brought, though a new name has it, is `told`."""
    if text.seen:
        return
    text.seen.update(text.indices)
    if not text.uses:
        return
    heads, bare = _own_heads(text), frozenset(_bare_names(text.statements))
    asked = frozenset(x for line in text.statements for x in _asked(line, heads))
    for used in text.uses:
        see(used, splits, report, False)
        given = _given(used, splits)
        for name, index in used.brought().items():
            if name in text.indices or name in bare:
                continue
            if index.set in given or name in asked:
                _bring(text, used, name, index, name in asked, report)
            elif told and (place := next((x for (_, letter), x in heads.items() if letter == name), None)) is not None:
                report.add(_passed_over(used, name, index, place))


def _bring(text: Text, used: Text, name: str, index: Index, asked: bool, report: Report) -> None:
    """Adds a letter of a used text to what the reader sees; two over different sets are an error where it is read."""
    before = text.seen.setdefault(name, index)
    if before.set == index.set or not asked:
        return
    other = next((place for x in text.uses if x is not used and (place := x.place(name)) is not None), None)
    labels = () if other is None else (Label(other, "declared here"),)
    report.add(DefinedTwice(f"index `{name}` is declared twice, over different sets", used.place(name), "again here",
                            *labels, helps=(Help(f"say which is meant, in a line of your own: "
                                                 f"`index {name} : {before.set}`"),)))


def _passed_over(used: Text, name: str, index: Index, place: Span) -> NotBrought:
    there = used.place(name)
    labels = () if there is None else (Label(there, "an index there"),)
    return NotBrought(f"`{name}` is a label here, not the index of {used.source.name}", place, "", *labels, helps=(
        Help(f"to mean the index, declare it: `index {name} : {index.set}`; to mean a label, write "
             f"`\\text{{{name}}}`"),))


def _given(text: Text, splits: Splits) -> frozenset[IndexSet]:
    """The index sets of what a text is given and gives."""
    lines = [x for x in text.statements if x.keyword in ("input", "weight", "output")]
    if not any(x.keyword == "output" for x in lines):
        lines += _unread(text.statements)
    out = {over for used in text.uses for over in _given(used, splits)}
    for line in lines:
        for clause in line.clauses:
            for script in _scripts(left_of(clause.body)):
                out.update(_sets(script.content, text.seen or text.brought(), splits))
    return frozenset(out)


def _sets(node: s.Expression | None, letters: Mapping[str, Index], splits: Splits) -> Iterator[IndexSet]:
    """The sets of the slots in a script: of several letters in parentheses, that of their composite."""
    match node:
        case s.Group("(", ")", items) if len(found := [x for item in items for x in _factors(item)]) > 1:
            parts = tuple(letters[name].set for x in found if (name := index_name(x)) in letters and name is not None)
            yield from (into for into, of in splits.items() if of == parts)
        case s.Group(_, _, items):
            for item in items:
                yield from _sets(item, letters, splits)
        case s.Product(factors, _):
            for factor in factors:
                yield from _sets(factor, letters, splits)
        case s.Word(text):
            yield from (letters[x].set for x in (text, *text) if x in letters)
        case s.Scripted(s.Word(text), _, _):
            yield from (letters[x].set for x in (text, *text) if x in letters)
        case _:
            pass


def _factors(node: s.Expression) -> tuple[s.Expression, ...]:
    return node.factors if isinstance(node, s.Product) else (node,)


def _unread(statements: Iterable[s.Statement]) -> list[s.Statement]:
    """The equations whose names no other line has."""
    lines = [x for x in flat(statements) if x.keyword == ""]
    words = {id(x): frozenset(_words(x)) for x in lines}
    return [x for x in lines if (found := head(left_of(x.clauses[0].body))) is not None
            and not any(found[0].base in words[id(y)] for y in lines if y is not x)]


# what a text writes


def flat(statements: Iterable[s.Statement]) -> Iterator[s.Statement]:
    """The lines, each before those that stand in its block."""
    for statement in statements:
        yield statement
        yield from flat(statement.block)


def _scripts(node: s.Expression) -> tuple[s.Script, ...]:
    return node.scripts if isinstance(node, s.Scripted) else ()


def _declares(statements: Iterable[s.Statement]) -> Iterator[s.Expression]:
    """The left sides that declare or define a tensor or a size."""
    for line in flat(statements):
        if line.keyword in ("input", "weight", "dim"):
            yield from (left_of(clause.body) for clause in line.clauses)
        elif line.keyword in ("", "output") and not line.override and isinstance(line.clauses[0].body, s.Relation):
            yield left_of(line.clauses[0].body)


def _bare_names(statements: Iterable[s.Statement]) -> Iterator[str]:
    """The names without scripts that a text gives a meaning of its own."""
    yield from (name for node in _declares(statements) if (name := index_name(node)) is not None)


def _own_heads(text: Text) -> dict[tuple[str, str], Span]:
    """The names that a text declares itself, each with a letter in its scripts, and where; not those that a used text
    has, too, which are its own."""
    theirs = {pair for used in text.uses for pair, _ in _pairs(used)}
    return {pair: span for pair, span in _pairs(text, deep=False) if pair not in theirs}


def _pairs(text: Text, deep: bool = True) -> Iterator[tuple[tuple[str, str], Span]]:
    for node in _declares(text.statements):
        found = head(node)
        for script in found[1] if found is not None else ():
            for word, span in _unquoted(script.content):
                yield from (((found[0].base, x), span) for x in (word, *word) if found is not None)
    for used in text.uses if deep else ():
        yield from _pairs(used)


def _unquoted(node: object) -> Iterator[tuple[str, Span]]:
    """The words of a script that may be labels: none in parentheses, where no label stands."""
    match node:
        case s.Word(text, span, False):
            yield text, span
        case s.Group("{", "}", items):
            for item in items:
                yield from _unquoted(item)
        case s.Product(factors, operators) if not any(operators):
            for factor in factors:
                yield from _unquoted(factor)
        case _:
            pass


def _asked(node: object, heads: Mapping[tuple[str, str], Span]) -> Iterator[str]:
    """The words that can be nothing but letters of an index: all but those in scripts that may hold a label."""
    match node:
        case s.Scripted(base, _, scripts) if isinstance(base, s.Word):
            for script in scripts:
                labels = {x for word, _ in _unquoted(script.content) for x in (word, *word)
                          if (base.text, x) in heads}
                yield from (x for x in _words(script.content) if x not in labels)
            yield base.text
        case s.Word(text, _, False):
            yield text
        case tuple():
            for item in node:
                yield from _asked(item, heads)
        case _ if is_dataclass(node) and not isinstance(node, Span | Source):
            for each in fields(node):
                yield from _asked(getattr(node, each.name), heads)


def _words(node: object) -> Iterator[str]:
    """Every word of a piece of syntax, and its letters one by one."""
    match node:
        case s.Word(text, _, False):
            yield from (text, *text)
        case tuple():
            for item in node:
                yield from _words(item)
        case _ if is_dataclass(node) and not isinstance(node, Span | Source):
            for each in fields(node):
                yield from _words(getattr(node, each.name))
