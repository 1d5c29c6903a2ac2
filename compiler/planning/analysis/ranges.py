"""From a domain to the places of an axis within a tile: closed forms in the tile's ends.

The spans of a condition cover every point at which it holds. So a tile of the axis that meets no span of its domain is
empty, and one that meets no span of the domain's negation is full: one algebra answers both, and neither answer is
ever wrong. What cannot be solved for the axis spans everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from einc.ir.domains import Linear, difference, linear, negation, proves
from einc.ir.extents import direction
from einc.ir.indices import Extent, Index, number
from einc.ir.plan import Bound, Interval, end
from einc.ir.terms import TRUE, Apply, Fold, Position, Read, Term, Truth, const, free_indices, walk
from einc.planning.analysis.ends import (
    NEAR,
    Tile,
    alone,
    closed,
    comparable,
    denominator,
    extreme,
    minus,
    pick,
    rounded,
    term,
    times,
    whole,
)

Spans = tuple[Interval, ...]
EVERYWHERE: Spans = (Interval(),)
_MANY = 6  # spans of one condition; more are covered by one


def reach(domains: Iterable[Term], tile: Tile, single: bool) -> Bound | None:
    """Where the axis has points of any of the domains; None where nothing narrows it."""
    domain = Apply("or", tuple(domains))
    found = _bridged(spans(domain, tile), tile)
    if single and len(found) > 1:
        found = _hull(found)
    within = spans(domain, replace(tile, inner=True))
    seen = (None if single or within == EVERYWHERE or not any(_looks(s, tile) for s in within)
            else _besides(within, found))
    return None if found == EVERYWHERE and seen is None else Bound(found, seen)


def _besides(within: Spans, found: Spans) -> Spans:
    """What the tiles of a single span do not meet anyway."""
    if len(found) != 1:
        return within
    (outer,) = found
    return tuple(Interval(*(tuple(t for t in mine if t not in known) for mine, known in (
        (s.low, outer.low), (s.high, outer.high), (s.when, outer.when)))) for s in within)


def cut(domain: Term, tile: Tile) -> Spans | None:
    """What a tile of the axis must not meet so that all its points are in the domain;
    None if no tile is known to be full."""
    found = spans(negation(domain), replace(tile, inner=True))
    return None if Interval() in found else found


def _looks(span: Interval, tile: Tile) -> bool:
    """Whether a span says something about a tile of the axis that its rows alone do not."""
    own = {end(tile.axis, which).index for which in ("first", "last")}
    return any(own & free_indices(t) for t in (*span.low, *span.high, *span.when))


def spans(condition: Term, tile: Tile) -> Spans:
    """Spans of the axis that hold every point of the condition, for a tile."""
    match condition:
        case Truth(value):
            return EVERYWHERE if value else ()
        case Apply("and", args):
            return reduce(_meet, (spans(a, tile) for a in args))
        case Apply("or", args):
            return reduce(_join, (spans(a, tile) for a in args))
        case Apply("not", (inner,)) if (pushed := negation(inner)) != condition:
            return spans(pushed, tile)
        case Apply("ne", (a, b)):
            return _join(spans(Apply("lt", (a, b)), tile), spans(Apply("lt", (b, a)), tile))
        case Apply("eq", (a, b)):
            return _meet(spans(Apply("le", (a, b)), tile), spans(Apply("le", (b, a)), tile))
        case Apply("le" | "lt" as op, (a, b)) if comparable(a, tile) and comparable(b, tile):
            return _holds(difference(a, b), op == "lt", tile)
    return EVERYWHERE


# one comparison


def _holds(form: Linear | None, strict: bool, tile: Tile) -> Spans:
    """Where the form is ≥ 0, or > 0."""
    if form is None:
        return EVERYWHERE
    form = times(form, denominator(form))
    if strict:
        form = form.plus(whole(-1))
    if _rounds(form) and proves(TRUE, Apply("le", (const(0), term(form)))):
        return EVERYWHERE
    for atom, coefficient in form.atoms:
        match atom:
            case Apply("min" | "max" | "abs" as op, args) if (way := direction(coefficient)) and not closed(atom, tile):
                options = (args[0], Apply("neg", args)) if op == "abs" else args
                found = (_holds(_with(form, atom, coefficient, linear(o)), False, tile) for o in options)
                return reduce(_meet if (op == "min") == (way > 0) else _join, found)
    moving = [(a, c) for a, c in form.atoms if tile.axis in free_indices(a)]
    if not moving:
        return _when(extreme(form, tile))
    return reduce(_meet, (_isolated(a, c, form.without(a), tile) for a, c in moving))


def _rounds(form: Linear) -> bool:
    """Whether a remainder stands in the form: it is never below 0, whatever it is of."""
    return any(isinstance(x, Apply) and x.op == "mod" for atom, _ in form.atoms for x in walk(atom))


def _with(form: Linear, atom: Term, coefficient: Extent, other: Linear | None) -> Linear | None:
    return None if other is None else form.without(atom).plus(other, coefficient)


def _when(form: Linear | None) -> Spans:
    """Everywhere, where a number that does not depend on the axis is ≥ 0."""
    if form is None:
        return EVERYWHERE
    for atom, coefficient in form.atoms:
        match atom:  # the least of several is ≥ 0 where all of them are
            case Apply("min" | "max" as op, args) if direction(coefficient) == (1 if op == "min" else -1):
                return reduce(_meet, (_when(_with(form, atom, coefficient, linear(a))) for a in args))
    constant = form.constant.constant
    if form.atoms or constant is None:
        return (Interval(when=(term(form),)),)
    return EVERYWHERE if constant >= 0 else ()


def _isolated(atom: Term, coefficient: Extent, others: Linear, tile: Tile) -> Spans:
    """Where coefficient · atom + others ≥ 0, with the others at their greatest."""
    kept = free_indices(atom) - {tile.axis, tile.grid} if isinstance(atom, Read) else frozenset[Index]()
    rest, way = extreme(others, replace(tile, kept=kept)), direction(coefficient)
    part = number(1).over(coefficient * number(way)) if way else None
    if rest is None or part is None or (isinstance(atom, Read) and tile.grid in free_indices(atom)):
        return EVERYWHERE
    # Whole numbers: atom ≥ limit, or atom ≤ limit.
    limit = rounded("ceil", times(minus(rest), part)) if way > 0 else rounded("floor", times(rest, part))
    match atom:
        case Position():
            return (Interval(low=(term(limit),)) if way > 0 else Interval(high=(term(limit),)),)
        case Apply("floor" | "ceil" as op, (inner,)):
            above = linear(inner)
            if above is None:
                return EVERYWHERE
            gap = above.plus(limit, number(-1)) if way > 0 else limit.plus(above, number(-1))
            # a floor above a limit is the number itself above it; below, short of the next
            loose = (op == "ceil") == (way > 0)
            return _holds(gap.plus(whole(1)) if loose else gap, loose, tile)
        case Read():
            return (_searched(atom, limit, way, kept, tile),)
    return _when(extreme(others.plus(alone(atom), coefficient), tile))


def _searched(read: Read, limit: Linear, way: int, kept: frozenset[Index], tile: Tile) -> Interval:
    """From the first position that reads so much, or up to the last that reads so little."""
    pair = (term(limit), read) if way > 0 else (read, term(limit))
    op = "min" if way > 0 else "max"
    found: Term = Fold(op, (tile.axis,), Apply("le", pair), Position(tile.axis))
    if kept:
        found = Fold(op, tuple(sorted(kept, key=lambda i: i.name)), TRUE, found)
    return Interval(low=(found,)) if way > 0 else Interval(high=(found,))


# unions of spans


def _meet(left: Spans, right: Spans) -> Spans:
    found: list[Interval] = []
    for a in left:
        for b in right:
            span = Interval(_tight("max", a.low + b.low), _tight("min", a.high + b.high),
                            tuple(dict.fromkeys(a.when + b.when)))
            if not _never(span):
                found.append(span)
    return _merged(found)


def _join(left: Spans, right: Spans) -> Spans:
    return _merged([*left, *right])


def _tight(op: str, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The bounds without those that another one makes idle."""
    if len(terms) < 2:
        return terms
    match term(pick(op, (_form(t) for t in terms))):
        case Apply(found, args) if found == op:
            return args
        case one:
            return (one,)


