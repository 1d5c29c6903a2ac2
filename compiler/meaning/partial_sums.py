"""Sums over intervals of positions as sums up to a position, for proofs: two spellings of one sum then are one term.

Σ_{u ∈ [s, t]} g_u is Σ_{u ≤ t} g_u - Σ_{u ≤ s} g_u + g_s wherever s ≤ t.
"""

from __future__ import annotations

from einc.ir.domains import empty, negation
from einc.ir.indices import INDEX_CLASSES, Index
from einc.ir.terms import (
    ONE,
    TRUE,
    Apply,
    Fold,
    Position,
    Term,
    Where,
    both,
    conjuncts,
    substitute,
    transform,
)
from einc.transforms.normal.intervals import in_differences


def up_to_positions(term: Term, given: Term) -> Term:
    """The term, which is read where `given` holds, with sums over intervals as sums up to positions."""
    return transform(in_differences(transform(term, _unguarded), given, None), _shifted)


def _unguarded(term: Term) -> Term:
    """A gate on what is 0 without it is none: 1[t > 1] Σ_{u ≤ t - 1} g_u is the sum, which has no term elsewhere."""
    match term:
        case Where(condition, then) if _nothing(then, negation(condition)):
            return then
    return term


def _nothing(term: Term, given: Term) -> bool:
    """Whether a term is 0 where `given` holds: a sum over no point, or a product with one."""
    match term:
        case Fold("sum", _, domain, _):
            return empty(both(given, domain))
        case Apply("mul", args):
            return any(_nothing(x, given) for x in args)
        case Where(_, then):
            return _nothing(then, given)
    return False


def _shifted(term: Term) -> Term:
    """Σ_{u < t} g_u = Σ_{u ≤ t} g_u - g_t, and the same for u ≤ t - 1, where t is a position."""
    match term:
        case Fold("sum", (index,), domain, body) if INDEX_CLASSES[index.set.cls].before == "le":
            atoms = conjuncts(domain)
            ends = [(n, end) for n, atom in enumerate(atoms) if (end := _before(atom, index)) is not None]
            if len(ends) == 1:
                n, end = ends[0]
                rest = tuple(a for k, a in enumerate(atoms) if k != n and a != TRUE)
                whole = Fold("sum", (index,), both(*rest, Apply("le", (Position(index), end))), body)
                here = {index: end}
                last = substitute(body, here)
                there = both(*(substitute(a, here) for a in rest))
                return Apply("sub", (whole, last if there == TRUE else Where(there, last)))
    return term


def _before(atom: Term, index: Index) -> Term | None:
    """The position that an index of the same set stands before by a condition."""
    match atom:
        case Apply("lt", (Position(i), Position(end) as last)) if i == index and end.set == index.set:
            return last
        case Apply("le", (Position(i), Apply("sub", (Position(end) as last, one)))) if (
                i == index and one == ONE and end.set == index.set):
            return last
    return None
