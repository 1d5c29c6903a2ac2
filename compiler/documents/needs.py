"""The lines of a section that an equation needs, so that one equation is compared with
another at the price of these alone."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property

from einc.checking.declarations.names import head, left_of
from einc.checking.matrices.factors import BOLD
from einc.documents.facts import bare
from einc.errors.report import Span
from einc.syntax import tree as s


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
        statements = (*self._always[0], *asked, *(found[at] for at in sorted(found)))
        return replace(self.tree, statements=statements, own=())

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


def needed(mine: Iterable[s.Statement], others: Iterable[s.Statement], sizes: Container[str]) -> list[s.Statement]:
    """Those of other equations that some lines need, and what these need, in their order; and those without a name.
    Bare names of `sizes` are of no tensor.
    """
    lines = tuple(others)
    defining: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        named = head(left_of(line.clauses[0].body)) if _equation(line) else None
        defining.setdefault("" if named is None else named[0].base, []).append(at)
    found: set[int] = set()
    known: set[str] = set()
    stack = ["", *(name for line in mine for name in _tensors(line, sizes))]
    while stack:
        name = stack.pop()
        if name not in known:
            known.add(name)
            more = [at for at in defining.get(name, ()) if at not in found]
            found |= {*more}
            stack += [x for at in more for x in _tensors(lines[at], sizes)]
    return [lines[at] for at in sorted(found)]


def _tensors(line: s.Statement, sizes: Container[str]) -> Iterator[str]:
    """Every name of a line that may be of a tensor, and the letters of each, for `QK` may be a product: no sizes, and
    no letters and labels that stand alone in a script.
    """
    stack: list[object] = [line.clauses, line.tail, line.block]
    while stack:
        match stack.pop():
            case (s.Word() | s.Scripted()) as node if bare(node.span.text) in sizes:
                continue
            case s.Word(text, span) as word:
                yield text
                yield from text if len(text) > 1 and (not word.quoted or BOLD.match(span.text)) else ()
            case s.Script(content=s.Word()) | s.Script(content=s.Group(items=(s.Word(),))):
                continue
            case tuple() as nodes:
                stack += nodes
            case node if is_dataclass(node):
                stack += [getattr(node, f.name) for f in fields(node) if f.name != "span"]


def _equation(line: s.Statement) -> bool:
    """Whether a line is an equation of the paper, for a tensor that has a name."""
    return line.keyword == "" and line.rank is not None and head(left_of(line.clauses[0].body)) is not None


def _words(line: s.Statement) -> Iterator[str]:
    """Every word of a line."""
    stack: list[object] = [line.clauses, line.tail, line.block]
    while stack:
        node = stack.pop()
        if isinstance(node, s.Word):
            yield node.text
        elif isinstance(node, Iterable) and not isinstance(node, str):
            stack += node
        elif is_dataclass(node):
            stack += [getattr(node, f.name) for f in fields(node) if f.name != "span"]
