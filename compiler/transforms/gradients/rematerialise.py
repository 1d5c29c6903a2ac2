"""Which values of one place the forward program keeps for its gradient, though they could be made again.

What a product of matrices reads is stored in any case: it is kept, if it is no view. A sum of which only one value is
made, as large as the sum itself, is kept as that value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from einc.ir.indices import DATA, SEQUENCE
from einc.ir.programs import Equation
from einc.ir.terms import Fold, Join, Pack, Position, Read, Term, free_indices, reads


def multiplied(equations: Iterable[Equation]) -> frozenset[str]:
    """What is summed over in products with something that has an index of the result which it lacks itself."""
    by = {e.target: e for e in equations}
    found: set[str] = set()
    for equation in by.values():
        body = equation.body
        if isinstance(body, Fold) and body.op == "sum":
            letters = {r: free_indices(r) & set(equation.indices) for r in reads(body.body)}
            found |= {r.tensor for r, mine in letters.items() if free_indices(r) & set(body.bound)
                      and any(other - mine and mine - other for other in letters.values())}
    return frozenset(key for key in found & by.keys() if _of_data(by[key]) and not _is_view(by[key].body))


def stands_for(equation: Equation, key: str, by: Mapping[str, Equation]) -> bool:
    """Whether a value is made of another point by point, so that it can be kept in its place."""
    made = by.get(key)
    read = [r for r in reads(equation.body) if r.tensor == key]
    if made is None or not read or isinstance(equation.body, Fold | Join) or not _of_data(equation):
        return False
    return all(set(r.subs) == set(equation.axes) and len(r.subs) == len(equation.axes) for r in read)


def readers(equations: Iterable[Equation]) -> dict[str, list[Equation]]:
    """For each value that is read, the equations that read it, each once and in their order."""
    out: dict[str, list[Equation]] = {}
    for equation in equations:
        for key in {r.tensor for term in (equation.domain, equation.body) for r in reads(term) if isinstance(r, Read)}:
            out.setdefault(key, []).append(equation)
    return out


def _is_view(body: Term) -> bool:
    """Whether a value is a part of another where it lies."""
    return isinstance(body, Read) and not any(True for s in body.subs for _ in reads(s))


def _of_data(equation: Equation) -> bool:
    """Whether a value is stored, and grows with the data."""
    classes = [i.set.cls for i in equation.indices]
    plain = all(isinstance(a, Position | Pack) for a in equation.axes)
    return plain and any(c in DATA for c in classes) and sum(c in SEQUENCE for c in classes) < 2
