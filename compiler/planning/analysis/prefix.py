"""Which folds run over everything up to a point: {s ≤ t + c}, or from a point on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from einc.ir.domains import facts
from einc.ir.indices import Extent, Index, number
from einc.ir.programs import Equation
from einc.ir.terms import Apply, Fold, Position, Read, Term, both, conjuncts, free_indices


@dataclass(frozen=True)
class Prefix:
    """`over` runs up to `along` + shift (`back`: from there on), where `rest` holds,
    which does not speak of `along`."""

    over: Index
    along: Index
    shift: Extent
    back: bool
    rest: Term


def prefix(fold: Fold, free: tuple[Index, ...]) -> Prefix | None:
    """A condition that ties a bound index to a free one, if no other speaks of that one; of several the first."""
    return next(_prefixes(fold, free), None)


def _prefixes(fold: Fold, free: tuple[Index, ...]) -> Iterator[Prefix]:
    """Every condition of this form, with all others as its `rest`."""
    atoms = conjuncts(fold.domain)
    for atom in atoms:
        found = _tied(atom, fold.bound, free)
        if found is not None:
            rest = [a for a in atoms if a is not atom]
            if not any(found.along in free_indices(r) for r in rest):
                yield Prefix(found.over, found.along, found.shift, found.back, both(*rest))


def _tied(atom: Term, bound: tuple[Index, ...], free: tuple[Index, ...]) -> Prefix | None:
    """The prefix that one condition states, if it ties one bound index to one free index with coefficients ±1 and ∓1.
    The condition itself stands in its `rest`, which the caller replaces."""
    forms = facts(atom)
    if len(forms) != 1 or len(forms[0].atoms) != 2:
        return None
    here = [a.index for a, _ in forms[0].atoms if isinstance(a, Position) and a.index in bound]
    there = [a.index for a, _ in forms[0].atoms if isinstance(a, Position) and a.index in free]
    if len(here) != 1 or len(there) != 1:
        return None
    steps = forms[0].coefficient(Position(here[0])), forms[0].coefficient(Position(there[0]))
    if steps not in ((number(-1), number(1)), (number(1), number(-1))) or not _whole(forms[0].constant):
        return None
    back = steps[0] == number(1)
    return Prefix(here[0], there[0], forms[0].constant * number(-1 if back else 1), back, atom)


def _whole(extent: Extent) -> bool:
    return all(c.denominator == 1 and all(p > 0 for _, p in m) for m, c in extent.terms)


def running(fold: Fold, free: tuple[Index, ...]) -> Prefix | None:
    """The prefix of a fold whose body does not know where it ends: one running value gives every result."""
    return next((p for p in _prefixes(fold, free) if p.along not in free_indices(fold.body)), None)


def running_sum(equation: Equation) -> bool:
    """A sum that runs on is read as a difference of its values: it keeps more digits than what it sums."""
    body = equation.body
    if not isinstance(body, Fold) or body.op != "sum":
        return False
    apart = both(*(c for c in conjuncts(body.domain) if not _of_one_request(c)))
    return running(replace(body, domain=apart), equation.indices) is not None


def _of_one_request(atom: Term) -> bool:
    """Whether a condition says that two positions are of one request: sums up to a position begin anew in each."""
    match atom:
        case Apply("eq", (Read(one, (Position(i),)), Read(other, (Position(j),)))):
            return one == other and i.set == j.set and i.set.packed is not None and i.set.packed.request == one
    return False


def alone(equations: tuple[Equation, ...]) -> dict[str, Prefix]:
    """An equation that stands alone and whose results are the values of one running fold."""
    (only, *others) = equations
    found = running(only.body, only.indices) if isinstance(only.body, Fold) and not others else None
    return {} if found is None else {only.target: found}
