"""Sums and products as terms: their parts, and terms made of parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from einc.ir.terms import ONE, ZERO, Apply, Const, Term, const


def factors(term: Term) -> tuple[Term, ...]:
    """The factors of a product; of any other term the term itself."""
    return term.args if isinstance(term, Apply) and term.op == "mul" else (term,)


def product(parts: Iterable[Term]) -> Term:
    """The product of factors, as short as it is written by hand."""
    kept = tuple(p for p in parts if p != ONE)
    return ONE if not kept else kept[0] if len(kept) == 1 else Apply("mul", kept)


def added(parts: Sequence[Term]) -> Term:
    """The sum of terms, of one the term itself, of none 0."""
    return ZERO if not parts else parts[0] if len(parts) == 1 else Apply("add", tuple(parts))


def addends(term: Term, sign: int = 1) -> list[tuple[int, Term]]:
    """The terms of a sum, each with its sign, however sums, differences and negations are nested."""
    match term:
        case Apply("add", args):
            return [found for x in args for found in addends(x, sign)]
        case Apply("sub", (x, y)):
            return addends(x, sign) + addends(y, -sign)
        case Apply("neg", (x,)):
            return addends(x, -sign)
    return [(sign, term)]


def signed(parts: Iterable[tuple[int, Term]]) -> Term:
    """The sum of signed terms, those that are added before those that are taken away."""
    total: Term | None = None
    for sign, part in sorted(parts, key=lambda p: -p[0]):
        if total is None:
            total = part if sign > 0 else Apply("neg", (part,))
        else:
            total = Apply("add" if sign > 0 else "sub", (total, part))
    return ZERO if total is None else total


def fraction(term: Term) -> tuple[list[Term], list[Term]]:
    """The factors above and below the stroke."""
    match term:
        case Apply("mul", args):
            found = [fraction(x) for x in args]
            return [f for above, _ in found for f in above], [f for _, below in found for f in below]
        case Apply("div", (x, y)):
            (a, b), (c, d) = fraction(x), fraction(y)
            return [*a, *d], [*b, *c]
        case Apply("neg", (x,)):
            above, below = fraction(x)
            return [const(-1), *above], below
    return ([term] if term != ONE else []), []


def reached(maximum: Term) -> Term:
    """Whether a maximum is over any point, as a condition. The maximum of no points is −∞; one that is NaN is of
    points, so it must differ from −∞ and need not be above it.
    """
    return Apply("ne", (Const(-math.inf), maximum))
