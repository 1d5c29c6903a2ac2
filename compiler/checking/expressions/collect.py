"""Lines -> the equations, updates and outputs of a program, each with the signature that it defines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from einc.checking.declarations.names import head, index_name
from einc.checking.declarations.ragged import check_requests, counted, counts
from einc.checking.declarations.scope import OPEN, Loop, Rounds, Scope, Signature
from einc.checking.declarations.scripts import Vocabulary
from einc.checking.declarations.signatures import Left, article, declared, left_side, stem_of
from einc.errors.problems import (
    AssignsInput,
    BadDeclaration,
    BoundAndFree,
    DefinedTwice,
    ForeignIndex,
    FreeOnRight,
    OverridesNothing,
    RelationAsValue,
    TwoEquals,
    UpdateOutside,
)
from einc.errors.report import Help, Label, Problem, Source, Span
from einc.ir.indices import Index
from einc.syntax import tree as s
from einc.syntax.printing.layout import alike


@dataclass(frozen=True)
class Entry:
    """An equation as it stands: its left side, its right side, the restrictions and the local definitions after it."""

    left: Left
    body: s.Expression
    restrictions: tuple[s.Clause, ...]
    withs: tuple[s.Relation, ...]
    span: Span
    broken: bool = False
    loop: Loop = OPEN
    update: bool = False
    rank: int | None = None
    name: Span | None = None  # where the left side is written


@dataclass
class Collected:
    """The equations of a program by the identity of their signatures, its updates and outputs, and the order of all.

    Of a paper: `passed` are equations in whose place others hold, `failed` what is wrong with those that cannot be one.
    """

    entries: dict[int, Entry] = field(default_factory=dict)
    updates: list[Entry] = field(default_factory=list)
    rounds: dict[Rounds, tuple[Index, ...]] = field(default_factory=dict)  # with the indices fixed around them
    outputs: list[Signature] = field(default_factory=list)
    order: list[Signature] = field(default_factory=list)
    instead: list[tuple[Signature, Source]] = field(default_factory=list)  # outputs of other texts, not returned
    passed: list[Entry] = field(default_factory=list)
    failed: dict[Span, Problem] = field(default_factory=dict)

    def asked(self, ranks: tuple[int, ...]) -> list[Signature]:
        """The signatures that equations of these ranks define, in the order of the text."""
        return [x for x in self.order if self.entries[id(x)].rank in ranks]


def collect(scope: Scope, statements: Iterable[tuple[s.Statement, Loop]]) -> Collected:
    """Every tensor of the program; a line that is wrong is reported and left out."""
    found = Collected()
    ordered = list(statements)
    found.rounds = {loop.rounds: loop.fixed for _, loop in ordered if loop.rounds is not None}
    outputs = [x.span.source for x, _ in ordered if x.keyword == "output"]
    for statement, loop in ordered:
        if statement.keyword in ("input", "weight"):
            for clause in statement.clauses:
                with scope.telling(statement, stem_of(clause.body)):
                    declared(scope, statement, clause, "input" if statement.keyword == "input" else "weight", loop)
    counted(scope)
    for statement, loop in ordered:
        if statement.rank is not None and statement.keyword == "":
            try:
                _defined(scope, found, statement, loop, False)
            except Problem as problem:
                found.failed[statement.span] = problem
        elif statement.keyword in ("", "output"):
            with scope.telling(statement, _stems(statement)):
                _defined(scope, found, statement, loop, bool(outputs) and statement.span.source == outputs[-1])
    check_requests(scope)
    return found


def _stems(statement: s.Statement) -> tuple[str, ...]:
    """The names that a statement would define: of one that lacks its `def` that of the function."""
    return tuple(x for clause in statement.clauses[:1] for x in stem_of(_called(clause.body) or clause.body))


def _called(body: s.Expression) -> s.Expression | None:
    """The name with arguments that a line says to equal something; None where it says something else."""
    match body:
        case s.Relation((s.Product((s.Word() | s.Scripted() as name, s.Group("(")), ("", "")), _), ("=" | ":=",)):
            return name
    return None


def _defined(scope: Scope, found: Collected, statement: s.Statement, loop: Loop, kept: bool) -> None:
    """Adds an equation or an output line to what was found; where several files have outputs, those of the last one
    count.
    """
    signatures: list[Signature] = []
    clauses = list(statement.clauses)
    while statement.keyword == "output" and clauses and not isinstance(clauses[0].body, s.Relation):
        clause = clauses.pop(0)
        signature = left_side(scope, clause.body, "local", loop=loop).signature
        signature.alias = clause.alias or signature.alias
        signatures.append(signature)
    for entry in _equations(scope, clauses, loop, statement.broken) if clauses else []:
        if statement.rank is None:
            _define(scope, found, entry, statement.override)
        else:
            _rank(found, replace(entry, rank=statement.rank))
        signatures.append(entry.left.signature)
    whole = any(isinstance(t.body, s.Word) and t.body.text == "all" for t in statement.tail)
    for signature in signatures:
        signature.said.total = signature.said.total or whole
        if statement.keyword == "output":
            if kept and signature not in found.outputs:
                found.outputs.append(signature)
            elif not kept:
                found.instead.append((signature, statement.span.source))


def _equations(scope: Scope, clauses: list[s.Clause], loop: Loop, broken: bool) -> list[Entry]:
    """The equations of a list, each with the restrictions and local definitions that follow it. Raises
    BadDeclaration."""
    groups: list[tuple[s.Clause, s.Relation, list[s.Clause], list[s.Relation]]] = []
    for clause in clauses:
        body = clause.body
        if isinstance(body, s.Relation) and _is_equation(scope, clause, body, first=not groups):
            if clause.after == "with" and groups:
                groups[-1][3].append(body)
            else:
                groups.append((clause, body, [], []))
        elif groups:
            groups[-1][2].append(clause)
        else:
            raise BadDeclaration(f"`{clause.span.text}` is no equation and no declaration", clause.span,
                                 helps=_ways_to_say(clause))
    return [_entry(scope, *group, loop, broken) for group in groups]


def _ways_to_say(clause: s.Clause) -> tuple[Help, ...]:
    """How to say what is no equation: a name with arguments that equals something is a function."""
    if _called(clause.body) is None:
        return (Help("an equation is written `NAME = …`"),)
    return (Help("a function is defined by `def`", replace(clause.span, end=clause.span.start), "def "),)


def _entry(scope: Scope, clause: s.Clause, relation: s.Relation, restrictions: list[s.Clause], withs: list[s.Relation],
           loop: Loop, broken: bool) -> Entry:
    """Makes the entry of one equation or update, and declares its left side where that is new.

    It raises for an update outside of rounds, for a second equals sign, and for a comparison in place of an equation.
    """
    update = relation.operators[0] == "<-"
    if update and loop.rounds is None:
        raise UpdateOutside("an update `←` stands where no rounds are", relation.span, helps=(
            Help("put it in a block: `for B ⊆ {s ≤ t}:`, or `for s in 1..T:` for one element a round"),
            Help("write `=` for what holds once and for all")))
    if "<-" in relation.operators[1:]:
        raise TwoEquals("an update stands inside of another statement", relation.operands[2].span, "",
                        Label(relation.operands[1].span), helps=(Help("write two statements"),))
    if any(o not in ("=", ":=") for o in relation.operators[update:]):
        right = relation.operands[1].span.to(relation.operands[-1].span)
        raise RelationAsValue(f"`{right.text}` is a comparison, not a number", right,
                              helps=(Help("`1[…]` is 1 where it holds and 0 elsewhere", right, f"1[{right.text}]",
                                          False),))
    if len(relation.operands) > 2:
        raise TwoEquals("two equals signs in one equation", relation.operands[2].span, "",
                        Label(relation.operands[1].span),
                        helps=(Help("write two equations"),))
    left = left_side(scope, relation.operands[0], "local", declare=not update, loop=loop)
    if clause.alias:
        left.signature.alias = clause.alias
    return Entry(left, relation.operands[1], tuple(restrictions), tuple(withs), clause.span, broken, loop, update,
                 name=relation.operands[0].span)


def _is_equation(scope: Scope, clause: s.Clause, body: s.Relation, first: bool) -> bool:
    """Whether a piece of a comma list is an equation: the first is, a later one where a
    new name is said to equal something."""
    if body.operators[0] not in ("=", ":=", "<-"):
        return False
    found = head(body.operands[0])
    if found is None or first or clause.after == "with" or body.operators[0] in (":=", "<-"):
        return found is not None
    name = index_name(body.operands[0])
    if name is not None and Vocabulary(scope.seen(clause.span), frozenset()).index(name) is not None:
        return False
    return not any(x.role == "input" for x in scope.named(found[0]))


def _define(scope: Scope, found: Collected, entry: Entry, override: bool) -> None:
    """Adds an entry to the program's equations or updates; with `override` it may replace an input of a used spec.

    It raises DefinedTwice for a second equation without `override`, and OverridesNothing for `override` without a
    first.
    """
    signature = entry.left.signature
    if signature.role != "local":
        _replaced(scope, entry, override)
        found.order.append(signature)
        found.entries[id(signature)] = entry
        return
    if entry.update:
        _update(scope, found, entry)
        return
    before = found.entries.get(id(signature))
    if before is None and override:
        raise OverridesNothing(f"there is no equation for `{signature.text}` to override", entry.span,
                                once=(signature.name.stem, "tensor"),
                               helps=(Help("remove `override`, or `use` the spec that defines it"),))
    if before is not None and not override:
        if before.span.source != entry.span.source and alike(before.span, entry.span):
            return
        raise DefinedTwice(f"`{signature.text}` is defined twice", entry.span, "again here",
                           Label(before.span, "defined here"),
                           helps=(Help("say `override` to replace the first"),))
    if before is None:
        found.order.append(signature)
    found.entries[id(signature)] = entry


def _rank(found: Collected, entry: Entry) -> None:
    """Adds an equation of a paper: it holds where no other of a higher rank, and no declaration, says otherwise."""
    signature = entry.left.signature
    if signature.role != "local":
        found.passed.append(entry)
    elif entry.update:
        known = any(x.left.signature is signature for x in found.updates)
        (found.passed if known else found.updates).append(entry)
    else:
        before = found.entries.get(id(signature))
        if before is None:
            found.order.append(signature)
        if before is None or (before.rank if before.rank is not None else -1) < (entry.rank or 0):
            found.entries[id(signature)] = entry
            found.passed += [] if before is None else [before]
        else:
            found.passed.append(entry)


def _replaced(scope: Scope, entry: Entry, override: bool) -> None:
    """Makes what a used spec is given a value of this text, by `override X_t^f = …`: it is made here, and the caller is
    not asked for it. Raises AssignsInput.
    """
    signature = entry.left.signature
    used = signature.span.source != entry.span.source and not entry.update and not counts(scope, signature)
    if not (override and used):
        raise AssignsInput(f"`{signature.text}` is declared as {article(signature.role)}",
                           entry.span, "", Label(signature.span, "declared here"),
                           helps=(*((Help("say `override`, and the equation stands for it"),) if used else ()),
                                  Help("give one of the two another name")))
    signature.role = "local"


def _update(scope: Scope, found: Collected, entry: Entry) -> None:
    """Adds `X ← …` to what was found. Raises DefinedTwice for a second one of a state in its rounds."""
    signature, rounds = entry.left.signature, entry.loop.rounds
    before = next((x for x in found.updates if x.left.signature is signature), None)
    if before is not None and before.loop.rounds is rounds:
        raise DefinedTwice(f"`{signature.text}` is updated twice in one round", entry.span, "again here",
                           Label(before.span, "updated here"),
                           helps=(Help("write one: all updates of a round take effect together"),))
    if before is not None:
        raise DefinedTwice(f"`{signature.text}` is updated in two blocks of rounds", entry.span, "again here",
                           Label(before.span, "updated here"), helps=(Help("give the second its own name and start"),))
    found.updates.append(entry)


def beside(problem: Problem, entry: Entry | None) -> Problem:
    """An index that is not on the left is shown with the left side. Changes `problem.labels`."""
    if isinstance(problem, FreeOnRight | BoundAndFree | ForeignIndex) and entry is not None and entry.name is not None:
        problem.labels += (Label(entry.name, "the left side"),)
    return problem
