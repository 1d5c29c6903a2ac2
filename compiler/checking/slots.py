"""Slots: whether what stands in a script fits a tensor's slots, and in which order."""

from __future__ import annotations

from einc import syntax as s
from einc.checking.scope import Scope
from einc.checking.scripts import Item
from einc.terms import Slot


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
    """Whether the item may stand in the slot."""
    match item.kind:
        case "index" if item.index is not None:
            parts = scope.sums.get(slot.set, ())
            return item.index.set == slot.set or any(p.set == item.index.set for p in parts)
        case "pack":
            sets = scope.splits.get(slot.set, ())
            pairs = zip(item.parts, sets, strict=False)
            return len(sets) == len(item.parts) and all(p.index is None or p.index.set == x for p, x in pairs)
        case "expression":
            called = _called_map(item)
            return called not in scope.maps or scope.maps[called].target.set == slot.set
    return False


def _called_map(item: Item) -> str | None:
    match item.expression:
        case s.Product((s.Word(name), s.Group("(", ")")), _):
            return name
    return None
