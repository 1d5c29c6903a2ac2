"""The slopes of a term without folds: what a change of each value that it reads adds to a change of the term.

The rows of the primitives have them. Where a function has a corner the slope of one side holds: of
equal arguments of max and min the first that can change is the one that is taken, and a number before
all others, so that max(x, 0) is flat at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import assert_never

from einc.ir.domains import negation, proves
from einc.ir.primitives import PRIMITIVES, filled
from einc.ir.sums import factors, fraction
from einc.ir.sums import product as flat_product
from einc.ir.terms import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
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
    both,
    conjuncts,
    const,
    reads,
    transform,
)
from einc.transforms.laws.simplify import simplify


@dataclass(frozen=True, slots=True)
class Slope:
    """What the read value's own change is multiplied with, and where."""

    read: Read
    term: Term
    condition: Term


Ask = Callable[[str, tuple[Term, ...]], bool]


def slopes(body: Term, change: Term, moves: Callable[[str], bool], value: Term | None = None,
           flat: Ask = lambda op, args: False) -> Iterator[Slope]:
    """The slope for each read of a tensor that `moves`, times `change`, the term's own cotangent; `value` is the term,
    if named. Of an operation that is `flat` where its last argument is 0, a quotient or a logarithm, the slope is 0
    there."""
    yield from _slopes(body, change, TRUE, moves, body if value is None else value, flat)


def _slopes(body: Term, change: Term, given: Term, moves: Callable[[str], bool], value: Term,
            flat: Ask) -> Iterator[Slope]:
    """The recursion of `slopes`: `change` is the cotangent of `body`, and `given` the condition under which it is
    read."""
    match body:
        case Read(tensor) if moves(tensor):
            yield Slope(body, balanced(change), given)
        case Where(condition, then):
            for slope in _slopes(then, change, TRUE, moves, then, flat):
                yield replace(slope, condition=both(given, felt(condition, then, slope.read), slope.condition))
        case Apply(op, args) if any(moves(r.tensor) for r in read_values(body)):
            for place, arg in enumerate(args):
                if any(moves(r.tensor) for r in read_values(arg)):
                    part, where = _partial(op, args, place, value)
                    if flat(op, args):
                        where = both(where, *_not_zero(args[-1]))
                    if where != FALSE:
                        yield from _slopes(arg, product(change, part), both(given, where), moves, arg, flat)


def _not_zero(below: Term) -> Iterator[Term]:
    """That a product is not 0, and that none of its factors is, which follows: what has the letters of one factor alone
    has a condition of its own by it, and is not computed where it is no number.
    """
    yield from dict.fromkeys(Apply("ne", (term, ZERO)) for term in (below, *factors(below))
                             if any(True for _ in reads(term)))


def felt(condition: Term, body: Term, read: Read, spelled: Callable[[Term], Term] = lambda term: term) -> Term:
    """The condition under which a change of what is read changes a body that exists under `condition`. That a factor
    with that value in it is not 0 is left out: where it is 0 so is the body, which thus is the same function without
    that, and has its slope. `spelled` writes a factor out that has a name."""
    own = {spelled(factor) for factor in fraction(body)[0] if read in reads(factor)}
    return both(*(c for c in conjuncts(condition)
                  if not (isinstance(c, Apply) and c.op == "ne" and c.args[1] == ZERO and spelled(c.args[0]) in own)))


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
    """What a term without folds reads as values: not in subscripts, nor in conditions,
    nor where only whole numbers come out."""
    match term:
        case Read():
            yield term
        case Where(_, then):
            yield from read_values(then)
        case Apply(op, args) if PRIMITIVES[op].slope is not None:
            for arg in args:
                yield from read_values(arg)
        case Apply() | Const() | Truth() | Size() | Position() | Pack() | Part():
            return
        case Fold() | Join():
            raise AssertionError(f"a {type(term).__name__} stands at the root of an equation alone")
        case _:
            assert_never(term)


def _partial(op: str, args: tuple[Term, ...], place: int, whole: Term) -> tuple[Term, Term]:
    """∂ op / ∂ args[place], and where it is not zero. Raises TypeError for a primitive whose row has no slope."""
    row = PRIMITIVES[op]
    match row.slope:
        case "taken":
            return ONE, _wins(op, args, place)
        case None:
            raise TypeError(f"the primitive `{op}` has no slope, and nothing it reads may be reached by a gradient")
        case partials:
            others = tuple(a for n, a in enumerate(args) if n != place)
            by = dict(zip(("x", "y"), args, strict=False)) if row.arity else {"x": args[place]}
            rest = product(*others) if op == "mul" else others[0] if len(others) == 1 else Apply(op, others)
            return _slope_at(partials[place if row.arity else 0], by | {"value": whole, "rest": rest}), TRUE


def _slope_at(slope: Term, by: Mapping[str, Term]) -> Term:
    """The slope of a row at the arguments, as a flat product: what follows from numbers among them is computed."""
    slope = transform(filled(slope, {name: value for name, value in by.items() if isinstance(value, Const)}), _computed)
    return product(*(filled(part, by) for part in factors(slope)))


def _computed(term: Term) -> Term:
    match term:
        case Apply("sub", (Const(Fraction() as a), Const(Fraction() as b))):
            return const(a - b)
        case Apply("pow", (base, Const(power))) if power == 1:
            return base
        case Apply("log", (Const(value),)) if value > 0:
            return Const(math.log(value))
    return term


def _wins(op: str, args: tuple[Term, ...], place: int) -> Term:
    """Where one argument is the largest (smallest): of equal ones a number, else the first."""
    mine, conditions = args[place], list[Term]()
    for n, other in enumerate(args):
        if n != place:
            beats = n < place or not any(True for _ in reads(other))
            pair = (other, mine) if op == "max" else (mine, other)
            conditions.append(_decided(Apply("lt" if beats else "le", pair)))
    return both(*conditions)


def _decided(condition: Term) -> Term:
    """The condition, or whether it holds where that is known of exact numbers. Equal arguments may differ by a rounding
    either way: where one direction is known, the other has to be, or both would have the slope, or none."""
    return TRUE if proves(TRUE, condition) else FALSE if proves(TRUE, negation(condition)) else condition


def product(*parts: Term) -> Term:
    """The product of these without products inside it and without factors that are 1."""
    return flat_product([f for p in parts for f in factors(p)])
