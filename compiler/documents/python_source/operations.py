"""What arrays are made of: arithmetic with conditions, folds, lines, choices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from einc.documents.python_source.axes import aligned, axis_number, extent_of, fresh, joined, renamed
from einc.documents.python_source.linear import opposite, short
from einc.documents.python_source.state import State
from einc.documents.python_source.terms import (
    Apply,
    Axis,
    Compare,
    Condition,
    Constant,
    Fold,
    Gate,
    Joined,
    Letter,
    Line,
    Place,
    SizeOf,
    Term,
    both,
    letters_of,
)
from einc.documents.python_source.values import CannotSayError, Tensor
from einc.ir.folds import FOLDS

NUMERIC: dict[str, Callable[..., float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": operator.pow,
    "exp": math.exp, "abs": abs, "sqrt": math.sqrt, "tanh": math.tanh, "log": math.log}
ORDERED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "≤": operator.le, ">": operator.gt, "≥": operator.ge, "=": operator.eq, "≠": operator.ne}
IDLE = {"+": Constant(0), "-": Constant(0), "*": Constant(1), "/": Constant(1)}  # what leaves the other side as it is
FAR = -1e8  # what is added to be as good as −∞


def total(tensor: Tensor) -> Tensor:
    """The array as one term at all points. CannotSayError where it is infinite elsewhere."""
    if tensor.condition is None:
        return tensor
    if math.isinf(tensor.other):
        raise CannotSayError("−∞ where a mask says so is read under a function of a line, a maximum or `exp` alone")
    inner = _times(Gate(tensor.condition), tensor.term)
    if tensor.other:
        inner = Apply("+", (inner, _times(Gate(opposite(tensor.condition)), Constant(tensor.other))))
    return Tensor(tensor.axes, inner, truth=tensor.truth)


def _times(gate: Term, term: Term) -> Term:
    return signed("*", gate, term)


def computed(name: str, *args: float) -> float:
    """A value of arithmetic. CannotSayError where a float has none."""
    try:
        found = NUMERIC[name](*args)
    except (KeyError, ArithmeticError, ValueError) as error:
        raise CannotSayError(f"`{name}` of {', '.join(map(str, args))} is no number") from error
    if isinstance(found, complex) or math.isnan(found):
        raise CannotSayError(f"`{name}` of {', '.join(map(str, args))} is no number")
    return found


def mapped(name: str, tensor: Tensor, *more: Term) -> Tensor:
    """A function of the language of each element."""
    def call(term: Term) -> Term:
        return Apply(name, (term, *more))
    if tensor.condition is None or more or not math.isinf(tensor.other):
        whole = total(tensor)
        return Tensor(whole.axes, call(whole.term))
    return Tensor(tensor.axes, call(tensor.term), tensor.condition, computed(name, tensor.other), tensor.partial)


def combined(state: State, sign: str, a: Tensor, b: Tensor) -> Tensor:
    """Arithmetic of two arrays that meet element by element."""
    axes, a, b = aligned(state, a, b, f"the two sides of `{_spoken(sign)}`")
    if sign == "+":
        a, b = (far(state, x) if x.term == Constant(0) else x for x in (a, b))
    both_fixed = isinstance(a.term, Constant) and isinstance(b.term, Constant)
    if both_fixed and (a.condition is None or b.condition is None or a.condition == b.condition):
        return _fixed(sign, axes, a, b)
    other = _elsewhere(sign, a, b)
    if other is None:
        a, b = total(a), total(b)
        return Tensor(axes, signed(sign, a.term, b.term))
    condition = both(a.condition, b.condition)
    return Tensor(axes, signed(sign, a.term, b.term), condition, other, a.partial or b.partial)


def signed(sign: str, a: Term, b: Term) -> Term:
    """A sign between two terms; a 0 that is added and a 1 that is multiplied are left out."""
    idle = IDLE.get(sign)
    if b == idle:
        return a
    return b if a == idle and sign in {"+", "*"} else Apply(sign, (a, b))


def _spoken(sign: str) -> str:
    return "**" if sign == "^" else sign


def _fixed(sign: str, axes: tuple[Axis, ...], a: Tensor, b: Tensor) -> Tensor:
    """Two arrays that each have one number where a condition holds and one elsewhere."""
    assert isinstance(a.term, Constant) and isinstance(b.term, Constant)
    one = [x.term.value if x.condition is None else x.other for x in (a, b) if isinstance(x.term, Constant)]
    condition = a.condition if a.condition is not None else b.condition
    inside = computed(sign, a.term.value, b.term.value)
    if condition is None:
        return Tensor(axes, Constant(inside))
    return Tensor(axes, Constant(inside), condition, computed(sign, *one))


def _elsewhere(sign: str, a: Tensor, b: Tensor) -> float | None:
    """What the result is where the conditions do not hold; None where that is no one number. Raises CannotSayError
    where −∞ is multiplied by what may be negative."""
    if a.condition is None and b.condition is None:
        return 0.0
    one, inf = (a, -math.inf) if a.condition is not None else (b, -math.inf)
    if sign == "*" and all(x.condition is None or x.other == 0 for x in (a, b)):
        return 0.0
    if sign == "/" and b.condition is None and a.other == 0:
        return 0.0
    if sign == "+" and all(x.condition is None or x.other == inf for x in (a, b)):
        return inf
    if sign == "-" and b.condition is None and a.other == inf:
        return inf
    factor = b if one is a else a
    if sign in "*/" and factor.condition is None and one.other == inf and (one is a or sign == "*"):
        if _positive(factor.term):
            return inf
        raise CannotSayError("−∞ of a mask is multiplied by what may be negative", "multiply before the mask")
    return None


def _positive(term: Term) -> bool:
    """Whether a number is above 0 whatever the sizes are."""
    match term:
        case Constant(value):
            return 0 < value < math.inf
        case SizeOf():
            return True
        case Apply(name, args):
            return name in {"+", "*", "/", "^", "sqrt"} and all(map(_positive, args))
        case _:
            return False


def compared(state: State, sign: str, a: Tensor, b: Tensor) -> Tensor:
    """Where a comparison of two arrays holds, as an array of truth values. Raises CannotSayError for two that a mask
    has cut."""
    axes, a, b = aligned(state, a, b, "the two sides of a comparison")
    if a.condition is not None and isinstance(a.term, Constant) and isinstance(b.term, Constant) and (
            b.condition is None):
        inside, outside = ORDERED[sign](a.term.value, b.term.value), ORDERED[sign](a.other, b.term.value)
        return Tensor(axes, Constant(int(inside)), a.condition, float(outside), truth=True)
    if a.condition is not None or b.condition is not None:
        raise CannotSayError("a comparison of what a mask has cut is not read")
    return Tensor(axes, Constant(1), short(Compare(sign, a.term, b.term)), 0.0, truth=True)


def joined_conditions(word: str, a: Condition, b: Condition) -> Condition:
    """The condition that both hold (`and`), or that either does (`or`); one of them where they are equal."""
    return Joined(word, (a, b)) if a != b else a


def holds(tensor: Tensor) -> Condition:
    """Where an array of truth values is true. CannotSayError where it is always or never."""
    if tensor.condition is None:
        return Compare("≠", tensor.term, Constant(0))
    if isinstance(tensor.term, Constant) and bool(tensor.term.value) != bool(tensor.other):
        return tensor.condition if tensor.term.value else opposite(tensor.condition)
    raise CannotSayError("this mask does not say where it holds")


def chosen(state: State, where: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The first where the mask holds, the second elsewhere."""
    axes, a, b = aligned(state, a, b, "the two sides of a choice")
    side = Tensor(axes, Apply("pair", (a.term, b.term)))
    axes, side, where = aligned(state, side, where, "the mask")
    assert isinstance(side.term, Apply)
    first, second = side.term.args
    condition = holds(where)
    if a.condition is not None or b.condition is not None:
        return _chosen_again(axes, condition, a, b, (first, second))
    if isinstance(second, Constant) and not (isinstance(first, Constant) and math.isinf(first.value)):
        return Tensor(axes, first, condition, second.value)
    if isinstance(first, Constant):
        return Tensor(axes, second, opposite(condition), first.value)
    return Tensor(axes, Apply("+", (Apply("*", (Gate(condition), first)),
                                    Apply("*", (Gate(opposite(condition)), second)))))


