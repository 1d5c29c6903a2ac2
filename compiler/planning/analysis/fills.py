"""What a value is where its domain fails, followed through the operations; and what is a
finite number wherever it stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from einc.ir.folds import FOLDS
from einc.ir.indices import Extent
from einc.ir.plan import Dot, Iota, Let, Load, Map, Reduce, Scalar
from einc.ir.primitives import NONNEGATIVE, POSITIVE, PRIMITIVES, UNKNOWN
from einc.ir.programs import Definitions, Equation, definitions
from einc.ir.signs import sign
from einc.ir.sums import factors
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
    free_indices,
    reads,
    walk,
)
from einc.planning.analysis.ranges import nonempty

FINITE = "finite"
# Where a value is computed: where its reader asks for it, where it exists, or where it may not exist.
Place = Literal["asked", "on", "off"]

Fill = float | str | None  # a number, some finite number, or unknown


def fill_of(op: str, args: list[Fill]) -> Fill:
    """What an operation gives where the domain fails, if that can be told."""
    if any(a is None for a in args):
        return None
    numbers = [a for a in args if isinstance(a, float)]
    match op:
        case "add" | "sub" | "mul" | "div" | "neg" if all(map(_finite, args)):
            if op == "mul" and 0.0 in numbers:
                return 0.0
            return 0.0 if op == "div" and args[0] == 0.0 and is_positive(args[1]) else FINITE if op != "div" else None
        case "add" if len(infinite := {a for a in numbers if math.isinf(a)}) == 1:
            return infinite.pop()
        case "sub" if isinstance(args[0], float) and math.isinf(args[0]) and _finite(args[1]):
            return args[0]
        case "sub" if isinstance(args[1], float) and math.isinf(args[1]):
            return -args[1] if _finite(args[0]) else None
        case "neg" if numbers:
            return -numbers[0]
        case "exp" | "exp2" if numbers:
            return math.exp(numbers[0]) if numbers[0] < 700 else None
        case "div" if numbers and math.isinf(numbers[0]) and isinstance(args[1], float) and 0 < args[1] < math.inf:
            return numbers[0]
        case "max" | "min" if len(numbers) == len(args):
            return max(numbers) if op == "max" else min(numbers)
    return None


def fill_of_let(value: str, domain: Term, lets: Mapping[str, Let], known: Mapping[tuple[str, Term], Fill]) -> Fill:
    """What a let holds where a domain fails; `known` has what is told of lets and domains already."""
    found = known.get((value, domain))
    if found is not None:
        return found
    let = lets[value]
    match let.op:
        case Scalar(Const(number)):
            return float(number)
        case Scalar() | Iota() | Load():
            return FINITE
        case Reduce(fold) if math.isinf(FOLDS[fold].start):
            return known.get((value, TRUE))
        case Dot() | Map() | Reduce():
            if isinstance(let.op, Dot) or not any(x.name in let.axes for x in free_indices(domain)):
                return FINITE
            return (fill_of(let.op.op, [fill_of_let(a, domain, lets, known) for a in let.args])
                    if isinstance(let.op, Map) else None)
    return None


def is_positive(fill: Fill) -> bool:
    """Whether a fill is a number above 0, so that 0 divided by it is 0."""
    return isinstance(fill, float) and fill > 0


def _finite(fill: Fill) -> bool:
    return fill == FINITE or (isinstance(fill, float) and math.isfinite(fill))


def surely_finite(term: Term, equations: Mapping[str, Equation]) -> bool:
    """Whether a term is a finite number at every point, also where no one asks for it. Overflow is thought of where a
    value is read that exists on a domain alone: what bounds an exponential there does not bound it elsewhere.

    A fold over nothing, a quotient and a logarithm may be infinite, and infinity times the 0 of a mask is no number.
    """
    return _finite_at(term, definitions(equations), "asked")


def surely_above(term: Term, equations: Mapping[str, Equation]) -> bool:
    """Whether a term is surely more than −∞: an input that is added, a mask written as a bias,
    may be that at every point.
    """
    return surely_finite(term, equations) and not _adds_input(term, equations)


def _adds_input(term: Term, equations: Mapping[str, Equation]) -> bool:
    """Whether an input, or an input times what reads none, is one of the terms that are added up."""
    match term:
        case Read(tensor):
            return tensor not in equations or _adds_input(equations[tensor].body, equations)
        case Where(_, then):
            return _adds_input(then, equations)
        case Apply("add" | "sub" | "neg" | "max" | "min", args):
            return any(_adds_input(a, equations) for a in args)
        case Apply("mul" | "div", args):
            # As where the base of the exponential is changed; a product of inputs is no bias.
            return sum(_adds_input(a, equations) for a in args) == 1 and all(
                _adds_input(a, equations) or not any(True for _ in reads(a)) for a in args)
    return False


def _finite_at(term: Term, equations: Definitions, at: Place) -> bool:
    """The recursion of `surely_finite`."""
    match term:
        case Const(value):
            return math.isfinite(value)
        case Size() | Position() | Truth() | Pack() | Part():
            return True
        case Read(tensor):
            if tensor not in equations:
                return True
            inner: Place = "off" if at != "on" and equations[tensor].domain != TRUE else "on"
            known = equations.about(tensor).finite
            if (tensor, inner) not in known:
                known[tensor, inner] = _finite_at(equations[tensor].body, equations, inner)
            return known[tensor, inner]
        case Where(_, then):
            return _finite_at(then, equations, at)
        case Join(_, parts):
            return all(_finite_at(part, equations, at) for _, part in parts)
        case Fold(op, bound, domain, body):
            empty = math.isinf(FOLDS[op].start) and not nonempty(domain, bound, tuple(free_indices(term)))
            return not empty and _finite_at(body, equations, at)
        case Apply("div", (above, Size(extent))) if _empty_with(above, extent, equations):
            return _finite_at(above, equations, at)
        case Apply("exp" | "exp2" | "expm1", (power,)) if at == "off" and _may_grow(power, equations):
            return False
        case Apply("div", (above, below)) if at == "off" and _finite_at(below, equations, "on"):
            # A divisor that overflows makes a quotient 0.
            return _finite_at(above, equations, at) and _stays_finite("div", (above, below), equations)
        case Apply(op, args) if all(_finite_at(a, equations, at) for a in args):
            return _stays_finite(op, args, equations)
    return False


def _may_grow(power: Term, equations: Mapping[str, Equation]) -> bool:
    """Whether an exponent may be above 0 at a point where no value of the text is."""
    told = any(isinstance(x, Apply) and x.op == "nonpositive" for x in walk(power))  # where the value is
    return told or sign(Apply("neg", (power,)), equations) < NONNEGATIVE


def _empty_with(term: Term, extent: Extent, equations: Mapping[str, Equation]) -> bool:
    """Whether a term is a sum over an index of this extent, so that it is 0 where the
    extent is: a mean is then 0 / 0."""
    body = equations[term.tensor].body if isinstance(term, Read) and term.tensor in equations else term
    return isinstance(body, Fold) and body.op == "sum" and any(i.set.extent == extent for i in body.bound)


def _stays_finite(op: str, args: tuple[Term, ...], equations: Mapping[str, Equation]) -> bool:
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
