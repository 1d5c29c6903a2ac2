"""Tensor declarations and left sides -> signatures and the equations behind them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from einc import syntax as s
from einc.checking.names import ACCENT_LABELS, Name, head, index_name
from einc.checking.scope import Mask, Scope, Signature
from einc.checking.scripts import Item, Reading, Vocabulary, labelled, readings
from einc.checking.tensors import match_slots
from einc.errors import Help, Label, Problem, Span
from einc.indices import Index, IndexSet
from einc.problems import (
    AmbiguousScript,
    AssignsInput,
    BadDeclaration,
    BadScript,
    DefinedTwice,
    NotYet,
    OverridesNothing,
    Reserved,
    TwoEquals,
    UnreadableScript,
)
from einc.terms import Slot


@dataclass(frozen=True)
class Left:
    """A left side: its signature and the index (or packed indices) of each slot."""

    signature: Signature
    axes: tuple[tuple[Index, ...], ...]


@dataclass(frozen=True)
class Entry:
    """An equation as it stands: its left side, its right side, the restrictions and the local definitions after it."""

    left: Left
    body: s.Expression
    restrictions: tuple[s.Clause, ...]
    withs: tuple[s.Relation, ...]
    span: Span


@dataclass
class Collected:
    entries: dict[int, Entry] = field(default_factory=dict)  # by id of the signature
    outputs: list[Signature] = field(default_factory=list)
    order: list[Signature] = field(default_factory=list)


def collect(scope: Scope, statements: Iterable[s.Statement]) -> Collected:
    """Every tensor of the program; a line that is wrong is reported and left out."""
    found = Collected()
    masks: list[s.Statement] = []
    ordered = list(statements)
    sources = [x.span.source for x in ordered if x.keyword == "output"]
    for statement in ordered:
        try:
            match statement.keyword:
                case "input" | "weight" as role:
                    for clause in statement.clauses:
                        _declared(scope, statement, clause, role)
                case "output":
                    _output(scope, found, statement, statement.span.source == sources[-1])
                case "mask":
                    masks.append(statement)
                case "":
                    for entry in _equations(scope, found, statement):
                        _define(scope, found, entry, statement.override)
        except Problem as problem:
            scope.report.add(problem)
    for statement in masks:
        try:
            _mask(scope, statement)
        except Problem as problem:
            scope.report.add(problem)
    return found


def left_side(scope: Scope, node: s.Expression, role: Literal["input", "weight", "local"], declare: bool = True) -> Left:
    """The signature of a name as it is declared or defined; a new one where none fits."""
    found = head(node)
    if found is None:
        raise BadDeclaration(f"`{node.span.text}` is no name", node.span)
    stem, scripts = found
    if stem.python in scope.reserved and not stem.labels:
        raise Reserved(f"`{stem.python}` is a function of the prelude", node.span, helps=(Help("choose another name"),))
    for reading in readings(scripts, Vocabulary(scope.indices, scope.labels(stem), frozenset(scope.maps))):
        existing = _existing(scope, stem, reading)
        if existing is not None:
            return existing
    name, items = _declaring(scope, stem, scripts, node)
    slots = tuple(_slot(scope, item) for item in items)
    axes = tuple(_axis(item) for item in items)
    flat = [i for axis in axes for i in axis]
    if len(set(flat)) < len(flat):
        twice = next(i for i in flat if flat.count(i) > 1)
        raise BadDeclaration(f"index `{twice}` stands twice on the left", node.span, helps=(Help(f"write `{twice}'` for one of the two"),))
    signature = scope.find(name, tuple(x.set for x in slots))
    if signature is None:
        signature = Signature(name, slots, role, node.span)
        if declare:
            scope.signatures.append(signature)
    return Left(signature, axes)


def _existing(scope: Scope, stem: Name, reading: Reading) -> Left | None:
    name, items = labelled(stem, reading)
    if any(i.kind == "expression" for i in items):
        return None
    for signature in scope.named(stem):
        if signature.name == name and (ordered := match_slots(scope, signature.slots, items)) is not None:
            if all(i.kind != "index" or (i.index is not None and i.index.set == x.set) for i, x in zip(ordered, signature.slots, strict=True)):
                return Left(signature, tuple(_axis(i) for i in ordered))
    return None


def _declaring(scope: Scope, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression) -> tuple[Name, tuple[Item, ...]]:
    found = readings(scripts, Vocabulary(scope.indices, None, frozenset(scope.maps)))
    plain = [r for r in found if all(i.kind != "expression" for i in r)]
    if not plain:
        raise UnreadableScript(f"the scripts of `{node.span.text}` are no indices and labels", node.span,
                               notes=(f"the indices are {', '.join(f'`{i}`' for i in scope.indices) or 'none'}",))
    if len(plain) > 1:
        texts = [" ".join(i.text for i in r) for r in plain]
        raise AmbiguousScript(f"the scripts of `{node.span.text}` can be read in {len(plain)} ways", node.span,
                              " or ".join(f"`{t}`" for t in texts), helps=(Help("write spaces, or `\\text{…}` for a label"),))
    name, items = labelled(stem, plain[0])
    _bare_label(scope, node)
    return name, items


def _bare_label(scope: Scope, node: s.Expression) -> None:
    """`x_th` is a name with a label; where its letters are indices that is unlikely to be meant."""
    if isinstance(node, s.Scripted) and all(x.kind.startswith("label") or x.kind == "prime" for x in node.scripts[:1] + node.scripts[-1:]):
        for script in node.scripts:
            if script.kind.startswith("label") and script.text not in ACCENT_LABELS and all(c in scope.indices for c in script.text):
                base = node.base.span.text
                raise BadScript(f"`{script.span.text}` is a label, though each of its letters is an index", script.span, helps=(
                    Help(f"for indices write `{base}_{{{' '.join(script.text)}}}`", script.span, f"{script.span.text[0]}{{{' '.join(script.text)}}}"),
                    Help(f"for one index and a product write `{base}_{script.text[0]} {' '.join(script.text[1:])}`"),))


def _slot(scope: Scope, item: Item) -> Slot:
    if item.kind == "index" and item.index is not None:
        return Slot(item.index.set, item.level, item.index.name)
    sets = tuple(p.index.set for p in item.parts if p.index is not None)
    into = _composite(scope, sets)
    if into is None:
        raise BadDeclaration(f"`{item.text}` is no composite that is declared", item.span,
                             helps=(Help(f"declare one: `index d : feature(D) = {item.text}`"),))
    return Slot(into, item.level, item.text)


def _composite(scope: Scope, sets: tuple[IndexSet, ...]) -> IndexSet | None:
    return next((into for into, parts in scope.splits.items() if parts == sets), None)


def _axis(item: Item) -> tuple[Index, ...]:
    if item.kind == "index" and item.index is not None:
        return (item.index,)
    return tuple(p.index for p in item.parts if p.index is not None)


def _declared(scope: Scope, statement: s.Statement, clause: s.Clause, role: Literal["input", "weight"]) -> None:
    if isinstance(clause.body, s.Relation):
        raise BadDeclaration(f"an {role} is given by the caller, it has no equation" if role == "input" else "a weight is given by the caller",
                             clause.span)
    before = len(scope.signatures)
    left = left_side(scope, clause.body, role)
    signature = left.signature
    if len(scope.signatures) == before:
        if signature.role == role and signature.span.text == clause.body.span.text and signature.span.source != clause.body.span.source:
            return
        raise DefinedTwice(f"`{signature.text}` is declared twice", clause.span, "again here", Label(signature.span, "declared here"))
    signature.alias = clause.alias
    for tail in statement.tail:
        match tail.body:
            case s.Word("int"):
                signature.integer = True
            case s.Word("all"):
                signature.total = True
            case _:
                raise BadDeclaration(f"`{tail.span.text}` says nothing about a tensor", tail.span, notes=("after the colon stands `int` or `all`",))


def _output(scope: Scope, found: Collected, statement: s.Statement, kept: bool) -> None:
    """An output line; where several files have some, those of the last one count."""
    signatures: list[Signature] = []
    if any(isinstance(c.body, s.Relation) for c in statement.clauses):
        for entry in _equations(scope, found, statement):
            _define(scope, found, entry, statement.override)
            signatures.append(entry.left.signature)
    else:
        for clause in statement.clauses:
            signature = left_side(scope, clause.body, "local").signature
            signature.alias = clause.alias or signature.alias
            signatures.append(signature)
    for signature in signatures:
        signature.total = signature.total or any(isinstance(t.body, s.Word) and t.body.text == "all" for t in statement.tail)
        if kept and signature not in found.outputs:
            found.outputs.append(signature)


def _equations(scope: Scope, found: Collected, statement: s.Statement) -> list[Entry]:
    """The equations of a statement, each with the restrictions and local definitions that follow it."""
    groups: list[tuple[s.Clause, list[s.Clause], list[s.Relation]]] = []
    for clause in statement.clauses:
        local = clause.after == "with"
        if _is_equation(scope, clause, first=not groups):
            assert isinstance(clause.body, s.Relation)
            if local and groups:
                groups[-1][2].append(clause.body)
            else:
                groups.append((clause, [], []))
        elif groups:
            groups[-1][1].append(clause)
        else:
            raise BadDeclaration(f"`{clause.span.text}` is no equation and no declaration", clause.span,
                                 helps=(Help("an equation is written `NAME = …`"),))
    out: list[Entry] = []
    for clause, restrictions, withs in groups:
        relation = clause.body
        assert isinstance(relation, s.Relation)
        if "<-" in relation.operators:
            raise NotYet("an update `←` stands inside a `for`, which this release does not compile", relation.span)
        if len(relation.operands) > 2:
            raise TwoEquals("two equals signs in one equation", relation.operands[2].span, "", Label(relation.operands[1].span),
                            helps=(Help("write two equations"),))
        left = left_side(scope, relation.operands[0], "local")
        if clause.alias:
            left.signature.alias = clause.alias
        out.append(Entry(left, relation.operands[1], tuple(restrictions), tuple(withs), clause.span))
    return out


def _is_equation(scope: Scope, clause: s.Clause, first: bool) -> bool:
    body = clause.body
    if not isinstance(body, s.Relation) or body.operators[0] not in ("=", ":=", "<-"):
        return False
    left = body.operands[0]
    if first or body.operators[0] in (":=", "<-"):
        return head(left) is not None
    if head(left) is None:
        return False
    name = index_name(left)
    if name is not None and Vocabulary(scope.indices, frozenset()).index(name) is not None:
        return False
    stem = head(left)
    return stem is not None and not any(x.role == "input" for x in scope.named(stem[0]))


def _define(scope: Scope, found: Collected, entry: Entry, override: bool) -> None:
    signature = entry.left.signature
    if signature.role != "local":
        raise AssignsInput(f"`{signature.text}` is declared as {'an input' if signature.role == 'input' else 'a weight'}",
                           entry.span, "", Label(signature.span, "declared here"), helps=(Help("give one of the two another name"),))
    before = found.entries.get(id(signature))
    if before is None and override:
        raise OverridesNothing(f"there is no equation for `{signature.text}` to override", entry.span,
                               helps=(Help("remove `override`, or `use` the spec that defines it"),))
    if before is not None and not override:
        if before.span.text == entry.span.text and before.span.source != entry.span.source:
            return
        raise DefinedTwice(f"`{signature.text}` is defined twice", entry.span, "again here", Label(before.span, "defined here"),
                           helps=(Help("say `override` to replace the first"),))
    if before is None:
        found.order.append(signature)
    found.entries[id(signature)] = entry


def _mask(scope: Scope, statement: s.Statement) -> None:
    if not statement.tail:
        raise BadDeclaration("a mask says where a tensor exists", statement.span, helps=(Help("write `mask L_{t s} : s ≤ t`, or `: all`"),))
    for clause in statement.clauses:
        before = len(scope.signatures)
        left = left_side(scope, clause.body, "local", declare=False)
        if left.signature not in scope.signatures[:before]:
            raise OverridesNothing(f"nothing defines `{clause.body.span.text}`, so a mask has nothing to restrict", clause.span)
        letters = tuple(axis[0] if len(axis) == 1 else Index(f"({' '.join(i.name for i in axis)})", x.set)
                        for axis, x in zip(left.axes, left.signature.slots, strict=True))
        total = len(statement.tail) == 1 and isinstance(statement.tail[0].body, s.Word) and statement.tail[0].body.text == "all"
        if statement.override:
            left.signature.masks.clear()
            left.signature.total = False
        left.signature.total = left.signature.total or total
        left.signature.masks.append(Mask(letters, None if total else statement.tail, statement.span))
