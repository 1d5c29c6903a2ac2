"""Signs and brackets of Python between values: numbers, sizes, arrays."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence

from einc.documents.python_source import axes, operations
from einc.documents.python_source.primitives import extent, known, sequence, tensor
from einc.documents.python_source.state import State
from einc.documents.python_source.terms import Apply, Constant, Fold, Letter, Line, Part, Read, SizeOf, inside
from einc.documents.python_source.values import (
    NONE,
    CannotSayError,
    FollowsError,
    Function,
    Given,
    Instance,
    Lost,
    Plain,
    Scalar,
    Several,
    Slice,
    Tensor,
    Value,
    whole,
)
from einc.ir.indices import Extent, number

Operation = Callable[..., float | int]
SIGNS: dict[type[ast.operator], tuple[str, Operation]] = {
    ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub), ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv), ast.FloorDiv: ("//", operator.floordiv), ast.Pow: ("^", operator.pow),
    ast.Mod: ("%", operator.mod)}
COMPARED: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">", ast.GtE: "≥", ast.Eq: "=",
                                        ast.NotEq: "≠"}
LARGEST = 10**12


def binary(state: State, op: ast.operator, a: Value, b: Value) -> Value:
    """`a + b` and its kin. Raises CannotSayError for a sign that is not read between these."""
    a, b = known(state, a), known(state, b)
    if isinstance(op, ast.MatMult):
        return _product(state, tensor(state, a), tensor(state, b))
    if isinstance(op, ast.BitAnd | ast.BitOr):
        return _logical(state, "and" if isinstance(op, ast.BitAnd) else "or", tensor(state, a), tensor(state, b))
    if type(op) not in SIGNS:
        raise CannotSayError("this sign between values is not read")
    sign, plain_one = SIGNS[type(op)]
    if isinstance(a, Several) and isinstance(b, Several) and sign == "+":
        return Several((*a.items, *b.items))
    if isinstance(a, Plain) and isinstance(b, Plain):
        return _plain(plain_one, a.value, b.value)
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return _numbers(state, sign, a, b)
    if sign in {"//", "%"}:
        raise CannotSayError(f"`{sign}` of arrays is not read")
    if sign == "^":
        return _power(tensor(state, a), tensor(state, b))
    return operations.combined(state, sign, tensor(state, a), tensor(state, b))


def _plain(call: Operation, a: object, b: object) -> Value:
    """The operation on two constants. Raises CannotSayError where they are no numbers, too large, or have no result."""
    if not isinstance(a, int | float) or not isinstance(b, int | float) or (max(abs(a), abs(b)) > LARGEST and (
            float("inf") not in {abs(a), abs(b)})):
        raise CannotSayError("these constants are not computed with")
    try:
        if call is operator.pow and abs(b) > 64:
            raise ValueError
        found = call(a, b)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise CannotSayError("these constants have no such value") from error
    if isinstance(found, complex):
        raise CannotSayError("these constants have no such value")
    return Plain(found)


def _numbers(state: State, sign: str, a: Value, b: Value) -> Value:
    """Arithmetic of sizes and other numbers of the caller. Raises CannotSayError for a remainder."""
    if sign == "//":
        return _exact(state, extent(state, a), extent(state, b))
    for value in (a, b):
        tensor(state, value)
    x, y = _sized(a), _sized(b)
    if sign in "+-*" and x is not None and y is not None:
        found = x + y if sign == "+" else x - y if sign == "-" else x * y
        return Scalar(SizeOf(found), found)
    if sign == "%":
        raise CannotSayError("a remainder of sizes is not read")
    if sign == "^":
        return Scalar(_power(tensor(state, a), tensor(state, b)).term)
    return Scalar(Apply(sign, (tensor(state, a).term, tensor(state, b).term)))


def _sized(value: Value) -> Extent | None:
    """A size, or a whole number as one."""
    match value:
        case Scalar(extent=found):
            return found
        case Plain(int() as count) if not isinstance(count, bool):
            return number(count)
    return None


def _exact(state: State, a: Extent, b: Extent) -> Value:
    found = state.extent(a).over(state.extent(b))
    if found is None:
        raise CannotSayError("a quotient of these sizes is not read")
    if found.constant is None or found.constant.denominator != 1:
        state.note(f"{state.extent(a)} is divided by {state.extent(b)} without a rest.")
    return Scalar(SizeOf(found), found)


def _power(base: Tensor, exponent: Tensor) -> Tensor:
    """`x ** 2`, `x ** 0.5`, `x ** -0.5`; other powers of numbers alone. Raises CannotSayError for any other."""
    if exponent.axes:
        raise CannotSayError("a power whose exponent is an array is not read")
    match exponent.term:
        case Constant(0.5):
            return operations.mapped("sqrt", base)
        case Constant(-0.5):
            root = operations.total(operations.mapped("sqrt", base))
            return Tensor(root.axes, Apply("/", (Constant(1), root.term)))
        case Constant(value) if float(value).is_integer() and value >= 0:
            whole_one = operations.total(base)
            return Tensor(whole_one.axes, Apply("^", (whole_one.term, Constant(int(value)))))
        case term if not base.axes:
            return Tensor((), Apply("^", (base.term, term)))
    raise CannotSayError("this power is not read", "write it with exp and log")


def _product(state: State, a: Tensor, b: Tensor) -> Tensor:
    """`a @ b`: rows with columns, other axes side by side. Raises CannotSayError where one has no axes."""
    if not a.axes or not b.axes:
        raise CannotSayError("a product of matrices with a number")
    if len(b.axes) == 1:
        return operations.folded(state, "sum", operations.combined(state, "*", a, b), [-1], False)
    if len(a.axes) == 1:
        a = axes.with_axes(a, (*a.axes, ()))
        return operations.folded(state, "sum", operations.combined(state, "*", a, b), [-2], False)
    rows = axes.with_axes(a, (*a.axes, ()))
    columns = axes.with_axes(b, (*b.axes[:-2], (), *b.axes[-2:]))
    return operations.folded(state, "sum", operations.combined(state, "*", rows, columns), [-2], False)


def _logical(state: State, word: str, a: Tensor, b: Tensor) -> Tensor:
    shape, a, b = axes.aligned(state, a, b, "the two masks")
    condition = operations.joined_conditions(word, operations.holds(a), operations.holds(b))
    if not (a.truth and b.truth):
        raise CannotSayError("`&` and `|` are read between masks of truth values")
    return Tensor(shape, Constant(1), condition, 0.0, truth=True)


def unary(state: State, op: ast.unaryop, value: Value) -> Value:
    """`-x`, `~mask`, `not x`. Raises CannotSayError for another sign."""
    value = known(state, value)
    match op, value:
        case ast.Not(), _:
            return Plain(not truth(state, value))
        case ast.USub(), Plain(int() | float() as found):
            return Plain(-found)
        case ast.UAdd(), _:
            return value
        case ast.Invert(), Tensor(truth=True):
            return operations.chosen(state, value, Tensor((), Constant(0)), Tensor((), Constant(1)))
        case ast.USub(), Scalar():
            return _numbers(state, "*", Plain(-1), value)
        case ast.USub(), Tensor():
            return operations.combined(state, "*", Tensor((), Constant(-1)), value)
    raise CannotSayError("this sign before a value is not read")


def compared(state: State, op: ast.cmpop, a: Value, b: Value) -> Value:
    """A comparison: a truth value that the source settles, or a mask. Raises CannotSayError where neither can be said.
    """
    a, b = known(state, a), known(state, b)
    if isinstance(op, ast.Is | ast.IsNot):
        same = a == b if isinstance(a, Plain) and isinstance(b, Plain) else False
        return Plain(same is isinstance(op, ast.Is))
    if type(op) not in COMPARED:
        raise CannotSayError("this comparison is not read")
    sign = COMPARED[type(op)]
    if isinstance(a, Plain) and isinstance(b, Plain):
        if sign in "=≠" or (isinstance(a.value, int | float) and isinstance(b.value, int | float)):
            return Plain(operations.ORDERED[sign](a.value, b.value))  # type: ignore[arg-type]
        raise CannotSayError("this comparison is not read")
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        mask = operations.compared(state, sign, tensor(state, a), tensor(state, b))
        if mask.condition is not None and sign in "=≠":
            state.integers |= {p.name for p in inside(mask.condition) if isinstance(p, Read)}
        return mask
    sizes = [extent(state, value) for value in (a, b)]
    if state.same(*sizes) and sign in "=≠≤≥":
        return Plain(sign != "≠")
    raise CannotSayError("whether this holds depends on the sizes")


def truth(state: State, value: Value) -> bool:
    """Whether a value counts as true. CannotSayError where the source does not settle it."""
    value = known(state, value)
    match value:
        case Plain(found):
            return bool(found)
        case Several(items):
            return bool(items)
        case Function() | Instance():
            return True
        case Lost():
            raise FollowsError("it follows from a line that was not read")
        case Given(name):
            raise CannotSayError(f"whether `{name}` holds is for the caller to say", f"give --value {name}=True")
    raise CannotSayError("whether this holds is not known before the call")


def item(state: State, value: Value, index: Value) -> Value:
    """`value[index]`. Raises CannotSayError for an item that is not there."""
    value = known(state, value)
    if isinstance(value, Several):
        if isinstance(index, Slice):
            ends = [None if x == NONE else whole(x) for x in (index.start, index.stop, index.step)]
            return Several(value.items[slice(*ends)])
        at = whole(index, "a number of an item")
        if not -len(value.items) <= at < len(value.items):
            raise CannotSayError(f"there is no item {at} of {len(value.items)}")
        return value.items[at]
    one, at = tensor(state, value), 0
    wanted = list(sequence(state, index))
    dots = [n for n, x in enumerate(wanted) if x == Plain("...")]
    if dots:
        taken = sum(1 for x in wanted if x not in {NONE, Plain("...")})
        wanted[dots[0] : dots[0] + 1] = [Slice(NONE, NONE, NONE)] * (len(one.axes) - taken)
    for x in wanted:
        if x == NONE:
            one = axes.with_axes(one, (*one.axes[:at], (), *one.axes[at:]))
            at += 1
            continue
        axes.axis_number(one, at)
        if isinstance(x, Slice):
            one, at = _sliced(state, one, at, x), at + 1
        else:
            one = axes.picked(one, at, _picked(state, one, at, x))
    return one


def _picked(state: State, one: Tensor, at: int, index: Value) -> Part:
    """The element of an axis that a constant picks, counted from 1. Raises CannotSayError where the axis may have no
    such element."""
    found = whole(index, "an index")
    length = axes.extent_of(state, one.axes[at]).constant
    if found < 0 or (length is not None and found >= length):
        if length is None or not -length <= found < 0:
            raise CannotSayError(f"there may be no element {found} of this axis")
        found += int(length)
    if length is None:
        raise CannotSayError("one element of an axis whose size is not known is not read")
    return found + 1


def _sliced(state: State, one: Tensor, at: int, cut: Slice) -> Tensor:
    """A part of an axis: all of it, its first elements where no data is read along it, or one of its equal pieces.
    Raises CannotSayError for any other."""
    if cut.step not in {NONE, Plain(1)}:
        raise CannotSayError("a slice with a step is not read")
    length = axes.extent_of(state, one.axes[at])
    if cut.start in {NONE, Plain(0)} and cut.stop == NONE:
        return one
    if any(isinstance(x, Plain) and isinstance(x.value, int) and x.value < 0 for x in (cut.start, cut.stop)):
        raise CannotSayError("a slice that counts from the end is not read")
    start = number(0) if cut.start == NONE else state.extent(extent(state, cut.start))
    stop = length if cut.stop == NONE else state.extent(extent(state, cut.stop))
    if start == number(0) and stop == length:
        return one
    if not one.axes[at] or (start == number(0) and _without_data(one, one.axes[at])):
        letter = state.letter(stop)
        return axes.renamed(one, {one.axes[at][0]: (letter,)}) if one.axes[at] else one
    return _piece(state, one, at, (start, stop))


def _without_data(one: Tensor, letters: Sequence[Letter]) -> bool:
    """Whether along an axis the elements depend on their numbers alone, so that the first ones are a smaller array."""
    parts = [*inside(one.term), *(inside(one.condition) if one.condition is not None else ())]
    return len(letters) == 1 and not any(isinstance(p, Read | Fold | Line) for p in parts)


def _piece(state: State, one: Tensor, at: int, ends: tuple[Extent, Extent]) -> Tensor:
    start, stop = ends
    found = axes.pieces(state, one, at, stop - start)
    first = start.over(state.extent(stop - start)) if start != number(0) else number(0)
    place = None if first is None else first.constant
    if place is None or place.denominator != 1 or not 0 <= place < len(found):
        raise CannotSayError("this slice is not one of the equal pieces of its axis")
    return found[int(place)]



