"""SyntaxTree -> TypedProgram: names resolved, definitions expanded, every implied sum and every domain written out.

Does not: simplify, order or choose anything. What the program says, it says in the order of its equations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from einc.checking.declarations.borrowed import Text
from einc.checking.declarations.declare import declare
from einc.checking.declarations.scope import Called, Foreign, Scope, Texts
from einc.checking.declarations.sets import check_extents
from einc.checking.expressions.collect import collect
from einc.checking.expressions.loops import unfold
from einc.checking.expressions.members import declare_masks, declare_sets
from einc.checking.notation import Elaborated
from einc.checking.plans import read as read_plans
from einc.checking.programs.assemble import account, assemble, outputs
from einc.checking.programs.audit import audit
from einc.checking.programs.circles import circles
from einc.checking.programs.claims import built, claims
from einc.checking.programs.elaborate import Work
from einc.checking.programs.layers import layers
from einc.checking.programs.lints import lints
from einc.checking.programs.packing import packed
from einc.checking.programs.readings import Place, Reading, meanings
from einc.checking.programs.recurs import recurrences
from einc.checking.programs.starts import with_starts
from einc.errors.problems import CannotUse, NotText, TooDeep
from einc.errors.report import Help, Report, Silent, Source, Span
from einc.ir.programs import BlockLoop, TypedProgram
from einc.syntax import tree as s
from einc.syntax.texts import MAX_STATEMENTS, too_many

Find = Callable[[Source, str, Report], Source | None]
Parse = Callable[[Source, Report], s.SyntaxTree]

# Deep terms are walked by functions that call themselves; more than this would end in the C stack, which no one can
# catch.
_RECURSION = 6_000


@dataclass(frozen=True)
class Specs:
    """Where specs come from: `find(source, name, report)` gives a text, `similar(source, name)` a name that there is,
    `parse` the tree of a text; `prove` reports what is unsound, and `unproved` names the states of rounds of
    which it is not proved that their result does not depend on how the domain is cut. `elaborated` gives a text in
    index notation, with the statements of the prelude at hand.
    """

    prelude: s.SyntaxTree
    find: Find
    similar: Callable[[Source, str], str | None]
    parse: Parse
    prove: Callable[[TypedProgram, Report], None]
    unproved: Callable[[BlockLoop], frozenset[str]]
    elaborated: Callable[[s.SyntaxTree, Iterable[s.Statement], Report], Elaborated]

    def missing(self, name: str, span: Span) -> CannotUse:
        """The problem of a name that no spec has, with one that is spelled much the same."""
        near = self.similar(span.source, name)
        place = span.text.find(name) + span.start
        helps = () if near is None else (
            Help(f"write `{near}` for `{name}`", Span(span.source, place, place + len(name)), near),)
        return CannotUse(f"there is no spec `{name}`", span,
                         notes=("looked beside this file and among the specs of einc",), helps=helps)


def checked(tree: s.SyntaxTree, specs: Specs, report: Report, linted: bool = False) -> Called | None:
    """The program that the text means, what the text asks of its file, and what it claims; None where it has errors.

    `linted`: what is sound and looks like a slip is told too.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION))
    try:
        found = _checked(tree, specs, report, (tree.source.name,), linted)
        plans = read_plans(tree.plans, None if found is None else found.program, report)
        if found is None or report.errors:
            return None
        return replace(found, program=replace(found.program, plans=plans)) if plans else found
    except RecursionError:
        report.add(TooDeep("an expression is nested too deeply", Span(tree.source, 0, 0),
                           helps=(Help("name its parts in equations of their own"),)))
        return None


def meant(tree: s.SyntaxTree, specs: Specs) -> Mapping[Place, Reading]:
    """What each equation of a text means that has a meaning by itself, whatever else is wrong with the text."""
    work = worked(tree, specs)
    try:
        return {} if work is None else meanings(work)
    except RecursionError:
        return {}


