"""Slots: whether what stands in a script fits a tensor's slots, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from einc.checking.declarations.scope import Scope
from einc.checking.declarations.scripts import Item
from einc.ir.indices import Extent, Index, IndexSet, number
from einc.ir.programs import Slot
from einc.ir.terms import Apply, Pack, Size, Term, const
from einc.syntax import tree as s


def match_slots(scope: Scope, slots: tuple[Slot, ...], items: tuple[Item, ...]) -> tuple[Item, ...] | None:
    """The items in the order of the slots: lower with lower and upper with upper, else in the order written."""
    if len(slots) != len(items):
        return None
    lower = [i for i in items if i.level == "lower"]
    upper = [i for i in items if i.level != "lower"]
    if len(lower) == sum(x.level == "lower" for x in slots):
        ordered = tuple(lower.pop(0) if x.level == "lower" else upper.pop(0) for x in slots)
        if all(fits(scope, x, i) for x, i in zip(slots, ordered, strict=True)):
            return ordered
    return items if all(fits(scope, x, i) for x, i in zip(slots, items, strict=True)) else None


def fits(scope: Scope, slot: Slot, item: Item) -> bool:
    """Whether the item may stand in the slot: an index or a pack of its set, or an expression for a position."""
    match item.kind:
        case "index" if item.index is not None:
            parts = scope.sets.sums.get(slot.set, ())
            return item.index.set == slot.set or any(p.set == item.index.set for p in parts)
        case "pack":
            return packed_set(scope, slot.set, item) is not None
        case "expression":
            given = item_set(scope, item)
            return given is None or given == slot.set
    return False


def packed_set(scope: Scope, over: IndexSet, item: Item) -> IndexSet | None:
    """The composite that indices in parentheses are an element of: the slot's set, or the one part of a direct sum."""
    def made(into: IndexSet) -> bool:
        sets = scope.sets.splits.get(into, ())
        pairs = zip(item.parts, sets, strict=False)
        return len(sets) == len(item.parts) and all(p.index is None or p.index.set == x for p, x in pairs)

    found = [x for x in (over, *(p.set for p in scope.sets.sums.get(over, ()))) if made(x)]
    return found[0] if len(found) == 1 else None


def standing(axes: tuple[tuple[Index, ...], ...], subs: tuple[Term, ...],
             splits: Mapping[IndexSet, tuple[IndexSet, ...]],
             sets: tuple[IndexSet, ...]) -> dict[Index, Term]:
    """What stands for the indices of some axes where these are read at `subs`; of a composite, also for its parts."""
    by: dict[Index, Term] = {}
    for axis, sub, over in zip(axes, subs, sets, strict=True):
        match sub:
            case _ if len(axis) == 1:
                by[axis[0]] = sub
            case Pack(parts):
                by.update(zip(axis, parts, strict=True))
            case _:
                by.update(zip(axis, _parts(sub, over, splits[over]), strict=True))
    return by


def _parts(sub: Term, over: IndexSet, sets: tuple[IndexSet, ...]) -> list[Term]:
    """The parts of an element of a composite, by division."""
    place = Apply("sub", (sub, const(over.start)))
    out: list[Term] = []
    for n, part in enumerate(sets):
        stride = reduce(Extent.__mul__, (x.extent for x in sets[n + 1 :]), number(1))
        found: Term = place if n == len(sets) - 1 else Apply("floor", (Apply("div", (place, Size(stride))),))
        found = Apply("mod", (found, Size(part.extent))) if n else found
        out.append(Apply("add", (found, const(part.start))) if part.start else found)
    return out


def called_map(item: Item) -> str | None:
    """Returns the name that an item applies, as in `π(h)`, which need not be that of a map; None for other items."""
    match item.expression:
        case s.Product((s.Word(name), s.Group("(", ")")), _):
            return name
    return None


def item_set(scope: Scope, item: Item) -> IndexSet | None:
    """The set that an item is certainly an element of: an index's, a composite's, or what a map gives."""
    if item.index is not None:
        return item.index.set
    if item.kind == "pack":
        sets = tuple(p.index.set for p in item.parts if p.index is not None)
        return next((into for into, parts in scope.sets.splits.items() if parts == sets), None)
    called = called_map(item) if item.kind == "expression" else None
    target = scope.maps[called].target if called in scope.maps else None
    return None if target is None else target.set
