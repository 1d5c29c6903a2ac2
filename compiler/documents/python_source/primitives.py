"""What the text of the library is made of: each name that begins with `_` there is a function here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from einc.documents.python_source import axes, operations
from einc.documents.python_source.state import State
from einc.documents.python_source.terms import Apply, Axis, Constant, Place, Read, SizeOf, Term
from einc.documents.python_source.values import (
    NONE,
    CannotSayError,
    FollowsError,
    Given,
    Lost,
    Plain,
    PlanBlock,
    Scalar,
    Several,
    Tensor,
    Value,
    plain,
    whole,
)
from einc.ir.indices import Extent, number, size
from einc.syntax import patterns

Parsed = TypeVar("Parsed")


def known(state: State, value: Value) -> Value:
    """An argument as the array or the number that it has turned out to be. Raises FollowsError for what a line that
    was not read would have made."""
    if isinstance(value, Lost):
        raise FollowsError("it follows from a line that was not read")
    if isinstance(value, Given):
        if value.name in state.arrays:
            return state.read(value.name)
        if value.name in state.numbers:
            own = size(state.word(value.name))
            return Scalar(SizeOf(own), own) if state.numbers[value.name] == "dim" else Scalar(Read(value.name))
    return value


def tensor(state: State, value: Value, what: str = "this") -> Tensor:
    """A value as an array; a number has no axes. Raises CannotSayError for any other value, of which the message says
    `what` it is."""
    value = known(state, value)
    match value:
        case Tensor():
            return value
        case Plain(bool() | int() | float() as found):
            return Tensor((), Constant(found))
        case Scalar(term):
            return Tensor((), term)
        case Given(name):
            name = name.partition(".")[0]
            raise CannotSayError(f"nothing says how many axes `{name}` has",
                                 f"write a comment such as `# {name}: (B, T, C)`, or give --shape {name}=B,T,C")
        case PlanBlock():
            raise CannotSayError("the elements of this array are random or not set")
        case _:
            raise CannotSayError(f"{what} is no array")


def scalar(state: State, value: Value) -> Term:
    """A value as one number; an argument of which nothing else is known becomes one. Writes that to the state. Raises
    CannotSayError for what has axes."""
    value = known(state, value)
    if isinstance(value, Given):
        state.numbers[value.name] = "input"
        value = known(state, value)
    found = tensor(state, value)
    if found.axes or found.condition is not None:
        raise CannotSayError("one number is needed here")
    return found.term


def extent(state: State, value: Value) -> Extent:
    """A value as a size; an argument of which nothing else is known becomes one. Writes that to the state. Raises
    CannotSayError for any other value."""
    value = known(state, value)
    match value:
        case Given(name):
            state.numbers[name] = "dim"
            return size(state.word(name))
        case Scalar(extent=Extent() as found):
            return found
        case Plain(int() as count) if not isinstance(count, bool):
            return number(count)
    raise CannotSayError("a size is needed here")


def sequence(state: State, value: Value) -> tuple[Value, ...]:
    """The items of a tuple or a list; any other value is the only item."""
    value = known(state, value)
    return value.items if isinstance(value, Several) else (value,)


def dims(state: State, value: Value, rank: int) -> list[int]:
    """The numbers of axes: one, several, or None for all."""
    if value == NONE:
        return list(range(rank))
    return [whole(item, "an axis") for item in sequence(state, value)]


def shape(state: State, one: Tensor) -> Several:
    """The sizes of an array along its axes, whole numbers where they are known and names of sizes else."""
    found = [axes.extent_of(state, axis) for axis in one.axes]
    return Several(tuple(Plain(int(e.constant)) if e.constant is not None and e.constant.denominator == 1
                         else Scalar(SizeOf(e), e) for e in found))


def _parsed(parse: Callable[[str], Parsed], text: str) -> Parsed:
    """A string of einsum or einops, read. CannotSayError."""
    try:
        return parse(text)
    except patterns.PatternError as error:
        raise CannotSayError(error.message, *error.ways) from error


# the functions

YES = Plain(True)


def _einsum(state: State, script: Value, *operands: Value) -> Value:
    """The contraction that a string says of operands, which may come as one list. CannotSayError where they do not fit.
    """
    text = plain(script, "the string of einsum")
    if not isinstance(text, str):
        raise CannotSayError("einsum is read with a string and its operands")
    if len(operands) == 1 and isinstance(operands[0], Several):
        operands = operands[0].items
    said = _parsed(patterns.subscripts, text)
    if len(said.operands) != len(operands):
        raise CannotSayError(f"the string has {len(said.operands)} operands, and {len(operands)} are given")
    arrays = [_shaped(state, value, letters) for value, letters in zip(operands, said.operands, strict=True)]
    for one, letters in zip(arrays, said.operands, strict=True):
        if len(one.axes) != len(letters):
            raise CannotSayError(f"`{''.join(letters)}` has {len(letters)} letters for {len(one.axes)} axes")
    return operations.contracted(state, arrays, said.operands, said.out)


def _shaped(state: State, value: Value, letters: Sequence[str]) -> Tensor:
    """An operand; an argument of which nothing is known has the axes that the string gives it."""
    value = known(state, value)
    if isinstance(value, Given):
        return state.array(value.name, tuple(state.unknown(x) for x in letters), tuple(letters))
    return tensor(state, value)


def _rearranged(state: State, kind: Value, value: Value, script: Value, how: Value, **sizes: Value) -> Value:
    """`rearrange`, `reduce` and `repeat` of einops. Raises CannotSayError where the pattern has other axes than the
    array."""
    before, after = _parsed(patterns.pattern, str(plain(script, "a pattern")))
    said = [x for names in before for x in names]
    given = {x: extent(state, v) for x, v in sizes.items()}
    value = known(state, value)
    extents: dict[str, Extent] = {x: given.get(x) or state.unknown(x) for x in (*said, *given)}
    if isinstance(value, Given):
        value = state.array(value.name, tuple(axes.product(extents[x] for x in names) for names in before))
    one = tensor(state, value)
    if len(one.axes) != len(before):
        raise CannotSayError(f"the pattern has {len(before)} axes, and the array {len(one.axes)}")
    for names, axis in zip(before, one.axes, strict=True):
        whole_axis = axes.extent_of(state, axis)
        state.equate(axes.product(extents[x] for x in names), whole_axis, "an axis of the pattern")
    split = axes.reshaped(state, one, [extents[x] for x in said])
    letters = dict(zip(said, split.axes, strict=True))
    wanted = [x for names in after for x in names]
    return _reordered(state, str(plain(kind)), split, letters, wanted, after, str(plain(how)), extents)


def _reordered(state: State, kind: str, split: Tensor, letters: dict[str, Axis], wanted: list[str],
               after: Sequence[Sequence[str]], how: str, extents: dict[str, Extent]) -> Tensor:
    """The second half of a pattern: what goes is folded, what comes is repeated, and the rest is put in its order.
    Raises CannotSayError where the function is not one that may drop or repeat axes."""
    gone, come = [x for x in letters if x not in wanted], [x for x in wanted if x not in letters]
    if (gone and kind != "reduce") or (come and kind != "repeat"):
        raise CannotSayError(f"`{(gone or come)[0]}` stands on one side of the pattern alone")
    if gone:
        places = [list(letters).index(x) for x in gone]
        fold = {"mean": "sum"}.get(how, how)
        if fold not in {"sum", "max", "min", "prod"}:
            raise CannotSayError(f"`{how}` of a pattern is not read")
        count = operations.length(state, split, places)
        split = operations.folded(state, fold, split, places, False)
        split = operations.combined(state, "/", split, Tensor((), count)) if how == "mean" else split
        letters = dict(zip([x for x in letters if x not in gone], split.axes, strict=True))
    for name in come:
        letters[name] = (state.letter(extents[name], name),)
    return axes.with_axes(split, tuple(tuple(x for name in names for x in letters[name]) for names in after))


def _permute(state: State, value: Value, order: Value) -> Value:
    return axes.permuted(tensor(state, value), [whole(item, "an axis") for item in sequence(state, order)])


def _reshape(state: State, value: Value, new: Value) -> Value:
    wanted = [None if item == Plain(-1) else extent(state, item) for item in sequence(state, new)]
    return axes.reshaped(state, tensor(state, value), wanted)


def _expand(state: State, value: Value, new: Value) -> Value:
    one, wanted = tensor(state, value), sequence(state, new)
    if len(wanted) < len(one.axes):
        raise CannotSayError("fewer sizes than axes")
    made = ((),) * (len(wanted) - len(one.axes)) + one.axes
    out = tuple(axis if axis or item in {Plain(-1), Plain(1)} else (state.letter(extent(state, item)),)
                for axis, item in zip(made, wanted, strict=True))
    return axes.with_axes(one, out)


def _where(state: State, mask: Value, a: Value, b: Value) -> Value:
    return operations.chosen(state, tensor(state, mask), tensor(state, a), tensor(state, b))


def _fold(state: State, name: Value, value: Value, dim: Value, keep: Value) -> Value:
    one = tensor(state, value)
    return operations.folded(state, str(plain(name)), one, dims(state, dim, len(one.axes)), bool(plain(keep)))


def _count(state: State, value: Value, dim: Value) -> Value:
    one = tensor(state, value)
    return Scalar(operations.length(state, one, dims(state, dim, len(one.axes))))


def _line(state: State, name: Value, value: Value, dim: Value, outside: Value = NONE, keeps: Value = YES,
          **named: Value) -> Value:
    one, fill = tensor(state, value), plain(outside)
    if dim == NONE:
        raise CannotSayError("along which axis is not said", "give `dim=`")
    return operations.lined(state, str(plain(name)), one, dims(state, dim, len(one.axes)),
                            tuple((n, scalar(state, v)) for n, v in named.items()), keeps=bool(plain(keeps)),
                            outside=fill if isinstance(fill, int | float) else None)


def _entry(state: State, name: Value, value: Value, *more: Value) -> Value:
    one = known(state, value)
    if isinstance(one, Scalar | Plain):
        return Scalar(Apply(str(plain(name)), (scalar(state, one), *(scalar(state, x) for x in more))))
    return operations.mapped(str(plain(name)), tensor(state, one), *(scalar(state, x) for x in more))


def _number(state: State, value: Value) -> Value:
    return Scalar(scalar(state, value))


def _pairwise(state: State, name: Value, a: Value, b: Value) -> Value:
    return operations.combined(state, str(plain(name)), tensor(state, a), tensor(state, b))


def _arange(state: State, start: Value, stop: Value) -> Value:
    low, high = extent(state, start), extent(state, stop)
    letter = state.letter(high - low)
    shift: Term = SizeOf(number(1) - low)
    one: Term = Place(letter) if low == number(1) else Apply("-", (Place(letter), shift))
    return Tensor(((letter,),), one)


def _full(state: State, new: Value, value: Value) -> Value:
    made = [extent(state, item) for item in sequence(state, new)]
    return Tensor(tuple(() if e.constant == Fraction(1) else (state.letter(e),) for e in made), scalar(state, value))


def _wanted(state: State, new: Value) -> Value:
    return PlanBlock(tuple(extent(state, item) for item in sequence(state, new)))


def _parameter(state: State, value: Value) -> Value:
    if isinstance(value, PlanBlock):
        return value
    return PlanBlock(tuple(axes.extent_of(state, axis) for axis in tensor(state, value).axes))


def _pieces(state: State, value: Value, length: Value, dim: Value) -> Value:
    one = tensor(state, value)
    return Several(tuple(axes.pieces(state, one, axes.axis_number(one, whole(dim, "an axis")), extent(state, length))))


def _stack(state: State, values: Value, dim: Value, merged: Value) -> Value:
    """Arrays of one shape, side by side: a new axis, or joined to the axis that is there. Raises CannotSayError where
    arrays that are joined have several sizes."""
    items = [tensor(state, item) for item in sequence(state, values)]
    first = items[0]
    at = whole(dim, "an axis") % (len(first.axes) + (0 if plain(merged) else 1))
    letter = state.letter(number(len(items)))
    found: Tensor | None = None
    for q, item in enumerate(items):
        if plain(merged) and axes.extent_of(state, item.axes[at]) != axes.extent_of(state, first.axes[at]):
            raise CannotSayError("arrays that are joined are read where their pieces have one size")
        gate = operations.compared(state, "=", Tensor(((letter,),), Place(letter)), Tensor((), Constant(q + 1)))
        spread = axes.with_axes(gate, (gate.axes[0], *((),) * len(item.axes)))
        part = operations.combined(state, "*", spread, item)
        found = part if found is None else operations.combined(state, "+", operations.total(found), part)
    assert found is not None
    rest = list(found.axes[1:])
    rest[at : at + (1 if plain(merged) else 0)] = [(*found.axes[0], *(rest[at] if plain(merged) else ()))]
    return axes.with_axes(found, tuple(rest))


def _dim(state: State, value: Value) -> Value:
    return Plain(len(tensor(state, value).axes))


def _shape(state: State, value: Value) -> Value:
    return shape(state, tensor(state, value))


def _note(state: State, text: Value) -> Value:
    state.note(str(plain(text)))
    return NONE


def _refuse(state: State, text: Value) -> Value:
    raise CannotSayError(str(plain(text)))


PRIMITIVES: dict[str, Callable[..., Value]] = {
    made.__name__: made for made in (
        _einsum, _rearranged, _permute, _reshape, _expand, _where, _fold, _count, _line, _entry, _number, _pairwise,
        _arange, _full, _wanted, _parameter, _pieces, _stack, _dim, _shape, _note, _refuse)}
