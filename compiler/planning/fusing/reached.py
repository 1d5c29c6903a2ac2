"""Subscripts that are computed of data: which are held against their range at the call."""

from __future__ import annotations

from collections.abc import Mapping

from einc.ir.domains import proves
from einc.ir.programs import Equation
from einc.ir.terms import Read, Term, both, conjuncts, free_indices, reads, walk
from einc.transforms.laws.simplify import picked


def of_data(sub: Term, inside: Term, given: Term, equations: Mapping[str, Equation]) -> bool:
    """Whether a subscript is computed of data, so that only a call can tell whether it stays `inside`. Ranks that name
    nothing are no place, and conditions say so."""
    if isinstance(sub, Read) and sub.tensor in equations and picked(equations[sub.tensor]):
        return False
    return any(isinstance(x, Read) for x in walk(sub)) and not proves(given, inside)


def speaks_of(given: Term, sub: Term) -> bool:
    """Whether a domain says something of the data of which a subscript is made."""
    return not {r.tensor for r in reads(given)}.isdisjoint(r.tensor for r in reads(sub))


def about(given: Term, sub: Term) -> Term:
    """What a domain says of the indices of a subscript alone."""
    return both(*(x for x in conjuncts(given) if free_indices(x) <= free_indices(sub)))
