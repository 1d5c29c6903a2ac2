"""Sums by a computed number: Σ_{t, s, f(t, s) = r} x for each r adds every x to one
element, and costs what x costs alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from einc.ir.folds import FOLDS
from einc.ir.indices import SEQUENCE, Index
from einc.ir.programs import Equation
from einc.ir.terms import Apply, Const, Fold, Position, Read, Size, Term, both, conjuncts, free_indices

_WHOLE = frozenset({"add", "sub", "neg", "mul", "min", "max", "mod", "abs", "floor", "ceil"})


@dataclass(frozen=True)
class Scattered:
    """The index that is named, the whole number that names an element of it, and the rest of the domain."""

    index: Index
    number: Term
    rest: Term


def scattered(equation: Equation, fold: Fold, integer: Callable[[str], bool]) -> Scattered | None:
    """A sum by a number that moves along both axes of a tile, for an index that nothing else in the sum speaks of."""
    if not FOLDS[fold.op].linear:
        return None
    atoms = conjuncts(fold.domain)
    for atom in atoms:
        named = named_by(atom, equation)
        if named is None:
            continue
        index, number = named
        rest = both(*(c for c in atoms if c is not atom))
        moving = sum(i.set.cls in SEQUENCE for i in free_indices(number))
        alone = index not in free_indices(number) | free_indices(rest) | free_indices(fold.body)
        if alone and moving > 1 and free_indices(number) & set(fold.bound) and _whole(number, integer):
            return Scattered(index, number, rest)
    return None


def named_by(atom: Term, equation: Equation) -> tuple[Index, Term] | None:
    """number = r, for an index r of the result."""
    match atom:
        case Apply("eq", (Position(index), number)) if index in equation.indices:
            return index, number
        case Apply("eq", (number, Position(index))) if index in equation.indices:
            return index, number
    return None


def _whole(term: Term, integer: Callable[[str], bool]) -> bool:
    """Whether the term is a whole number at every point."""
    match term:
        case Const():
            return isinstance(term.value, Fraction) and term.value.denominator == 1
        case Position() | Size():
            return True
        case Read(tensor):
            return integer(tensor)
        case Apply("floor" | "ceil", _):
            return True
        case Apply(op, args):
            return op in _WHOLE and all(_whole(a, integer) for a in args)
    return False
