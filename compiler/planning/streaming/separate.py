"""g(x, m) = Σ_k c_k(m) b_k(x): a fold's body written as a finite sum of products of what
is known before and what streams.

Only what holds a fold's result is split off; everything else stays together, so that no
reference is made that nobody needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from einc.ir.sums import added, factors, inverse, product
from einc.ir.terms import Apply, Term, const

Holds = Callable[[Term], bool]


@dataclass(frozen=True)
class Entangled(Exception):  # noqa: N818
    """A term that holds both sides and does not come apart."""

    term: Term


Pair = tuple[tuple[Term, ...], tuple[Term, ...]]  # factors outside, factors inside


def separate(term: Term, held: Holds, moving: Holds) -> list[Pair]:
    """The products whose sum is the term. `held`: contains a fold's result; `moving`: varies along the folded index.
    Raises Entangled."""
    if not held(term):
        return [((), (term,))]
    if not moving(term):
        return [((term,), ())]
    match term:
        case Apply("mul", args):
            return _multiplied([separate(x, held, moving) for x in args])
        case Apply("add", args):
            return [p for x in args for p in separate(x, held, moving)]
        case Apply("sub", (x, y)):
            return separate(x, held, moving) + _times(const(-1), separate(y, held, moving))
        case Apply("neg", (x,)):
            return _times(const(-1), separate(x, held, moving))
        case Apply("div", (above, below)):
            return _multiplied([separate(above, held, moving), _inverted(below, held, moving)])
        case Apply("exp", (x,)):
            return _exponential(x, held, moving)
        case Apply("pow" | "sqrt", (Apply("mul", args), *rest)):
            return _multiplied([separate(Apply(term.op, (x, *rest)), held, moving) for x in args])
        case Apply("log", (Apply("mul", args),)):
            return [p for x in args for p in separate(Apply("log", (x,)), held, moving)]
        case Apply("log", (Apply("div", (above, below)),)):
            return separate(Apply("log", (above,)), held, moving) + _times(
                const(-1), separate(Apply("log", (below,)), held, moving)
            )
        case Apply("log", (Apply("exp", (x,)),)):
            return separate(x, held, moving)
    raise Entangled(term)


def _multiplied(parts: list[list[Pair]]) -> list[Pair]:
    out: list[Pair] = [((), ())]
    for options in parts:
        out = [(a + c, b + d) for a, b in out for c, d in options]
    return out


def _times(factor: Term, pairs: list[Pair]) -> list[Pair]:
    return [((factor, *a), b) for a, b in pairs]


def _inverted(below: Term, held: Holds, moving: Holds) -> list[Pair]:
    """1 / product, factor by factor; a sum below the stroke that holds both sides is entangled. Raises Entangled where
    one is."""
    out: list[Pair] = [((), ())]
    for factor in factors(below):
        if held(factor) and moving(factor):
            raise Entangled(inverse(factor))
        out = _multiplied([out, [((inverse(factor),), ())] if held(factor) else [((), (inverse(factor),))]])
    return out


def _exponential(x: Term, held: Holds, moving: Holds) -> list[Pair]:
    """exp(p + q) = exp(p) exp(q), split between the addends that hold results and the others."""
    pairs = _addends(x, held, moving)
    outer = [t for t, h in pairs if h]
    inner = [t for t, h in pairs if not h]
    return [((Apply("exp", (added(outer),)),), (Apply("exp", (added(inner),)),) if inner else ())]


def _addends(x: Term, held: Holds, moving: Holds) -> list[tuple[Term, bool]]:
    """The addends of an exponent, each with whether it holds a result; products are multiplied out where that helps.
    Raises Entangled for an addend that holds both."""
    out: list[tuple[Term, bool]] = []
    for outside, inside in separate(x, held, moving):
        if any(held(f) for f in outside) and any(moving(f) for f in inside):
            raise Entangled(x)
        parts = (*outside, *inside)
        out.append((product(parts), any(held(f) for f in parts)))
    return out


def every_factor(term: Term) -> tuple[Term, ...]:
    """The factors of a term, those of a negative one too."""
    if isinstance(term, Apply) and term.op == "neg":
        return (const(-1), *every_factor(term.args[0]))
    return tuple(f for x in factors(term) for f in every_factor(x)) if len(factors(term)) > 1 else (term,)
