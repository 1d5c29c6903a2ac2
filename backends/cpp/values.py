"""Values of a kernel as C++ expressions: their types, conversions between these, and primitives of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from einc.backends.cpp.schedule import Unwritten
from einc.backends.cpp.spelling import COMPARED, FUNCTIONS, INFIX, STEPS
from einc.ir.elements import Kind
from einc.ir.folds import FOLDS
from einc.ir.narrow import NARROW
from einc.ir.plan import Dot, Let, Reduce

SCALARS = {"real": "float", "exact": "double", "integer": "L", "truth": "bool", "scalar": "double"}
LANES = {"real": "V", "exact": "D", "integer": "I", "truth": "I"}


@dataclass(frozen=True, slots=True)
class Value:
    """An expression, the kind of its numbers, and whether it is a vector, of a number for each row."""

    text: str
    kind: Kind
    lanes: bool


@dataclass(frozen=True, slots=True)
class At:
    """Where an expression stands: the vector of the tile, the position of the stream in its tile,
    and a place for each feature.
    """

    vector: str = "i"
    position: str = "0"
    features: tuple[tuple[str, str], ...] = ()

    def inside(self, axes: Sequence[str], loops: Sequence[tuple[str, str]]) -> At:
        """The place within loops over features, each with its variable and its end."""
        places = tuple((axis, place) for axis, (place, _) in zip(axes, loops, strict=True))
        return At(self.vector, self.position, (*self.features, *places))


Reference = Callable[[At], Value]


def type_of(kind: Kind, lanes: bool) -> str:
    """The type of a value in C++."""
    return LANES[kind] if lanes else SCALARS[kind]


def converted(value: Value, kind: Kind, lanes: bool) -> str:
    """A value as an expression of another kind; a number is spread over lanes where they are asked for. Raises
    Unwritten where there is no such conversion."""
    text = value.text
    if value.kind != kind:
        match value.kind, kind:
            case "scalar", _:
                text = f"({SCALARS[kind]}){text}"
            case "truth", _:
                text = f"{kind}_truth({text})"
            case _, "real" | "exact":
                text = f"{kind}({text})"
            case _:
                raise Unwritten(f"it makes {kind} numbers of {value.kind} ones")
    return f"splat({text})" if lanes and not value.lanes else text


def number(value: float | Fraction, kind: Kind) -> str:
    """A constant as C++ in the type of its kind: a whole number, a float, or a double. Infinity has a name of its own.
    """
    if kind in ("integer", "truth"):
        return str(int(value))
    real = float(value)
    if math.isinf(real):
        return f"{'-' if real < 0 else ''}{'(double)' if kind == 'exact' else ''}INFINITE"
    return repr(real) if kind in ("exact", "scalar") else f"{real!r}f"


def mapped(op: str, kind: Kind, args: Sequence[Value]) -> Value:
    """A primitive of some operands: a vector where one of them is one. Raises Unwritten for a primitive that C++ has no
    function for.
    """
    lanes = any(a.lanes for a in args)
    if op in ("real", "exact", "spread"):
        return Value(converted(args[0], kind, lanes), kind, lanes)
    if op in COMPARED:
        common = _common(args)
        left, right = (converted(a, common, lanes) for a in args)
        return Value(f"mask({left} {INFIX[op]} {right})", "truth", lanes)
    given = [converted(a, kind, lanes) for a in args]
    if op == "neg":
        return Value(f"(-{given[0]})", kind, lanes)
    if op == "not":
        return Value(f"({'~' if lanes else '!'}{given[0]})", kind, lanes)
    if op in INFIX:
        return Value(f"({f' {INFIX[op]} '.join(given)})", kind, lanes)
    if op in NARROW:
        bits, least, low, high = NARROW[op].digits
        return Value(f"rounded<{bits}, {least}>({given[0]}, {number(low, kind)}, {number(high, kind)})", kind, lanes)
    if op not in FUNCTIONS:
        raise Unwritten(f"it computes `{op}`")
    text = given[0] if len(given) > 1 else f"{FUNCTIONS[op]}({given[0]})"
    for other in given[1:]:
        text = f"{FUNCTIONS[op]}({text}, {other})"
    return Value(text, kind, lanes)


def _common(args: Sequence[Value]) -> Kind:
    """The kind in which numbers are compared."""
    kinds = {a.kind for a in args}
    return (next(k for k in ("exact", "real", "integer", "truth", "scalar") if k in kinds) if kinds != {"scalar"}
            else "exact")


def selected(condition: Value, then: Value, otherwise: float, kind: Kind) -> Value:
    """A value where a condition holds, else a number."""
    lanes = condition.lanes or then.lanes
    test, value = converted(condition, "truth", lanes), converted(then, kind, lanes)
    other = Value(f"({SCALARS[kind]}){number(otherwise, kind)}", kind, False)
    return Value(f"choose({test}, {value}, {converted(other, kind, lanes)})", kind, lanes)


def begun(fold: str) -> str:
    """The number with which a fold of real numbers begins."""
    return number(FOLDS[fold].start, "real")


def fold_of(let: Let) -> str:
    """The fold that a value over features is. Raises Unwritten for one that has no text here, and for a value that is
    no real number.
    """
    fold = "sum" if isinstance(let.op, Dot) else let.op.fold if isinstance(let.op, Reduce) else ""
    if let.kind != "real" or fold not in STEPS:
        raise Unwritten(f"it folds `{let.name}`")
    return fold


def stepped(fold: str, before: str, value: str) -> str:
    """Two values of a fold merged. Raises Unwritten for a fold that C++ has no step for."""
    if fold not in STEPS:
        raise Unwritten(f"it folds by `{fold}`")
    return STEPS[fold].format(before, value)
