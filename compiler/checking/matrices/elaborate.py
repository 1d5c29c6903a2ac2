"""A text with matrix notation -> the same text in index notation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from einc.checking.arrays.elaborate import positional
from einc.checking.declarations.names import Name
from einc.checking.matrices.added import open_entries, told_shapes
from einc.checking.matrices.equations import Work
from einc.checking.matrices.factors import apart
from einc.checking.matrices.foreign import in_indices
from einc.checking.matrices.functions import chosen, defined
from einc.checking.matrices.known import ALL_VECTORS, Known, known
from einc.checking.matrices.laid import listed_sizes
from einc.checking.matrices.lines import laid_out, taken
from einc.checking.matrices.local import localised, sizes
from einc.checking.matrices.pieces import pieced
from einc.checking.matrices.rows import renamed
from einc.checking.matrices.scalars import of_numbers
from einc.checking.matrices.shapes import Key, Symbol, words
from einc.checking.matrices.supply import Supply
from einc.checking.matrices.triangles import by_entries
from einc.checking.matrices.unified import unified
from einc.checking.matrices.work import Result
from einc.checking.notation import Elaborated
from einc.errors.problems import OpenReading
from einc.errors.report import Report, Span
from einc.syntax import tree as s

_SIDES = ("columns", "rows")
_KEYWORDS = ("matrix", "vector")
Told = tuple[tuple[s.Statement, ...], Known, dict[Span, str]]


def elaborated(tree: s.SyntaxTree, prelude: Iterable[s.Statement], report: Report) -> Elaborated:
    """The tree with every equation of matrices in index notation, with inputs for what is declared and not defined, and
    with index lines for new letters. What has no one reading is in the report, and its names are lost.
    """
    lines = tuple(prelude)
    tree = positional(tree, lines, report)
    tree = replace(tree, statements=by_entries(tree.statements))
    tree, applied = of_numbers(tree, known(lines, tree).functions)
    if not any(line.keyword in _KEYWORDS or laid_out(line) for line in tree.statements):
        return Elaborated(replace(tree, statements=tuple(in_indices(tree.statements, report))), inlined=applied)
    given = known(lines, tree)
    told = dict(unified(tree, given)) if tree.own is not None else {}
    tree = replace(tree, statements=(*told.values(), *tree.statements))
    guessed: dict[Span, str] = {}
    text = _Text(tree, lines, applied, guessed)
    while wanted := open_entries(tree.statements, given):
        found = text.entries(wanted) or text.entries(wanted, of_results=True)
        if not found:
            break
        tree = replace(tree, statements=(*(shape for _, shape, _ in found), *tree.statements))
        guessed = guessed | {line.clauses[0].span: why for line, _, why in found}
        text = _Text(tree, lines, applied, guessed)
    work = _refined(text)
    for problem in work.report.problems:
        report.add(problem)
    kept = in_indices([x for line in work.statements for x in work.lines(line)], report)
    made = replace(tree, statements=(*work.supply.lines(tree.source), *kept), lost=tree.lost | work.result.lost,
                   unknown=tree.unknown | work.result.unread)
    return Elaborated(made, work.result.guessed, work.result.inlined, frozenset(told))


@dataclass(frozen=True)
class _Text:
    """A text whose equations are read, perhaps several times. `applied` are functions that are read where they stand,
    and `guessed` is what is read without being said.
    """

    tree: s.SyntaxTree
    lines: tuple[s.Statement, ...]
    applied: frozenset[Span]
    guessed: Mapping[Span, str]

    @property
    def lying(self) -> str:
        """As which all vectors lie, by the words of the text; "" where they say nothing."""
        return next(iter(dict(self.tree.lines).get(ALL_VECTORS, ())), "")

    @cached_property
    def first(self) -> Work:
        """The equations read when nothing is known but what the text says."""
        return self._read(self._plain, "")

    def worked(self, told: Told, lie: str) -> Work:
        """The equations read with what is `told` of letters, where `lie` says how vectors lie that nothing lays."""
        return self.first if lie == "" and told is self._plain else self._read(told, lie)

    def entries(self, wanted: Mapping[Name, s.Statement], of_results: bool = False) -> list[
            tuple[s.Statement, s.Statement, str]]:
        """For each of the `wanted` names whose uses tell one shape and no other: what `told_shapes` gives for it. With
        `of_results` the uses know the shapes of what equations define, else those that the text declares alone."""
        work = self.first
        if of_results:
            made = {key: work.table.symbols[key] for key in work.table.defined if key in work.table.symbols}
            told = self.told(made, self.lying)
            if told == self._plain:
                return []
            work = self.worked(told, self.lying)
        return list(told_shapes(wanted, work.statements, work.table.symbols, work.known))

    def told(self, made: Mapping[Key, Symbol], lie: str) -> Told:
        """The lines of the text with the letters that they tell, where equations have `made` some symbols."""
        if lie != "upright":
            return self._localised(self._parted, made) if made else self._plain
        return self._localised(self._prepared(True), made)

    @cached_property
    def _plain(self) -> Told:
        return self._localised(self._parted, {})

    @cached_property
    def _parted(self) -> tuple[tuple[s.Statement, ...], Known]:
        return self._prepared(False)

    def _localised(self, prepared: tuple[tuple[s.Statement, ...], Known], made: Mapping[Key, Symbol]) -> Told:
        return localised(*prepared, dict(self.tree.counts), made)

    def _prepared(self, upright: bool) -> tuple[tuple[s.Statement, ...], Known]:
        """The lines with their products and pieces taken apart, and what is known of them."""
        tree, given = self.tree, replace(known(self.lines, self.tree), upright=upright)
        parted = apart(tree.statements, given.functions, {x for pair in tree.rows for x in pair})
        tree = replace(tree, statements=renamed(parted, dict(tree.rows), given, sizes(parted, given)))
        said = listed_sizes(replace(known(self.lines, tree), upright=upright), tree.statements)
        return pieced(tree.statements, said), said

    def _read(self, told: Told, lie: str) -> Work:
        """The symbols that the text declares, and its equations of matrices read."""
        tree, (found, given, letters) = self.tree, told
        beside = {given.letters.get(w.text, "") for line in tree.statements if line.keyword == "index"
                  and line.span.source is not tree.source for w in words(c.body for c in line.clauses)}
        functions, statements, out = defined(found, given.letters, sizes(found, given))
        work = Work(replace(given, defined=chosen(statements, functions)), statements, Report(), functions,
                    Supply(given, taken(statements), beside=beside), tree.own, out, prefer=lie,
                    result=Result(guessed={**letters, **self.guessed}, inlined=self.applied))
        for line in statements:
            if line.keyword in _KEYWORDS:
                work.declare(line)
        work.unite()
        work.read(work.equations())
        work.begin()
        return work


def _refined(text: _Text) -> Work:
    """The equations read, and where some are not, with vectors lying in each way that may read others: of these the one
    in which all equations with vectors or rows of matrices are read, where there is one.
    """
    work, either = _read_again(text, text.lying)
    if any(map(work.lying, work.result.faults)):
        asked = any(isinstance(x, OpenReading) for line, x in work.result.faults.items() if work.lying(line))
        either = either and not text.lying
        others = [_read_again(text, x)[0] for x in (*(_SIDES if either else ()), *(() if asked else ("upright",)))]
        whole = [x for x in others if not any(map(x.lying, x.result.faults))
                 and len(x.result.faults) < len(work.result.faults)]
        work = whole[0] if len(whole) == 1 else work
    return work


def _read_again(text: _Text, lie: str) -> tuple[Work, bool]:
    """The equations read, and again where the shapes of what they define tell more of what letters count, for as long
    as that leaves fewer that are not read; and whether it was open anywhere if vectors are columns or rows.
    """
    made: Mapping[Key, Symbol] = {}
    told = text.told(made, lie)
    work = text.worked(told, lie)
    either = work.either
    while work.result.faults and work.table.defined.keys() - made.keys():
        made = {key: work.table.symbols[key] for key in work.table.defined if key in work.table.symbols}
        if (more := text.told(made, lie)) == told:
            break
        again = text.worked(more, lie)
        either = either or again.either
        if len(again.result.faults) >= len(work.result.faults):
            break
        work, told = again, more
    return work, either
