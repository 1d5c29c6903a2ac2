"""Sums and products as terms: their parts, and terms made of parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from einc.ir.terms import ONE, ZERO, Apply, Const, Term, const, reads, walk


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


def inverse(term: Term) -> Term:
    """The reciprocal of a factor, 1 / x."""
    return Apply("div", (ONE, term))


def inverse_of(factor: Term) -> Term | None:
    """The x of a factor that is written as 1/x; None for any other factor."""
    match factor:
        case Apply("div", (above, below)) if above == ONE:
            return below
    return None


def parted(term: Term, parts: Callable[[Term], bool] = lambda quotient: True) -> tuple[Term, ...]:
    """The factors of a product or of a quotient; of what stands below a stroke the reciprocals. `parts` says which
    quotients are taken apart, and the others are one factor.

    0 / 0 is 0, and 0 · (1 / 0) is no number: what is made of these factors is `joined`, unless no divisor is 0.
    """
    match term:
        case Apply("mul", args):
            return tuple(f for x in args for f in parted(x, parts))
        case Apply("neg", (x,)):
            return (const(-1), *parted(x, parts))
        case Apply("div", (above, below)) if parts(term):
            return (*parted(above, parts), *map(inverse, factors(below)))
    return (term,)


def joined(parts: Iterable[Term]) -> Term:
    """The product of factors, some of them reciprocals: divisors that are made of data stand below one stroke, and all
    else above it but exponentials, which are factors of their own wherever they are sought."""
    parts = tuple(parts)
    below = {f: y for f in parts if (y := inverse_of(f)) is not None and any(reads(y))}
    if not below:
        return product(parts)
    powers = [f for f in parts if isinstance(f, Apply) and f.op == "exp"]
    above = product(f for f in parts if f not in below and f not in powers)
    return product((*powers, Apply("div", (above, product(below[f] for f in parts if f in below)))))


def reached(maximum: Term) -> Term:
    """Whether a maximum is over any point, as a condition. The maximum of no points is −∞; one that is NaN is of
    points, so it must differ from −∞ and need not be above it.
    """
    return Apply("ne", (Const(-math.inf), maximum))


def asks_reached(term: Term) -> bool:
    """Whether a part of a term asks that of a maximum, and so may be made of exponentials that are all 0."""
    return any(isinstance(x, Apply) and x.op == "ne" and x.args[0] == Const(-math.inf) for x in walk(term))
