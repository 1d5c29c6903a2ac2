"""Whole numbers: the number of a composite, and which scalar terms are surely whole."""

from __future__ import annotations

from fractions import Fraction

from einc.ir.indices import IndexSet, number
from einc.ir.primitives import HASHES
from einc.ir.terms import (
    Apply,
    Const,
    Read,
    Size,
    Term,
    Where,
    const,
    walk,
)


def keeps_whole(term: Term) -> bool:
    """Whether the constants and operations of a term give a whole number.
    Reads, folds and gates count as whole: what they hold is for the caller to check."""
    match term:
        case Const(value):
            return isinstance(value, Fraction) and value.denominator == 1
        case Size():
            return True  # a size, or the extent of a set: H / G elements are a whole number of them
        case Apply("add" | "sub" | "mul" | "neg" | "min" | "max" | "mod" | "floor" | "ceil", args):
            return all(keeps_whole(a) for a in args) or term.op in ("floor", "ceil")
        case Apply():
            return False
    return True


def packed_number(parts: tuple[Term, ...], sets: tuple[IndexSet, ...], into: IndexSet) -> Term:
    """The composite's number: mixed radix, the first part slowest."""
    terms: list[Term] = [const(into.start)]
    for at, (part, set_) in enumerate(zip(parts, sets, strict=True)):
        stride = number(1)
        for later in sets[at + 1 :]:
            stride = stride * later.extent
        terms.append(Apply("mul", (Size(stride), Apply("sub", (part, const(set_.start))))))
    return Apply("add", tuple(terms))


def nonzero(term: Term) -> bool:
    """Whether a term is a constant other than 0."""
    return isinstance(term, Const) and term.value != 0


def beyond_python(term: Term) -> bool:
    """Whether Python's own numbers are not enough for the term."""
    return any(isinstance(x, Read | Where) or (isinstance(x, Apply) and x.op in HASHES) for x in walk(term))
