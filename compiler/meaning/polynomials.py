"""A normal form of real expressions: sums of monomials, and what the laws of sums, products and functions make of them.

A monomial is e to a form, and powers of atoms; the form holds a number with each. What holds an index that something
binds is made in `forming`. Two expressions of one form are equal wherever both are finite; the converse is not claimed.

sympy does not serve here: it has no normal form of sums over bound indices with domains, and where there are
none its `expand` takes about 7 times as long (`python -m bench algebra`). The tests have it as a referee of
what is proved: `tests/test_referee.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, reduce
from math import isqrt

from einc.ir.indices import Extent, Index, IndexSet
from einc.ir.terms import Apply, Const, Fold, Position, Read, Size, Term, Truth, children, free_indices


class Unformed(Exception):  # noqa: N818, it is an answer
    """An expression without a value: a quotient by 0, ∞ - ∞, a product with ∞, e to the
    power of ∞; or one that is too long."""


@dataclass(frozen=True, eq=False)
class Atom:
    """What the form does not look into: a term, a condition (1 where it holds, else 0), a fold, a function of forms."""

    op: str
    forms: tuple[Form, ...] = ()
    terms: tuple[Term, ...] = ()
    bound: tuple[Index, ...] = ()

    @cached_property
    def text(self) -> str:
        """The same for equal atoms, and for no others."""
        inside = (*map(spelled, self.terms), *map(written, self.forms), *map(_index, self.bound))
        return f"{self.op}[{'; '.join(inside)}]"

    @cached_property
    def free(self) -> frozenset[Index]:
        """The indices that are free in the atom."""
        return free(*self.forms).union(*map(free_indices, self.terms)).difference(self.bound)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True, eq=False)
class Monomial:
    """A product of powers of atoms, times the exponential of `exponent`."""

    exponent: Form
    powers: tuple[tuple[Atom, int], ...]

    @cached_property
    def text(self) -> str:
        """The same for equal monomials, and for no others."""
        raised = f"e^({written(self.exponent)}) " if self.exponent else ""
        return raised + " ".join(f"{x.text}^{n}" for x, n in self.powers)

    @cached_property
    def free(self) -> frozenset[Index]:
        """The indices that are free in the monomial."""
        return free(self.exponent).union(*(x.free for x, _ in self.powers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Monomial) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


Form = tuple[tuple[Monomial, Fraction], ...]
UNIT = Monomial((), ())
NOTHING: Form = ()
ONE: Form = ((UNIT, Fraction(1)),)
MINUS: Form = ((UNIT, Fraction(-1)),)
INFINITY = Atom("∞")
_MOST = 3_000  # monomials of one form
_TURNS, _ANGLES = 8, 6


# as text, by which equal things are found


def written(found: Form) -> str:
    """The form as text, the same for equal forms: each monomial after its coefficient."""
    return " + ".join(f"{c} {m.text}" for m, c in found)


@cache
def _set(over: IndexSet) -> str:
    return f"{over}{over.by}{'' if over.packed is None else over.packed}"


def _index(index: Index) -> str:
    return f"{index.name}:{_set(index.set)}"


def spelled(term: Term) -> str:
    """The term as text, another one for each term."""
    match term:
        case Position(index):
            return _index(index)
        case Const(value):
            return str(value)
        case Size(extent):
            return f"|{extent}|"
        case Truth(value):
            return str(value)
        case Read(tensor, subs):
            return f"{tensor}_[{', '.join(map(spelled, subs))}]"
        case Apply(op, args):
            return f"{op}({', '.join(map(spelled, args))})"
        case Fold(op, bound, domain, body):
            return f"{op}<{', '.join(map(_index, bound))} | {spelled(domain)}>({spelled(body)})"
    if not children(term):
        return repr(term)
    return f"{type(term).__name__}{getattr(term, 'into', '')}({', '.join(map(spelled, children(term)))})"


def free(*forms: Form) -> frozenset[Index]:
    """The indices that are free in the forms."""
    return frozenset[Index]().union(*(m.free for found in forms for m, _ in found))


# sums and products


def number(value: Fraction | int) -> Form:
    """A rational number as a form; 0 is the form without monomials."""
    return ((UNIT, Fraction(value)),) if value else NOTHING


def atom(found: Atom, power: int = 1) -> Form:
    """One atom as a form, to a whole power that may be negative."""
    return ((Monomial((), ((found, power),)), Fraction(1)),)


def collected(items: Iterable[tuple[Monomial, Fraction]]) -> Form:
    """The sum of monomials with equal ones put together. Raises Unformed where there are too many, or where ∞ − ∞ would
    be among them."""
    items = list(items)
    if len(items) == 1:
        return tuple(items) if items[0][1] else NOTHING
    total: dict[Monomial, Fraction] = {}
    for monomial, coefficient in items:
        total[monomial] = total.get(monomial, Fraction(0)) + coefficient
    if any(not total[m] and c and infinite(((m, c),)) for m, c in items):
        raise Unformed  # ∞ - ∞
    if len(total) > _MOST:
        raise Unformed
    return tuple(sorted(((m, c) for m, c in total.items() if c), key=lambda x: x[0].text))


def added(*forms: Form) -> Form:
    """The sum of forms. Raises Unformed for ∞ - ∞, and where the sum is too long."""
    return collected(x for found in forms for x in found)


def infinite(found: Form) -> bool:
    """Whether a factor of some monomial is infinite; the exponents are not looked at."""
    return any(x == INFINITY for m, _ in found for x, _ in m.powers)


def _is_number(found: Form) -> bool:
    return len(found) == 1 and found[0][0] == UNIT


def times(a: Form, b: Form) -> Form:
    """The product of two forms. Raises Unformed for ∞ times anything but a number other than 0, or if too long."""
    if (infinite(a) and not _is_number(b)) or (infinite(b) and not _is_number(a)):
        raise Unformed  # what is multiplied by ∞ may be 0, or of either sign
    if len(a) * len(b) > _MOST:
        raise Unformed
    return collected((m, e * c * d) for x, c in a for y, d in b for m, e in _product(x, y))


def multiplied(forms: Iterable[Form]) -> Form:
    """The product of forms, 1 where there are none. Raises Unformed as `times` does."""
    return reduce(times, forms, ONE)


def raised(found: Form, power: int) -> Form:
    """A whole power, which may be negative."""
    return multiplied([found if power > 0 else inverse(found)] * abs(power))


def _product(a: Monomial, b: Monomial) -> Form:
    powers = dict(a.powers)
    for found, n in b.powers:
        powers[found] = 1 if found.op == "if" else powers.get(found, 0) + n
    exponent = added(a.exponent, b.exponent) if a.exponent and b.exponent else a.exponent or b.exponent
    for found, n in powers.items():
        if (found.op == "sin" and n > 1) or (found.op in ("sqrt", "abs") and abs(n) > 1):
            rest = _ordered(exponent, {x: p for x, p in powers.items() if x != found})
            return times(((rest, Fraction(1)),), _lowered(found, n))
    return ((_ordered(exponent, powers), Fraction(1)),)


def _ordered(exponent: Form, powers: Mapping[Atom, int]) -> Monomial:
    return Monomial(exponent, tuple(sorted(((x, n) for x, n in powers.items() if n), key=lambda x: x[0].text)))


def _lowered(found: Atom, n: int) -> Form:
    """sin² x = 1 - cos² x, √x √x = x and |x| |x| = x²: no higher power of these is left."""
    if found.op in ("sqrt", "abs"):
        half = abs(n) // 2 * (2 if found.op == "abs" else 1)
        return times(raised(found.forms[0], half if n > 0 else -half), atom(found, n % 2 if n > 0 else -(-n % 2)))
    square = added(ONE, times(MINUS, atom(Atom("cos", found.forms), 2)))
    return times(raised(square, n // 2), atom(found, n % 2))


def inverse(found: Form) -> Form:
    """1 / form: of one monomial a monomial, of a sum an atom for what is left when the common factor is taken out.
    Raises Unformed."""
    if not found or infinite(found):
        raise Unformed
    common = _content(found)
    rest = times(found, ((_upside_down(common), Fraction(1)),))
    lead = rest[0][1]
    out = ((_upside_down(common), 1 / lead),)
    if rest == number(lead):
        return out
    return times(out, atom(Atom("sum", (times(rest, number(1 / lead)),)), -1))


def _upside_down(found: Monomial) -> Monomial:
    return Monomial(times(MINUS, found.exponent), tuple((x, -n) for x, n in found.powers))


def _content(found: Form) -> Monomial:
    """The greatest factor of every monomial, 0 nowhere: the least power of each atom, the
    least multiple of each exponent."""
    exponents = [dict(m.exponent) for m, _ in found]
    powers = [{x: n for x, n in m.powers if x.op != "if"} for m, _ in found]
    least = [(x, min(e.get(x, Fraction(0)) for e in exponents)) for x in dict.fromkeys(x for e in exponents for x in e)]
    return _ordered(collected(least),
                    {x: min(p.get(x, 0) for p in powers) for x in dict.fromkeys(x for p in powers for x in p)})


def without_quotients(found: Form) -> Form:
    """The form times every sum that it is divided by."""
    while below := {x: n for m, _ in found for x, n in m.powers if x.op == "sum" and n < 0}:
        chosen = next(iter(below))
        least = min(n for m, _ in found for x, n in m.powers if x == chosen)
        total = NOTHING
        for monomial, coefficient in found:
            powers = dict(monomial.powers)
            rest = Monomial(monomial.exponent, tuple((x, n) for x, n in monomial.powers if x != chosen))
            total = added(total, times(((rest, coefficient),), raised(chosen.forms[0], powers.get(chosen, 0) - least)))
        found = total
    return found


# functions


def extent(found: Extent) -> Form:
    """An extent as a number: sizes are atoms."""
    return added(*(times(number(c), multiplied(atom(Atom(f"|{n}|"), p) for n, p in mono)) for mono, c in found.terms))


def exponential(found: Form) -> Form:
    """e^form; e^(log x) is x, e^-∞ is 0. Raises Unformed."""
    sign = sum(c for m, c in found if m.powers == ((INFINITY, 1),) and not m.exponent)
    if infinite(found):
        if sign < 0:
            return NOTHING
        raise Unformed
    logs = [(m, c) for m, c in found if c.denominator == 1 and _is_log(m)]
    rest = tuple(x for x in found if x not in logs)
    out: Form = ((Monomial(rest, ()), Fraction(1)),)
    return multiplied([out, *(raised(m.powers[0][0].forms[0], int(power)) for m, power in logs)])


def _is_log(found: Monomial) -> bool:
    return not found.exponent and len(found.powers) == 1 and found.powers[0][0].op == "log" and found.powers[0][1] == 1


def logarithm(found: Form) -> Form:
    """log(e^p x) = p + log x. Raises Unformed."""
    if not found:
        raise Unformed
    common = Monomial(_content(found).exponent, ())
    rest = times(found, ((_upside_down(common), Fraction(1)),))
    return common.exponent if rest == ONE else added(common.exponent, atom(Atom("log", (rest,))))


def turned(op: str, angle: Form) -> Form:
    """The sine or cosine of an angle by those of its addends: cos(a + b) = cos a cos b - sin a sin b."""
    if len(angle) > _ANGLES:
        return atom(Atom(op, (angle,)))
    cosine, sine = ONE, NOTHING
    for monomial, coefficient in angle:
        turns = abs(coefficient.numerator) if abs(coefficient.numerator) <= _TURNS else 1
        unit: Form = ((monomial, abs(coefficient) / turns),)
        c, s = atom(Atom("cos", (unit,))), times(number(1 if coefficient > 0 else -1), atom(Atom("sin", (unit,))))
        for _ in range(turns):
            cosine, sine = (added(times(cosine, c), times(MINUS, times(sine, s))),
                            added(times(sine, c), times(cosine, s)))
    return cosine if op == "cos" else sine


def extreme(op: str, args: Iterable[Form]) -> Form:
    """The maximum or minimum: flat, without repeats and neutral elements, what all have in common outside."""
    neutral = atom(INFINITY) if op == "min" else times(MINUS, atom(INFINITY))
    flat: set[Form] = {x for arg in args for x in _spliced(op, arg)} - {neutral}
    if not flat:
        return neutral
    if all(x == NOTHING or _is_number(x) for x in flat):
        return number((max if op == "max" else min)(sum((c for _, c in x), Fraction(0)) for x in flat))
    common = tuple(x for x in next(iter(flat)) if all(x in arg for arg in flat))
    rest = sorted((tuple(x for x in arg if x not in common) for arg in flat), key=written)
    if len(rest) == 1:
        return next(iter(flat))
    return added(collected(common), atom(Atom(op, tuple(rest))))


def _spliced(op: str, found: Form) -> list[Form]:
    """max(p + max(q, r), …) has the arguments p + q and p + r."""
    for monomial, coefficient in found:
        if coefficient == 1 and not monomial.exponent and len(monomial.powers) == 1:
            inner, power = monomial.powers[0]
            if inner.op == op and power == 1:
                rest = tuple(x for x in found if x[0] != monomial)
                return [added(rest, part) for part in inner.forms]
    return [found]


def applied(op: str, args: tuple[Form, ...]) -> Form:
    """The form of a primitive of forms: arithmetic is carried out, any other function is an atom."""
    match op, args:
        case "add", _:
            return added(*args)
        case "mul", _:
            return multiplied(args)
        case "sub", (a, b):
            return added(a, times(MINUS, b))
        case "neg", (a,):
            return times(MINUS, a)
        case "div", (a, b):
            return times(a, inverse(b))
        case "exp", (a,):
            return exponential(a)
        case "log", (a,):
            return logarithm(a)
        case "exp2", (a,):
            return exponential(times(a, logarithm(number(2))))
        case ("cos" | "sin"), (a,):
            return turned(op, a)
        case ("max" | "min"), _:
            return extreme(op, args)
        case "sqrt", (((m, value),),) if (
            m == UNIT and value > 0
            and (root := Fraction(isqrt(value.numerator), isqrt(value.denominator))) ** 2 == value
        ):
            return number(root)
        case ("sqrt" | "abs"), ((),):
            return NOTHING
        case "pow", (a, b) if (n := _whole(b)) is not None and abs(n) < 9:
            return raised(a, n)
        case "pow", (a, ((m, Fraction(numerator=1, denominator=2)),)) if m == UNIT:
            return applied("sqrt", (a,))
        case "pow", (((m, base),), b) if m == UNIT and base > 0:
            return exponential(times(b, logarithm(number(base))))
    return atom(Atom(op, args))


def _whole(found: Form) -> int | None:
    if found == NOTHING:
        return 0
    return int(found[0][1]) if _is_number(found) and found[0][1].denominator == 1 else None


