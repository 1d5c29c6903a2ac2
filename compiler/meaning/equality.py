"""Whether two terms are one expression: equal normal forms, once gates that change nothing are gone.

Such a gate is `1[-∞ < max_{s ∈ D} x_s]` beside `Σ_{s ∈ D} e^{x_s} …`: the sum is 0 where the gate is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

from einc.ir.domains import proves
from einc.ir.indices import Index
from einc.ir.terms import Apply, Const, Fold, Position, Term, both, conjuncts, substitute
from einc.meaning.conditions import oriented
from einc.meaning.polynomial_form import form, opened, renamed
from einc.meaning.polynomials import (
    MINUS,
    UNIT,
    Atom,
    Form,
    Monomial,
    Unformed,
    added,
    collected,
    times,
    without_quotients,
)


def equal(a: Term, b: Term) -> bool:
    """Whether the difference is 0 wherever both are finite, quotients multiplied out."""
    try:
        one, other = form(a), form(b)
        return one == other or not _without_idle(without_quotients(added(one, times(MINUS, other))))
    except Unformed:
        return False


def _without_idle(found: Form) -> Form:
    """The form without gates beside a factor that is 0 where the gate is: the same wherever both are finite."""
    return collected((_freed(m), c) for m, c in found)


def _freed(found: Monomial) -> Monomial:
    """One product without its idle gates."""
    sums = [x for x, n in found.powers if x.op == "fold sum" and n > 0]
    kept = tuple((x, n) for x, n in found.powers
                 if (maximum := _maximum(x)) is None or not any(_vanishes(y, maximum) for y in sums))
    return Monomial(found.exponent, kept)


def _maximum(found: Atom) -> Fold | None:
    """The maximum that a gate asks to be above −∞; None for any other atom."""
    match found:
        case Atom("if", _, (Apply("lt", (Const(value), Fold("max") as fold)),)) if value == -math.inf:
            return fold
    return None


def _vanishes(total: Atom, maximum: Fold) -> bool:
    """Whether each addend of a sum has a factor e^x, where x is one of the values of the maximum.

    A part of x that stands outside of the maximum may be −∞ by itself, and then the sum need not be 0.
    """
    _, inner, _, bound = opened(total)
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
