"""`for` blocks -> their lines one by one, each with what stands around it.

Does not read an expression: the index and the domain of rounds come in `elaborate`, with the names they speak of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from einc.checking.declarations.declare import defined_in
from einc.checking.declarations.names import index_name, size_name
from einc.checking.declarations.scope import OPEN, Loop, Rounds, Scope
from einc.checking.declarations.scripts import Vocabulary
from einc.checking.declarations.sets import extent_of, undeclared
from einc.errors.problems import BadLoop, UnknownIndex
from einc.errors.report import Help
from einc.ir.indices import LAYER, Index, IndexSet, number
from einc.syntax import tree as s

Lines = list[tuple[s.Statement, Loop]]

_INSIDE = ("", "output", "mask", "set", "for")
_SPELLINGS = (
    Help("write `for t, h:` to fix indices"),
    Help("write `for B ⊆ {s ≤ t}:` for rounds over blocks, `for s in 1..t:` for one element a round"),
    Help("write `for ℓ in 1..N:` for N rounds of whatever stands below, a layer each"),
)
_INNER = Help("in rounds of layers, `for ℓ in 1..N:`, may stand rounds of one element each, `for t in 1..T:`")


def unfold(scope: Scope, statements: Iterable[s.Statement], around: Loop = OPEN) -> Lines:
    """Every line of the program; the lines of a block with the `for`s around them. Changes `scope.lost`."""
    out: Lines = []
    for statement in statements:
        if statement.keyword != "for":
            out.append((statement, around))
            continue
        before = len(scope.report.problems)
        with scope.telling(statement):
            loop = _loop(scope, statement, around)
            for line in statement.block:
                _allowed(line, loop)
            out += unfold(scope, statement.block, loop)
        if len(scope.report.problems) > before:
            scope.lost.update(defined_in(statement))
    return out


def _allowed(line: s.Statement, loop: Loop) -> None:
    if line.keyword in ("input", "weight") and loop.rounds is not None and loop.rounds.layers:
        return
    if line.keyword not in _INSIDE or line.override:
        word = "override" if line.override else line.keyword
        raise BadLoop(f"`{word}` stands in a `for`", line.span,
                      notes=("in a block stand equations, updates and masks",),
                      helps=(Help("put it above the block"),))


def _loop(scope: Scope, statement: s.Statement, around: Loop) -> Loop:
    """Reads the head of a `for` block inside of `around`: fixed indices, blocks of a set, layers, or rounds.

    It raises BadLoop or UnknownIndex where the head is none of these, or where rounds stand inside of rounds.
    """
    clauses = [c.body for c in statement.clauses]
    fixed = [_index(scope, x) for x in clauses]
    if all(i is not None for i in fixed):
        new = tuple(i for i in fixed if i is not None)
        if around.rounds is not None:
            raise BadLoop("indices are fixed inside of rounds", statement.span,
                          helps=(Help("fix them around the rounds"),))
        twice = [i for i in new if i in around.fixed or new.count(i) > 1]
        if twice:
            raise BadLoop(f"index `{twice[0]}` is fixed already", statement.span, helps=(Help("leave it out"),))
        return Loop((*around.fixed, *new))
    if around.rounds is not None and not around.rounds.layers:
        raise BadLoop("rounds stand inside of rounds", statement.span, helps=(Help("write one after the other"),))
    match clauses:
        case (s.Relation((name, domain), ("subset",)), *more) if index_name(name) is not None:
            block = index_name(name) or ""
            if _index(scope, name) is not None or block in scope.numbers.sizes:
                raise BadLoop(f"`{block}` has a meaning already, so it cannot name the blocks", name.span,
                              helps=(Help("choose another letter"),))
            if around.rounds is not None:
                raise BadLoop("rounds over blocks stand inside of rounds", statement.span, helps=(_INNER,))
            return Loop(around.fixed, Rounds(block, (*_conditions(domain), *more), statement.span))
    counted = _counted(scope, clauses)
    if counted is not None and around.rounds is not None:
        raise BadLoop("layers stand inside of rounds", statement.span, helps=(_INNER,))
    if counted is not None:
        return Loop(around.fixed, Rounds("", tuple(clauses), statement.span, index=counted, layers=True))
    for clause, index in zip(clauses, fixed, strict=True):
        if isinstance(clause, s.Relation) and clause.operators[0] == "in" and _unknown(scope, clause.operands[0]):
            place = clause.operands[0].span
            raise UnknownIndex(f"`{place.text}` is no declared index", place,
                               helps=(undeclared(place.text),))
        if index is None and not isinstance(clause, s.Relation | s.Logic):
            raise BadLoop(f"`{clause.span.text}` is no index and no condition", clause.span, helps=_SPELLINGS)
        if isinstance(clause, s.Relation) and "subset" in clause.operators:
            raise BadLoop(f"`{clause.span.text}` names no blocks", clause.span, helps=_SPELLINGS)
    return Loop(around.fixed, Rounds("", tuple(clauses), statement.span, around=around.rounds))


def _counted(scope: Scope, clauses: list[s.Expression]) -> Index | None:
    """The index of `ℓ in 1..N`, where ℓ is no declared index and no declared index runs over so many: it counts the
    rounds. Raises BadLoop."""
    match clauses:
        case [s.Relation((name, s.Range(low, high)), ("in",))] if _unknown(scope, name):
            pass
        case _:
            return None
    if size_name(high) is not None and _index(scope, high) is not None and size_name(high) not in scope.numbers.sizes:
        return None
    first, last = extent_of(low).constant, extent_of(high)
    letter = index_name(name) or ""
    if first not in (0, 1) or any(i.set.extent == last for i in scope.alphabet.indices.values()):
        return None
    if letter in scope.numbers.sizes.keys() | last.sizes or letter in scope.reserved:
        raise BadLoop(f"`{letter}` has a meaning already, so it cannot count the rounds", name.span,
                      helps=(Help("choose another letter"),))
    scope.add_extent_sizes(last, high.span)
    return Index(letter, IndexSet(LAYER, last + number(1 - int(first)), int(first)))


def _unknown(scope: Scope, node: s.Expression) -> bool:
    return index_name(node) is not None and _index(scope, node) is None and index_name(node) not in scope.lost


def _conditions(domain: s.Expression) -> Iterator[s.Expression]:
    if isinstance(domain, s.Group) and domain.open == "{":
        yield from domain.items
    else:
        yield domain


def _index(scope: Scope, node: s.Expression) -> Index | None:
    name = index_name(node)
    return None if name is None else Vocabulary(scope.seen(node.span), frozenset()).index(name)
