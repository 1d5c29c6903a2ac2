"""Views: axes side by side, split and joined. They change letters, never data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce

from einc.documents.python_source.state import State
from einc.documents.python_source.terms import Axis, Letter, Part, Put, Slot, put, put_condition
from einc.documents.python_source.values import CannotSayError, Tensor
from einc.ir.indices import Extent, number

ONE = number(1)


def product(extents: Iterable[Extent]) -> Extent:
    """The extent of several axes as one."""
    return reduce(lambda a, b: a * b, extents, ONE)


def extent_of(state: State, axis: Iterable[Letter]) -> Extent:
    """The extent of an axis, by what is known now."""
    return state.extent(product(x.extent for x in axis))


def renamed(tensor: Tensor, new: Put) -> Tensor:
    """The array with other letters, or the parts of a composite, in place of some."""
    axes = tuple(tuple(part for x in axis for part in new.get(x, (x,)) if isinstance(part, Letter))
                 for axis in tensor.axes)
    return Tensor(axes, put(tensor.term, new),
                  None if tensor.condition is None else put_condition(tensor.condition, new),
                  tensor.other, tensor.partial, tensor.truth)


def fresh(state: State, tensor: Tensor) -> Tensor:
    """The same array with letters that nothing else has."""
    return renamed(tensor, {x: (state.letter(x.extent, x.hint),) for axis in tensor.axes for x in axis})


def matched(state: State, xs: Sequence[Letter], ys: Sequence[Letter], what: str) -> dict[Letter, Slot]:
    """What to put in place of the letters so that both are the same axis: groups of equal extent, of which one side has
    a single letter. CannotSayError where the groups do not fit so.
    """
    new: dict[Letter, Slot] = {}
    i = j = 0
    while i < len(xs) or j < len(ys):
        m, n = _group(state, xs[i:], ys[j:])
        left, right = tuple(xs[i : i + m]), tuple(ys[j : j + n])
        if m != 1 and n != 1:
            said = (" ".join(str(state.extent(x.extent)) for x in side) or "1" for side in (left, right))
            raise CannotSayError(f"{what} does not fit: " + " against ".join(f"`{text}`" for text in said),
                                 "name the sizes in a comment such as `# x: (B, T, C)`")
        state.equate(product(x.extent for x in left), product(y.extent for y in right), what)
        if n == 1:
            new[right[0]] = left
        else:
            new[left[0]] = right
        i, j = i + m, j + n
    return new


def _group(state: State, xs: Sequence[Letter], ys: Sequence[Letter]) -> tuple[int, int]:
    """How many letters of each side make the first group: the fewest of equal extent, else all."""
    for total in range(2, len(xs) + len(ys) + 1):
        for m in range(max(1, total - len(ys)), min(total, len(xs) + 1)):
            if extent_of(state, xs[:m]) == extent_of(state, ys[: total - m]):
                return m, total - m
    return len(xs), len(ys)


def joined(state: State, a: Axis, b: Axis, what: str) -> dict[Letter, Slot]:
    """What to put so that two axes that meet element by element are one; an axis of one element meets any."""
    return matched(state, a, b, what) if a and b and a != b else {}


def aligned(state: State, a: Tensor, b: Tensor, what: str) -> tuple[tuple[Axis, ...], Tensor, Tensor]:
    """Two arrays that meet element by element, the last axes of both together -> the axes of the result, and both over
    its letters.
    """
    b = fresh(state, b)
    rank = max(len(a.axes), len(b.axes))
    for at in range(1, min(len(a.axes), len(b.axes)) + 1):
        new = joined(state, a.axes[-at], b.axes[-at], what)
        a, b = renamed(a, new), renamed(b, new)
    axes = tuple((a.axes[at - rank] if rank - at <= len(a.axes) else ())
                 or (b.axes[at - rank] if rank - at <= len(b.axes) else ()) for at in range(rank))
    return axes, a, b


def axis_number(tensor: Tensor, at: int) -> int:
    """The number of an axis from the front. CannotSayError where there is none."""
    if not -len(tensor.axes) <= at < len(tensor.axes):
        raise CannotSayError(f"there is no axis {at} of {len(tensor.axes)}")
    return at % len(tensor.axes)


def permuted(tensor: Tensor, order: Sequence[int]) -> Tensor:
    """The axes in another order. Raises CannotSayError where one is missing or named twice."""
    places = [axis_number(tensor, at) for at in order]
    if sorted(places) != list(range(len(tensor.axes))):
        raise CannotSayError(f"an order of {len(tensor.axes)} axes is needed")
    return with_axes(tensor, tuple(tensor.axes[at] for at in places))


def with_axes(tensor: Tensor, axes: tuple[Axis, ...]) -> Tensor:
    """The tensor with the same elements, whose axes are these."""
    return Tensor(axes, tensor.term, tensor.condition, tensor.other, tensor.partial, tensor.truth)


def reshaped(state: State, tensor: Tensor, extents: Sequence[Extent | None]) -> Tensor:
    """The elements in their order under axes of these extents; None is the one that follows from the others. Raises
    CannotSayError where it does not follow."""
    total = product(extent_of(state, axis) for axis in tensor.axes)
    if extents.count(None) > 1:
        raise CannotSayError("one size may be -1")
    rest = state.extent(total).over(state.extent(product(e for e in extents if e is not None)))
    if None in extents and rest is None:
        raise CannotSayError("the size -1 does not follow from the others")
    wanted = [state.extent(e if e is not None else rest or ONE) for e in extents]
    letters = [state.letter(e) if e.constant != Fraction(1) else None for e in wanted]
    new = matched(state, [x for axis in tensor.axes for x in axis], [x for x in letters if x is not None],
                  "the new shape")
    return with_axes(renamed(tensor, new), tuple(() if x is None else _kept(new.get(x, (x,))) for x in letters))


def _kept(slot: Slot) -> Axis:
    return tuple(part for part in slot if isinstance(part, Letter))


def picked(tensor: Tensor, at: int, part: Part) -> Tensor:
    """One element of an axis, which is gone then. Raises CannotSayError for an axis that is made of several."""
    axis = tensor.axes[at]
    if len(axis) > 1:
        raise CannotSayError("one element of an axis that is made of several is not read",
                             "take the element before the axes are joined")
    left = tensor.axes[:at] + tensor.axes[at + 1:]
    return renamed(with_axes(tensor, left), {axis[0]: (part,)}) if axis else with_axes(tensor, left)


def pieces(state: State, tensor: Tensor, at: int, size: Extent) -> list[Tensor]:
    """An axis in pieces of one size, as many as there are. Raises CannotSayError where that is not known, or where
    they cut through a part of the axis."""
    whole = extent_of(state, tensor.axes[at])
    count = whole.over(state.extent(size))
    known = None if count is None else count.constant
    if known is None or known.denominator != 1 or not 1 <= known <= 64:
        raise CannotSayError(f"an axis of `{whole}` is not read in pieces of `{size}`: how many there are is not known")
    if known == 1:
        return [tensor]
    if state.extent(size) == ONE and len(tensor.axes[at]) == 1:
        return [_opened(picked(fresh(state, tensor), at, q + 1), at) for q in range(int(known))]
    found = []
    for q in range(int(known)):
        one, number_of, inner = fresh(state, tensor), state.letter(number(known)), state.letter(size)
        new = matched(state, one.axes[at], [number_of, inner], "the pieces")
        if number_of in new and new[number_of] != (number_of,):
            raise CannotSayError("the pieces cut through the parts of an axis")
        split = renamed(one, new)
        axis = tuple(x for x in split.axes[at] if x != number_of)
        found.append(renamed(with_axes(split, (*split.axes[:at], axis, *split.axes[at + 1:])), {number_of: (q + 1,)}))
    return found


def _opened(tensor: Tensor, at: int) -> Tensor:
    return with_axes(tensor, (*tensor.axes[:at], (), *tensor.axes[at:]))
