"""What may stand in a sum in normal form: factors, what leaves a sum and what is worth an equation of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from einc.ir.domains import proves
from einc.ir.indices import DATA, Index
from einc.ir.primitives import COSTLY, PRIMITIVES
from einc.ir.programs import Equation, Tensor
from einc.ir.terms import (
    Apply,
    Fold,
    Pack,
    Part,
    Position,
    Read,
    Term,
    free_indices,
    reads,
    substitute,
    walk,
)


def leaves(factor: Term, bound: tuple[Index, ...]) -> bool:
    """Whether it gains something to have the factor outside of the sum: what is one
    number for all rows leaves later, too."""
    free = free_indices(factor)
    return not free & set(bound) and (bool(free) or not any(True for _ in reads(factor)))


def worth(inner: tuple[Term, ...], fold: Fold, letters: frozenset[Index]) -> bool:
    """Whether a sum takes these factors in place of their product, a value with these
    letters, because some of them leave it.

    A sum over the data's own extent becomes one pass that way, and one whose result runs over more of the data is
    scaled in tiles. Any other is a product of matrices whose operand is formed once: only numbers leave it.
    """
    leaving = [f for f in inner if leaves(f, fold.bound)]
    data = {i for i in free_indices(fold) if i.set.cls in DATA}
    if any(i.set.cls in DATA for i in fold.bound) or not data <= letters:
        return bool(leaving)
    return len(inner) - len(leaving) == 1 and bool(leaving) and not any(free_indices(f) for f in leaving)


def is_product(term: Term) -> bool:
    """Whether a term is a product, a quotient or a negation."""
    return isinstance(term, Apply) and term.op in ("mul", "div", "neg")


def divided(parts: tuple[Term, ...], below: Term, equations: Mapping[str, Equation],
            tensors: Mapping[str, Tensor]) -> tuple[Term, ...]:
    """Those factors of a product that a number which may be 0 divides before they meet the others.

    One that is 0 wherever the number is, if there is one; else all that have no other
    letters, or the one with the fewest more.
    """
    vanishing = next((p for p in parts if vanishes(p, below, equations, tensors)), None)
    if vanishing is not None:
        return (vanishing,)
    letters = free_indices(below)
    within = tuple(p for p in parts if free_indices(p) <= letters)
    return (within or tuple(sorted((p for p in parts if free_indices(p) & letters),
                                   key=lambda p: len(free_indices(p)))[:1]))


def vanishes(term: Term, other: Term, equations: Mapping[str, Equation], tensors: Mapping[str, Tensor]) -> bool:
    """Whether a term is a sum without a point wherever another one is; `tensors` know it of what was made before."""
    if isinstance(term, Read) and isinstance(other, Read) and term.tensor in tensors:
        known = tensors[term.tensor].told.gone
        if any(key == other.tensor and other.subs == tuple(term.subs[n] for n in places) for key, places in known):
            return True
    one, two = _made(term, equations), _made(other, equations)
    if isinstance(one, Apply) and one.op in ("mul", "div", "neg"):
        return any(vanishes(f, other, equations, tensors) for f in (one.args[:1] if one.op == "div" else one.args))
    match one, two:
        case Fold("sum", mine, domain, _), Fold("sum", theirs, there, _) if (
            [i.set for i in mine] == [i.set for i in theirs]
        ):
            by: dict[Index, Term] = dict(zip(theirs, map(Position, mine), strict=True))
            return proves(domain, substitute(there, by))
    return False


def _made(term: Term, equations: Mapping[str, Equation]) -> Term:
    """What a value that is read is made of, at the places where it is read."""
    equation = equations.get(term.tensor) if isinstance(term, Read) else None
    if equation is None or not isinstance(term, Read) or not all(isinstance(a, Position) for a in equation.axes):
        return term
    return equation.at(term.subs)


def plain(term: Term) -> bool:
    """A read at positions, each index once: what a contraction takes as an operand."""
    if not isinstance(term, Read):
        return False
    found = [i for sub in term.subs for i in letters(sub)]
    return len(set(found)) == len(found) and all(is_position(sub) for sub in term.subs)


def packed(term: Term) -> bool:
    """A read of pairs or parts of slots, which is no array of its own."""
    return isinstance(term, Read) and not all(isinstance(sub, Position) for sub in term.subs)


def is_position(sub: Term) -> bool:
    """Whether a subscript is an index, a composite of indices, or one index as a part of a direct sum."""
    match sub:
        case Position():
            return True
        case Pack(parts):
            return all(isinstance(p, Position) for p in parts)
        case Part(Position()):
            return True
    return False


def letters(sub: Term) -> list[Index]:
    """The indices of all positions in a subscript, in their order, with repetitions."""
    return [x.index for x in walk(sub) if isinstance(x, Position)]


def cost(term: Term) -> bool:
    """Whether a term is worth an equation of its own."""
    return any(True for _ in _costly(term))


def label(term: Term) -> str:
    """The name of the first costly operation in a term, for the name of an equation; "term" if there is none."""
    return next(_costly(term), "term")


def _costly(term: Term) -> Iterator[str]:
    return (x.op for x in walk(term) if isinstance(x, Apply) and PRIMITIVES[x.op].cost >= COSTLY)
