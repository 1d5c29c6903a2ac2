"""Domains without a point: conditions that exclude each other for all sizes.

Sound and not complete: what is told is empty, and what is empty for some sizes alone is not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from einc.checking.expressions.rules import show_domain
from einc.errors.problems import EmptyDomain
from einc.errors.report import Help, Label, Report, Span
from einc.ir.domains import empty
from einc.ir.programs import Equation
from einc.ir.terms import TRUE, Fold, Term, both, children, conjuncts, free_indices, reads


def emptiness(equations: tuple[Equation, ...], sizes: Mapping[str, int], places: Mapping[Term, Span],
              spans: Mapping[str, Span],
              masks: Mapping[str, Span], report: Report) -> None:
    """Tells every fold and every definition that no point is left for."""
    known: dict[Term, bool] = {}

    def nowhere(domain: Term) -> bool:
        if domain not in known:
            known[domain] = domain != TRUE and empty(domain, sizes)
        return known[domain]

    for equation in equations:
        if nowhere(equation.domain):
            where = masks.get(equation.target) or spans.get(equation.target)
            report.add(EmptyDomain(f"`{equation.target}` exists nowhere", where, notes=(_never(equation.domain),),
                                   helps=_WAYS))
            continue
        for fold, given in _folds(equation.body, equation.domain):
            if nowhere(domain := both(given, fold.domain)):
                where = places.get(fold) or spans.get(equation.target)
                said = where.text if where is not None and "\n" not in where.text else equation.target
                masked = [masks[r.tensor] for r in reads(fold.body) if r.tensor in masks]
                report.add(EmptyDomain(f"`{said}` runs over no point", where, "",
                                       *(Label(span, "declared here") for span in dict.fromkeys(masked)),
                                       notes=(_never(_about(fold, domain)),), helps=_WAYS))
                break


_WAYS = (Help("leave one of the conditions out, or turn it round"),)


def _never(domain: Term) -> str:
    return f"no point has {show_domain(domain)}"


def _about(fold: Fold, domain: Term) -> Term:
    """What a domain says of what the fold runs over; all of it where that is nothing."""
    said = both(*(c for c in conjuncts(domain) if free_indices(c) & set(fold.bound)))
    return domain if said == TRUE else said


def _folds(term: Term, given: Term) -> Iterator[tuple[Fold, Term]]:
    """Every fold, with what holds around it."""
    if isinstance(term, Fold):
        yield term, given
        given = both(given, term.domain)
    for kid in children(term):
        yield from _folds(kid, given)
