"""What a value is where its domain fails, followed through the operations."""

from __future__ import annotations

import math

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
            return 0.0 if op == "div" and args[0] == 0.0 and sign_known(args[1]) else FINITE if op != "div" else None
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


def sign_known(fill: Fill) -> bool:
    return isinstance(fill, float) and fill > 0


def _finite(fill: Fill) -> bool:
    return fill == FINITE or (isinstance(fill, float) and math.isfinite(fill))
