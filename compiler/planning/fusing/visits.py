"""Which elements of an axis the tiles of a kernel visit: those that anything it makes there asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from einc.ir.indices import Index
from einc.ir.plan import Bound
from einc.ir.programs import Equation
from einc.ir.sums import factors
from einc.ir.terms import Fold, Read, Term, both, conjuncts
from einc.planning.analysis.ends import Tile
from einc.planning.analysis.ranges import reach


def bound(equations: Iterable[Equation], tile: Tile, single: bool) -> Bound | None:
    """Where what is made at an axis has points; only where every virtual read of it is inside them."""
    domains = _domains(equations, tile.axis, tile.grid)
    return reach(domains, tile, single) if domains else None


def agreed(equations: Iterable[Equation], index: Index, grid: Index) -> Term:
    """What the domains of all that is made at an index agree on."""
    first, *others = _domains(equations, index, grid)
    return both(*(c for c in conjuncts(first) if all(c in conjuncts(d) for d in others)))


def _domains(equations: Iterable[Equation], index: Index, grid: Index | None) -> list[Term]:
    """The domains of the folds over an index, and of those over the tiles' axis whose result has the index: a tile adds
    to each of its elements."""
    by = {e.target: e for e in equations}
    folds = [(e, e.body) for e in by.values() if isinstance(e.body, Fold)]
    return [fold.domain if index in fold.bound else both(fold.domain, *_rows(fold, by)) for e, fold in folds
            if index in fold.bound or (grid in fold.bound and index in e.indices)]


def _rows(fold: Fold, by: Mapping[str, Equation]) -> Iterator[Term]:
    """Where the rows that a fold is made of have points: over none a row adds nothing to it."""
    for part in factors(fold.body) if fold.op == "sum" else (fold.body,):
        row = by.get(part.tensor) if isinstance(part, Read) else None
        if (row is not None and part == Read(row.target, row.axes) and isinstance(row.body, Fold)
            and row.body.op == fold.op):
            yield row.body.domain
