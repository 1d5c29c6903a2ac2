"""Conditions on positions, written in one way: linear forms that are ≥ 0 or 0, an
indicator for each, without those that follow."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from math import floor, gcd, inf, lcm

from einc.ir import sums
from einc.ir.domains import Linear, difference, is_whole, linear, negation, proves
from einc.ir.indices import Extent, number
from einc.ir.terms import (
    FALSE,
    TRUE,
    Apply,
    Const,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    both,
    canonical,
    conjuncts,
    rebuild,
)
from einc.meaning.polynomials import MINUS, NOTHING, ONE, Atom, Form, added, atom, multiplied, spelled, times

ZERO = Size(number(0))
_EITHER = 4


def indicator(condition: Term) -> Form:
    """1 where the condition holds and 0 elsewhere, as sums and products of those of comparisons."""
    match condition:
        case Apply("and", args):
            return multiplied(map(indicator, args))
        case Apply("or", args) if len(args) <= _EITHER:
            return added(ONE, times(MINUS, multiplied(added(ONE, times(MINUS, indicator(x))) for x in args)))
        case Apply("not", (inner,)):
            return added(ONE, times(MINUS, indicator(inner)))
        case Apply("lt" | "ne", (Const(value), side)) if value == -inf:
            return _above(side)
        case Apply("ne", args):
            return added(ONE, times(MINUS, indicator(Apply("eq", args))))
    found = normal_condition(condition)
    if len(atoms := conjuncts(found)) > 1:
        return multiplied(map(indicator, atoms))
    return ONE if found == TRUE else NOTHING if found == FALSE else atom(Atom("if", terms=(found,)))


def _above(side: Term) -> Form:
    """1 where a value is above −∞: a maximum is where one of its arguments is."""
    match side:
        case Const(value):
            return ONE if value > -inf else NOTHING
        case Apply("max", args):
            return added(ONE, times(MINUS, multiplied(added(ONE, times(MINUS, _above(x))) for x in args)))
    return atom(Atom("if", terms=(Apply("lt", (Const(-inf), canonical(side))),)))


@cache
def normal_condition(condition: Term) -> Term:
    """One comparison in the way in which it is always written; what holds always, or never, is told."""
    match condition:
        case Apply("eq", (Pack(a, sets, into), Pack(b, others, other))) if (sets, into) == (others, other):
            return both(*(normal_condition(Apply("eq", pair)) for pair in zip(a, b, strict=True)))
        case Apply("eq", (Part(a, of, _, into), Part(b, other, _, onto))) if into == onto:
            return normal_condition(Apply("eq", (a, b))) if of == other else FALSE
    found = oriented(condition)
    if found == TRUE or proves(TRUE, found):
        return TRUE
    return FALSE if found == FALSE or proves(TRUE, negation(found)) else found


def oriented(condition: Term) -> Term:
    """A comparison as a linear form against 0."""
    match condition:
        case Apply("le" | "lt" | "eq" as op, (a, b)):
            form = difference(a, b)
            if form is None:
                return Apply(op, (b, a)) if op == "eq" and spelled(b) < spelled(a) else condition
            return _compared(op, form)
        case Apply("or" | "and" as op, args):
            return Apply(op, tuple(sorted({oriented(x) for x in args}, key=spelled)))
        case Apply("ne", args):
            found = oriented(Apply("eq", args))
            return Apply("ne", found.args) if isinstance(found, Apply) else negation(found)
    return condition


def _compared(op: str, form: Linear) -> Term:
    """A comparison of 0 with a form (`le` is 0 <= form), scaled to coprime whole factors; TRUE or FALSE if decided."""
    if op == "lt" and is_whole(form):
        op, form = "le", form.plus(Linear((), number(-1)))
    if (constant := form.constant.constant) is not None:
        if not form.atoms:
            holds = {"le": constant >= 0, "lt": constant > 0, "eq": constant == 0}[op]
            return TRUE if holds else FALSE
        factors = [c.constant for _, c in form.atoms]
        rational = [c for c in factors if c is not None]
        if len(rational) == len(factors):
            scale = Fraction(lcm(*(c.denominator for c in rational)),
                             gcd(*(int(c * lcm(*(d.denominator for d in rational)))
                                                                        for c in rational)))
            form = Linear((), number(0)).plus(form, number(scale))
            whole = is_whole(Linear(form.atoms, number(0)))
            if whole and op == "le":
                form = Linear(form.atoms, number(floor(constant * scale)))
            elif whole and op == "eq" and (constant * scale).denominator != 1:
                return FALSE
    if op == "eq":
        first = min(form.atoms, key=lambda x: spelled(x[0]), default=None)
        sign = first[1].terms[0][1] if first is not None else form.constant.terms[0][1] if form.constant.terms else 1
        form = Linear((), number(0)).plus(form, number(1 if sign > 0 else -1))
    return Apply(op, (ZERO, sum_of(form)))


def sum_of(form: Linear) -> Term:
    """A linear form as a term, its atoms in order."""
    parts = [_multiple(x, c) for x, c in sorted(form.atoms, key=lambda x: spelled(x[0]))]
    if form.constant.terms or not parts:
        constant = form.constant.constant
        parts.append(Size(form.constant) if constant is None else Const(constant))
    return sums.added(parts)


def _multiple(term: Term, by: Extent) -> Term:
    return term if by == number(1) else Apply("mul", (Size(by) if by.constant is None else Const(by.constant), term))


def tidied(term: Term) -> Term:
    """A whole-number term as it is always written: sums in order, and so within what is read. An element of a composite
    of which a component is computed is its number."""
    match term:
        case Position() | Const() | Size():
            return term
        case Read(_, parts):
            return rebuild(term, tuple(map(tidied, parts)))
        case Pack(parts) if not any(isinstance(part, Apply | Read) for part in parts):
            return rebuild(term, tuple(map(tidied, parts)))
        case Part(item):
            return rebuild(term, (tidied(item),))
        case Apply("add" | "sub" | "neg" | "mul" | "div") | Pack():
            form = linear(term)
            return term if form is None else sum_of(Linear(tuple((tidied(x), c) for x, c in form.atoms), form.constant))
        case Apply("min" | "max" as op, args):
            return _furthest(op, tuple(map(tidied, args)))
        case Apply(_, args):
            return rebuild(term, tuple(map(tidied, args)))
    return term


def _furthest(op: str, args: tuple[Term, ...]) -> Term:
    """The least or the greatest of some numbers, without those that never are it."""
    kept = list(args)
    for one in args:
        others = [x for x in kept if x is not one]
        if any(proves(TRUE, Apply("le", (x, one) if op == "min" else (one, x))) for x in others):
            kept = others
    return kept[0] if len(kept) == 1 else Apply(op, tuple(kept))


def needed(conditions: Iterable[Term]) -> tuple[Term, ...] | None:
    """The conditions that do not follow from the others, in order; None where they contradict each other."""
    return _needed(tuple(sorted(set(conditions), key=spelled)))


@cache
def _needed(conditions: tuple[Term, ...]) -> tuple[Term, ...] | None:
    kept = list(conditions)
    for condition in conditions if len(conditions) > 1 else ():
        rest = both(*(c for c in kept if c != condition))
        if proves(rest, negation(condition)):
            return None
        if proves(rest, condition):
            kept.remove(condition)
    return tuple(kept)
