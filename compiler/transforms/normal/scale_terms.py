"""Terms of values v · e^m: scales relative to one another, sums of values with scales, and what stands in a fold."""

from __future__ import annotations

import math
from itertools import combinations

from einc.ir.domains import negation
from einc.ir.indices import distinct
from einc.ir.programs import Equation
from einc.ir.sums import addends, factors, signed
from einc.ir.sums import product as short
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Term,
    Where,
    both,
    canonical,
    free_indices,
    substitute,
)
from einc.transforms.laws.simplify import simplify


def at(equation: Equation, read: Read) -> Term:
    """The domain of an equation where it is read."""
    return Equation(equation.target, equation.axes, TRUE, equation.domain).at(read.subs)


def only(power: Term, condition: Term) -> Term:
    """A scale that is −∞ where a value does not exist."""
    return power if power == ZERO else where(power, condition)


def where(power: Term, condition: Term) -> Term:
    """An exponent that is −∞ where a condition does not hold."""
    gone = Where(negation(condition), Const(-math.inf))
    return gone if power == ZERO else Apply("add", (Where(condition, power), gone))


def merged(fold: Fold) -> Fold:
    """Σ_s Σ_u x as Σ_{s u} x, and gates in the domain; an inner letter that the outer sum has too gets a name of its
    own."""
    match simplify(Fold("sum", fold.bound, fold.domain, ONE)), fold.body:
        case _, Fold("sum", bound, domain, body):
            letters = distinct(bound, [i.name for i in {*fold.bound} | free_indices(fold)])
            by = dict(zip(bound, map(Position, letters), strict=True))
            inner = both(fold.domain, substitute(domain, by))
            return merged(Fold("sum", (*fold.bound, *letters), inner, substitute(body, by)))
        case _, Where(condition, then):
            return merged(Fold("sum", fold.bound, both(fold.domain, condition), then))
    return fold


def minus(power: Term, reference: Term) -> Term:
    """A scale relative to another. Relative to the larger of m and n, m is min(0, m − n), also where it is infinite."""
    match reference:
        case Apply("max", (m, n)) if power in (m, n) and power != ZERO:
            return Apply("min", (ZERO, minus(power, n if power == m else m)))
    return cancelled(signed([*((1, p) for p in (power,) if p != ZERO), *((-1, p) for p in (reference,) if p != ZERO)]))


def total(parts: list[tuple[int, Term, Term, Term]]) -> Term:
    """Σ ± v e^p, of each part where it counts: a sign, a condition, v and p. Where numbers v add to nothing, e^p − 1 is
    in place of e^p, so that their digits do not cancel."""
    numbers = [sign * float(v.value) for sign, _, v, _ in parts if isinstance(v, Const)]
    op = "expm1" if len(numbers) == len(parts) and not sum(numbers) else "exp"
    made = [(sign, short((*factors(v), Apply(op, (p,)))) if p != ZERO else v, c) for sign, c, v, p in parts
            if p != ZERO or op == "exp"]
    return signed([(sign, part if c == TRUE else Where(c, part)) for sign, part, c in made])


def is_part(power: Term) -> bool:
    """Whether a power is less than 1: a greater one is too large, or too small, where its base is."""
    return isinstance(power, Const) and abs(float(power.value)) < 1


def divided(above: Term, below: Term) -> Term:
    """The quotient of two terms, which is the one above where 1 stands below."""
    return above if below == ONE else Apply("div", (above, below))


def cancelled(power: Term) -> Term:
    """A sum without what it adds and subtracts, whatever the letters that folds bind."""
    parts = addends(power)
    for (n, (sign, part)), (m, (other, second)) in combinations(enumerate(parts), 2):
        if other == -sign and canonical(second) == canonical(part):
            return cancelled(signed([p for k, p in enumerate(parts) if k not in (n, m)]))
    return signed(parts) if len(parts) > 1 else power
