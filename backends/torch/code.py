"""Pieces of Python text: how tightly they bind, numbers, letters of contractions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from einc.backends.writer import identifier, sized
from einc.plan import (
    Along,
    Let,
    Load,
    Packed,
    Subscript,
    Within,
    arguments,
)
from einc.terms import Apply, Const, Size, Term, Truth

ATOM, UNARY, POWER, PRODUCT, SUM, SHIFT, COMPARE, LOOSE = 9, 8, 8, 7, 6, 5, 4, 1


INFIX = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "floordiv": ("//", PRODUCT),
    "mod": ("%", PRODUCT),
    "le": ("<=", COMPARE),
    "lt": ("<", COMPARE),
    "eq": ("==", COMPARE),
    "ne": ("!=", COMPARE),
    "and": ("&", SHIFT - 0),
    "or": ("|", SHIFT - 0),
}


@dataclass(frozen=True)
class Code:
    """An expression, how tightly it binds, and whether its memory is its own."""

    text: str
    level: int = ATOM
    fresh: bool = False

    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


def axes_of(sub: Subscript) -> tuple[str, ...]:
    match sub:
        case Along(axis):
            return (axis,)
        case Packed(parts):
            return tuple(a for p in parts for a in axes_of(p))
        case Within(item):
            return axes_of(item)
    return ()


def all_axes(load: Load, lets: Mapping[str, Let]) -> list[str]:
    return [a for s in load.subs for a in axes_of(s)] + [a for v in arguments(load) for a in lets[v].axes]


def letters_of(axes: list[str]) -> dict[str, str]:
    """One ASCII letter for each axis, its own where it has one."""
    out: dict[str, str] = {}
    for axis in axes:
        wanted = identifier(axis)[0]
        free = [c for c in wanted + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in out.values()]
        out[axis] = free[0]
    return out


def infix(op: str, codes: list[Code]) -> Code:
    sign, level = INFIX[op]
    if op in ("and", "or"):
        return Code(f" {sign} ".join(c.at(ATOM) for c in codes), SHIFT, True)
    text = codes[0].at(level)
    for code in codes[1:]:
        text += f" {sign} {code.at(level + 1)}"
    return Code(text, level, True)


def scalar(term: Term) -> Code:
    """A number made of constants and sizes, in Python's own arithmetic."""
    match term:
        case Const(value):
            return Code(number_text(value), ATOM if value >= 0 else UNARY)
        case Truth(value):
            return Code(str(value))
        case Size(extent):
            text = sized(extent)
            return Code(text, ATOM if text.isidentifier() or text.isdigit() else SUM)
        case Apply(op, args):
            return scalar_map(op, [scalar(a) for a in args])
    raise AssertionError(term)


def scalar_map(op: str, codes: list[Code]) -> Code:
    match op:
        case "floordiv" | "add" | "sub" | "mul" | "div" | "mod" | "le" | "lt" | "eq" | "ne":
            return infix(op, codes)
        case "and" | "or":
            return Code(f" {op} ".join(c.at(COMPARE) for c in codes), LOOSE)
        case "not":
            return Code(f"not {codes[0].at(COMPARE)}", LOOSE)
        case "neg":
            return Code(f"-{codes[0].at(UNARY)}", UNARY)
        case "pow":
            return Code(f"{codes[0].at(ATOM)} ** {codes[1].at(UNARY)}", POWER)
        case "ceildiv":
            return Code(f"-(-{codes[0].at(UNARY)} // {codes[1].at(ATOM)})", UNARY)
        case "max" | "min" | "abs":
            return Code(f"{op}({', '.join(c.text for c in codes)})")
    return Code(f"math.{op}({', '.join(c.text for c in codes)})")


def number_text(value: Fraction | float) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "math.inf" if value > 0 else "-math.inf"
    exact = Fraction(value)
    return str(exact.numerator) if exact.denominator == 1 else repr(float(exact))
