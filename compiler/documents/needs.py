"""The lines of a section that an equation needs, so that one equation is compared with
another at the price of these alone."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from itertools import pairwise

from einc.checking.declarations.names import head, left_of
from einc.checking.matrices.factors import BOLD
from einc.checking.matrices.functions import parameters
from einc.checking.matrices.scalars import calls
from einc.checking.matrices.shapes import parts, plain
from einc.documents.facts import bare
from einc.documents.symbols import Symbol
from einc.errors.report import Span
from einc.ir.primitives import PRIMITIVES
from einc.syntax import tree as s
from einc.syntax.spelling import is_fold

ASKED = 8  # the rank of what is compared, above that of every equation of a paper


@dataclass(frozen=True)
class Needs:
    """The tree of a section, whose equations are looked up by the names that they define;
    `passed` are those that do not hold."""

    tree: s.SyntaxTree
    passed: Container[Span]

    def of(self, asked: tuple[s.Statement, ...]) -> s.SyntaxTree:
        """The tree with `asked` as its outputs and with the equations that these need, and what those need."""
        found: dict[int, s.Statement] = {}
        known: set[str] = set()
        stack = [*self._always[1], *(name for line in asked for name in _words(line))]
        while stack:
            name = stack.pop()
            if name not in known:
                known.add(name)
                for at, line in self._defining.get(name, ()):
                    if at not in found:
                        found[at] = line
                        stack += self._names[at]
        first = (replace(line, rank=ASKED) for line in asked)
        statements = (*self._always[0], *first, *(found[at] for at in sorted(found)))
        return replace(self.tree, statements=statements, own=(ASKED,))

    def but(self, names: frozenset[str]) -> Needs:
        """The same needs where these names are known, so that nothing has to define them."""
        return replace(self, tree=replace(self.tree, unknown=self.tree.unknown - names)) if names else self

    @cached_property
    def _always(self) -> tuple[tuple[s.Statement, ...], tuple[str, ...]]:
        """Declarations, blocks and equations whose name cannot be told, with the names in them."""
        lines = tuple(x for x in self.tree.statements if x.keyword != "output" and not _equation(x))
        return lines, tuple(dict.fromkeys(name for line in lines for name in _words(line)))

    @cached_property
    def _defining(self) -> dict[str, list[tuple[int, s.Statement]]]:
        """The equations that hold, by the name that they define, each with its place in the tree."""
        out: dict[str, list[tuple[int, s.Statement]]] = {}
        for at, line in enumerate(self.tree.statements):
            named = head(left_of(line.clauses[0].body)) if _equation(line) else None
            if named is not None and line.clauses[0].span not in self.passed:
                out.setdefault(named[0].base, []).append((at, line))
        return out

    @cached_property
    def _names(self) -> dict[int, tuple[str, ...]]:
        """The names in each equation that holds."""
        return {at: tuple(dict.fromkeys(_words(line))) for lines in self._defining.values() for at, line in lines}


def needed(mine: Iterable[s.Statement], others: Iterable[s.Statement], sizes: Container[str],
           rows: Container[str] = (), given: Container[Symbol] = ()) -> list[s.Statement]:
    """Those of other equations that some lines need, and what these need, in their order; and those without a name.
    Of what one of the lines defines before them, the other equations are kept, and not what they need. Bare names
    of `sizes` are of no tensor, and letters of `rows` name rows of what is given. What is `given` needs no equation.
    """
    own, lines = tuple(mine), tuple(others)
    highest = max((line.rank for line in lines if line.rank is not None), default=s.LEAST)
    defined = {Symbol.of(left) for line in own if line.keyword == "" and (left := _left(line)) is not None
               and line.rank is not None and line.rank > highest}
    defining: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        defining.setdefault(Symbol.of(left).base if (left := _left(line)) is not None else "", []).append(at)
    stack = [Symbol(""), *(x for line in own for x in _symbols(line, sizes))]
    known: set[Symbol] = set()
    found: set[int] = set()
    followed: set[int] = set()
    while stack:
        symbol = stack.pop()
        if symbol not in known and symbol not in given and not (symbol.base in rows and symbol.scripts):
            known.add(symbol)
            found |= {*defining.get(symbol.base, ())}
            more = {*defining.get(symbol.base, ())} - followed if symbol not in defined else set()
            followed |= more
            stack += [x for at in more for x in _symbols(lines[at], sizes)]
    return [lines[at] for at in sorted(found)]


def meant(lines: Iterable[s.Statement], inline: Container[int | None]) -> list[s.Statement]:
    """The lines without the functions of one argument that lines of text define (those of an `inline` rank) and nothing
    applies, and without those of several, which may depend on what stands in scripts elsewhere.
    """
    every = tuple(lines)
    given = {id(x): found for x in every if x.rank in inline and (found := parameters(x)) is not None}
    applied = {name for x in every for c in x.clauses for name in calls(c.body, parameters(x) is not None)}
    labelled = {plain(x) for line in every for c in line.clauses for y in parts(c.body) if isinstance(y, s.Product)
                for x, given_ in pairwise(y.factors) if isinstance(x, s.Scripted) and isinstance(given_, s.Group)
                and id(line) not in given}
    return [x for x in every if id(x) not in given or (len(given[id(x)][1]) == 1 and (
        name.text in applied if isinstance(name := given[id(x)][0], s.Word) else plain(name) in labelled))]


def reads(lines: Iterable[s.Statement], shape: s.Statement, rows: Mapping[str, str]) -> bool:
    """Whether lines may read a symbol of a shape line: its name with as many places, or a letter of its rows with one
    more.
    """
    wanted = Symbol.of(shape.clauses[0].body)
    for symbol in (x for line in lines for x in _symbols(line, ())):
        if symbol.base == wanted.base and symbol.scripts >= wanted.scripts:
            return True
        if rows.get(symbol.base) == wanted.base and symbol.scripts > wanted.scripts:
            return True
    return False


def _left(line: s.Statement) -> s.Expression | None:
    """The name that an equation defines, that of a function too; None where it has none."""
    left = left_of(line.clauses[0].body)
    name = left.factors[0] if isinstance(left, s.Product) else left
    return name if head(name) is not None else None


def _symbols(line: s.Statement, sizes: Container[str]) -> Iterator[Symbol]:
    """Every name of a line that may be of a tensor, and the letters of each, for `QK` may be a product: no sizes, and
    no letters and labels that stand alone in a script.
    """
    stack: list[object] = [line.clauses, line.block]
    while stack:
        match stack.pop():
            case (s.Word() | s.Scripted()) as node if bare(node.span.text) in sizes:
                continue
            case s.Scripted(s.Word() as word, _, scripts) as node:
                yield Symbol.of(node)
                yield from (Symbol.of(replace(node, base=x) if n else x) for n, x in enumerate(_letters(word)))
                stack += scripts
            case s.Word() as word:
                yield Symbol.of(word)
                yield from map(Symbol.of, _letters(word))
            case s.Script(content=s.Word()) | s.Script(content=s.Group(items=(s.Word(),))):
                continue
            case tuple() as nodes:
                stack += nodes
            case node if is_dataclass(node):
                stack += [getattr(node, f.name) for f in fields(node) if f.name != "span"]


def _letters(word: s.Word) -> Iterator[s.Word]:
    """The letters of a word where they may be a product; the last of them has its scripts."""
    function = word.text in PRIMITIVES or is_fold(word.text)
    if len(word.text) > 1 and not function and (not word.quoted or BOLD.match(word.span.text)):
        yield from (replace(word, text=x) for x in word.text)


def _equation(line: s.Statement) -> bool:
    """Whether a line is an equation of the paper, for a tensor that has a name."""
    return line.keyword == "" and line.rank is not None and head(left_of(line.clauses[0].body)) is not None


def _words(line: s.Statement) -> Iterator[str]:
    """The words in a statement, its tail and its block, in no order that is promised."""
    stack: list[object] = [line.clauses, line.tail, line.block]
    while stack:
        node = stack.pop()
        if isinstance(node, s.Word):
            yield node.text
        elif isinstance(node, Iterable) and not isinstance(node, str):
            stack += node
        elif is_dataclass(node):
            stack += [getattr(node, f.name) for f in fields(node) if f.name != "span"]