def _chosen_again(axes: tuple[Axis, ...], condition: Condition, a: Tensor, b: Tensor,
                  sides: tuple[Term, Term]) -> Tensor:
    """A second mask on what one has cut already, with the same number elsewhere and no letters renamed. Raises
    CannotSayError for any other."""
    kept, fill, left = (a, b, condition) if isinstance(b.term, Constant) else (b, a, opposite(condition))
    same = kept.condition is not None and sides[0 if kept is a else 1] == kept.term
    if not same or fill.condition is not None or not isinstance(fill.term, Constant) or fill.term.value != kept.other:
        raise CannotSayError("a choice between parts that a mask has cut is not read")
    return Tensor(axes, kept.term, both(kept.condition, left), kept.other, kept.partial)


def meets(condition: Condition | None, letters: Sequence[Letter]) -> bool:
    """Whether a condition speaks of one of the letters."""
    return condition is not None and bool(set(letters_of(condition)) & set(letters))


def far(state: State, tensor: Tensor) -> Tensor:
    """The array with −∞ in place of a number that is as good as that under an exponential."""
    if tensor.condition is None or not -math.inf < tensor.other <= FAR:
        return tensor
    state.note(f"{tensor.other:g} is read as −∞: the shares are the same unless a row has nothing else.")
    return Tensor(tensor.axes, tensor.term, tensor.condition, -math.inf, tensor.partial)


