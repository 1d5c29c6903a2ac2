"""SyntaxTree -> TypedProgram: names resolved, definitions expanded, every implied sum and every domain written out.

Does not: simplify, order or choose anything. What the program says, it says in the order of its equations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from einc import syntax as s
from einc.checking.assemble import assemble, outputs
from einc.checking.audit import audit
from einc.checking.claims import claims
from einc.checking.declare import declare
from einc.checking.elaborate import Work
from einc.checking.loops import unfold
from einc.checking.members import declare_sets
from einc.checking.recurs import recurrences
from einc.checking.scope import Scope
from einc.checking.sets import check_extents
from einc.checking.signatures import collect
from einc.errors import Help, Report, Source, Span
from einc.problems import CannotUse, TooDeep
from einc.terms import TypedProgram

Find = Callable[[Source, str, Report], Source | None]
Parse = Callable[[Source, Report], s.SyntaxTree]

# Deep terms are walked by functions that call themselves; more than this would end in the C stack, which no one can catch.
_RECURSION = 6_000


def check(tree: s.SyntaxTree, prelude: s.SyntaxTree, report: Report, find: Find, parse: Parse) -> TypedProgram | None:
    """The program that the text means; None where it has errors, all of which are in the report.

    `find(source, name, report)` gives the text of a used spec, `parse` its tree.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION))
    try:
        return _checked(tree, prelude, report, find, parse)
    except RecursionError:
        report.add(TooDeep("an expression is nested too deeply", Span(tree.source, 0, 0),
                           helps=(Help("name its parts in equations of their own"),)))
        return None


def _checked(tree: s.SyntaxTree, prelude: s.SyntaxTree, report: Report, find: Find, parse: Parse) -> TypedProgram | None:
    scope = Scope(report)
    # Definitions come first, since a name means an application or a product by them.
    declare(scope, prelude.statements)
    scope.prelude = frozenset(scope.functions)
    scope.lost |= tree.lost
    statements = list(_used(scope, tree, find, parse, (tree.source.name,), set()))
    declare(scope, statements)
    check_extents(scope)
    # Signatures before bodies, since the order of lines means nothing.
    lines = unfold(scope, statements)
    work = Work(scope, collect(scope, lines), report)
    declare_sets(scope, work.collected, lines)
    work.everything()
    recurs = recurrences(work)
    claims(work, statements)
    chosen = outputs(work, recurs)
    if report.errors:
        return None
    # Ranges, causality and isolation are facts about the whole program.
    made = assemble(work, tree.source, chosen, recurs)
    if made is not None:
        audit(*made, report)
    return None if report.errors or made is None else made[0]


def _used(scope: Scope, tree: s.SyntaxTree, find: Find, parse: Parse, chain: tuple[str, ...],
          seen: set[str]) -> Iterable[s.Statement]:
    """The lines of a text with those of the specs it uses in front of its own."""
    for statement in tree.statements:
        if statement.keyword != "use":
            yield statement
            continue
        word = statement.clauses[0].body
        assert isinstance(word, s.Word)
        told = len(scope.report.errors)
        found = find(tree.source, word.text, scope.report)
        if len(scope.report.errors) > told:
            continue
        if found is None:
            scope.report.add(CannotUse(f"there is no spec `{word.text}`", word.span,
                                       notes=("looked beside this file and among the specs of einc",)))
        elif found.name in chain:
            circle = " → ".join([*chain[chain.index(found.name):], found.name])
            scope.report.add(CannotUse(f"`{word.text}` uses itself: {circle}", word.span,
                                       helps=(Help("remove one of the `use` lines"),)))
        elif found.name not in seen:
            seen.add(found.name)
            inner = parse(found, scope.report)
            scope.lost |= inner.lost
            yield from _used(scope, inner, find, parse, (*chain, found.name), seen)
