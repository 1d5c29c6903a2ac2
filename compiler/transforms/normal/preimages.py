"""Folds over positions whose image is one of few become folds over the places of these images.

A monotone map of positions to whole numbers, as ⌈s/B⌉ is, has an interval of positions for each value. So
Σ_{s, ⌈s/B⌉ ∈ S_t} f(s) = Σ_p f(s_p), with p over the places of all chosen intervals, one after the other: those of
the interval of rank ⌈p/B⌉. What a domain asks in place of membership, `⌈s/B⌉ = ⌈t/B⌉ or ⌈s/B⌉ ∈ S_t`, is a list of
values, too, where each of its alternatives leaves a number of values that does not grow with the positions.
Non-goals: which folds are written so, what is stored, how elements are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from einc.ir.domains import Linear, facts, is_whole, linear
from einc.ir.extents import direction, positive
from einc.ir.indices import Extent, Index, number, rounded
from einc.ir.terms import (
    ONE,
    Apply,
    Const,
    Position,
    Size,
    Term,
    both,
    const,
    free_indices,
    substitute,
    transform,
)


@dataclass(frozen=True)
class Image:
    """A monotone map of the positions of a letter to whole numbers: those of one value are an interval of at most
    `length`, of exactly so many where `exact`. `before` tells, of a value, the position before the first of them;
    `rises` whether the map rises with the position, else it falls.
    """

    length: Extent
    before: Callable[[Term], Term]
    exact: bool = True
    rises: bool = True


def image(term: Term, letter: Index) -> Image | None:
    """The map that a term in a letter is; None where it is not surely monotone, or its intervals may grow."""
    if term == Position(letter):
        return Image(number(1), lambda value: plus(value, const(-1)))
    match term:
        case Apply("floor" | "ceil" as op, (inner,)) if (form := linear(inner)) is not None:
            found = _only(form, letter)
            sign = 0 if found is None else direction(found[1])
            if found is None or sign == 0 or (of := image(found[0], letter)) is None or not of.rises:
                return None
            if sign > 0:
                return _rounded(op == "ceil", found[1], form.without(found[0]), of)
            turned = Linear((), number(0)).plus(form.without(found[0]), number(-1))
            other = _rounded(op == "floor", found[1] * number(-1), turned, of)
            return other and Image(other.length, lambda value: other.before(negative(value)), other.exact, rises=False)
    return None


def _only(form: Linear, letter: Index) -> tuple[Term, Extent] | None:
    """The one atom of a linear form that holds a letter, and its coefficient; None where there are several, or none."""
    held = [(atom, by) for atom, by in form.atoms if letter in free_indices(atom)]
    return held[0] if len(held) == 1 else None


def _rounded(up: bool, slope: Extent, rest: Linear, of: Image) -> Image | None:
    """The map ⌈slope · x + rest⌉ where `up`, else ⌊slope · x + rest⌋, of the values x of another map."""
    width = number(1).over(slope)
    if width is None:
        return None
    far = Linear((), number(0)).plus(rest, width)
    whole = is_whole(far) and is_whole(Linear((), width))
    count = width if whole else rounded(width, up=True)
    below = number(1)
    for extent in () if whole else (width, far.constant, *(by for _, by in far.atoms)):
        below = below * extent.denominator

    def before(value: Term) -> Term:
        """The position before the first whose value it is: of the first x above (or from) where the value begins."""
        border = plus(times(width * below, plus(value, const(-1)) if up else value),
                      times(below * number(-1), written(far)))
        if not whole:  # one quotient of whole numbers, which is exact
            border = Apply("floor" if up else "ceil", (Apply("div", (border, _extent(below))),))
        return of.before(plus(border, ONE) if up else border)

    return Image(count * of.length, before, whole and of.exact)


def written(form: Linear) -> Term:
    """The linear form as a term: its atoms times their coefficients, and its constant."""
    parts = [times(by, atom) for atom, by in form.atoms]
    return plus(*parts, *([Size(form.constant)] if form.constant.terms or not parts else []))


def plus(*terms: Term) -> Term:
    """The sum of terms, one of which is no sum; numbers of sizes are added up."""
    parts = [p for t in terms for p in (t.args if isinstance(t, Apply) and t.op == "add" else (t,))]
    total, rest = number(0), list[Term]()
    for part in parts:
        form = linear(part)
        if form is not None and not form.atoms:
            total = total + form.constant
        else:
            rest.append(part)
    if total.terms or not rest:
        rest.append(_extent(total))
    return rest[0] if len(rest) == 1 else Apply("add", tuple(rest))


def _extent(extent: Extent) -> Term:
    constant = extent.constant
    return Size(extent) if constant is None else const(constant)


def negative(term: Term) -> Term:
    """The term times -1, sums multiplied out."""
    return times(number(-1), term)


def times(by: Extent, term: Term) -> Term:
    """An extent times a term, sums multiplied out."""
    if by == number(1):
        return term
    match term:
        case Apply("add", args):
            return plus(*(times(by, arg) for arg in args))
        case Apply("mul", (Size() | Const() as scale, inner)) if (known := linear(scale)) is not None:
            return times(by * known.constant, inner)
    form = linear(term)
    return _extent(by * form.constant) if form is not None and not form.atoms else Apply("mul", (_extent(by), term))


@dataclass(frozen=True)
class Item:
    """What is asked to be in a set: `sign` times a map of a letter, and `rest`, which does not hold the letter."""

    letter: Index
    core: Term
    sign: int
    rest: Linear
    map: Image

    def before(self, value: Term) -> Term:
        """The position before the first at which the item has a value."""
        return self.map.before(self._core(value))

    def whole(self, position: Term) -> Term:
        """The number of the item, which may be none of the set, that has this position."""
        return substitute(plus(times(number(self.sign), self.core), written(self.rest)), {self.letter: position})

    def _core(self, value: Term) -> Term:
        """What the map has where the item has a value."""
        return times(number(self.sign), plus(value, negative(written(self.rest))))

    def at(self, condition: Term, value: Term) -> Term | None:
        """A condition where the item has a value; None where it depends on more of the letter than its item."""
        core = self._core(value)
        found = transform(condition, lambda term: core if term == self.core else term)
        return None if self.letter in free_indices(found) else found


def item_of(term: Term, letters: Iterable[Index]) -> Item | None:
    """What an item is that holds one of the letters alone, as one map of it and what does not hold it."""
    form = linear(term)
    held = [letter for letter in letters if letter in free_indices(term)]
    found = _only(form, held[0]) if form is not None and len(held) == 1 else None
    if form is None or found is None or found[1].constant not in (1, -1):
        return None
    of = image(found[0], held[0])
    return None if of is None else Item(held[0], found[0], int(found[1].constant or 0), form.without(found[0]), of)


def steady(condition: Term, value: Index, given: Term) -> tuple[Term, Extent] | None:
    """The least value of a letter for which a condition can hold, and how many there are from there: a number that no
    position changes. None where the condition does not bound it so.
    """
    atom = Position(value)
    below, above = list[Linear](), list[Linear]()
    for fact in facts(both(condition, given)):
        by = fact.coefficient(atom).constant
        if by == 1:
            below.append(Linear((), number(0)).plus(fact.without(atom), number(-1)))
        elif by == -1:
            above.append(fact.without(atom))
    for low in below:
        for high in above:
            between = high.plus(low, number(-1))
            count = between.constant + number(1)
            if not between.atoms and is_whole(between) and positive(count, False):
                return written(low), count
    return None


def bounds_of_image(item: Item, given: Iterable[Term]) -> tuple[Term, ...]:
    """What bounds of the letter say of its item: s ≤ t gives ⌈s/B⌉ ≤ ⌈t/B⌉."""
    out = list[Term]()
    here = Position(item.letter)
    for condition in given:
        for fact in facts(condition):
            by = fact.coefficient(here).constant
            if by in (1, -1):
                other = written(Linear((), number(0)).plus(fact.without(here), number(-int(by))))
                pair = (item.core, substitute(item.core, {item.letter: other}))
                out.append(Apply("le", pair if (by == -1) == item.map.rises else pair[::-1]))
    return tuple(out)
