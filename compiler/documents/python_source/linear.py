"""Comparisons of positions in their shortest form: `s - 1 ≤ t - 1 + k` is `s ≤ t + k`."""

from __future__ import annotations

from fractions import Fraction

from einc.documents.python_source.terms import (
    Apply,
    Compare,
    Condition,
    Constant,
    Joined,
    Letter,
    Place,
    SizeOf,
    Term,
    negated,
)
from einc.ir.indices import Extent, number

Form = tuple[dict[Letter, Extent], Extent]
NOTHING = number(0)
# Between whole numbers `a - b - 1 < 0` is `a ≤ b`; the extents are those on the left.
NEXT = {"<": ("≤", number(-1)), ">": ("≥", number(1)), "≤": ("<", number(1)), "≥": (">", number(-1))}


def linear(term: Term) -> Form | None:
    """A sum of letters, sizes and numbers as its coefficients; None where a term is none."""
    match term:
        case Constant(value) if abs(value) < 1e15 and float(value).is_integer():
            return {}, number(int(value))
        case SizeOf(extent):
            return {}, extent
        case Place(letter):
            return {letter: number(1)}, NOTHING
        case Apply("+" | "-" | "*" as sign, (left, right)):
            a, b = linear(left), linear(right)
            if a is None or b is None:
                return None
            if sign == "*":
                return _scaled(a, b[1]) if not b[0] else _scaled(b, a[1]) if not a[0] else None
            b = _scaled(b, number(-1)) if sign == "-" else b
            every = {**a[0], **b[0]}
            return ({x: total for x in every if (total := a[0].get(x, NOTHING) + b[0].get(x, NOTHING)) != NOTHING},
                    a[1] + b[1])
        case _:
            return None


def _scaled(form: Form, factor: Extent) -> Form:
    return {x: c * factor for x, c in form[0].items()}, form[1] * factor


def short(condition: Condition) -> Condition:
    """A comparison of two positions with all numbers on its right; any other condition as it is."""
    if not isinstance(condition, Compare):
        return condition
    form = linear(Apply("-", (condition.left, condition.right)))
    if form is None or len(form[0]) != 2 or set(form[0].values()) != {number(1), number(-1)}:
        return condition
    (a, b) = sorted(form[0], key=lambda x: form[0][x] != number(1))
    right: Term = Place(b)
    sign = condition.sign
    if form[1] == NEXT.get(sign, ("", NOTHING))[1] and sign in NEXT:
        return Compare(NEXT[sign][0], Place(a), right)
    shift = form[1].constant
    if shift is None or shift.denominator != Fraction(1):
        right = Apply("-", (right, SizeOf(form[1])))
    elif shift:
        right = Apply("-" if shift > 0 else "+", (right, Constant(abs(int(shift)))))
    return Compare(condition.sign, Place(a), right)


def opposite(condition: Condition) -> Condition:
    """What holds where the condition does not, in its shortest form."""
    turned = negated(condition)
    return Joined(turned.word, tuple(map(short, turned.parts))) if isinstance(turned, Joined) else short(turned)
