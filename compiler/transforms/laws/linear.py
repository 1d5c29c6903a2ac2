"""Folds inside folds, and what leaves a linear fold."""

from __future__ import annotations

from einc.ir.folds import FOLDS
from einc.ir.indices import Index, distinct
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    conjuncts,
    const,
    free_indices,
    substitute,
    walk,
)
from einc.transforms.laws.rule import I, J, K, Rule, i, j, k, le, mul, r, u, v, w


def _merge(term: Term) -> Term | None:
    """Σ_i Σ_j x = Σ_{i j} x; where j means something outside already, the inner one gets a name of its own."""
    match term:
        case Fold(op, bound, domain, Fold(inner, more, narrower, body)) if op == inner:
            letters = distinct(more, [i.name for i in {*bound} | free_indices(term)])
            by = dict(zip(more, map(Position, letters), strict=True))
            return Fold(op, bound + letters, both(domain, substitute(narrower, by)), substitute(body, by))
    return None


def _guard(term: Term) -> Term | None:
    """Σ_{i : p, q_i} x = 𝟙[p] Σ_{i : q_i} x, where p does not speak of i: what p keeps in range stays guarded by it."""
    match term:
        case Fold("sum", bound, domain, body) if bound:
            outer = tuple(c for c in conjuncts(domain) if c != TRUE and not free_indices(c) & set(bound))
            if outer:
                inner = tuple(c for c in conjuncts(domain) if c not in outer)
                return Where(both(*outer), Fold("sum", bound, both(*inner), body))
    return None


def may_leave(term: Term, bound: tuple[Index, ...], domain: Term) -> bool:
    """Whether a factor may leave the sum. Over a part of a set a sum may be empty, so that 0, and data, or what is
    divided by a count of nothing, may then be infinite.
    """
    data = any(isinstance(x, Read | Fold) for x in walk(term))
    return not free_indices(term) & set(bound) and (domain == TRUE or not data)


def _factor_out(term: Term) -> Term | None:
    """Σ_i c x = c Σ_i x, and (Σ_i x / c) = (Σ_i x) / c."""
    if (isinstance(term, Fold)
        and any(c != TRUE and not free_indices(c) & set(term.bound) for c in conjuncts(term.domain))):
        return None
    match term:
        case Fold(op, bound, domain, body) if (
            FOLDS[op].linear and bound and body != ONE and domain != TRUE and may_leave(body, bound, domain)
        ):
            return mul(body, Fold(op, bound, domain, ONE))
        case Fold(op, bound, domain, Apply("mul", args)) if FOLDS[op].linear:
            outer = tuple(y for y in args if may_leave(y, bound, domain))
            inner = tuple(y for y in args if not may_leave(y, bound, domain))
            if outer and inner:
                return mul(*outer, Fold(op, bound, domain, inner[0] if len(inner) == 1 else mul(*inner)))
        case Fold(op, bound, domain, Apply("div", (above, below))) if (
            FOLDS[op].linear and not free_indices(below) & set(bound)
        ):
            return Apply("div", (Fold(op, bound, domain, above), below))
        case Fold(op, bound, domain, Apply("neg", (inner_term,))) if FOLDS[op].linear:
            return Apply("neg", (Fold(op, bound, domain, inner_term),))
    return None


def _count(term: Term) -> Term | None:
    """Σ_i c = n c, over the whole of a set."""
    match term:
        case Fold("sum", bound, domain, body) if bound and domain == TRUE and not free_indices(body) & set(bound):
            return mul(*(Size(b.set.extent) for b in bound), body)
    return None


RULES = (
    Rule("count", "Σ_i c = n c", "reals", _count, (Fold("sum", (I, J), TRUE, Read("a", ())),)),
    Rule(
        "merge",
        "Σ_i Σ_j x = Σ_{i j} x, and for any fold",
        "reals",
        _merge,
        (Fold("sum", (I,), TRUE, Fold("sum", (J,), le(j, i), w)),
         Fold("max", (J,), TRUE, Fold("max", (K,), le(k, i), r)),
         Fold("sum", (I,), le(i, j), Fold("sum", (J,), le(j, i), w))),
    ),
    Rule(
        "guard",
        "Σ_{i : p, q_i} x = 𝟙[p] Σ_{i : q_i} x",
        "floats",
        _guard,
        (Fold("sum", (I,), both(le(j, k), le(i, j)), mul(u, w)),),
    ),
    Rule(
        "factor out",
        "Σ_i c x_i = c Σ_i x_i",
        "reals",
        _factor_out,
        (
            Fold("sum", (I,), le(i, j), mul(u, const(3), w)),
            Fold("sum", (I,), TRUE, mul(u, v, w)),
            Fold("sum", (I,), le(i, j), const(3)),
            Fold("sum", (I,), TRUE, Apply("div", (u, v))),
            Fold("sum", (I,), TRUE, Apply("neg", (w,))),
        ),
    ),
)
