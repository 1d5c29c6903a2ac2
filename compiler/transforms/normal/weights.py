"""Weights of exponentials that may be 0: an exponential that such a weight stands before has no part in a scale.

A sum Σ w e^p is relative to the largest p of which w is not 0. Where w is 0 so is w e^p, however large p is, and the
sum is what it is without it; relative to that p all that is left might be too small for a float. A weight that is
surely not 0 is not asked, so that a sum of nothing but exponentials is relative to the largest of all.

Asked are sums below a stroke or a logarithm, and those above a stroke. A sum that is only multiplied is relative to the
largest of all its points: it is 0 where all that is left is 10^38 times smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from fractions import Fraction
from itertools import combinations

from einc.ir.indices import Index
from einc.ir.primitives import POSITIVE
from einc.ir.signs import sign
from einc.ir.sums import fraction
from einc.ir.terms import ZERO, Apply, Const, Fold, Read, Term, Where, both, canonical, free_indices, walk
from einc.transforms.normal.reach import Reaches


def asked(weight: Term, power: Term, whole: Mapping[Term, tuple[Term, ...]], known: Reaches,
          given: Term, letters: Set[Index]) -> Iterator[Term]:
    """The conditions under which the weight of e^power is not 0, without those that surely hold where the power is
    above −∞: that of a gate, which the power has, and that of a sum that is `whole`, relative to the largest of what it
    sums, but for what is asked of that. Digits that cancel in a sum are as they are written. A weight with other
    letters than these is not asked: the largest would be of more points than there are exponents.
    """
    for factor in fraction(weight)[0]:
        if factor in whole:
            yield from whole[factor]
            continue
        match factor:
            case Where(condition, then):
                yield from (condition,) if power == ZERO else ()
                yield from asked(then, power, whole, known, both(given, condition), letters)
            case Apply("sqrt", (inner,)):
                yield from asked(inner, power, whole, known, given, letters)
            case Apply("pow", (inner, Const(Fraction() as times))) if times > 0:
                yield from asked(inner, power, whole, known, given, letters)
            case Const(value) if value != 0:
                pass
            case _ if (free_indices(factor) <= letters and known.sign(factor) != POSITIVE
                       and sign(factor, known.equations, given) != POSITIVE):
                yield Apply("ne", (factor, ZERO))


def largest(fold: Fold, power: Term, conditions: tuple[Term, ...], beside: Iterable[Term], known: Reaches) -> Fold:
    """The largest exponent of a sum over the points at which all conditions hold. Where it is asked `beside` a scale
    that is the largest of more points of the sum, at which some of the conditions need not hold, it is that one."""
    theirs = {canonical(known.opened(x) or x if isinstance(x, Read) else x) for scale in beside for x in walk(scale)}
    over = [Fold("max", fold.bound, both(fold.domain, *some), power)
            for n in range(len(conditions) + 1) for some in combinations(conditions, n)]
    return next((found for found in over if canonical(found) in theirs), over[-1])

