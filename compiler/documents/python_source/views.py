"""Functions of the library's text that change axes alone, and what it takes from shapes."""

from __future__ import annotations

from collections.abc import Callable

from einc.documents.python_source import axes, operations
from einc.documents.python_source.primitives import dims, extent, known, sequence, shape, tensor
from einc.documents.python_source.state import State
from einc.documents.python_source.terms import Compare, Constant, Place
from einc.documents.python_source.values import (
    NONE,
    CannotSayError,
    Given,
    Named,
    Plain,
    Several,
    Tensor,
    Value,
    whole,
)
from einc.ir.indices import number


def _transpose(state: State, value: Value, a: Value, b: Value) -> Value:
    one = tensor(state, value)
    order = list(range(len(one.axes)))
    i, j = (axes.axis_number(one, whole(x, "an axis")) for x in (a, b))
    order[i], order[j] = j, i
    return axes.permuted(one, order)


def _turned(state: State, value: Value) -> Value:
    one = tensor(state, value)
    return axes.permuted(one, range(len(one.axes))[::-1])


def _moved(state: State, value: Value, source: Value, target: Value) -> Value:
    one = tensor(state, value)
    i, j = (axes.axis_number(one, whole(x, "an axis")) for x in (source, target))
    order = [at for at in range(len(one.axes)) if at != i]
    order.insert(j, i)
    return axes.permuted(one, order)


def _flat(state: State, values: Value) -> Value:
    items = sequence(state, values)
    return known(state, items[0]) if len(items) == 1 and isinstance(known(state, items[0]), Several) else Several(items)


def _last(state: State, values: Value) -> Value:
    return Several(tuple(Plain(-at) for at in range(1, len(sequence(state, values)) + 1)))


def _replaced(state: State, value: Value, first: Value, last: Value, new: Value) -> Value:
    one = tensor(state, value)
    i, j = (axes.axis_number(one, whole(x, "an axis")) for x in (first, last))
    items = shape(state, one).items
    made = sequence(state, new)
    return Several((*items[:i], *made, *items[j + 1:]))


def _unsqueeze(state: State, value: Value, dim: Value) -> Value:
    one = tensor(state, value)
    at = whole(dim, "an axis") % (len(one.axes) + 1)
    return axes.with_axes(one, (*one.axes[:at], (), *one.axes[at:]))


def _squeeze(state: State, value: Value, dim: Value) -> Value:
    one = tensor(state, value)
    if dim == NONE:
        raise CannotSayError("which axes have one element depends on the sizes", "give `dim=`")
    places = {axes.axis_number(one, at) for at in dims(state, dim, len(one.axes))}
    for at in places:
        if one.axes[at]:
            raise CannotSayError(f"whether axis {at} has one element depends on the sizes")
    return axes.with_axes(one, tuple(axis for at, axis in enumerate(one.axes) if at not in places))


def _split(state: State, value: Value, size: Value, dim: Value) -> Value:
    """`torch.split` in equal pieces along one axis; raises CannotSayError for unequal ones."""
    one = tensor(state, value)
    at = axes.axis_number(one, whole(dim, "an axis"))
    sizes = sequence(state, size)
    lengths = [extent(state, item) for item in sizes]
    if any(not state.same(x, lengths[0]) for x in lengths):
        raise CannotSayError("an axis is read in pieces of one size alone")
    found = axes.pieces(state, one, at, lengths[0])
    if len(sizes) > 1 and len(sizes) != len(found):
        raise CannotSayError(f"there are {len(found)} pieces, and {len(sizes)} sizes")
    return Several(tuple(found))


def _unbound(state: State, value: Value, dim: Value) -> Value:
    one = tensor(state, value)
    at = axes.axis_number(one, whole(dim, "an axis"))
    return Several(tuple(axes.with_axes(piece, (*piece.axes[:at], *piece.axes[at + 1:]))
                         for piece in axes.pieces(state, one, at, number(1))))


def _values(state: State, value: Value) -> Value:
    """The pair of values and places that a maximum along an axis is; the places are not read."""
    return Several((tensor(state, value), Given("the places of the maximum")))


def _truth(state: State, value: Value) -> Value:
    one = known(state, value)
    if isinstance(one, Tensor) and (one.truth or one.condition is not None):
        return Plain(one.truth)
    raise CannotSayError("whether this mask has truth values or numbers that are added, nothing says",
                         "compare it: `mask == 0`, or add it to the scores")


def _cast(state: State, value: Value, args: Value, named: Value) -> Value:
    """The same array in another type; whole numbers and truth values would be other numbers. Those raise
    CannotSayError."""
    pairs = [sequence(state, item)[-1] for item in sequence(state, named)]
    for one in (*sequence(state, args), *pairs):
        word = one.name.rpartition(".")[2] if isinstance(one, Named) else ""
        if word.startswith(("int", "uint", "long", "short", "bool")):
            raise CannotSayError(f"a cast to `{word}` is not read", "compare with a number: `x != 0`")
    return value


def _running(state: State, value: Value, dim: Value) -> Value:
    """The sum of all elements up to each, along an axis. Raises CannotSayError for an axis that is made of several."""
    one = tensor(state, value)
    at = axes.axis_number(one, whole(dim, "an axis"))
    if len(one.axes[at]) != 1:
        raise CannotSayError("a running sum along an axis that is made of several is not read")
    letter = one.axes[at][0]
    up_to = state.letter(letter.extent, letter.hint)
    order = Tensor(((up_to,), (letter,)), Constant(1), Compare("≤", Place(letter), Place(up_to)))
    rest = [axis for n, axis in enumerate(one.axes) if n != at]
    names = [str(n) for n in range(len(rest))]
    moved = axes.with_axes(one, (*rest, one.axes[at]))
    out = [*names[:at], "to", *names[at:]]
    return operations.contracted(state, [order, moved], [["to", "from"], [*names, "from"]], out)


VIEWS: dict[str, Callable[..., Value]] = {made.__name__: made for made in (
    _transpose, _turned, _moved, _flat, _last, _replaced, _unsqueeze, _squeeze, _split, _unbound, _values, _truth,
    _cast, _running)}
