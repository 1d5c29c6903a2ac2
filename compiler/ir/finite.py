"""What is a finite number wherever it stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from einc.ir.indices import Extent
from einc.ir.primitives import NONNEGATIVE, POSITIVE, PRIMITIVES, UNKNOWN
from einc.ir.programs import Definitions, Equation, definitions
from einc.ir.signs import sign
from einc.ir.sums import factors, reached
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Join,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Truth,
    Where,
    conjuncts,
    free_indices,
    reads,
    walk,
)
from einc.ir.witnesses import infinite_over_nothing

# Where a value is computed: where its reader asks for it, where it exists, where it may not exist, where it and all
# that it is made of exist and no one may ask for it, or where it exists, no axis is without elements and no divisor 0.
Place = Literal["asked", "on", "off", "unread", "filled"]


_KEEP = ("add", "sub", "neg", "max", "min", "logaddexp", "exact", "nonpositive", "floor", "ceil")  # −∞ of −∞


def surely_finite(term: Term, equations: Mapping[str, Equation], at: Place = "asked") -> bool:
    """Whether a term is a finite number at every point, also where no one asks for it. Overflow is thought of where a
    value is read that exists on a domain alone: what bounds an exponential there does not bound it elsewhere. It is
    thought of everywhere for what is `unread`, but for what is folded.

    A fold over nothing, a quotient and a logarithm may be infinite, and infinity times the 0 of a mask is no number.
    """
    return _finite_at(term, definitions(equations), at)


def surely_above(term: Term, equations: Mapping[str, Equation]) -> bool:
    """Whether a term is surely more than −∞: an input that is added, a mask written as a bias,
    may be that at every point.
    """
    return surely_finite(term, equations) and not _adds_input(term, equations)


def _adds_input(term: Term, equations: Mapping[str, Equation]) -> bool:
    """Whether an input, or an input times what reads none, is one of the terms that are added up, or of which the
    largest is taken; it may be rounded."""
    match term:
        case Read(tensor):
            return tensor not in equations or _adds_input(equations[tensor].body, equations)
        case Where(_, then):
            return _adds_input(then, equations)
        case Fold(_, _, _, body):
            return _adds_input(body, equations)
        case Join(_, parts):
            return any(_adds_input(part, equations) for _, part in parts)
        case Apply(op, args) if op in _KEEP:
            return any(_adds_input(a, equations) for a in args)
        case Apply("mul" | "div", args):
            # As where the base of the exponential is changed; a product of inputs is no bias.
            return sum(_adds_input(a, equations) for a in args) == 1 and all(
                _adds_input(a, equations) or not any(True for _ in reads(a)) for a in args)
    return False


def _finite_at(term: Term, equations: Definitions, at: Place) -> bool:
    """Whether a term is surely finite at a place, as `surely_finite` tells for a whole one."""
    inner: Place
    match term:
        case Const(value):
            return math.isfinite(value)
        case Size() | Position() | Truth() | Pack() | Part():
            return True
        case Read(tensor):
            if tensor not in equations:
                return True
            off = at != "on" and equations[tensor].domain != TRUE
            inner = at if at in ("unread", "filled") else "off" if off else "on"
            known = equations.about(tensor).finite
            if (tensor, inner) not in known:
                known[tensor, inner] = _finite_at(equations[tensor].body, equations, inner)
            return known[tensor, inner]
        case Where(condition, then):
            asked = any(c == reached(then) for c in conjuncts(condition))
            return _finite_at(then, equations, at) or (asked and _finite_or_nothing(then, equations, at))
        case Join(_, parts):
            return all(_finite_at(part, equations, at) for _, part in parts)
        case Fold(_, _, _, body):
            inner = "on" if at == "unread" else at
            filled = at == "filled" and term.domain == TRUE
            return _finite_at(body, equations, inner) and (
                filled or not infinite_over_nothing(term, free_indices(term)))
        case Apply("div", (above, Size(extent))) if _empty_with(above, extent, equations):
            return _finite_at(above, equations, at)
        case Apply("exp" | "exp2" | "expm1", (power,)) if at in ("off", "unread") and _may_grow(power, equations):
            return False
        case Apply("div", args) if at == "filled" and all(_finite_at(a, equations, at) for a in args):
            return True
        case Apply("div", (above, below)) if at in ("off", "unread") and _finite_at(below, equations, "on"):
            # A divisor that overflows makes a quotient 0.
            return _finite_at(above, equations, at) and stays_finite("div", (above, below), equations)
        case Apply(op, args) if all(_finite_at(a, equations, at) for a in args):
            return stays_finite(op, args, equations)
    return False


def _finite_or_nothing(term: Term, equations: Definitions, at: Place) -> bool:
    """Whether a term is the largest of finite numbers, which is −∞ over nothing and nowhere else infinite."""
    body = equations[term.tensor].body if isinstance(term, Read) and term.tensor in equations else term
    return isinstance(body, Fold) and body.op == "max" and _finite_at(body.body, equations, at)


def _may_grow(power: Term, equations: Mapping[str, Equation]) -> bool:
    """Whether an exponent may be above 0 at a point where no value of the text is."""
    told = any(isinstance(x, Apply) and x.op == "nonpositive" for x in walk(power))  # where the value is
    return told or sign(Apply("neg", (power,)), equations) < NONNEGATIVE


def _empty_with(term: Term, extent: Extent, equations: Mapping[str, Equation]) -> bool:
    """Whether a term is a sum over an index of this extent, so that it is 0 where the
    extent is: a mean is then 0 / 0."""
    body = equations[term.tensor].body if isinstance(term, Read) and term.tensor in equations else term
    return isinstance(body, Fold) and body.op == "sum" and any(i.set.extent == extent for i in body.bound)


def stays_finite(op: str, args: tuple[Term, ...], equations: Mapping[str, Equation]) -> bool:
    """Whether an operation on finite numbers gives one."""
    match op, args:
        case "div" | "mod", (_, below):  # where an extent is 0 there is nothing that could be infinite
            return all(_of_sizes(f) or sign(f, equations) == POSITIVE for f in factors(below))
        case "pow", (base, Const(power)):
            return sign(base, equations) == POSITIVE or (power >= 0 and power == int(power))
        case "pow", (base, _):
            return sign(base, equations) == POSITIVE
    least = PRIMITIVES[op].domain[0]
    wanted = UNKNOWN if least == -math.inf else NONNEGATIVE if least <= 0 else POSITIVE
    return all(sign(a, equations) >= wanted for a in args) if wanted else True


def _of_sizes(term: Term) -> bool:
    """Whether a number is 0 only where an extent is."""
    match term:
        case Size():
            return True
        case Const(value):
            return value > 0
        case Apply("mul" | "sqrt", args):
            return all(map(_of_sizes, args))
    return False
