"""Folds over one of several intervals -> folds over each: those whose ends stand in either order, and alternatives.

An interval that begins at min(s, t) begins at s where s ≤ t, and at t elsewhere: one of two folds, whatever is folded.
Sums and products over alternatives that exclude each other, `s < u ≤ t or t < u ≤ s`, are those over each, taken
together. It is done where intervals are left whose ends have letters of their own, since `intervals.py` has a law for
those, or that have one letter, `(t - W, t]`, and so no more values than there are positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import TypeVar

from einc.ir.domains import empty, negation, proves
from einc.ir.folds import FOLDS
from einc.ir.programs import Equation, Program
from einc.ir.terms import (
    Apply,
    Fold,
    Term,
    Where,
    both,
    changed_under,
    children,
    conjuncts,
    free_indices,
    rebuild,
    walk,
)
from einc.transforms.normal.intervals import between

P = TypeVar("P", bound=Program)


def with_alternatives(program: P) -> P:
    """The program with a fold for each interval that one stands for."""
    if not any(isinstance(part, Apply) and part.op in ("or", "min", "max")
               for term in program.terms if isinstance(term, Fold) for part in walk(term.domain)):
        return program
    return program.but(equations=tuple(
        e if (body := _changed(e.body, e.domain)) is e.body else Equation(e.target, e.axes, e.domain, body, e.source)
        for e in program.equations))


def _changed(term: Term, given: Term) -> Term:
    """The term with its folds changed where `given` holds, innermost first."""
    term = changed_under(term, given, _changed)
    found = _apart(term, given) if isinstance(term, Fold) and not FOLDS[term.op].ordered else None
    return term if found is None else found


def _apart(fold: Fold, given: Term) -> Term | None:
    """The folds over intervals that one stands for; None where it does not stand for such alone."""
    if between(fold, given) or len(free_indices(fold.domain) - {*fold.bound}) == 1:
        return fold
    if (ends := _ends(fold)) is not None:
        return _in_order(fold, given, ends)
    either = next((a for a in conjuncts(fold.domain) if isinstance(a, Apply) and a.op == "or"), None)
    if either is None or fold.op not in ("sum", "prod"):
        return None
    rest = both(*(a for a in conjuncts(fold.domain) if a is not either))
    folds = [replace(fold, domain=both(rest, way)) for way in either.args]
    if not all(empty(both(given, one.domain, other.domain)) for one, other in combinations(folds, 2)):
        return None
    parts = [part for one in folds if (part := _apart(one, given)) is not None]
    return FOLDS[fold.op].merged(*parts) if len(parts) == len(folds) else None


def _ends(fold: Fold) -> tuple[Term, Term] | None:
    """Two values outside of which a bound of the fold takes the smaller or the larger one."""
    for atom in conjuncts(fold.domain):
        for part in walk(atom):
            match part:
                case Apply("min" | "max", (one, other)) if not free_indices(part) & {*fold.bound}:
                    return one, other
    return None


def _in_order(fold: Fold, given: Term, ends: tuple[Term, Term]) -> Term | None:
    """The fold where the first of two values is no larger, and where it is; of these alone which may be."""
    parts = list[Term]()
    order = Apply("le", ends)
    for holds, (least, most) in ((order, ends), (negation(order), ends[::-1])):
        if proves(given, negation(holds)):
            continue
        values: dict[Term, Term] = {Apply(op, pair): value for op, value in (("min", least), ("max", most))
                  for pair in (ends, ends[::-1])}
        part = _apart(replace(fold, domain=_replaced(fold.domain, values)), both(given, holds))
        if part is None:
            return None
        parts.append(part if proves(given, holds) else Where(holds, part))
    return parts[0] if len(parts) == 1 else Apply("add", tuple(parts))


def _replaced(term: Term, values: Mapping[Term, Term]) -> Term:
    """The term with other terms in place of some."""
    if term in values:
        return values[term]
    return rebuild(term, tuple(_replaced(kid, values) for kid in children(term)))
