"""Points that a fold surely has, and what it is where it has none: the one place that tells whether a fold may be one
over nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice, product

from einc.ir.domains import proves
from einc.ir.folds import FOLDS
from einc.ir.indices import Index
from einc.ir.terms import TRUE, Apply, Fold, Position, Size, Term, free_indices, substitute

_WITNESSES = 4  # points that are tried before a fold is taken to have none


def witnessed(domain: Term, bound: Iterable[Index], rows: Iterable[Index], given: Term = TRUE) -> bool:
    """Whether a fold surely has a point wherever `given` holds: one where each bound index stands where one of the
    `rows` of its set does, counted from the last where its set is the longer one. Sound, not complete.
    """
    options: list[list[tuple[Index, Term]]] = []
    rows = sorted(rows, key=lambda row: row.name)
    for index in bound:
        found = [(index, point) for row in rows if (point := _beside(index, row)) is not None]
        if not found and ((index.set.extent.constant or 0) < 1 or index in free_indices(domain)):
            return False
        options += [found] if found else []
    return any(proves(given, substitute(domain, dict(points))) for points in islice(product(*options), _WITNESSES))


def infinite_over_nothing(fold: Fold, rows: Iterable[Index], given: Term = TRUE) -> bool:
    """Whether a fold that is infinite over no points, as a maximum is, may be one where `given` holds."""
    return math.isinf(FOLDS[fold.op].start) and not witnessed(fold.domain, fold.bound, rows, given)


def _beside(bound: Index, row: Index) -> Term | None:
    """An element of the one's set as far from the last as the other is in its own."""
    if bound.set == row.set:
        return Position(row)
    more = bound.set.extent - row.set.extent
    alike = (bound.set.cls, bound.set.start, bound.set.by) == (row.set.cls, row.set.start, row.set.by)
    longer = alike and not bound.set.by and all(c > 0 and all(p > 0 for _, p in mono) for mono, c in more.terms)
    return Apply("add", (Position(row), Size(more))) if longer else None
