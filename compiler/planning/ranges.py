"""From a domain to the reach of an axis within a tile: closed forms in the tile's first and last positions.

Sound: no point of the domain lies outside the reach. Atoms that are not linear in the axis do not narrow it.
"""

from __future__ import annotations

from einc.domains import Linear, facts, proves
from einc.indices import Extent, Index
from einc.plan import Bound
from einc.terms import TRUE, Apply, Position, Size, Term, both, conjuncts, const, free_indices, substitute

FIRST, LAST = "first", "last"
STREAM_FIRST, STREAM_LAST = "stream_first", "stream_last"


def full(domain: Term, axis: Index, grid: Index) -> tuple[Term, ...] | None:
    """Terms in the ends of a tile that are all ≥ 0 only if every point of the tile is in the domain; None if unknown."""
    out: list[Term] = []
    for atom in conjuncts(domain):
        forms = facts(atom)
        if not forms:
            return None
        for form in forms:
            end = _least(form, axis, grid)
            if end is None:
                return None
            out.append(end)
    return tuple(out)


def _least(form: Linear, axis: Index, grid: Index) -> Term | None:
    """The smallest value of the form over a tile."""
    terms: list[Term] = []
    for atom, coefficient in form.atoms:
        c = coefficient.constant
        if c is None or c.denominator != 1 or atom not in (Position(axis), Position(grid)):
            return None
        names = (STREAM_FIRST, STREAM_LAST) if atom == Position(axis) else (FIRST, LAST)
        end = Position(Index(names[0] if c > 0 else names[1], (axis if atom == Position(axis) else grid).set))
        terms.append(end if c == 1 else Apply("mul", (const(c), end)))
    if form.constant.terms:
        terms.append(_size(form.constant))
    return const(0) if not terms else terms[0] if len(terms) == 1 else Apply("add", tuple(terms))


def reach(domains: list[Term], axis: Index, grid: Index) -> Bound | None:
    """Bounds that hold for every one of the domains, for a tile of the grid axis; None where nothing narrows it.

    The tile's ends stand in the terms as positions of indices called `first` and `last`.
    """
    common = [c for c in conjuncts(domains[0]) if all(c in conjuncts(d) for d in domains[1:])] if domains else []
    low: list[Term] = []
    high: list[Term] = []
    here = Position(axis)
    for fact in facts(both(*common)):
        c = fact.coefficient(here).constant
        others = fact.without(here)
        if c is None or abs(c) != 1 or any(atom != Position(grid) for atom, _ in others.atoms):
            continue
        end = _at_ends(others, grid)
        if end is not None:  # c·s + others ≥ 0 at some t of the tile, where others is greatest
            (high if c < 0 else low).append(end if c < 0 else Apply("neg", (end,)))
    return Bound(tuple(low), tuple(high)) if low or high else None


def _at_ends(form: Linear, grid: Index) -> Term | None:
    """The greatest value of the form over the tile."""
    coefficient = form.coefficient(Position(grid)).constant
    if coefficient is None or coefficient.denominator != 1:
        return None
    terms: list[Term] = []
    if coefficient:
        end = Position(Index(LAST if coefficient > 0 else FIRST, grid.set))
        terms.append(end if coefficient == 1 else Apply("mul", (const(coefficient), end)))
    if form.constant.terms:
        terms.append(_size(form.constant))
    return const(0) if not terms else terms[0] if len(terms) == 1 else Apply("add", tuple(terms))


def _size(extent: Extent) -> Term:
    constant = extent.constant
    return const(constant) if constant is not None else Size(extent)


def nonempty(domain: Term, bound: tuple[Index, ...], free: tuple[Index, ...]) -> bool:
    """Whether every row surely has a point: one where each bound index stands where a free one of its set does."""
    by = {b: Position(f) for b in bound if (f := next((f for f in free if f.set == b.set), None)) is not None}
    for index in bound:
        if index not in by and (index.set.cls in ("time", "request", "batch", "vocab") or index in free_indices(domain)):
            return False
    return proves(TRUE, substitute(domain, by))
