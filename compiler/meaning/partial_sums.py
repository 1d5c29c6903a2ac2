"""Sums over intervals of positions as sums up to a position, for proofs: two spellings of one sum then are one term.

Σ_{u ∈ [s, t]} g_u is Σ_{u ≤ t} g_u - Σ_{u ≤ s} g_u + g_s wherever s ≤ t.
"""

from __future__ import annotations

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
    return transform(in_differences(term, given, None), _shifted)


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
