"""A text with matrix notation -> the same text in index notation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from einc.checking.arrays.elaborate import positional
from einc.checking.matrices.added import GUESSED, open_entries, told_shapes
from einc.checking.matrices.equations import Work
from einc.checking.matrices.factors import apart
from einc.checking.matrices.foreign import in_indices
from einc.checking.matrices.functions import chosen, defined
from einc.checking.matrices.known import known
from einc.checking.matrices.laid import listed_sizes
from einc.checking.matrices.lines import laid_out, taken
from einc.checking.matrices.local import localised, sizes
from einc.checking.matrices.pieces import pieced
from einc.checking.matrices.rows import renamed
from einc.checking.matrices.scalars import of_numbers
from einc.checking.matrices.shapes import Key, Symbol, words
from einc.checking.matrices.supply import Supply
from einc.checking.matrices.triangles import by_entries
from einc.checking.matrices.work import Result
from einc.checking.notation import Elaborated
from einc.errors.problems import OpenReading
from einc.errors.report import Report, Span
from einc.syntax import tree as s

_SIDES = ("columns", "rows")
_KEYWORDS = ("matrix", "vector")

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
    guessed: dict[Span, str] = {}
    while wanted := open_entries(tree.statements, given):
        work = _worked(tree, lines, Report(), applied, guessed)
        found = list(told_shapes(wanted, work.statements, work.table.symbols, work.known))
        if not found:
            break
        tree = replace(tree, statements=(*(shape for _, shape in found), *tree.statements))
        guessed |= {line.clauses[0].span: GUESSED for line, _ in found}
    work = _refined(tree, lines, report, applied, guessed)
    kept = in_indices([x for line in work.statements for x in work.lines(line)], report)
    made = replace(tree, statements=(*work.supply.lines(tree.source), *kept), lost=tree.lost | work.result.lost,
                   unknown=tree.unknown | work.result.unread)
    return Elaborated(made, work.result.guessed, work.result.inlined)


def _refined(tree: s.SyntaxTree, lines: tuple[s.Statement, ...], report: Report, applied: frozenset[Span],
             guessed: Mapping[Span, str]) -> Work:
    """The same, where some equations are not read, with vectors lying in each way: of these the one in which all
    equations with vectors or rows of matrices are read, where there is one.
    """
    work = _told(tree, lines, applied, guessed, "")
    if any(map(work.lying, work.result.faults)):
        asked = any(isinstance(x, OpenReading) for line, x in work.result.faults.items() if work.lying(line))
        others = [_told(tree, lines, applied, guessed, x) for x in (*_SIDES, *(() if asked else ("upright",)))]
        whole = [x for x in others if not any(map(x.lying, x.result.faults))
                 and len(x.result.faults) < len(work.result.faults)]
        work = whole[0] if len(whole) == 1 else work
    for problem in work.report.problems:
        report.add(problem)
    return work


def _told(tree: s.SyntaxTree, lines: tuple[s.Statement, ...], applied: frozenset[Span], guessed: Mapping[Span, str],
          lie: str) -> Work:
    """The equations read, and again with the shapes of what they define, which tell what letters count, for as long as
    that leaves fewer that are not read.
    """
    made: Mapping[Key, Symbol] = {}
    work = _worked(tree, lines, Report(), applied, guessed, made, lie)
    while work.result.faults and work.table.defined.keys() - made.keys():
        made = {key: work.table.symbols[key] for key in work.table.defined if key in work.table.symbols}
        again = _worked(tree, lines, Report(), applied, guessed, made, lie)
        if len(again.result.faults) >= len(work.result.faults):
            break
        work = again
    return work


def _worked(tree: s.SyntaxTree, lines: tuple[s.Statement, ...], report: Report, applied: frozenset[Span],
            guessed: Mapping[Span, str], made: Mapping[Key, Symbol] | None = None, lie: str = "") -> Work:
    """The symbols that a text declares, and its equations of matrices read. `applied` are functions that are read where
    they stand, `guessed` what is read without being said, `made` what equations define, as far as it is known, and
    `lie` how vectors lie where nothing says it.
    """
    given = replace(known(lines, tree), upright=lie == "upright")
    parted = apart(tree.statements, given.functions, {x for pair in tree.rows for x in pair})
    tree = replace(tree, statements=renamed(parted, dict(tree.rows), given, sizes(parted, given)))
    said = listed_sizes(replace(known(lines, tree), upright=given.upright), tree.statements)
    found, given, letters = localised(pieced(tree.statements, said), said, dict(tree.counts), made or {})
    beside = {given.letters.get(w.text, "") for line in tree.statements if line.keyword == "index" and line.span.source
              is not tree.source for w in words(c.body for c in line.clauses)}
    functions, statements, out = defined(found, given.letters, sizes(found, given))
    work = Work(replace(given, defined=chosen(statements, functions)), statements, report, functions,
                 Supply(given, taken(statements), beside=beside), tree.own, out, prefer=lie,
                 result=Result(guessed={**letters, **guessed}, inlined=applied))
    for line in statements:
        if line.keyword in _KEYWORDS:
            work.declare(line)
    work.unite()
    work.read(work.equations())
    work.begin()
    return work
