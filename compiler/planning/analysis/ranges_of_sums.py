"""Sums that a later factor may bring back into the range of the data's type.

A sum of products may be larger than a half type holds though what is made of it is not: (Σ_f x_t^f w_f^e) / r_t is in
range where Σ_f (x_t^f / r_t) w_f^e is. The algebra takes such factors out of sums by itself, so that both texts are one
program, and no text may become infinite by that. A factor of this kind is a *scale*: it could stand at one operand of
the sum, so it has no letters but some of those that one operand has. Letters of two operands are a gate or a rotation,
which no operand could take. Additions, maxima, further factors and sums between a sum and its scale change nothing of
this. Another product of matrices does: its operands have the type of the data, as all data that machines multiply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from einc.ir.indices import Index
from einc.ir.programs import Equation, Program
from einc.ir.sums import factors
from einc.ir.terms import Apply, Const, Fold, Join, Read, Term, Where, children, free_indices

Letters = frozenset[Index]
Slots = frozenset[int]  # numbers of slots of a tensor: those along which a scale differs

# Primitives and folds whose values are about as large as what they are made of.
_PASSING = frozenset({"add", "sub", "neg", "max", "min", "abs", "sum"})


@dataclass(frozen=True, slots=True)
class _Part:
    """A tensor or a sum in a term, with the letters of each scale that it may meet there. `grows`: the term is as large
    as the part makes it, up to factors."""

    term: Read | Fold
    scales: tuple[Letters, ...]
    grows: bool


def scaled_sums(program: Program) -> frozenset[str]:
    """The tensors that hold sums, or are made of such by additions and factors, which a scale in an equation that reads
    them, or in one that reads what is made of them, may bring back into range."""
    later = _scales(program)
    found: set[str] = set()
    for equation in program.equations:
        scales = [_letters(equation, slots) for slots in later[equation.target]]
        if scales and any(_large(part.term, scales, found) for part in _parts(equation.body, ()) if part.grows):
            found.add(equation.target)
    return frozenset(found)


def _large(term: Read | Fold, scales: list[Letters], found: set[str]) -> bool:
    """Whether a sum could have one of the scales at one of its operands, or a tensor holds such sums."""
    if isinstance(term, Read):
        return term.tensor in found
    return any(scale <= free_indices(side) for side in factors(term.body) for scale in scales)


def _scales(program: Program) -> Mapping[str, set[Slots]]:
    """The scales that each tensor meets, in equations that read it and in those that read what is made of it."""
    found: defaultdict[str, set[Slots]] = defaultdict(set)
    for equation in reversed(program.equations):
        above = tuple(_letters(equation, slots) for slots in found[equation.target])
        for part in _parts(equation.body, above):
            if isinstance(part.term, Read) and part.scales:
                inside = [free_indices(sub) for sub in part.term.subs]
                whole = frozenset[Index]().union(*inside)
                found[part.term.tensor] |= {frozenset(n for n, mine in enumerate(inside) if mine & scale)
                                            for scale in part.scales if scale <= whole}
    return found


def _letters(equation: Equation, slots: Slots) -> Letters:
    """The indices of some slots of a target."""
    return frozenset[Index]().union(*(free_indices(equation.axes[n]) for n in slots))


def _parts(term: Term, above: tuple[Letters, ...], grows: bool = True) -> Iterator[_Part]:
    """The tensors and sums in a term, where scales may stand `above` the term."""
    match term:
        case Read():
            yield _Part(term, above, grows)
        case Apply("mul", args):
            for n, arg in enumerate(args):
                beside = [free_indices(x) for m, x in enumerate(args) if m != n and not _at_least_one(x)]
                yield from _parts(arg, (*above, *beside), grows)
        case Apply("div", (over, under)):
            yield from _parts(over, (*above, free_indices(under)), grows)
            yield from _parts(under, (), False)
        case Fold(op):
            if op == "sum":
                yield _Part(term, above, grows)
            passes = op in _PASSING and not _of_matrices(term)
            yield from _parts(term.body, above if passes else (), grows and passes)
        case Join(index, parts):
            for mine, part in parts:
                there = tuple(frozenset(mine if i == index else i for i in scale) for scale in above)
                yield from _parts(part, there, grows)
        case Where(_, then):
            yield from _parts(then, above, grows)
        case _:
            passes = isinstance(term, Apply) and term.op in _PASSING
            for kid in children(term):
                yield from _parts(kid, above if passes else (), grows and passes)


def _of_matrices(fold: Fold) -> bool:
    """Whether a sum is over products of which each of two factors has an index that the other lacks."""
    sides = [free_indices(side) for side in factors(fold.body)]
    return any(a - b and b - a for a, b in combinations(sides, 2))


def _at_least_one(term: Term) -> bool:
    """Whether a factor is a number that makes nothing smaller."""
    return isinstance(term, Const) and not -1 < term.value < 1
