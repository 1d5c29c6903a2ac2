"""Sets that are products of others: one way to take each apart, the finest that the source asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from einc.documents.python_source.axes import product
from einc.documents.python_source.state import Equation, State
from einc.documents.python_source.terms import Letter, Put, Read, Slot, inside, put, put_slot
from einc.documents.python_source.values import CannotSayError
from einc.ir.indices import Extent

Splits = dict[Extent, tuple[Extent, ...]]
Shapes = Mapping[str, tuple[Extent, ...]]  # of each array, the extents of its slots


def parts(slot: Slot, whole: Extent) -> tuple[Extent, ...]:
    """The extents of the parts of a slot; that of a picked part follows from the others. Raises CannotSayError where
    it does not."""
    rest = whole.over(product(x.extent for x in slot if isinstance(x, Letter)))
    if rest is None:
        raise CannotSayError(f"an axis of `{whole}` is not taken apart")
    return tuple(x.extent if isinstance(x, Letter) else rest for x in slot)


def grouped(fine: Sequence[Extent], coarse: Sequence[Extent]) -> list[int] | None:
    """How many of the finer extents make each of the coarser ones; None where they do not."""
    out, at = [], 0
    for extent in coarse:
        count = 1
        while at + count <= len(fine) and product(fine[at : at + count]) != extent:
            count += 1
        if at + count > len(fine):
            return None
        out.append(count)
        at += count
    return out if at == len(fine) else None


def register(splits: Splits, whole: Extent, found: tuple[Extent, ...]) -> None:
    """Adds one more way to take an axis apart to `splits`, which keeps the finest. CannotSayError where two ways have
    no finer one of which both are made.
    """
    if len(found) < 2:
        return
    known = splits.get(whole, (whole,))
    fine, coarse = (known, found) if len(known) >= len(found) else (found, known)
    if grouped(fine, coarse) is None:
        shown = " and as ".join(" × ".join(f"({e})" for e in way) for way in (known, found))
        raise CannotSayError(f"an axis of `{whole}` is taken apart as {shown}")
    splits[whole] = fine


def whole_of(slot: Slot, extent: Extent) -> bool:
    """Whether a slot has one letter, or one element of all."""
    return len(slot) == 1 and (isinstance(slot[0], int) or slot[0].extent == extent)


def refined(state: State, equations: Sequence[Equation], shapes: Shapes) -> tuple[list[Equation], Splits]:
    """The equations with letters for the finest parts, and the parts of each set. Raises CannotSayError where slots
    are taken apart in ways that do not meet."""
    splits: Splits = {}
    out = list(equations)
    for _ in range(8):
        before = list(out)
        for equation in out:
            for slot, whole in _slots(equation, shapes):
                if not whole_of(slot, whole):
                    register(splits, whole, parts(slot, whole))
        out = [_refined(state, equation, shapes, splits) for equation in out]
        if out == before:
            return out, splits
    raise CannotSayError("the axes are taken apart in ways that do not meet")


def _slots(equation: Equation, shapes: Shapes) -> list[tuple[Slot, Extent]]:
    """The slots of an equation, with the extents of their sets."""
    found: list[tuple[Slot, Extent]] = [(axis, product(x.extent for x in axis)) for axis in equation.axes]
    for part in inside(equation.term):
        if isinstance(part, Read):
            found += zip(part.slots, shapes[part.name], strict=True)
    return found


def _refined(state: State, equation: Equation, shapes: Shapes, splits: Splits) -> Equation:
    """The equation with finer letters where a slot is taken apart more coarsely than its set is. Raises CannotSayError
    where a picked part is taken apart further."""
    new: dict[Letter, Slot] = {}
    for slot, whole in _slots(equation, shapes):
        if whole_of(slot, whole):
            continue
        counts = grouped(splits[whole], parts(slot, whole)) or []
        at = 0
        for part, count in zip(slot, counts, strict=False):
            if isinstance(part, Letter) and count > 1 and part not in new:
                new[part] = tuple(state.letter(e) for e in splits[whole][at : at + count])
            if isinstance(part, int) and count > 1:
                raise CannotSayError(f"an element of a part of `{whole}` that is taken apart")
            at += count
    return put_equation(equation, new) if new else equation


def put_equation(equation: Equation, new: Put) -> Equation:
    """The equation with other letters in place of some, on its left side and in its term."""
    axes = tuple(tuple(x for x in put_slot(axis, new) if isinstance(x, Letter)) for axis in equation.axes)
    return replace(equation, axes=axes, term=put(equation.term, new))
