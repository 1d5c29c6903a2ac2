"""Roundings that may be relative: `e4m3(relative(448 exp(x - m)))`, m a result of the pass, as e^-m times a
rounding that holds no result.

A sum of such is carried relative to the largest x so far, and what is rounded is relative to that: where later tiles
have a larger x, it is another rounding than the one of the text, as the word `relative` allows.
"""

from __future__ import annotations

from dataclasses import replace

from einc.ir.narrow import NARROW
from einc.ir.sums import factors, joined, product
from einc.ir.terms import Apply, Term, transform, walk
from einc.planning.streaming.moments import exponent
from einc.planning.streaming.passes import Streamed
from einc.planning.streaming.separate import Entangled, Holds, separate


def pulled_out(body: Term, held: Holds, moving: Holds) -> Term:
    """A body with the exponentials that hold results in front of its roundings that may be relative. Raises Entangled
    where one would be relative to something else, or where two of them, or another exponential, stand in one product.
    """
    def change(term: Term) -> Term:
        if (inner := _inside(term)) is None or not held(term) or not moving(term):
            return term
        pairs = separate(inner, held, moving)
        if len(pairs) != 1 or not all(isinstance(f, Apply) and f.op == "exp" for f in pairs[0][0]):
            raise Entangled(term)
        assert isinstance(term, Apply)
        return product((*pairs[0][0], _rounded(term.op, joined(pairs[0][1]))))

    made = transform(body, change)
    if made == body:
        return body
    if sum(exponent(_inside(f) or f)[0] is not None for f in factors(made) if moving(f)) > 1:
        raise Entangled(body)
    return made


def power_of(body: Term) -> Term | None:
    """The exponent of a product, or that in a rounding in it that may be relative; None where there is none."""
    power, rest = exponent(body)
    inside = (exponent(inner)[0] for f in rest if (inner := _inside(f)) is not None)
    return power if power is not None else next((p for p in inside if p is not None), None)


def relative_to(body: Term, reference: Term) -> Term:
    """A product with an exponent, e^reference times smaller: less in its exponent, or in that of its rounding."""
    power, rest = exponent(body)
    if power is not None:
        return joined((Apply("exp", (Apply("sub", (power, reference)),)), *rest))
    return joined(tuple(_less(f, reference) for f in rest))


def told(streamed: Streamed) -> Streamed:
    """The pass with a note for each reference that its roundings are relative to."""
    by = {e.target: e.body for e in streamed.equations}
    notes = dict.fromkeys(
        f"{t.op} is relative to {c.reference} so far" for c in streamed.carries if c.reference
        for t in walk(by[c.target]) if isinstance(t, Apply) and _inside(t) is not None)
    return replace(streamed, notes=(*streamed.notes, *notes))


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
