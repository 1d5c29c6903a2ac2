"""A normal form in which equal real expressions of folds, exponentials and quotients are the same value.

A form is a sum of monomials; a monomial is a number, e to a form, and powers of atoms. What a fold's body holds that does not
move with the folded index stands outside the fold. Two terms of one form are equal wherever both are finite; the converse is not
claimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

from einc.folds import FOLDS
from einc.indices import Index, IndexSet
from einc.terms import Apply, Const, Fold, Position, Term, conjuncts, free_indices, substitute


class Unformed(Exception):  # noqa: N818, it is an answer
    """An expression without a value: a quotient by 0, ∞ - ∞, a product with ∞, e to the power of ∞."""


@dataclass(frozen=True)
class Atom:
    """What the form does not look into: a term, a fold, a function of forms."""

    op: str
    forms: tuple[Form, ...] = ()
    terms: tuple[Term, ...] = ()
    sets: tuple[IndexSet, ...] = ()
    free: frozenset[Index] = field(default=frozenset(), repr=False)


@dataclass(frozen=True)
class Monomial:
    exponent: Form
    powers: tuple[tuple[Atom, int], ...]


Form = tuple[tuple[Monomial, Fraction], ...]
UNIT = Monomial((), ())
NOTHING: Form = ()
ONE: Form = ((UNIT, Fraction(1)),)
_INFINITY = Atom("∞")


def equal(a: Term, b: Term) -> bool:
    """Whether the difference is 0, quotients multiplied out."""
    try:
        one, other = form(a), form(b)
        return one == other or not _without_quotients(added(one, times(other, number(Fraction(-1)))))
    except Unformed:
        return False


def form(term: Term) -> Form:
    """The normal form of a term."""
    match term:
        case Const(value):
            sign = number(Fraction(1 if value > 0 else -1))
            return number(value) if isinstance(value, Fraction) else times(sign, atom(_INFINITY))
        case Apply("add" | "mul" as op, args):
            return reduce(added if op == "add" else times, (form(x) for x in args))
        case Apply("sub", (a, b)):
            return added(form(a), times(number(Fraction(-1)), form(b)))
        case Apply("neg", (a,)):
            return times(number(Fraction(-1)), form(a))
        case Apply("div", (a, b)):
            return times(form(a), inverse(form(b)))
        case Apply("exp", (a,)):
            return exponential(form(a))
        case Apply("log", (a,)):
            return logarithm(form(a))
        case Apply("max" | "min" as op, args):
            return extreme(op, [form(x) for x in args])
        case Apply("pow", (a, Const(Fraction() as n))) if n.denominator == 1 and 0 < n < 9:
            return reduce(times, [form(a)] * int(n))
        case Apply(op, args):
            return atom(Atom(op, tuple(form(x) for x in args), free=free_indices(term)))
        case Fold(op, bound, domain, body) if not FOLDS[op].ordered:
            return folded(op, bound, conjuncts(domain), form(body))
    return atom(Atom("term", terms=(term,), free=free_indices(term)))


# sums and products


def number(value: Fraction) -> Form:
    return ((UNIT, value),) if value else NOTHING


def atom(found: Atom) -> Form:
    return ((Monomial((), ((found, 1),)), Fraction(1)),)


def _collected(items: list[tuple[Monomial, Fraction]]) -> Form:
    total: dict[Monomial, Fraction] = {}
    for monomial, coefficient in items:
        total[monomial] = total.get(monomial, Fraction(0)) + coefficient
    if any(not total[m] and c and _infinite(((m, c),)) for m, c in items):
        raise Unformed  # ∞ - ∞
    return tuple(sorted(((m, c) for m, c in total.items() if c), key=repr))


def added(a: Form, b: Form) -> Form:
    return _collected([*a, *b])


def _infinite(found: Form) -> bool:
    return any(x == _INFINITY for m, _ in found for x, _ in m.powers)


def _is_number(found: Form) -> bool:
    return len(found) == 1 and found[0][0] == UNIT


def times(a: Form, b: Form) -> Form:
    if (_infinite(a) and not _is_number(b)) or (_infinite(b) and not _is_number(a)):
        raise Unformed  # what is multiplied by ∞ may be 0, or of either sign
    return _collected([(_product(x, y), c * d) for x, c in a for y, d in b])


def _product(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a.powers)
    for found, n in b.powers:
        powers[found] = powers.get(found, 0) + n
    return Monomial(added(a.exponent, b.exponent), tuple(sorted(((x, n) for x, n in powers.items() if n), key=repr)))


def inverse(found: Form) -> Form:
    """1 / form: of one monomial a monomial, of a sum an atom for what is left when the common factor is taken out."""
    if not found or _infinite(found):
        raise Unformed
    common = _content(found)
    (_, lead), *others = rest = times(found, ((_upside_down(common), Fraction(1)),))
    out = ((_upside_down(common), 1 / lead),)
    if not others:
        return out if rest[0][0] == UNIT else times(out, ((_upside_down(rest[0][0]), Fraction(1)),))
    primitive = times(tuple(rest), number(1 / lead))
    return times(out, ((Monomial((), ((Atom("sum", (primitive,), free=_free(primitive)), -1),)), Fraction(1)),))


def _upside_down(found: Monomial) -> Monomial:
    return Monomial(times(number(Fraction(-1)), found.exponent), tuple((x, -n) for x, n in found.powers))


def _content(found: Form) -> Monomial:
    """The greatest factor of every monomial: the least power of each atom, the least multiple of each exponent."""
    exponents = [dict(m.exponent) for m, _ in found]
    powers = [dict(m.powers) for m, _ in found]
    least = [(x, min(e.get(x, Fraction(0)) for e in exponents)) for x in dict.fromkeys(x for e in exponents for x in e)]
    atoms = [(x, min(p.get(x, 0) for p in powers)) for x in dict.fromkeys(x for p in powers for x in p)]
    return Monomial(_collected(least), tuple(sorted(((x, n) for x, n in atoms if n), key=repr)))


def _without_quotients(found: Form) -> Form:
    """The form times every sum that it is divided by."""
    while below := {x: n for m, _ in found for x, n in m.powers if x.op == "sum" and n < 0}:
        chosen = next(iter(below))
        least = min(n for m, _ in found for x, n in m.powers if x == chosen)
        total = NOTHING
        for monomial, coefficient in found:
            powers = dict(monomial.powers)
            rest = Monomial(monomial.exponent, tuple((x, n) for x, n in monomial.powers if x != chosen))
            (primitive,) = chosen.forms
            total = added(total, reduce(times, [primitive] * (powers.get(chosen, 0) - least), ((rest, coefficient),)))
        found = total
    return found


# functions


def exponential(found: Form) -> Form:
    """e^form; e^(log x) is x, e^-∞ is 0."""
    sign = sum(c for m, c in found if m.powers == ((_INFINITY, 1),) and not m.exponent)
    if _infinite(found):
        if sign < 0:
            return NOTHING
        raise Unformed
    logs = [(m, c) for m, c in found if c.denominator == 1 and _is_log(m)]
    rest = tuple(x for x in found if x not in logs)
    out: Form = ((Monomial(rest, ()), Fraction(1)),)
    for monomial, power in logs:
        (inner,) = monomial.powers[0][0].forms
        out = reduce(times, [inner if power > 0 else inverse(inner)] * abs(int(power)), out)
    return out


def _is_log(found: Monomial) -> bool:
    return not found.exponent and len(found.powers) == 1 and found.powers[0][0].op == "log" and found.powers[0][1] == 1


def logarithm(found: Form) -> Form:
    """log(e^p x) = p + log x."""
    if not found:
        raise Unformed
    common = Monomial(_content(found).exponent, ())
    rest = times(found, ((_upside_down(common), Fraction(1)),))
    return common.exponent if rest == ONE else added(common.exponent, atom(Atom("log", (rest,), free=_free(rest))))


def extreme(op: str, args: list[Form]) -> Form:
    """The maximum or minimum: flat, without repeats and neutral elements, what all have in common outside."""
    neutral = atom(_INFINITY) if op == "min" else times(number(Fraction(-1)), atom(_INFINITY))
    flat: set[Form] = {x for arg in args for x in _spliced(op, arg)} - {neutral}
    if not flat:
        return neutral
    common = tuple(x for x in next(iter(flat)) if all(x in arg for arg in flat))
    rest = sorted((tuple(x for x in arg if x not in common) for arg in flat), key=repr)
    if len(rest) == 1:
        return next(iter(flat))
    return added(tuple(sorted(common, key=repr)), atom(Atom(op, tuple(rest), free=_free(*rest))))


def _spliced(op: str, found: Form) -> list[Form]:
    """max(p + max(q, r), …) has the arguments p + q and p + r."""
    for monomial, coefficient in found:
        if coefficient == 1 and not monomial.exponent and len(monomial.powers) == 1:
            inner, power = monomial.powers[0]
            if inner.op == op and power == 1:
                rest = tuple(x for x in found if x[0] != monomial)
                return [added(rest, part) for part in inner.forms]
    return [found]


# folds


def folded(op: str, bound: tuple[Index, ...], conditions: tuple[Term, ...], body: Form) -> Form:
    """What does not move with the bound indices leaves the fold, by the law of its kind."""
    moving = frozenset(bound)

    def fold(inner: Form) -> Form:
        # Named by how many folds are inside, so that it is the same fold wherever it stands.
        height = 1 + max((n for m, _ in inner for n in _heights(m)), default=0)
        by: dict[Index, Term] = {i: Position(Index(f"%{height}.{n}", i.set)) for n, i in enumerate(bound)}
        terms = tuple(sorted({substitute(c, by) for c in conditions}, key=repr))
        free = _free(inner).union(*map(free_indices, conditions)) - moving
        return atom(Atom(f"fold {op}", (_renamed(inner, by),), terms, tuple(i.set for i in bound), free))

    if FOLDS[op].linear:
        if _infinite(body):
            raise Unformed
        total = NOTHING
        for monomial, coefficient in body:
            inside, outside = _parted(monomial, moving)
            total = added(total, times(((outside, coefficient),), fold(((inside, Fraction(1)),))))
        return total
    if FOLDS[op].start in (math.inf, -math.inf):
        inner = tuple((m, c) for m, c in body if _free(((m, c),)) & moving)
        return added(tuple(x for x in body if x not in inner), fold(inner))
    return fold(body)


def _parted(found: Monomial, moving: frozenset[Index]) -> tuple[Monomial, Monomial]:
    """The factors that move and those that do not."""
    inside = tuple(x for x in found.exponent if _free((x,)) & moving)
    still = tuple(x for x in found.exponent if x not in inside)
    return (Monomial(inside, tuple((x, n) for x, n in found.powers if x.free & moving)),
            Monomial(still, tuple((x, n) for x, n in found.powers if not x.free & moving)))


def _free(*forms: Form) -> frozenset[Index]:
    out: frozenset[Index] = frozenset()
    for monomial, _ in (x for found in forms for x in found):
        out = out.union(_free(monomial.exponent), *(x.free for x, _ in monomial.powers))
    return out


def _heights(found: Monomial) -> Iterator[int]:
    """How deep the folds of a monomial are nested."""
    for inner, _ in found.exponent:
        yield from _heights(inner)
    for x, _ in found.powers:
        yield x.op.startswith("fold") + max((n for f in x.forms for m, _ in f for n in _heights(m)), default=0)


def _renamed(found: Form, by: dict[Index, Term]) -> Form:
    """The form with its free indices named anew."""
    def rename(x: Atom) -> Atom:
        if not x.free & by.keys():
            return x
        free = frozenset(new.index if isinstance(new := by.get(i), Position) else i for i in x.free)
        return Atom(x.op, tuple(_renamed(f, by) for f in x.forms), tuple(substitute(t, by) for t in x.terms), x.sets, free)

    return _collected([
        (Monomial(_renamed(m.exponent, by), tuple(sorted(((rename(x), n) for x, n in m.powers), key=repr))), c) for m, c in found
    ])
