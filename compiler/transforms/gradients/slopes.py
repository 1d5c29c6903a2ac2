"""The slopes of a term without folds: what a change of each value that it reads adds to a change of the term.

One row for each primitive. Where a function has a corner the slope of one side holds: of equal arguments of max and min
the first that can change is the one that is taken, and a number before all others, so that max(x, 0) is flat at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from einc.ir.terms import ONE, TRUE, ZERO, Apply, Const, Read, Term, Where, both, const, reads
from einc.transforms.laws.simplify import factors, simplify


@dataclass(frozen=True, slots=True)
class Slope:
    """What the read value's own change is multiplied with, and where."""

    read: Read
    term: Term
    condition: Term


def slopes(body: Term, change: Term, moves: Callable[[str], bool], value: Term | None = None) -> Iterator[Slope]:
    """The slope for each read of a tensor that `moves`, times `change`, the term's own cotangent; `value` is the term, if named."""
    yield from _slopes(body, change, TRUE, moves, body if value is None else value)


def _slopes(body: Term, change: Term, given: Term, moves: Callable[[str], bool], value: Term) -> Iterator[Slope]:
    match body:
        case Read(tensor) if moves(tensor):
            yield Slope(body, balanced(change), given)
        case Where(condition, then):
            yield from _slopes(then, change, both(given, condition), moves, then)
        case Apply(op, args) if any(moves(r.tensor) for r in read_values(body)):
            for place, arg in enumerate(args):
                if any(moves(r.tensor) for r in read_values(arg)):
                    part, where = _partial(op, args, place, value)
                    yield from _slopes(arg, product(change, part), both(given, where), moves, arg)


def balanced(term: Term) -> Term:
    """exp(e) / (a + b exp(e)) as 1 / (a exp(-e) + b): of two infinite numbers the quotient would be none."""
    parts = factors(term)
    for n, part in enumerate(parts):
        inner = part.args[0] if isinstance(part, Apply) and part.op == "neg" else part
        if not isinstance(inner, Apply) or inner.op != "div":
            continue
        above, below = inner.args[0], list(factors(inner.args[1]))
        for k, total in enumerate(below):
            power = _power_in(total, parts)
            if power is not None:
                below[k] = _lowered(total, power)
                made = Apply("div", (above, product(*below)))
                left = list(parts[:n] + parts[n + 1 :])
                left.remove(power)
                return balanced(product(*left, made if inner is part else Apply("neg", (made,))))
    return term


def _power_in(total: Term, parts: tuple[Term, ...]) -> Term | None:
    """The exponential of a sum that is one of the factors, too."""
    addends = total.args if isinstance(total, Apply) and total.op == "add" else ()
    inside = {f for a in addends for f in factors(a)}
    return next((p for p in parts if isinstance(p, Apply) and p.op == "exp" and p in inside), None)


def _lowered(total: Term, power: Term) -> Term:
    """The sum divided by an exponential in it."""
    assert isinstance(total, Apply) and isinstance(power, Apply)
    back = Apply("exp", (simplify(Apply("neg", power.args)),))

    def each(addend: Term) -> Term:
        mine = list(factors(addend))
        if power not in mine:
            return product(addend, back)
        mine.remove(power)
        return product(*mine)

    return Apply("add", tuple(map(each, total.args)))


def read_values(term: Term) -> Iterator[Read]:
    """What a term without folds reads as values: not in subscripts, nor in conditions, nor where only whole numbers come out."""
    match term:
        case Read():
            yield term
        case Where(_, then):
            yield from read_values(then)
        case Apply("floor" | "ceil" | "hash" | "chance" | "pick" | "le" | "lt" | "eq" | "ne" | "and" | "or" | "not"):
            return
        case Apply(_, args):
            for arg in args:
                yield from read_values(arg)


def _partial(op: str, args: tuple[Term, ...], place: int, whole: Term) -> tuple[Term, Term]:
    """∂ op / ∂ args[place], and where it is not zero."""
    x = args[place]
    match op:
        case "add" | "nonpositive":
            return ONE, TRUE
        case "sub":
            return ONE if place == 0 else const(-1), TRUE
        case "neg":
            return const(-1), TRUE
        case "mul":
            return product(*(a for n, a in enumerate(args) if n != place)), TRUE
        case "div" if place == 0:
            return Apply("div", (ONE, args[1])), TRUE
        case "div":
            return Apply("neg", (Apply("div", (args[0], Apply("mul", (x, x)))),)), TRUE
        case "pow":
            return _power(args, place, whole), TRUE
        case "max" | "min":
            return ONE, _wins(op, args, place)
        case "mod" if place == 0:
            return ONE, TRUE
        case "mod":
            return Apply("neg", (Apply("floor", (Apply("div", args),)),)), TRUE
        case "abs":
            up, down = Where(Apply("lt", (ZERO, x)), ONE), Where(Apply("lt", (x, ZERO)), ONE)
            return Apply("sub", (up, down)), TRUE
    return _smooth(op, x, whole), TRUE


def _smooth(op: str, x: Term, whole: Term) -> Term:
    """The slope of a function of one argument."""
    match op:
        case "exp":
            return whole
        case "exp2":
            return product(whole, _number(math.log(2)))
        case "log":
            return Apply("div", (ONE, x))
        case "sqrt":
            return Apply("div", (ONE, Apply("mul", (const(2), whole))))
        case "sin":
            return Apply("cos", (x,))
        case "cos":
            return Apply("neg", (Apply("sin", (x,)),))
        case "tanh":
            return Apply("sub", (ONE, Apply("mul", (whole, whole))))
        case "erf":
            return product(_number(2 / math.sqrt(math.pi)), Apply("exp", (Apply("neg", (Apply("mul", (x, x)),)),)))
    raise AssertionError(f"{op} has no slope")


def _power(args: tuple[Term, ...], place: int, whole: Term) -> Term:
    base, power = args
    if place == 1:
        log = Const(math.log(base.value)) if isinstance(base, Const) and base.value > 0 else Apply("log", (base,))
        return product(whole, log)
    match power:
        case Const(Fraction() as n) if n == 2:
            return product(power, base)
        case Const(Fraction() as n):
            return product(power, Apply("pow", (base, const(n - 1))))
    return product(power, Apply("pow", (base, Apply("sub", (power, ONE)))))


def _wins(op: str, args: tuple[Term, ...], place: int) -> Term:
    """Where one argument is the largest (smallest): of equal ones a number, else the first."""
    mine, conditions = args[place], list[Term]()
    for n, other in enumerate(args):
        if n != place:
            beats = n < place or not any(True for _ in reads(other))
            pair = (other, mine) if op == "max" else (mine, other)
            conditions.append(Apply("lt" if beats else "le", pair))
    return both(*conditions)


def product(*parts: Term) -> Term:
    """A flat product without ones."""
    flat = tuple(f for p in parts for f in factors(p) if f != ONE)
    return ONE if not flat else flat[0] if len(flat) == 1 else Apply("mul", flat)


def _number(value: float) -> Const:
    """A real number in as many digits as it has."""
    return const(Fraction(repr(value)))