def _form(inner: Term) -> Linear:
    form = linear(inner)
    assert form is not None
    return form


def _never(span: Interval) -> bool:
    gaps = (_form(low).plus(_form(high), number(-1)) for low in span.low for high in span.high)
    return any(not gap.atoms and (gap.constant.constant or 0) > 0 for gap in gaps)


def _merged(found: list[Interval]) -> Spans:
    """Fewer spans with the same points."""
    left: list[Interval] = []
    for span in found:
        while (other := next((o for o in left if _fit(span, o)), None)) is not None:
            left.remove(other)
            low, high = _outer("min", span.low, other.low), _outer("max", span.high, other.high)
            span = Interval(low, high, _common(span.when, other.when))
        left.append(span)
    return tuple(left) if len(left) <= _MANY else _hull(tuple(left))


def _fit(a: Interval, b: Interval) -> bool:
    """Whether one span holds just what the two do: one is in the other, or they share an end."""
    sides = [tuple(map(set, (x.low, x.high, x.when))) for x in (a, b)]
    within = any(all(p <= q for p, q in zip(x, y, strict=True)) for x, y in (sides, sides[::-1]))
    return within or (a.when == b.when and (a.low == b.low or a.high == b.high))


def _common(a: tuple[Term, ...], b: tuple[Term, ...]) -> tuple[Term, ...]:
    return tuple(x for x in a if x in b)


