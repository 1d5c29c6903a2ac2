"""What a value is where its domain fails, followed through the operations; and what is a
finite number wherever it stands."""

from __future__ import annotations

import math
from collections.abc import Mapping

from einc.ir.folds import FOLDS
from einc.ir.plan import Dot, Iota, Let, Load, Map, Reduce, Scalar
from einc.ir.terms import (
    TRUE,
    Const,
    Term,
    free_indices,
)

FINITE = "finite"
Fill = float | str | None  # a number, some finite number, or unknown


def fill_of(op: str, args: list[Fill]) -> Fill:
    """What an operation gives where the domain fails, if that can be told."""
    if any(a is None for a in args):
        return None
    numbers = [a for a in args if isinstance(a, float)]
    match op:
        case "add" | "sub" | "mul" | "div" | "neg" if all(map(_finite, args)):
            if op == "mul" and 0.0 in numbers:
                return 0.0
            return 0.0 if op == "div" and args[0] == 0.0 and is_positive(args[1]) else FINITE if op != "div" else None
        case "add" if len(infinite := {a for a in numbers if math.isinf(a)}) == 1:
            return infinite.pop()
        case "sub" if isinstance(args[0], float) and math.isinf(args[0]) and _finite(args[1]):
            return args[0]
        case "sub" if isinstance(args[1], float) and math.isinf(args[1]):
            return -args[1] if _finite(args[0]) else None
        case "neg" if numbers:
            return -numbers[0]
        case "exp" | "exp2" if numbers:
            return math.exp(numbers[0]) if numbers[0] < 700 else None
        case "div" if numbers and math.isinf(numbers[0]) and isinstance(args[1], float) and 0 < args[1] < math.inf:
            return numbers[0]
        case "max" | "min" if len(numbers) == len(args):
            return max(numbers) if op == "max" else min(numbers)
    return None


def fill_of_let(value: str, domain: Term, lets: Mapping[str, Let], known: Mapping[tuple[str, Term], Fill]) -> Fill:
    """What a let holds where a domain fails; `known` has what is told of lets and domains already."""
    found = known.get((value, domain))
    if found is not None:
        return found
    let = lets[value]
    match let.op:
        case Scalar(Const(number)):
            return float(number)
        case Scalar() | Iota() | Load():
            return FINITE
        case Reduce(fold) if math.isinf(FOLDS[fold].start):
            return known.get((value, TRUE))
        case Dot() | Map() | Reduce():
            if isinstance(let.op, Dot) or not any(x.name in let.axes for x in free_indices(domain)):
                return FINITE
            return (fill_of(let.op.op, [fill_of_let(a, domain, lets, known) for a in let.args])
                    if isinstance(let.op, Map) else None)
    return None


def is_positive(fill: Fill) -> bool:
    """Whether a fill is a number above 0, so that 0 divided by it is 0."""
    return isinstance(fill, float) and fill > 0


def _finite(fill: Fill) -> bool:
    return fill == FINITE or (isinstance(fill, float) and math.isfinite(fill))
