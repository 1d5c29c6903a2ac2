"""What a text calls its things, as far as that decides how a word may be spelled. No
scope: all names of a text together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from einc.syntax import tree as s
from einc.syntax.printing.quotients import words
from einc.syntax.spelling import BUILT_IN


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one letter, indices, functions, inputs, and every other name and label."""

    letters: frozenset[str] = frozenset()
    indices: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset(BUILT_IN)
    others: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()

    def split(self, run: str) -> list[str]:
        """The indices that a run of letters is, where it can be nothing else; else the run."""
        if len(run) < 2 or run in self.indices or run in self.others or len(run) > 12:
            return [run]
        ways = list(self._ways(run))
        return ways[0] if len(ways) == 1 and all(x in self.indices for x in ways[0]) else [run]

    def _ways(self, run: str) -> Iterator[list[str]]:
        if not run:
            yield []
        for end in range(1, len(run) + 1):
            if run[:end] in self.indices or run[:end] in self.others:
                yield from ([run[:end], *rest] for rest in self._ways(run[end:]))


def names(trees: Iterable[s.SyntaxTree], functions: frozenset[str] = frozenset()) -> Names:
    """The names of some texts, with further functions."""
    letters: set[str] = set()
    indices: set[str] = set()
    called = {*BUILT_IN, *functions}
    others: set[str] = set()
    inputs: set[str] = set()
    for statement in (x for tree in trees for x in _statements(tree.statements)):
        called.update(_defined(statement))
        indices.update(_indices(statement))
        for clause in (*statement.clauses, *statement.tail):
            letters.update(w.text for w in words(clause.body) if len(w.text) == 1 and w.text.isascii())
            others.update(_named(clause.body, False))
        inputs.update(name for c in statement.clauses if statement.keyword == "input"
                      for name in list(_named(c.body, False))[:1])
    return Names(frozenset(letters), frozenset(indices), frozenset(called), frozenset(others - indices),
                 frozenset(inputs))


def _statements(found: Iterable[s.Statement]) -> Iterator[s.Statement]:
    for statement in found:
        yield statement
        yield from _statements(statement.block)


def _defined(statement: s.Statement) -> Iterator[str]:
    """The name of the function or the map that a statement defines."""
    match statement.keyword, statement.clauses:
        case ("def" | "map"), (s.Clause(s.Relation((s.Product((s.Word(name) | s.Scripted(s.Word(name)), *_)), *_))),
                               *_):
            yield name


def _indices(statement: s.Statement) -> Iterator[str]:
    """The indices that a statement declares, those that count rounds among them."""
    for clause in statement.clauses if statement.keyword in ("index", "for") else ():
        match clause.body:
            case s.Word(name) if statement.keyword == "index":
                yield name
            case s.Relation((s.Word(name), s.Range()), ("in",)):
                yield name


def _named(node: s.Expression | None, listed: bool) -> Iterator[str]:
    """The names and labels of a node, but no runs of letters in lists of indices."""
    match node:
        case s.Word(text, _, quoted):
            yield from () if listed and not quoted else (text,)
        case s.Scripted(base, _, scripts):
            yield from _named(base, listed and isinstance(base, s.Word) and all(x.kind == "prime" for x in scripts))
            for script in scripts:
                yield from (script.text,) if script.kind.startswith("label") else _named(script.content, True)
        case s.Product(inner, operators):
            for part in inner:
                yield from _named(part, listed and not any(operators))
        case s.Group(opening, _, inner):
            for part in inner:
                yield from _named(part, listed and opening in "{(")
        case s.Sum(inner) | s.Relation(inner) | s.Logic(_, inner) | s.DirectSum(inner):
            for part in inner:
                yield from _named(part, False)
        case s.Matrix():
            for part in node.written:
                yield from _named(part, False)
        case s.Fraction(one, other) | s.Range(one, other):
            yield from (*_named(one, False), *_named(other, False))
        case s.Root(one):
            yield from _named(one, False)