def cut(state: State, tensor: Tensor, letters: Sequence[Letter], neutral: float) -> Tensor:
    """The array with its condition where a fold over the letters may take it as its domain, else as one term."""
    if tensor.condition is None or (tensor.other == neutral and meets(tensor.condition, letters)):
        return tensor
    return total(tensor)


def folded(state: State, name: str, tensor: Tensor, dims: Sequence[int], keep: bool) -> Tensor:
    """A sum, a maximum or a minimum over some axes."""
    places = {axis_number(tensor, at) for at in dims}
    tensor = fresh(state, tensor)  # what is bound is no letter of anything else
    letters = tuple(x for at in sorted(places) for x in tensor.axes[at])
    tensor = cut(state, tensor, letters, FOLDS[name].start)
    axes = tuple(() if at in places else axis for at, axis in enumerate(tensor.axes) if keep or at not in places)
    if not letters:
        return Tensor(axes, tensor.term, tensor.condition, tensor.other, tensor.partial)
    if tensor.condition is not None:
        state.note("Where a mask leaves nothing the spec has 0 or −∞, as the language says.") if _may_be_empty(
            tensor.condition) else None
    return Tensor(axes, Fold(name, letters, tensor.condition, tensor.term))


def lined(state: State, name: str, tensor: Tensor, dims: Sequence[int], named: tuple[tuple[str, Term], ...] = (), *,
          keeps: bool = True, outside: float | None = None) -> Tensor:
    """A function of the language of each line along some axes. Where a mask has left −∞ it is `outside`. Raises
    CannotSayError where the mask has left anything else along the line, or the line has one element."""
    tensor = far(state, tensor) if keeps else fresh(state, far(state, tensor))
    places = {axis_number(tensor, at) for at in dims}
    letters = tuple(x for at in sorted(places) for x in tensor.axes[at])
    if not letters:
        raise CannotSayError(f"`{name}` of an axis of one element")
    axes = tensor.axes if keeps else tuple(a for at, a in enumerate(tensor.axes) if at not in places)
    if tensor.condition is None:
        return Tensor(axes, Line(name, letters, None, (tensor.term,), named, keeps))
    if outside is None or not meets(tensor.condition, letters) or not math.isinf(tensor.other):
        raise CannotSayError(f"what a mask has cut is not read under `{name}` of this line",
                             "fill with −∞ along the axis of the line")
    if _may_be_empty(tensor.condition):
        state.note("Where a mask leaves a row nothing, torch gives NaN and the spec 0.")
    term = Line(name, letters, tensor.condition, (tensor.term,), named, keeps)
    if not keeps:
        return Tensor(axes, term)
    return Tensor(axes, term, tensor.condition, outside, True)


def _may_be_empty(condition: Condition) -> bool:
    """Whether a mask may leave a row nothing, but for `≤` between two positions, which keeps the first."""
    match condition:
        case Compare(sign, left, right):
            return not (isinstance(left, Place) and isinstance(right, Place) and sign in {"≤", "≥"})
        case _:
            return True


def contracted(state: State, operands: Sequence[Tensor], scripts: Sequence[Sequence[str]],
               out: Sequence[str]) -> Tensor:
    """A product of arrays by the letters of their axes, summed over the letters that `out` lacks."""
    axes: dict[str, Axis] = {}
    parts: list[Tensor] = []
    for operand, script in zip(operands, scripts, strict=True):
        parts.append(fresh(state, operand))
        for at, letter in enumerate(script):
            new = joined(state, axes.setdefault(letter, parts[-1].axes[at]), parts[-1].axes[at], f"`{letter}`")
            parts = [renamed(part, new) for part in parts]
            axes = {k: renamed(Tensor((v,), Constant(0)), new).axes[0] for k, v in axes.items()}
            axes[letter] = axes[letter] or parts[-1].axes[at]
    factors = [part if part.other == 0 else total(part) for part in parts]
    term = factors[0].term
    for factor in factors[1:]:
        term = signed("*", term, factor.term)
    condition = both(*(factor.condition for factor in factors))
    partial = any(factor.partial for factor in factors)
    summed = [letter for letter in axes if letter not in out]
    shape = (*(axes[x] for x in out), *(axes[x] for x in summed))
    found = Tensor(shape, term, condition, 0.0, partial)
    return folded(state, "sum", found, range(len(out), len(shape)), False) if summed else found


def length(state: State, tensor: Tensor, dims: Sequence[int]) -> Term:
    """How many elements the axes have together, as a number."""
    letters = [x for at in dims for x in tensor.axes[axis_number(tensor, at)]]
    return SizeOf(extent_of(state, letters))
