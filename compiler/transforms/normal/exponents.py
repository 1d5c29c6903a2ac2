"""Exponents that fixed sizes make numbers, as numbers: what is known of a power follows from its exponent."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from einc.ir.programs import Program
from einc.ir.terms import Apply, Const, Size, Term, const, transform

P = TypeVar("P", bound=Program)


def with_exponents(program: P) -> P:
    """The program with `x^{1/τ}` as `x^{1/16}`, where the text says `dim τ = 16`."""
    sizes = program.sizes
    if not sizes:
        return program

    def change(term: Term) -> Term:
        match term:
            case Apply("pow", (base, Apply() | Size() as power)) if (found := _value(power, sizes)) is not None:
                return Apply("pow", (base, const(found)))
        return term

    return program.but(equations=tuple(e.map(lambda t: transform(t, change)) for e in program.equations))


def _value(term: Term, sizes: Mapping[str, int]) -> Fraction | None:
    """The number that a term of numbers and fixed sizes is; None for any other term."""
    match term:
        case Const(Fraction() as value):
            return value
        case Size(extent) if extent.sizes <= sizes.keys():
            return extent.at(sizes)
        case Apply("add" | "sub" | "mul" | "div" | "neg" as op, args):
            found = [_value(a, sizes) for a in args]
            known = [x for x in found if x is not None]
            if len(known) < len(found):
                return None
            match op, known:
                case "neg", [x]:
                    return -x
                case "sub", [x, y]:
                    return x - y
                case "div", [x, y]:
                    return x / y if y else None
                case "add", _:
                    return sum(known, Fraction(0))
            total = Fraction(1)
            for x in known:
                total *= x
            return total
    return None
