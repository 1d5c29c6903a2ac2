"""Sums of what is left of values once their mean is taken away: they are 0, and so no part of a gradient."""

from __future__ import annotations

from collections.abc import Mapping

from einc.ir.indices import Index
from einc.ir.programs import Equation
from einc.ir.sums import factors
from einc.ir.terms import TRUE, ZERO, Apply, Fold, Position, Read, Size, Term, free_indices, substitute, transform


def centred(term: Term, by: Mapping[str, Equation]) -> Term:
    """The term without sums of deviations from a mean, whatever scales them."""
    return transform(term, lambda t: ZERO if isinstance(t, Fold) and _of_deviations(t, by) else t)


def _of_deviations(fold: Fold, by: Mapping[str, Equation]) -> bool:
    if fold.op != "sum" or len(fold.bound) != 1 or fold.domain != TRUE:
        return False
    (index,) = fold.bound
    moving = [f for f in factors(_bare(fold.body)) if index in free_indices(f)]
    match moving:
        case [Apply("sub", (Read() as value, Read() as mean))] if index not in free_indices(mean):
            return _is_mean(mean, value, index, by)
    return False


def _bare(body: Term) -> Term:
    return _bare(body.args[0]) if isinstance(body, Apply) and body.op == "neg" else body


def _is_mean(mean: Read, value: Read, index: Index, by: Mapping[str, Equation]) -> bool:
    """Whether one read is the sum of the other along an index over how many there are."""
    body = _at(mean, by)
    match body:
        case Apply("div", (Read() as total, Size(extent))) if extent == index.set.extent:
            summed = _at(total, by)
            match summed:
                case Fold("sum", (other,), domain, inner) if domain == TRUE and other.set == index.set:
                    return substitute(inner, {other: Position(index)}) == value
        case Apply("div", (Fold("sum", (other,), domain, inner), Size(extent))):
            return (extent == index.set.extent and domain == TRUE
                    and substitute(inner, {other: Position(index)}) == value)
    return False


def _at(read: Read, by: Mapping[str, Equation]) -> Term | None:
    """What a read value is made of, at the places where it is read."""
    made = by.get(read.tensor)
    if made is None or made.domain != TRUE or not all(isinstance(a, Position) for a in made.axes):
        return None
    return made.at(read.subs)
