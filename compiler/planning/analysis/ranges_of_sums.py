"""Sums that a later factor may bring back into the range of the data's type.

A sum of products may be larger than a half type holds though what is made of it is not: (Σ_f x_t^f w_f^e) / r_t is in
range where Σ_f (x_t^f / r_t) w_f^e is. The algebra takes such factors out of sums by itself, so that both texts are one
program, and no text may become infinite by that. A factor of this kind is a *scale*: it could stand at one operand of
the sum, so it has no letters but some of those that one operand has. Letters of two operands are a gate or a rotation,
which no operand could take. Additions, maxima, further factors and sums between a sum and its scale change nothing of
this. Another sum of products does, whose operands have the type of the data as all that machines multiply, unless
the scale stands beside that sum and an operand is a sum as it is: then it may be the algebra that put it there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from einc.ir.indices import Index
from einc.ir.programs import Equation, Program
from einc.ir.sums import factors, fraction
from einc.ir.terms import Apply, Const, Fold, Join, Read, Term, Where, children, free_indices

# How far a scale is away: beside a value, behind additions and the like, or behind a sum of products.
_BESIDE, _BEHIND, _BEYOND = 2, 1, 0
_Scale = tuple[frozenset[Index], int]  # the letters of a scale, and how far away it is
_Slots = tuple[frozenset[int], int]  # the numbers of the slots of a tensor along which it differs instead

# Primitives and folds whose values are about as large as what they are made of.
_PASSING = frozenset({"add", "sub", "neg", "max", "min", "abs", "sum"})


@dataclass(frozen=True, slots=True)
class _Part:
    """A tensor or a sum in a term, with the letters of each scale that it may meet there. `grows`: the term is as large
    as the part makes it, up to factors."""

    term: Read | Fold
    scales: tuple[_Scale, ...]
    grows: bool


def scaled_sums(program: Program) -> frozenset[str]:
    """The tensors that hold sums, or are made of such by additions and factors, which a scale in an equation that reads
    them, or in one that reads what is made of them, may bring back into range."""
    later = _scales(program)
    found: set[str] = set()
    for equation in program.equations:
        scales = [letters for letters, away in _letters(equation, later[equation.target])
                  if away > _BEYOND or _may_have_lost(equation.body, letters)]
        if scales and any(_large(part.term, scales, found) for part in _parts(equation.body, ()) if part.grows):
            found.add(equation.target)
    return frozenset(found)


def _may_have_lost(body: Term, scale: frozenset[Index]) -> bool:
    """Whether a value is a sum as it is, from which the algebra may have taken a scale beyond a sum of products. A
    scale without letters belongs to a plain sum, whose mean it makes: logits have one of their own."""
    return isinstance(body, Fold) and body.op == "sum" and (bool(scale) or not _of_matrices(body))


def _large(term: Read | Fold, scales: list[frozenset[Index]], found: set[str]) -> bool:
    """Whether a sum could have one of the scales at one of its operands, or a tensor holds such sums."""
    if isinstance(term, Read):
        return term.tensor in found
    return any(scale <= free_indices(side) for side in factors(term.body) for scale in scales)


def _scales(program: Program) -> Mapping[str, set[_Slots]]:
    """The scales that each tensor meets, in equations that read it and in those that read what is made of it."""
    found: defaultdict[str, set[_Slots]] = defaultdict(set)
    for equation in reversed(program.equations):
        above = tuple(one for one in _letters(equation, found[equation.target]) if one[1] > _BEYOND)
        for part in _parts(equation.body, above):
            if isinstance(part.term, Read) and part.scales:
                inside = [free_indices(sub) for sub in part.term.subs]
                whole = frozenset[Index]().union(*inside)
                found[part.term.tensor] |= {(frozenset(n for n, mine in enumerate(inside) if mine & scale), away)
                                            for scale, away in part.scales if scale <= whole}
    return found


def _letters(equation: Equation, scales: Iterable[_Slots]) -> Iterator[_Scale]:
    """The scales of a target by its indices."""
    for slots, away in scales:
        yield frozenset[Index]().union(*(free_indices(equation.axes[n]) for n in slots)), away


def _parts(term: Term, above: tuple[_Scale, ...], grows: bool = True) -> Iterator[_Part]:
    """The tensors and sums in a term, where scales may stand `above` the term."""
    match term:
        case Read():
            yield _Part(term, above, grows)
        case Apply("mul", args):
            for n, arg in enumerate(args):
                beside = [(free_indices(x), _BESIDE) for m, x in enumerate(args) if m != n and not _at_least_one(x)]
                yield from _parts(arg, (*above, *beside), grows)
        case Apply("div", (over, under)):
            beside = [(free_indices(x), _BESIDE) for x in factors(under)]
            yield from _parts(over, (*above, *beside), grows)
            yield from _parts(under, (), False)
        case Fold(op):
            if op == "sum":
                yield _Part(term, above, grows)
            if op == "sum" and _of_products(term):
                for one in _parts(term.body, tuple(x for x in above if x[1] == _BESIDE), False):
                    yield replace(one, scales=tuple(_before(one.scales, frozenset(term.bound))))
            else:
                passes = op in _PASSING
                yield from _parts(term.body, _behind(above) if passes else (), grows and passes)
        case Join(index, parts):
            for mine, part in parts:
                there = tuple((frozenset(mine if i == index else i for i in x), away) for x, away in above)
                yield from _parts(part, there, grows)
        case Where(_, then):
            yield from _parts(then, above, grows)
        case _:
            passes = isinstance(term, Apply) and term.op in _PASSING
            for kid in children(term):
                yield from _parts(kid, _behind(above) if passes else (), grows and passes)


def _before(scales: Iterable[_Scale], bound: frozenset[Index]) -> Iterator[_Scale]:
    """The scales as they are for an operand of a sum of products: those that lack what is summed stand behind it, be
    they written there or not.
    """
    for letters, away in scales:
        if away == _BESIDE and not letters & bound:
            yield letters, _BEYOND
        elif letters & bound:
            yield letters, away


def _behind(scales: tuple[_Scale, ...]) -> tuple[_Scale, ...]:
    """The scales as they are beyond an addition or the like."""
    return tuple((letters, _BEHIND) for letters, away in scales if away > _BEYOND)


def _of_products(fold: Fold) -> bool:
    """Whether a sum is over products of which two factors have an index that is summed."""
    return sum(not free_indices(side).isdisjoint(fold.bound) for side in fraction(fold.body)[0]) > 1


def _of_matrices(fold: Fold) -> bool:
    """Whether a sum is over products of which each of two factors has an index that the other lacks."""
    sides = [free_indices(side) for side in fraction(fold.body)[0]]
    return any(a - b and b - a for a, b in combinations(sides, 2))


def _at_least_one(term: Term) -> bool:
    """Whether a factor is a number that makes nothing smaller."""
    return isinstance(term, Const) and not -1 < term.value < 1