def worked(tree: s.SyntaxTree, specs: Specs) -> Work | None:
    """The names and equations of a text, as far as they can be read whatever is wrong with it; None where a spec that
    it uses is not there.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION))
    try:
        return _worked(tree, specs, Report(), (tree.source.name,))[0]
    except (RecursionError, CannotUse, NotText):
        return None


def _worked(tree: s.SyntaxTree, specs: Specs, report: Report, chain: tuple[str, ...]) -> tuple[Work, list[s.Statement]]:
    """Every equation of a text read, as far as it can be, and the lines of the text with those that it uses. Problems
    go to the report.
    """
    found = specs.elaborated(tree, specs.prelude.statements, report)
    tree = found.tree
    foreign = Foreign(tree.own is not None, tree.unknown, tree.shaped, found.inlined, found.guessed)
    scope = Scope(report, Texts(library=_Library(specs, report, chain)), foreign=foreign)
    # Definitions come first, since a name means an application or a product by them.
    declare(scope, specs.prelude.statements)
    scope.texts.prelude = frozenset(scope.functions)
    scope.lost |= tree.lost
    scope.texts.root = Text(tree.source, tree.statements)
    statements = list(_used(scope, tree, specs, (tree.source.name,), scope.texts.root))
    if len(statements) > MAX_STATEMENTS:
        raise too_many(f"with the specs that it uses the text has {len(statements):,} statements",
                       Span(tree.source, 0, 0))
    declare(scope, statements)
    check_extents(scope)
    # Signatures before bodies, since the order of lines means nothing.
    lines = unfold(scope, statements)
    work = Work(scope, collect(scope, lines), report)
    for signature in (x for x in scope.signatures if x.span in found.inferred):
        signature.inferred = True
    declare_sets(scope, work.collected, lines)
    declare_masks(scope, lines)
    work.everything(tree.own)
    return work, statements


def _checked(tree: s.SyntaxTree, specs: Specs, report: Report, chain: tuple[str, ...],
             linted: bool = False) -> Called | None:
    """Runs every pass of the checker on a tree. Problems go into the report; errors among them give None."""
    try:
        work, statements = _worked(tree, specs, report, chain)
    except CannotUse:  # told already
        return None
    except NotText as problem:
        report.add(problem)
        return None
    with_starts(work)
    stated = claims(work, statements)
    claimed = {key for x in stated for e in x.made.equations for key in e.reads}
    recurs, ordered = recurrences(work, specs.unproved, claimed)
    repeated = layers(work, [*ordered, *circles(work, recurs, ordered)])
    chosen = [] if _about_claims(tree) else outputs(work, recurs, repeated, tree.own)
    if report.errors:
        return None
    # Ranges, causality and isolation are facts about the whole program.
    made = assemble(work, tree.source, chosen, recurs, repeated, tree.name)
    if made is not None and not report.errors:
        audit(*made, report)
    told = [] if report.errors else [built(work, x, recurs, repeated) for x in stated]
    if linted and not report.errors:
        lints(work, tree, recurs, repeated, chosen)
    if report.errors or made is None:
        return None
    return Called(packed(made[0], made[1].ragged), made[1].folds, tuple(x for x in told if x is not None),
                  account(work, made[1].names))


def _about_claims(tree: s.SyntaxTree) -> bool:
    """Whether a text makes claims and has no output of its own: then it says nothing
    else, whatever the specs do that it uses."""
    def keywords(statements: Iterable[s.Statement]) -> set[str]:
        return {word for x in statements for word in (x.keyword, *keywords(x.block))}

    return keywords(tree.statements) >= {"claim"} and "output" not in keywords(tree.statements)


@dataclass
class _Library:
    """The specs that a text calls, each checked once; `chain` are the files on the way to it."""

    specs: Specs
    report: Report
    chain: tuple[str, ...]
    known: dict[str, Called | None] = field(default_factory=dict)

    def __call__(self, name: str, span: Span) -> Called:
        """The spec of this name, called at the span. Raises CannotUse where there is none or it calls itself, and
        Silent where its own errors are in the report already.
        """
        told = len(self.report.errors)
        found = self.specs.find(span.source, name, self.report)
        if len(self.report.errors) > told:
            raise Silent("told by the reader")
        if found is None:
            raise self.specs.missing(name, span)
        if found.name in self.chain:
            circle = " → ".join([*self.chain[self.chain.index(found.name):], found.name])
            raise CannotUse(f"`{name}` calls itself: {circle}", span, helps=(Help("remove one of the calls"),))
        if found.name not in self.known:
            self.known[found.name] = self._read(found)
        called = self.known[found.name]
        if called is None:
            raise Silent("told with the spec")
        return called

    def _read(self, source: Source) -> Called | None:
        report = Report()
        made = _checked(self.specs.parse(source, report), self.specs, report, (*self.chain, source.name))
        if made is not None:
            self.specs.prove(made.program, report)
        for problem in report.problems:
            self.report.add(problem)
        return None if report.errors else made


def _used(scope: Scope, tree: s.SyntaxTree, specs: Specs, chain: tuple[str, ...],
          text: Text) -> Iterable[s.Statement]:
    """The lines of a text with those of the specs it uses in front of its own.

    For a spec that is not there the one with a similar name is read. Raises CannotUse where there is none, since every
    line may be about what it would have said.
    """
    for statement in tree.statements:
        if statement.keyword != "use":
            yield statement
            continue
        word = statement.clauses[0].body
        assert isinstance(word, s.Word)
        told = len(scope.report.errors)
        found = specs.find(word.span.source, word.text, scope.report)
        if len(scope.report.errors) > told:
            continue
        if found is None:
            missing = specs.missing(word.text, word.span)
            scope.report.add(missing)
            near = [specs.find(word.span.source, help_.new, Report())
                    for help_ in missing.helps if help_.new is not None]
            found = next(iter(near), None)
            if found is None:
                raise missing
        if found.name in chain:
            circle = " → ".join([*chain[chain.index(found.name):], found.name])
            scope.report.add(CannotUse(f"`{word.text}` uses itself: {circle}", word.span,
                                       helps=(Help("remove one of the `use` lines"),)))
        elif found.name not in scope.texts.used:
            inner = specs.elaborated(specs.parse(found, scope.report), specs.prelude.statements, scope.report).tree
            scope.lost |= inner.lost
            text.uses.append(Text(found, inner.statements))
            scope.texts.used[found.name] = text.uses[-1]
            yield from _used(scope, inner, specs, (*chain, found.name), text.uses[-1])
        else:
            text.uses.append(scope.texts.used[found.name])
