"""What may stand in a sum in normal form: factors, what leaves a sum and what is worth an equation of its own."""

from __future__ import annotations

from collections.abc import Iterator

from einc.ir.indices import OPEN, Index
from einc.ir.primitives import COSTLY, PRIMITIVES
from einc.ir.terms import ONE, Apply, Fold, Pack, Part, Position, Read, Term, const, free_indices, reads, walk
from einc.transforms.laws.simplify import factors


def leaves(factor: Term, bound: tuple[Index, ...]) -> bool:
    """Whether it gains something to have the factor outside of the sum: what is one number for all rows leaves later, too."""
    free = free_indices(factor)
    return not free & set(bound) and (bool(free) or not any(True for _ in reads(factor)))


def worth(inner: tuple[Term, ...], fold: Fold, letters: frozenset[Index]) -> bool:
    """Whether a sum takes these factors in place of their product, a value with these letters, because some of them leave it.

    A sum over the data's own extent becomes one pass that way, and one whose result runs over more of the data is scaled in
    tiles. Any other is a product of matrices whose operand is formed once: only numbers leave it.
    """
    leaving = [f for f in inner if leaves(f, fold.bound)]
    data = {i for i in free_indices(fold) if i.set.cls in OPEN}
    if any(i.set.cls in OPEN for i in fold.bound) or not data <= letters:
        return bool(leaving)
    return len(inner) - len(leaving) == 1 and bool(leaving) and not any(free_indices(f) for f in leaving)


def is_product(term: Term) -> bool:
    return isinstance(term, Apply) and term.op in ("mul", "div", "neg")


def quotient_factors(term: Term) -> tuple[Term, ...]:
    """Factors of a product or quotient; what is below the stroke is a reciprocal."""
    match term:
        case Apply("mul", args):
            return tuple(f for x in args for f in quotient_factors(x))
        case Apply("div", (above, below)):
            over = (Apply("div", (ONE, f)) for f in factors(below))
            return (*quotient_factors(above), *over)
        case Apply("neg", (inner,)):
            return (const(-1), *quotient_factors(inner))
    return (term,)


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
    match sub:
        case Position():
            return True
        case Pack(parts):
            return all(isinstance(p, Position) for p in parts)
        case Part(Position()):
            return True
    return False


def letters(sub: Term) -> list[Index]:
    return [x.index for x in walk(sub) if isinstance(x, Position)]


def cost(term: Term) -> bool:
    """Whether a term is worth an equation of its own."""
    return any(True for _ in _costly(term))


def label(term: Term) -> str:
    return next(_costly(term), "term")


def _costly(term: Term) -> Iterator[str]:
    return (x.op for x in walk(term) if isinstance(x, Apply) and PRIMITIVES[x.op].cost >= COSTLY)