def _outer(op: str, a: tuple[Term, ...], b: tuple[Term, ...]) -> tuple[Term, ...]:
    """The farther of two ends; none where one of them has none."""
    if not a or not b:
        return ()
    if set(a) <= set(b) or set(b) <= set(a):
        return _common(a, b)
    inner = "max" if op == "min" else "min"
    return (term(pick(op, (pick(inner, map(_form, a)), pick(inner, map(_form, b))))),)


def _hull(found: Spans) -> Spans:
    """One span over all of them."""
    return ((reduce(lambda a, b: Interval(_outer("min", a.low, b.low), _outer("max", a.high, b.high)), found),)
            if found else ())


def _bridged(found: Spans, tile: Tile) -> Spans:
    """Spans that surely overlap, or nearly, as one; and none for what surely lies in another, or nearly."""
    left: list[Interval] = []
    for span in found:
        while (other := next((o for o in left if _bridge(o, span, tile)), None)) is not None:
            left.remove(other)
            low, high = _outer("min", span.low, other.low), _outer("max", span.high, other.high)
            span = Interval(low, high, _common(span.when, other.when))
        left.append(span)
    return tuple(left)


def _bridge(a: Interval, b: Interval, tile: Tile) -> bool:
    if a.when == b.when:
        return all(_near(y.low, x.high, tile) for x, y in ((a, b), (b, a)))
    inner, outer = (a, b) if set(b.when) < set(a.when) else (b, a)
    ends = (not outer.low or bool(inner.low)) and (not outer.high or bool(inner.high))
    return (set(outer.when) < set(inner.when) and ends and _near(outer.low, inner.low, tile)
            and _near(inner.high, outer.high, tile))


def _near(lows: tuple[Term, ...], highs: tuple[Term, ...], tile: Tile) -> bool:
    """Whether each of the first is surely at most a little greater than any of the others."""
    rows = TRUE if tile.grid is None else Apply("le", (end(tile.grid, "first"), end(tile.grid, "last")))
    pairs = [(low, high) for low in lows for high in highs]
    return all(proves(rows, Apply("le", (low, Apply("add", (high, const(NEAR)))))) for low, high in pairs)
