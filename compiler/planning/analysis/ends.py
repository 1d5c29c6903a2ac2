"""Whole-number terms over a tile: their greatest and least values, as closed forms in the tile's ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from einc.ir.domains import Linear, linear
from einc.ir.extents import direction
from einc.ir.indices import Extent, Index, IndexSet, Monomial, number
from einc.ir.plan import end
from einc.ir.sums import added
from einc.ir.terms import Apply, Const, Fold, Pack, Part, Position, Read, Size, Term, both, const, free_indices

NOTHING = Linear((), number(0))
NEAR = 128  # so many positions of the axis are always visited together
_DYADIC, _WHOLE = 1, 2


@dataclass(frozen=True, slots=True)
class Tile:
    """Some rows of the grid axis, and of `axis` all positions, or with `inner` those of one of its tiles.

    `stored` are the integer tensors that are there before the kernel runs; indices that are `kept` stay in the terms.
    """

    axis: Index
    grid: Index | None
    stored: Mapping[str, tuple[IndexSet, ...]]
    inner: bool = False
    kept: frozenset[Index] = frozenset()

    def cuts(self, index: Index) -> bool:
        """Whether the tile has only some positions of an index."""
        return index == self.grid or (self.inner and index == self.axis)


def comparable(term: Term, tile: Tile) -> bool:
    """Whether floating point compares the term as mathematics does: a quotient of whole
    numbers is rounded only once."""
    return _exactness(term, tile) > 0 or _ratio(term, tile)


def _ratio(term: Term, tile: Tile) -> bool:
    return isinstance(term, Apply) and term.op == "div" and all(_exactness(a, tile) == _WHOLE for a in term.args)


def _exactness(term: Term, tile: Tile) -> int:
    """_WHOLE for whole numbers made of what can be bounded, _DYADIC for their halves and quarters, else 0."""
    match term:
        case Const(Fraction() as value):
            return _WHOLE if value.denominator == 1 else _DYADIC if value.denominator.bit_count() == 1 else 0
        case Size(extent):
            return _WHOLE if integral(Linear((), extent)) else 0
        case Position():
            return _WHOLE
        case Read(tensor, subs):
            places = [s.index for s in subs if isinstance(s, Position)]
            plain = len(set(places)) == len(subs) and tile.stored.get(tensor) == tuple(i.set for i in places)
            return _WHOLE if plain else 0
        case Apply("floor" | "ceil", (inner,)):
            return _WHOLE if comparable(inner, tile) else 0
        case Apply("div", (above, Const(Fraction() as below))) if (
            below.denominator == 1 and below.numerator.bit_count() == 1
        ):
            return min(_DYADIC, _exactness(above, tile))
        case Apply("min" | "max" | "abs" | "mod" | "mul", parts) if all(_exactness(p, tile) == _WHOLE for p in parts):
            return _WHOLE
        case Apply("add" | "sub" | "neg", parts) | Pack(parts):
            return min(_exactness(p, tile) for p in parts)
        case Apply("mul", parts) if sum(bool(free_indices(p)) for p in parts) < 2:
            return min(_exactness(p, tile) for p in parts)
        case Part(item):
            return _exactness(item, tile)
    return 0


# linear forms


def integral(form: Linear) -> bool:
    """Whether all coefficients are whole numbers for all sizes."""
    return all(_integral_term(m, c) for e in (form.constant, *(c for _, c in form.atoms)) for m, c in e.terms)


def _integral_term(mono: Monomial, coefficient: Fraction) -> bool:
    return coefficient.denominator == 1 and all(power > 0 for _, power in mono)


def denominator(form: Linear) -> Extent:
    """What makes the form integral when it is multiplied by it."""
    terms = [t for e in (form.constant, *(c for _, c in form.atoms)) for t in e.terms]
    return Extent(tuple(terms)).denominator


def times(form: Linear, factor: Extent) -> Linear:
    """The linear form with all its coefficients multiplied by an extent."""
    return NOTHING.plus(form, factor)


def minus(form: Linear) -> Linear:
    """The linear form with the sign of every coefficient changed."""
    return times(form, number(-1))


def whole(value: int) -> Linear:
    """The constant form of a whole number."""
    return Linear((), number(value))


def alone(atom: Term) -> Linear:
    """The form that is one atom with coefficient 1."""
    return Linear(((atom, number(1)),), number(0))


def term(form: Linear) -> Term:
    """The linear form as a term: a sum of its atoms times their coefficients, and its constant."""
    parts: list[Term] = []
    for atom, c in form.atoms:
        parts.append(atom if c == number(1) else Apply("mul", (_size(c), atom)))
    if form.constant.terms or not parts:
        parts.append(_size(form.constant))
    return added(parts)


def _size(extent: Extent) -> Term:
    constant = extent.constant
    return const(constant) if constant is not None else Size(extent)


def rounded(op: str, form: Linear) -> Linear:
    """The floor or the ceiling: what is surely whole stands outside."""
    outer = Extent(tuple(t for t in form.constant.terms if _integral_term(*t)))
    atoms = tuple((a, c) for a, c in form.atoms if integral(Linear((), c)))
    rest = Linear(tuple(x for x in form.atoms if x not in atoms), form.constant - outer)
    if rest == NOTHING:
        return form
    below = denominator(rest)
    if not rest.atoms and (constant := rest.constant.constant) is not None:
        return Linear(atoms, outer + number(floor(constant) if op == "floor" else ceil(constant)))
    return Linear(atoms, outer).plus(alone(Apply(op, (Apply("div", (term(times(rest, below)), _size(below))),))))


def pick(op: str, forms: Iterable[Linear]) -> Linear:
    """The least or the greatest of several, where it can be told; else their minimum or maximum as a term."""
    left: list[Linear] = []
    for form in forms:
        gaps = [(_gap(form, other), other) for other in left]
        if any(g is not None and (g <= 0 if op == "max" else g >= 0) for g, _ in gaps):
            continue
        left = [other for g, other in gaps if g is None] + [form]
    return left[0] if len(left) == 1 else alone(Apply(op, tuple(term(f) for f in left)))


def _gap(a: Linear, b: Linear) -> Fraction | None:
    """a − b, where it is a number."""
    form = a.plus(b, number(-1))
    return None if form.atoms else form.constant.constant


# extremes


def extreme(form: Linear, tile: Tile, sign: int = 1) -> Linear | None:
    """The greatest value over the tile (sign −1: the least), or what is surely no less
    (no greater); None if unknown."""
    total = Linear((), form.constant)
    for atom, coefficient in form.atoms:
        way = direction(coefficient)
        found = _extreme(atom, tile, sign * way) if way else None
        if found is None:
            return None
        total = total.plus(found, coefficient)
    return total


def closed(inner: Term, tile: Tile) -> bool:
    """Whether the term is one number for a tile: only its ends and kept indices are left in it."""
    return all(" " in i.name or i in tile.kept for i in free_indices(inner))


def _extreme(atom: Term, tile: Tile, sign: int) -> Linear | None:
    """An upper bound of one atom over the tile for sign 1, a lower one for sign −1; None where none is known."""
    match atom:
        case Position() | Read() | Fold() if closed(atom, tile):
            return alone(atom)
        case Position(index) if tile.cuts(index):
            return alone(end(index, "last" if sign > 0 else "first"))
        case Position(index):
            return Linear((), number(index.set.start) if sign < 0 else index.set.extent + number(index.set.start - 1))
        case Apply("floor" | "ceil" as op, (inner,)):
            found = _of(inner, tile, sign)
            return None if found is None else rounded(op, found)
        case Apply("min" | "max" as op, args):
            known = [f for a in args if (f := _of(a, tile, sign)) is not None]
            return pick(op, known) if len(known) == len(args) else None
        case Apply("abs", (inner,)):
            high, low = _of(inner, tile, 1), _of(inner, tile, -1)
            if high is None or low is None:
                return None
            return pick("max", (high, minus(low))) if sign > 0 else pick("max", (whole(0), low, minus(high)))
        case Apply("mod" | "mul" as op, args) if closed(atom, tile):
            same = [f for a in args if (f := _of(a, tile, sign)) is not None]
            return alone(Apply(op, tuple(map(term, same)))) if len(same) == len(args) else None
        case Apply("mod", (inner, below)):
            return _remainder(inner, linear(below), tile, sign)
        case Read(_, subs) if tile.axis not in free_indices(atom):
            return alone(_over(atom, [s.index for s in subs if isinstance(s, Position)], tile, sign))
    return None


def _of(inner: Term, tile: Tile, sign: int) -> Linear | None:
    form = linear(inner)
    return None if form is None else extreme(form, tile, sign)


def _remainder(inner: Term, below: Linear | None, tile: Tile, sign: int) -> Linear | None:
    """mod(x, d) lies in 0 … d − 1; where the whole tile lies between two multiples of d,
    x less the lower one is exact."""
    if below is None or below.atoms or direction(below.constant) < 1:
        return None
    widest = whole(0) if sign < 0 else below.plus(whole(-1))
    if _wide(inner, below, tile):
        return widest
    high, low, part = _of(inner, tile, 1), _of(inner, tile, -1), number(1).over(below.constant)
    if high is None or low is None or part is None:
        return widest
    here, other = (low, high) if sign < 0 else (high, low)
    exact = here.plus(times(rounded("floor", times(other, part)), below.constant), number(-1))
    return pick("max" if sign < 0 else "min", (widest, exact))


def _wide(inner: Term, below: Linear, tile: Tile) -> bool:
    """Whether the number runs through more than one round: the axis is whole, or its tile
    surely longer than a round."""
    form, short = linear(inner), below.constant.constant
    moves = form is not None and any(a == Position(tile.axis) for a, _ in form.atoms)
    return tile.axis in free_indices(inner) and (not tile.inner or (moves and short is not None and short <= NEAR))


def _over(read: Read, places: list[Index], tile: Tile, sign: int) -> Term:
    """The greatest or least element that the tile reads."""
    over = tuple(i for i in places if i not in tile.kept)
    cut = [i for i in over if tile.cuts(i)]
    rows = [Apply("le", pair) for i in cut for pair in ((end(i, "first"), Position(i)), (Position(i), end(i, "last")))]
    return Fold("max" if sign > 0 else "min", over, both(*rows), read)
