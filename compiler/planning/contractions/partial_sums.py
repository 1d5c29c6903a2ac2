"""Sums over pairs of positions that end at a third one -> two sums, of which the first runs on with it.

Σ_{s < u, t ≥ u} x_{t s} k_s costs triples of positions. x knows u by the bound of t alone, so Σ_{t ≥ u} x_{t s} has a
running value for each s, and Σ_{s < u} k_s of it costs pairs. The slope of a sum over an interval is of this form: what
each interval gives is summed over all intervals around a position. Non-goals: sums of fewer than three positions, and
those that run on as they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from einc.ir.draft import Draft
from einc.ir.indices import SEQUENCE, Index
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import factors, product
from einc.ir.terms import Fold, Position, Read, Term, both, canonical, conjuncts, free_indices
from einc.planning.analysis.prefix import running
from einc.transforms.normal.delta_elimination import appearance


def with_partial_sums(program: NormalProgram) -> NormalProgram:
    """The program with such sums in two parts. Equal first parts are one."""
    draft, known = Draft(program.tensors), dict[tuple[Term, Term], str]()
    for equation in program.equations:
        found = () if program.tensors[equation.target].integer else _parts(equation)  # parts are real numbers
        part = min(found, key=lambda p: (len(_places(p.letters)), len(p.letters)), default=None)
        if part is None:
            draft.add(equation)
            continue
        meaning = canonical(part.first, part.letters), canonical(part.exists, part.letters)
        if meaning not in known:
            made = draft.value(f"{equation.target}_part", part.letters, part.first, part.exists)
            known[meaning] = made.tensor
        value = Read(known[meaning], tuple(map(Position, part.letters)))
        draft.add(replace(equation, body=replace(part.second, body=product((*factors(part.second.body), value)))))
    return draft.done(program)


@dataclass(frozen=True)
class _Part:
    """The first of two sums, with the letters of its values and where these exist, and the second without them."""

    first: Fold
    letters: tuple[Index, ...]
    exists: Term
    second: Fold


def _parts(equation: Equation) -> Iterator[_Part]:
    """The ways to take one position of a sum of three or more first, so that its sums run on."""
    fold = equation.body
    if (isinstance(fold, Fold) and fold.op == "sum" and len(_places((*equation.indices, *fold.bound))) > 2
            and running(fold, equation.indices) is None):
        for index in _places(fold.bound):
            found = _first(fold, index, equation.domain)
            if found is not None and running(found.first, found.letters) is not None:
                yield found


def _first(fold: Fold, index: Index, given: Term) -> _Part | None:
    """A sum with what holds one of its indices apart; None where everything does."""
    atoms, parts = conjuncts(fold.domain), factors(fold.body)
    inside = [f for f in parts if index in free_indices(f)]
    where = [c for c in atoms if index in free_indices(c)]
    others = [x for x in (*parts, *atoms) if x not in inside and x not in where]
    elsewhere = {i for x in others for i in free_indices(x)}
    own = tuple(b for b in fold.bound if b == index or (b not in elsewhere and b.set.cls not in SEQUENCE))
    left = tuple(b for b in fold.bound if b not in own)
    if not left or not inside:
        return None
    first = Fold("sum", own, both(*where), product(inside))
    letters = appearance(first, both())
    exists = both(*(c for c in (*conjuncts(given), *atoms) if c not in where and free_indices(c) <= {*letters}))
    rest, outside = product(f for f in parts if f not in inside), both(*(c for c in atoms if c not in where))
    return _Part(first, letters, exists, Fold("sum", left, outside, rest))


def _places(indices: Iterable[Index]) -> list[Index]:
    return [i for i in indices if i.set.cls in SEQUENCE]
