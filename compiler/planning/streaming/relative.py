"""Roundings that may be relative: `e4m3(relative(448 exp(x - m)))`, m a result of the pass, as e^-m times a
rounding that holds no result.

A sum of such is carried relative to the largest x so far, and what is rounded is relative to that: where later tiles
have a larger x, it is another rounding than the one of the text, as the word `relative` allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from einc.ir.narrow import NARROW
from einc.ir.sums import joined, parted, product
from einc.ir.terms import Apply, Fold, Term
from einc.planning.streaming.moments import exponent
from einc.planning.streaming.passes import Streamed
from einc.planning.streaming.separate import Entangled, Holds, separate


def pulled_out(body: Term, held: Holds, moving: Holds) -> Term:
    """A body with the exponentials that hold results in front of its roundings that may be relative, where these are
    factors of the whole body. Raises Entangled where one would be relative to something else, or where two of them, or
    another exponential, or what holds results, stand in one product.
    """
    def change(factor: Term) -> Term:
        if (inner := _inside(factor)) is None or not held(factor) or not moving(factor):
            return factor
        pairs = separate(inner, held, moving)
        if len(pairs) != 1 or not all(isinstance(f, Apply) and f.op == "exp" for f in pairs[0][0]):
            raise Entangled(factor)
        assert isinstance(factor, Apply)
        return product((*pairs[0][0], _rounded(factor.op, joined(pairs[0][1]))))

    made = _of_factors(body, change)
    if made == body:
        return body
    parts = [f for f in parted(made) if moving(f)]
    if any(map(held, parts)) or sum(exponent(_inside(f) or f)[0] is not None for f in parts) != 1:
        raise Entangled(body)
    return made


def power_of(body: Term) -> Term | None:
    """The exponent of a product, or that of its one rounding that may be relative; None where there is none."""
    power = exponent(body)[0]
    return power if power is not None else rounded_power(body)


def rounded_power(body: Term) -> Term | None:
    """The exponent in the one rounding of a product that may be relative; None where there is none, or another
    exponential stands beside it."""
    found = [(f, p) for f in parted(body) if (p := exponent(_inside(f) or f)[0]) is not None]
    return found[0][1] if len(found) == 1 and _inside(found[0][0]) is not None else None


def relative_to(body: Term, reference: Term) -> Term:
    """A product with an exponent, e^reference times smaller: less in its exponent, or in that of its rounding."""
    power, rest = exponent(body)
    if power is not None:
        return joined((Apply("exp", (Apply("sub", (power, reference)),)), *rest))
    return _of_factors(body, lambda factor: _less(factor, reference))


def told(streamed: Streamed) -> Streamed:
    """The pass with a note for each reference that its roundings are relative to."""
    by = {e.target: e.body for e in streamed.equations}
    folds = [(c.reference, f.body) for c in streamed.carries if c.reference and isinstance(f := by[c.target], Fold)]
    notes = dict.fromkeys(
        f"{t.op} is relative to {reference} so far" for reference, body in folds if rounded_power(body) is not None
        for t in parted(body) if isinstance(t, Apply) and _inside(t) is not None)
    return replace(streamed, notes=(*streamed.notes, *notes))


def _of_factors(term: Term, change: Callable[[Term], Term]) -> Term:
    """A product or quotient with each factor above its strokes changed."""
    match term:
        case Apply("mul", args):
            return Apply("mul", tuple(_of_factors(x, change) for x in args))
        case Apply("neg", (x,)):
            return Apply("neg", (_of_factors(x, change),))
        case Apply("div", (above, below)):
            return Apply("div", (_of_factors(above, change), below))
    return change(term)


def _less(factor: Term, reference: Term) -> Term:
    """A rounding that may be relative with less in its exponent; every other factor as it is."""
    inner = _inside(factor)
    if inner is None or exponent(inner)[0] is None:
        return factor
    assert isinstance(factor, Apply)
    return _rounded(factor.op, relative_to(inner, reference))


def _inside(term: Term) -> Term | None:
    """What a rounding that may be relative rounds; None for every other term."""
    match term:
        case Apply(op, (Apply("relative", (inner,)),)) if op in NARROW:
            return inner
    return None


def _rounded(op: str, inner: Term) -> Term:
    return Apply(op, (Apply("relative", (inner,)),))
