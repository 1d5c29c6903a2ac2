"""Products between two positions -> sums of logarithms between them, which cost as many positions, not triples.

∏_{u ∈ D} g_u is 0 where one of the g is 0, else (−1)^n e^L with n the number of those below 0 and L the sum of the
logarithms of their sizes. Three sums over D say so, and sums between two positions are differences
(`intervals.py`); a factor of 0 is counted, has no logarithm, and makes nothing infinite.

Only values are made so. In a gradient the sum over all intervals around a gate would be divided by the gate, and lose
its digits where that is small; there the product of all others is one before the gate times one after it. The logarithm
of an exponential is its exponent, whose slope needs no quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeVar

from einc.ir.primitives import NONNEGATIVE
from einc.ir.programs import Equation, Program, Tensor
from einc.ir.signs import sign
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Join,
    Position,
    Read,
    Term,
    Where,
    changed_under,
    children,
    conjuncts,
    const,
    free_indices,
    walk,
)
from einc.transforms.laws.simplify import simplify
from einc.transforms.normal.intervals import between, finite, in_differences

P = TypeVar("P", bound=Program)


def with_exponentials(program: P, slopes: bool = False) -> P:
    """The program with products of exponentials over intervals as exponentials of sums; with `slopes` all such products
    whose domain a position outside bounds.
    """
    known = program.by_target

    def found(fold: Fold, given: Term) -> Term | None:
        """The exponential of a sum of logarithms, of a product of exponentials."""
        factor = _complement(fold.body, known)
        if not _exponential(factor, known) or not (_bounded(fold) if slopes else between(fold, given)):
            return None
        return Apply("exp", (Fold("sum", fold.bound, fold.domain, Apply("log", (factor,))),))

    return _changed(program, found)


def with_logarithms(program: P) -> P:
    """The program with its products over intervals as three sums."""
    known, tensors = program.by_target, program.tensors

    def found(fold: Fold, given: Term) -> Term | None:
        """The size, the sign and the zeros of a product over an interval."""
        if _whole(fold.body, tensors) or not (between(fold, given) and finite(fold.body, known)):
            return None
        return _in_logarithms(fold, given, known)

    return _changed(program, found)


def _changed(program: P, change: Callable[[Fold, Term], Term | None]) -> P:
    """The program with what `change` makes of each product and of what holds there, where it makes something."""
    if not any(isinstance(t, Fold) and t.op == "prod" for t in program.terms):
        return program

    def changed(term: Term, given: Term) -> Term:
        """The term with its products changed, innermost first."""
        term = changed_under(term, given, changed)
        found = change(term, given) if isinstance(term, Fold) and term.op == "prod" else None
        return term if found is None else found

    return program.but(equations=tuple(
        e if (body := changed(e.body, e.domain)) is e.body else Equation(e.target, e.axes, e.domain, body, e.source)
        for e in program.equations))


def _bounded(fold: Fold) -> bool:
    """Whether a position outside says where the fold begins or ends."""
    return any(isinstance(atom, Apply) and atom.op in ("le", "lt") and free_indices(atom) & set(fold.bound)
               and free_indices(atom) - set(fold.bound) for atom in conjuncts(fold.domain))


def _in_logarithms(fold: Fold, given: Term, known: Mapping[str, Equation]) -> Term:
    """The size of a product, its sign where it may be below 0, and whether a factor is 0, each by a sum."""
    factor, found = fold.body, sign(fold.body, known)

    def summed(body: Term) -> Term:
        """A finite value over the domain of the product."""
        return in_differences(Fold("sum", fold.bound, fold.domain, body), given, None)

    size = factor if found >= NONNEGATIVE else Apply("abs", (factor,))
    value: Term = Apply("exp", (summed(Where(Apply("ne", (factor, ZERO)), Apply("log", (size,)))),))
    if found < NONNEGATIVE:
        below = summed(Where(Apply("lt", (factor, ZERO)), ONE))
        value = Apply("mul", (Apply("sub", (ONE, Apply("mul", (const(2), Apply("mod", (below, const(2))))))), value))
    return Where(Apply("eq", (summed(Where(Apply("eq", (factor, ZERO)), ONE)), ZERO)), value)


def _complement(term: Term, known: Mapping[str, Equation]) -> Term:
    """1 - a/(a + e^x) as 1/(1 + a e^-x), which keeps the digits of what is small; any other term as it is."""
    match term:
        case Apply("sub", (one, share)) if one == ONE:
            match _opened(share, known):
                case Apply("div", (Const() as above, Apply("add", args))) if above in args and len(args) == 2:
                    (rest,) = (a for a in args if a != above)
                    if isinstance(rest, Apply) and rest.op == "exp":
                        turned = Apply("exp", (simplify(Apply("neg", rest.args)),))
                        return Apply("div", (ONE, Apply("add", (ONE, simplify(Apply("mul", (above, turned)))))))
    return term


def _opened(term: Term, known: Mapping[str, Equation]) -> Term:
    """What a name stands for, where it does so everywhere; any other term as it is."""
    if isinstance(term, Read) and term.tensor in known:
        found = known[term.tensor]
        if found.domain == TRUE and found.has_letters and not isinstance(found.body, Fold | Join):
            return _opened(found.at(term.subs), known)
    return term


def _exponential(term: Term, known: Mapping[str, Equation]) -> bool:
    """Whether a value is made of exponentials and positive numbers alone, so that its logarithm is finite where the
    value is too small for a float.
    """
    match term:
        case Const(value):
            return bool(value > 0)
        case Apply("exp"):
            return True
        case Apply("mul" | "div" | "add", args):
            return all(_exponential(arg, known) for arg in args)
        case Read() if (found := _opened(term, known)) is not term:
            return _exponential(found, known)
    return False


def _whole(factor: Term, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a product is a whole number that sums of logarithms would not give exactly: all factors are whole, and
    not all of size 0 or 1.
    """
    leaves = list(_leaves(factor))
    whole = all(isinstance(x, Position) or (isinstance(x, Read) and tensors[x.tensor].integer)
                or (isinstance(x, Const) and isinstance(x.value, Fraction) and x.value.denominator == 1)
                for x in leaves)
    return whole and not all(isinstance(x, Const) and -1 <= x.value <= 1 for x in leaves) and not any(
        isinstance(x, Apply) and x.op == "div" for x in walk(factor))


def _leaves(term: Term) -> list[Term]:
    """What a value is made of; conditions are left out."""
    match term:
        case Where(_, then):
            return _leaves(then)
        case Fold(_, _, _, body):
            return _leaves(body)
        case Read():
            return [term]
    kids = children(term)
    return [leaf for kid in kids for leaf in _leaves(kid)] if kids else [term]
