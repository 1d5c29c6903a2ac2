"""Whether two terms are one expression: equal normal forms, once gates that change nothing are gone.

Such a gate is `1[-∞ < max_{s ∈ D} x_s]` beside `Σ_{s ∈ D} e^{x_s} …`, which is 0 where the gate is, or beside `e^{x_u}`
with a u in D. So sums that ranks make relative to maxima of their own are those that one rank makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations

from einc.ir.domains import proves
from einc.ir.indices import Index
from einc.ir.terms import Apply, Const, Fold, Position, Term, both, conjuncts, substitute
from einc.meaning.conditions import oriented
from einc.meaning.polynomial_form import folded, form, opened, remade, renamed
from einc.meaning.polynomials import (
    MINUS,
    UNIT,
    Atom,
    Form,
    Monomial,
    Unformed,
    added,
    atom,
    raised,
    times,
    without_quotients,
)


def equal(a: Term, b: Term) -> bool:
    """Whether the difference is 0 wherever both are finite, quotients multiplied out."""
    try:
        one, other = form(a), form(b)
        return one == other or not without_idle(without_quotients(added(one, times(MINUS, other))))
    except Unformed:
        return False


def without_idle(found: Form) -> Form:
    """The form without gates beside a factor that is 0 where the gate is, in sums of it too: the same wherever both are
    finite. Raises Unformed.
    """
    return added(*(times(((UNIT, c),), _freed(m)) for m, c in found))


def _freed(found: Monomial) -> Form:
    """One product without its idle gates."""
    sums = [x for x, n in found.powers if x.op == "fold sum" and n > 0]
    out: Form = ((Monomial(found.exponent, ()), Fraction(1)),)
    for x, n in found.powers:
        maximum = _maximum(x)
        if maximum is None or not (_is_one_of(found, maximum) or any(_vanishes(y, maximum) for y in sums)):
            out = times(out, raised(_inside(x), n))
    return out


def _inside(found: Atom) -> Form:
    """The factor without idle gates in sums and in arguments of functions."""
    if found.op == "fold sum":
        _, inner, terms, bound = opened(found)
        return folded("sum", bound, both(*terms), without_idle(inner))
    return remade(found, tuple(map(without_idle, found.forms))) if found.forms and not found.bound else atom(found)


def _maximum(found: Atom) -> Fold | None:
    """The maximum that a gate asks to be above −∞; None for any other atom."""
    match found:
        case Atom("if", _, (Apply("lt", (Const(value), Fold("max") as fold)),)) if value == -math.inf:
            return fold
    return None


def _is_one_of(found: Monomial, maximum: Fold) -> bool:
    """Whether a product has a factor e^x, where x is one of the values of the maximum by what the product says."""
    return _exponential_of(maximum, ((found, Fraction(1)),), tuple(sorted(found.free, key=lambda i: i.name)))


def _vanishes(total: Atom, maximum: Fold) -> bool:
    """Whether each addend of a sum has a factor e^x, where x is one of the values of the maximum."""
    _, inner, _, bound = opened(total)
    return _exponential_of(maximum, inner, bound)


def _exponential_of(maximum: Fold, inner: Form, bound: tuple[Index, ...]) -> bool:
    """Whether each product of a form has a factor e^x, where x is the value of the maximum at some of the letters.

    A part of x that stands outside of the maximum may be −∞ by itself, and then the product need not be 0.
    """
    values = form(maximum.body)
    if any(m != UNIT and not m.free & {*maximum.bound} for m, _ in values):
        return False
    moving = tuple(x for x in values if x[0] != UNIT)
    for by in _matched(maximum.bound, bound):
        domain = substitute(maximum.domain, {i: Position(new) for i, new in by.items()})
        if all({*renamed(moving, by)} <= {*m.exponent} and _within(m, domain) for m, _ in inner):
            return bool(moving)
    return False


def _within(found: Monomial, domain: Term) -> bool:
    """Whether the conditions of a product say that its point is in the domain."""
    given = both(*(x.terms[0] for x, _ in found.powers if x.op == "if"))
    return all(proves(given, oriented(c)) for c in conjuncts(domain))


def _matched(few: tuple[Index, ...], many: tuple[Index, ...]) -> Iterator[dict[Index, Index]]:
    """Each way to give indices of a sum to those of a maximum over the same sets."""
    for chosen in permutations(many, len(few)):
        if all(i.set == new.set for i, new in zip(few, chosen, strict=True)):
            yield dict(zip(few, chosen, strict=True))
