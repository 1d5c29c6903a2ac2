"""Every name that a text writes: where it stands, and what it stands for.

In: the tree of a text, and its names and equations as far as they could be read. Out: an `Occurrence` for each index,
tensor, size, function, map, class, spec and local name. Names of which nothing is known are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from einc.checking.declarations.names import Name, head, index_name, left_of, size_name, titled
from einc.checking.declarations.scope import CALLABLE, Signature
from einc.checking.declarations.scripts import Item, Vocabulary, labelled, readings
from einc.checking.expressions.spec_calls import is_spec_call, spec_name
from einc.checking.matrices.shapes import parts, within
from einc.checking.programs.elaborate import Work
from einc.checking.programs.starts import begun
from einc.errors.report import Problem, Source, Span
from einc.ir.folds import FOLDS
from einc.ir.indices import CLASSES, Index
from einc.syntax import tree as s
from einc.syntax.spelling import CANONICAL, GREEK

Kind = Literal["index", "tensor", "size", "function", "map", "class", "spec", "local"]
Find = Callable[[Source, str], Source | None]
_LANGUAGE = frozenset({"δ", "ε", "e"})  # what is no row of a table and has a meaning where it has scripts
_SPELLED = re.compile(r"\\?[A-Za-z]+|.", re.S)


@dataclass(frozen=True)
class Symbol:
    """What a name stands for. `home` is where it is declared or defined, None for what belongs to the language."""

    kind: Kind
    text: str
    home: Span | None = None
    of: Index | Signature | None = None


@dataclass(frozen=True)
class Occurrence:
    """A name in a text: `span` has its letters alone, without accents, primes and scripts."""

    span: Span
    symbol: Symbol


Own = Mapping[Name | str, Symbol]  # what a line or a block calls so, alone: values by their names, letters by theirs


def occurrences(statements: Iterable[s.Statement], work: Work, find: Find) -> tuple[Occurrence, ...]:
    """The names of some lines, in the order of the text. `find` gives the spec that a text uses by a name."""
    finder = _Finder(work, find)
    for statement in statements:
        finder.statement(statement, {})
    return tuple(sorted(dict.fromkeys(finder.found), key=lambda x: (x.span.start, x.span.end)))


@dataclass
class _Finder:
    """The names found so far."""

    work: Work
    find: Find
    found: list[Occurrence] = field(default_factory=list)

    def put(self, span: Span, text: str, symbol: Symbol) -> None:
        """Adds a name whose letters stand at the start of a span."""
        self.found.append(Occurrence(_letters(span, text), symbol))

    def statement(self, line: s.Statement, own: Own) -> None:
        """The names of a line and of its block."""
        if line.keyword == "use":
            self._spec(line.clauses[0].body, own, quoted=1)
            return
        own = {**own, **self._locals(line)}
        for clause in (*line.clauses, *line.tail):
            self.node(clause.body, own)
        for inner in line.block:
            self.statement(inner, own)

    def _locals(self, line: s.Statement) -> dict[Name | str, Symbol]:
        """What a line defines for itself: after `with`, as parameters and letters of a definition or a map, and as the
        block or the counter of rounds.
        """
        lefts = [left_of(c.body) for c in line.clauses]
        out: dict[Name | str, Symbol] = {}
        for clause, left in zip(line.clauses, lefts, strict=True):
            if clause.after == "with" and (named := head(left)) is not None:
                out[named[0].stem] = _local(left, named[0].base)
        if line.keyword == "def" and isinstance(lefts[0], s.Product):
            out |= self._parameters(lefts[0])
        if line.keyword == "for" and isinstance(lefts[0], s.Word) and isinstance(line.clauses[0].body, s.Relation):
            word = lefts[0]
            if word.text not in self.work.scope.seen(word.span):
                key = word.text if line.clauses[0].body.operators[0] == "in" else Name(word.text)
                out[key] = _local(word, word.text)
        return out

    def _parameters(self, left: s.Product) -> dict[Name | str, Symbol]:
        """The letters and the parameters of a definition."""
        group = left.factors[-1]
        given = [left_of(x) for x in group.items] if isinstance(group, s.Group) else []
        out: dict[Name | str, Symbol] = {}
        for node in (left.factors[0], *given):
            for script in node.scripts if isinstance(node, s.Scripted) else ():
                for word in parts(script.content) if script.content is not None else ():
                    if isinstance(word, s.Word) and not word.quoted:
                        out.setdefault(word.text, _local(word, word.text))
        for node in given:
            if (named := head(node)) is not None:
                out[named[0].stem] = _local(node, named[0].base)
        return out

    def node(self, node: s.Expression, own: Own) -> None:
        """Finds the names in an expression and puts them into the table with their places. `own` are letters that the
        line declares itself."""
        match node:
            case s.Word() | s.Scripted(s.Word()):
                self._name(node, own)
            case s.Scripted(base, _, scripts):
                self.node(base, own)
                self._hung(scripts, own)
            case s.Product(factors):
                self._factors(factors, own)
            case _:
                for part in within(node):
                    self.node(part, own)

    def _factors(self, factors: tuple[s.Expression, ...], own: Own) -> None:
        """The names of a product: of a call of a spec only what is given to it, for the names in front are its."""
        before: s.Expression | None = None
        for factor, following in zip(factors, (*factors[1:], None), strict=True):
            called = isinstance(following, s.Group) and following.open == "(" and is_spec_call(following)
            if called and self._symbol(factor, own) is None and self._spec(factor, own, quoted=0):
                before = factor
            elif before is not None and isinstance(factor, s.Group):
                for item in factor.items:
                    self.node(item.operands[-1] if isinstance(item, s.Relation) else item, own)
                before = None
            else:
                self.node(factor, own)

    def _spec(self, node: s.Expression, own: Own, quoted: int) -> bool:
        """The spec that is used or called by a name; whether there is one."""
        name = spec_name(node)
        found = None if name is None else self.find(node.span.source, name)
        if name is not None and found is not None:
            quoted = quoted or int(node.span.text[:1] == '"')
            span = Span(node.span.source, node.span.start + quoted, node.span.end - quoted)
            self.found.append(Occurrence(span, Symbol("spec", name, Span(found, 0, 0))))
        return found is not None

    def _name(self, node: s.Word | s.Scripted, own: Own) -> None:
        """A name and what hangs on it. Changes `self.found`."""
        symbol = self._symbol(node, own)
        scripts = node.scripts if isinstance(node, s.Scripted) else ()
        base = node.base if isinstance(node, s.Scripted) else node
        assert isinstance(base, s.Word)
        if symbol is not None and symbol.kind == "size":
            self.found.append(Occurrence(node.span, symbol))
        elif symbol is not None and isinstance(symbol.of, Signature):
            self._tensor(base, node, own)
        else:
            if symbol is not None:
                self.put(base.span, base.text, symbol)
            self._hung(scripts, own)

    def _symbol(self, node: s.Expression, own: Own) -> Symbol | None:
        """What a name stands for; of a tensor one of that name."""
        scope, named = self.work.scope, head(node)
        if named is None:
            return None
        name, letter, text = named[0], index_name(node), scope.text(node.span)
        if letter is not None and (found := own.get(letter.rstrip("'"))) is not None:
            return found
        if name.stem in own:
            return own[name.stem]
        if letter is not None and (index := text.seen.get(letter.rstrip("'"))) is not None:
            return self._index(index, letter.rstrip("'"), node.span)
        size = size_name(node)
        if size in scope.numbers.sizes and not (scope.named(name.stem) and not named[1]):
            return Symbol("size", node.span.text, scope.numbers.sizes[size])
        if signatures := scope.named(name.stem):
            return _of_tensor(self.work, signatures[0])
        function = titled(node)
        if function is not None and function[0].python in scope.functions:
            return Symbol("function", function[0].python, scope.functions[function[0].python].span)
        if name.base in scope.maps:
            return Symbol("map", name.base, scope.maps[name.base].span)
        if name.base in CALLABLE or name.base in FOLDS or (name.base in _LANGUAGE and named[1]):
            return Symbol("function", name.base)
        return Symbol("class", name.base) if name.base in CLASSES else None

    def _index(self, index: Index, letter: str, span: Span) -> Symbol:
        """An index; a primed one is the unprimed one again."""
        text = self.work.scope.text(span)
        return Symbol("index", letter, text.place(letter), text.seen.get(letter, index))

    def _vocabulary(self, span: Span, labels: frozenset[str], own: Own) -> Vocabulary:
        """What may stand in a script; a letter that a line has for itself stands for no set."""
        scope = self.work.scope
        letters = dict(scope.seen(span))
        some = next(iter(letters.values()), None)
        if some is not None:
            letters |= {x: replace(some, name=x) for x in own if isinstance(x, str)}
        return Vocabulary(letters, labels, scope.applied, scope.numbers.scalars | scope.numbers.sizes.keys())

    def _tensor(self, base: s.Word, node: s.Word | s.Scripted, own: Own) -> None:
        """A tensor with its slots: of several of one name the one whose labels and slots are written."""
        named = head(node)
        assert named is not None
        name, scripts = named
        known = self.work.scope.named(name.stem)
        words = self._vocabulary(node.span, self.work.scope.labels(name.stem), own)
        ways = [(labelled(name, way), way) for way in _readings(scripts, words)]
        fitting = [(x, way) for (full, items), way in ways for x in known
                   if x.name == full and len(x.slots) - len(x.carried) <= len(items) <= len(x.slots)]
        fitting = fitting or [(x, way) for (full, _), way in ways for x in known if x.name == full]
        if not fitting:
            self.put(base.span, base.text, _of_tensor(self.work, known[0]))
            self._hung(scripts, own)
            return
        signature, way = fitting[0]
        self.put(base.span, base.text, _of_tensor(self.work, signature))
        for item in way:
            self._item(item, own)

    def _hung(self, scripts: tuple[s.Script, ...], own: Own) -> None:
        """What hangs on a function or an operator: letters, or conditions on them."""
        for script in scripts:
            if script.content is None:
                continue
            words = self._vocabulary(script.span, frozenset(), own)
            ways = _readings((script,), words)
            if len(ways) == 1:
                for item in ways[0]:
                    self._item(item, own)
            else:
                self.node(script.content, own)

    def _item(self, item: Item, own: Own) -> None:
        """Finds the names in a piece of a script, a letter or an expression, and puts them into the table with their
        places."""
        letter = item.text.rstrip("'")
        if item.kind == "index" and item.index is not None:
            symbol = own.get(letter) or self._index(item.index, letter, item.span)
            inside = item.level == "label" and item.span.text.startswith("(")
            self.put(Span(item.span.source, item.span.start + inside, item.span.end - inside), letter, symbol)
        elif item.kind == "expression" and item.expression is not None:
            self.node(item.expression, own)
        for part in item.parts:
            self._item(part, own)


def _readings(scripts: tuple[s.Script, ...], words: Vocabulary) -> list[tuple[Item, ...]]:
    """Every reading of some scripts; none where there are too many."""
    try:
        return readings(tuple(x for x in scripts if x.content is not None), words)
    except Problem:
        return []


def _of_tensor(work: Work, signature: Signature) -> Symbol:
    """A tensor: its equation is its home, or the line that declares it. What stands before its first position is it."""
    signature = begun(work, signature) or signature
    entry = work.collected.entries.get(id(signature))
    home = entry.name if entry is not None and entry.name is not None else signature.span
    return Symbol("tensor", signature.name.text, home, signature)


def _local(node: s.Expression, text: str) -> Symbol:
    base = node.base if isinstance(node, s.Scripted) else node
    return Symbol("local", text, _letters(base.span, text))


def _letters(span: Span, text: str) -> Span:
    """The piece at the start of a span that spells a name; the whole span where none does, as in an author's macro."""
    written = span.text
    if written.startswith(text):
        return Span(span.source, span.start, span.start + len(text))
    found = _SPELLED.match(written)
    word = "" if found is None else found[0]
    spelled = GREEK.get(word.removeprefix("\\"), CANONICAL.get(word, word))
    return Span(span.source, span.start, span.start + len(word)) if spelled == text else span
