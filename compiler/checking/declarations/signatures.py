"""Tensor declarations and left sides -> signatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from einc.checking.declarations.names import ACCENT_LABELS, Name, head, left_of
from einc.checking.declarations.scope import OPEN, Loop, Scope, Signature
from einc.checking.declarations.scripts import Item, Reading, Vocabulary, carrying, labelled, readings, spaced
from einc.checking.declarations.slots import match_slots, packed_set
from einc.errors.problems import (
    AmbiguousScript,
    BadDeclaration,
    BadLoop,
    BadScript,
    DefinedTwice,
    Reserved,
    UnreadableScript,
)
from einc.errors.report import Help, Label, Silent, Span
from einc.ir.elements import DECLARED
from einc.ir.indices import Index, IndexSet
from einc.ir.programs import Slot
from einc.syntax import tree as s

Role = Literal["input", "weight", "local"]


@dataclass(frozen=True)
class Left:
    """A left side: its signature and the index (or packed indices) of each slot."""

    signature: Signature
    axes: tuple[tuple[Index, ...], ...]
    carried: frozenset[Index] = frozenset()

    @property
    def letters(self) -> tuple[Index, ...]:
        """One letter for each slot: its own, or one that stands for all letters of a slot that has several."""
        return tuple(axis[0] if len(axis) == 1 else Index(f"({' '.join(i.name for i in axis)})", slot.set)
                     for axis, slot in zip(self.axes, self.signature.slots, strict=True))


def stem_of(node: s.Expression) -> tuple[str, ...]:
    """Returns the base and the Python name that a left side starts with; nothing where it has no name."""
    found = head(left_of(node))
    return () if found is None else (found[0].base, found[0].stem.python)


# left sides


def left_side(scope: Scope, node: s.Expression, role: Role, declare: bool = True, loop: Loop = OPEN) -> Left:
    """The signature of a name as it is declared or defined; a new one where none fits. Changes `scope`. Raises
    BadDeclaration, Reserved or BadLoop."""
    found = head(node)
    if found is None:
        raise BadDeclaration(f"`{node.span.text}` is no name", node.span,
                             helps=(Help("a tensor is a name with scripts: `X_t^f`"),))
    stem, scripts = found
    if (stem.python in scope.reserved or stem.python in scope.functions) and not stem.labels:
        raise Reserved(f"`{stem.python}` is a function", node.span, helps=(Help("choose another name"),))
    if role != "local":
        loop = Loop(loop.layer, loop.rounds)
    words = Vocabulary(_indices(scope, loop, node.span), scope.labels(stem), frozenset(scope.maps))
    known = readings(scripts, words)
    known = [r for r in known if all(i.kind != "expression" for i in r)]
    if len(known) > 1:
        raise _ambiguous(node, known, words)
    existing = _existing(scope, stem, known[0], loop, node.span) if known else None
    if existing is not None:
        return existing
    name, items = _declaring(scope, stem, scripts, node, _indices(scope, loop, node.span))
    if role == "local" and any(i.index in loop.layer for i in items if i.index is not None):
        raise BadLoop(f"`{loop.layer[0]}` counts the rounds, and what a round makes is gone after it", node.span,
                      helps=(Help(f"leave `{loop.layer[0]}` out on the left"),))
    written, items = items, carrying(items, loop.fixed, node.span)
    slots = tuple(_slot(scope, item) for item in items)
    axes = tuple(_axis(item) for item in items)
    flat = [i for axis in axes for i in axis]
    if len(set(flat)) < len(flat):
        twice = next(i for i in flat if flat.count(i) > 1)
        raise BadDeclaration(f"index `{twice}` stands twice on the left", node.span,
                             helps=(Help(f"write `{twice}'` for one of the two"),))
    signature = scope.find(name, tuple(x.set for x in slots))
    if signature is None:
        signature = Signature(name, slots, role, node.span, carried=frozenset(loop.fixed))
        if declare:
            scope.add(signature)
    return Left(signature, axes, _carried(items, written))


def _indices(scope: Scope, loop: Loop, span: Span) -> dict[str, Index]:
    """The indices that a line may speak of."""
    return {**scope.seen(span), **{i.name: i for i in loop.layer}}


def _carried(items: Reading, written: Reading) -> frozenset[Index]:
    """The indices that only a `for` gives."""
    return frozenset(i.index for i in items if i.index is not None and i not in written)


def _existing(scope: Scope, stem: Name, reading: Reading, loop: Loop, span: Span) -> Left | None:
    """Returns the known signature that a left side fits with a distinct index in each slot; None without one."""
    name, written = labelled(stem, reading)
    items = carrying(written, loop.fixed, span)
    for signature in scope.exactly(name):
        ordered = match_slots(scope, signature.slots, items)
        if ordered is None:
            continue
        axes = tuple(_axis(i) for i in ordered)
        whole = all((packed_set(scope, x.set, i) if i.kind == "pack" else i.index and i.index.set) == x.set
                    for i, x in zip(ordered, signature.slots, strict=True))
        flat = [i for axis in axes for i in axis]
        if whole and len(set(flat)) == len(flat):
            return Left(signature, axes, _carried(items, written))
    return None


def _declaring(scope: Scope, stem: Name, scripts: tuple[s.Script, ...], node: s.Expression,
               indices: dict[str, Index]) -> tuple[Name, tuple[Item, ...]]:
    """Returns the name and slots that a new left side declares; its scripts must have exactly one reading. Raises
    Silent or UnreadableScript."""
    found = readings(scripts, Vocabulary(indices, None, frozenset(scope.maps)))
    plain = [r for r in found if all(i.kind != "expression" for i in r)]
    if not plain:
        if any(c in scope.lost for script in scripts for c in script.span.text):
            raise Silent("told with the index")
        raise UnreadableScript(f"the scripts of `{node.span.text}` are no indices and labels", node.span,
                               notes=(f"the indices are {', '.join(f'`{i}`' for i in indices) or 'none'}",))
    if len(plain) > 1:
        raise _ambiguous(node, plain, Vocabulary(indices, None, frozenset(scope.maps)))
    name, items = labelled(stem, plain[0])
    _bare_label(scope, node)
    return name, items


def _ambiguous(node: s.Expression, found: list[Reading], words: Vocabulary) -> AmbiguousScript:
    texts = [" ".join(i.text for i in r) for r in found]
    ways = tuple(help_ for r in found[:6] if (help_ := spaced(r, words)) is not None)
    return AmbiguousScript(f"the scripts of `{node.span.text}` can be read in {len(found)} ways", node.span,
                           " or ".join(f"`{t}`" for t in texts[:6]),
                           helps=ways or (Help("write spaces, or `\\text{…}` for a label"),))


def _bare_label(scope: Scope, node: s.Expression) -> None:
    """Raises the problem of `x_th`, a name with a label, where its letters are indices: that is unlikely to be meant.
    """
    for script in node.scripts if isinstance(node, s.Scripted) else ():
        if script.kind.startswith("label") and reads_as_indices(scope, script):
            raise bare_label(node.base.span.text if isinstance(node, s.Scripted) else "", script)


def reads_as_indices(scope: Scope, script: s.Script) -> bool:
    """Whether every letter of a written label is an index."""
    return script.text not in ACCENT_LABELS and all(c in scope.seen(script.span) for c in script.text)


def bare_label(base: str, script: s.Script) -> BadScript:
    """The problem of `x_th`, with both of its readings as ways out."""
    sign, letters = script.span.text[0], script.text
    return BadScript(f"`{script.span.text}` is a label, though each of its letters is an index", script.span, helps=(
        Help(f"for indices write `{base}{sign}{{{' '.join(letters)}}}`", script.span, f"{sign}{{{' '.join(letters)}}}"),
        Help(f"for one index and a product write `{base}{sign}{letters[0]} {' '.join(letters[1:])}`", script.span,
             f"{sign}{letters[0]} {' '.join(letters[1:])}")))


def _slot(scope: Scope, item: Item) -> Slot:
    """The slot of a declared tensor that one item of its scripts stands for. Raises BadDeclaration where the item is
    several indices that no declared set is composed of."""
    if item.kind == "index" and item.index is not None:
        return Slot(item.index.set, item.level, item.index.name)
    sets = tuple(p.index.set for p in item.parts if p.index is not None)
    into = _composite(scope, sets) if len(sets) == len(item.parts) else None
    if into is None:
        apart = " ".join(f"({part})" for part in item.text.strip("()").replace(",", " ").split())
        many = {2: "two", 3: "three"}.get(len(item.parts), "several")
        raise BadDeclaration(f"`{item.text}` is no composite that is declared", item.span,
                             helps=(Help(f"for {many} indices write `{apart}`", item.span, apart, False),
                                    Help(f"declare one: `index d : feature(D) = {item.text}`")))
    return Slot(into, item.level, f"({' '.join(p.index.name for p in item.parts if p.index is not None)})")


def _composite(scope: Scope, sets: tuple[IndexSet, ...]) -> IndexSet | None:
    return next((into for into, parts in scope.sets.splits.items() if parts == sets), None)


def _axis(item: Item) -> tuple[Index, ...]:
    if item.kind == "index" and item.index is not None:
        return (item.index,)
    return tuple(p.index for p in item.parts if p.index is not None)


# declarations


def declared(scope: Scope, statement: s.Statement, clause: s.Clause, role: Literal["input", "weight"],
              loop: Loop) -> None:
    """Adds an `input` or `weight` line to the scope, with its alias, its element type and whether `: all` was said.

    It raises BadDeclaration for an equation or an unknown word after the colon, and DefinedTwice for a second line.
    """
    if isinstance(clause.body, s.Relation):
        raise BadDeclaration(f"{article(role)} is given by the caller, so it has no equation", clause.span,
                             helps=(Help(f"leave out `{role}`, or what follows the name"),))
    known = len(scope.signatures)
    left = left_side(scope, clause.body, role, loop=loop)
    signature = left.signature
    if len(scope.signatures) == known:
        before, here = signature.span, clause.body.span
        if signature.role != role or before.text != here.text or before.source == here.source:
            raise DefinedTwice(f"`{signature.text}` is declared twice", clause.span, "again here",
                               Label(signature.span, "declared here"), helps=(Help("remove one of the two"),))
    signature.alias = clause.alias or signature.alias
    for tail in statement.tail:
        match tail.body:
            case s.Word(word) if word in DECLARED:
                signature.element = DECLARED[word]
                scope.numbers.scalars.update([signature.name.base] if not signature.slots else [])
            case s.Word("all"):
                signature.said.total = True
            case _:
                raise BadDeclaration(f"`{tail.span.text}` says nothing about a tensor", tail.span,
                                     notes=(f"after the colon stands {', '.join(f'`{word}`' for word in DECLARED)} or "
                                            f"`all`",))


def article(role: str) -> str:
    """Returns the role with its article, for messages."""
    return f"an {role}" if role == "input" else f"a {role}"
