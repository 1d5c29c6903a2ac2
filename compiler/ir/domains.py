"""Predicates on indices: linear forms over positions, and what can be proved about them.

A proof is a search over bounds: facts come from the ranges of the indices, from the atoms of a domain, and from what
floor, ceil, min, max, abs and mod are. `proves` never says yes wrongly; it may fail to see what is true.

sympy does not serve here: its solver of linear inequalities takes about 3 times as long for three plain bounds
(`python -m bench algebra`), knows no floor, mod or minimum, and would cost `einc check` half a second of import.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from types import MappingProxyType

from einc.ir.extents import direction, positive
from einc.ir.indices import Extent, number, rounded
from einc.ir.not_negative import parts_of_sign
from einc.ir.terms import (
    ZERO,
    Apply,
    Const,
    Fold,
    Pack,
    Part,
    Position,
    Read,
    Size,
    Term,
    Truth,
    Where,
    both,
    children,
    conjuncts,
    rebuild,
    walk,
)

_DEPTH = 7
_STEPS = 1_000
_FEW = 30  # conditions that exclude each other do so in few steps
_CASES = 3
_NO_SIZES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Linear:
    """Σ coefficient · atom + constant; an atom is a position or an opaque integer term."""

    atoms: tuple[tuple[Term, Extent], ...]
    constant: Extent

    def coefficient(self, atom: Term) -> Extent:
        """What an atom is multiplied by; 0 where it is not there."""
        return next((c for a, c in self.atoms if a is atom or a == atom), number(0))

    def plus(self, other: Linear, times: Extent | None = None) -> Linear:
        """Returns this form plus `times` (1 by default) the other; atoms that cancel are left out."""
        times = number(1) if times is None else times
        constant = self.constant + other.constant * times
        if not other.atoms:
            return Linear(self.atoms, constant)
        total = dict(self.atoms)
        for atom, c in other.atoms:
            total[atom] = total[atom] + c * times if atom in total else c * times
        return Linear(tuple((a, c) for a, c in total.items() if c.terms), constant)

    def without(self, atom: Term) -> Linear:
        """The form less the addend of an atom."""
        return Linear(tuple((a, c) for a, c in self.atoms if a != atom), self.constant)


@lru_cache(maxsize=1 << 14)
def linear(term: Term) -> Linear | None:
    """The term as a linear form; None for what is no exact number (an infinity, a real function)."""
    match term:
        case Const(Fraction() as value):
            return Linear((), number(value))
        case Size(extent):
            return Linear((), extent)
        case Apply("add", args):
            return _sum(args)
        case Apply("sub", (a, b)):
            return _sum((a, Apply("neg", (b,))))
        case Apply("neg", (a,)):
            inner = linear(a)
            return None if inner is None else Linear((), number(0)).plus(inner, number(-1))
        case Apply("mul", args):
            return _product(args)
        case Apply("div", (a, b)):
            above, below = linear(a), linear(b)
            if above is None or below is None or below.atoms:
                return None
            inverse = number(1).over(below.constant)
            return None if inverse is None else Linear((), number(0)).plus(above, inverse)
        case Pack(parts, sets, into):
            return _packed(parts, tuple(s.extent for s in sets), tuple(s.start for s in sets), into.start)
        case Part(item, of, before, into):
            inner = linear(item)
            return None if inner is None else inner.plus(Linear((), before + number(into.start - of.start)))
        case Apply("floor" | "ceil" as op, (inner,)) if (found := linear(inner)) is not None and not found.atoms:
            return Linear((), rounded(found.constant, op == "ceil"))
        case Const() | Truth():
            return None
    return Linear(((term, number(1)),), number(0))


def _packed(parts: tuple[Term, ...], extents: tuple[Extent, ...], starts: tuple[int, ...], start: int) -> Linear | None:
    """Returns the linear form of a composite index, row by row; None where a part has no linear form."""
    total = Linear((), number(start))
    for at, part in enumerate(parts):
        inner = linear(part)
        if inner is None:
            return None
        stride = number(1)
        for extent in extents[at + 1 :]:
            stride = stride * extent
        total = total.plus(inner.plus(Linear((), number(-starts[at]))), stride)
    return total


def _sum(args: Iterable[Term]) -> Linear | None:
    total = Linear((), number(0))
    for arg in args:
        inner = linear(arg)
        if inner is None:
            return None
        total = total.plus(inner)
    return total


def _product(args: tuple[Term, ...]) -> Linear | None:
    """Returns a product as a linear form, one opaque atom if two factors vary; None if a factor has no form."""
    total = Linear((), number(1))
    for arg in args:
        inner = linear(arg)
        if inner is None:
            return None
        if total.atoms and inner.atoms:
            return Linear(((Apply("mul", args), number(1)),), number(0))
        varying, fixed = (total, inner) if total.atoms else (inner, total)
        total = Linear((), number(0)).plus(varying, fixed.constant)
    return total


def difference(a: Term, b: Term) -> Linear | None:
    """b − a as a linear form."""
    return _sum((b, Apply("neg", (a,))))


def facts(domain: Term) -> list[Linear]:
    """Linear forms that are ≥ 0 wherever the domain holds."""
    out: list[Linear] = []
    for atom in conjuncts(domain):
        match atom:
            case Apply("le", (a, b)):
                out += _some(difference(a, b))
            case Apply("lt", (a, b)):
                out += [f.plus(Linear((), number(-1))) if is_whole(f) else f for f in _some(difference(a, b))]
            case Apply("eq", (a, b)):
                out += _some(difference(a, b)) + _some(difference(b, a))
    return out


def _some(form: Linear | None) -> list[Linear]:
    return [] if form is None else [form]


class _Search:
    """Whether forms are ≥ 0 (or > 0), from the facts and from what their atoms are; gives up after so many steps.

    `some` are the sizes that are at least 1, of which any other may be 0; None for all.
    """

    def __init__(self, given: list[Linear], sizes: Mapping[str, int], steps: int = _STEPS,
                 some: Set[str] | None = None) -> None:
        self.given, self.sizes, self.steps, self.some = given, sizes, steps, some
        self.failed: dict[tuple[frozenset[tuple[Term, Extent]], Extent, bool], int] = {}
        self.found: dict[tuple[Term, int, bool], tuple[tuple[Linear, bool], ...]] = {}

    def nonnegative(self, goal: Linear, strict: bool = False, depth: int = _DEPTH) -> bool:
        """Whether `goal ≥ 0` (strict: `> 0`) follows. Changes `self.failed`, `found` and `steps`."""
        if not goal.atoms:
            return positive(goal.constant.fixed(self.sizes), strict, self.some)
        known = frozenset(goal.atoms), goal.constant, strict
        if depth == 0 or self.failed.get(known, 0) >= depth:
            return False
        self.failed[known] = depth
        self.steps -= 1
        if self.steps <= 0:
            return False
        for atom, coefficient in goal.atoms:
            sign = direction(coefficient.fixed(self.sizes))
            if sign == 0:
                continue
            rest = goal.without(atom)
            whole = coefficient.constant in (1, -1) and is_whole(rest) and not strict
            asked = atom, sign, whole  # most steps of a search ask of the same few atoms
            if asked not in self.found:
                self.found[asked] = tuple(self._bounds(*asked))
            for bound, above in self.found[asked]:
                if self.nonnegative(rest.plus(bound, coefficient), strict or above, depth - 1):
                    return True
            options = _alternatives(atom, sign)
            if (options is not None
                and all(self.nonnegative(rest.plus(o, coefficient), strict, depth - 1) for o in options)):
                return True
            if sign > 0 and self._from_zero(atom, False, depth) and self.nonnegative(rest, strict, depth - 1):
                return True
        return False

    def _from_zero(self, term: Term, strict: bool, depth: int) -> bool:
        """Whether a term is at least 0 (strict: more), by what it is made of."""
        parts = parts_of_sign(term, strict) if depth else None
        return parts is not None and all(self._part(part, more, depth - 1) for part, more in parts)

    def _part(self, part: Term, strict: bool, depth: int) -> bool:
        """Whether a part of a term is at least 0 (strict: more), which others may ask, too. Changes `self.failed`."""
        form = linear(part)
        if form is not None and self.nonnegative(form, strict, depth):
            self.failed.pop((frozenset(form.atoms), form.constant, strict), None)
            return True
        return self._from_zero(part, strict, depth)

    def _bounds(self, atom: Term, sign: int, whole: bool) -> Iterable[tuple[Linear, bool]]:
        """What the atom is at least (sign 1) or at most (sign −1); the flag says that the goal must then hold strictly.

        Where everything else is a whole number, floor(x) ≥ c iff x ≥ c, floor(x) ≤ c iff x < c + 1, and so for ceil.
        """
        one = Linear((), number(1))
        for fact in self.given:
            c = fact.coefficient(atom).constant
            if c is not None and c != 0 and (c > 0) == (sign > 0):
                yield Linear((), number(0)).plus(fact.without(atom), number(Fraction(-1) / c)), False
        match atom:
            case Position(index):
                low, high = number(index.set.start), index.set.extent + number(index.set.start - 1)
                yield Linear((), low if sign > 0 else high), False
            case Apply("floor", (x,)) if (inner := linear(x)) is not None:
                if sign < 0 and whole:
                    yield inner.plus(one, number(-1)), True
                yield (inner, False) if sign < 0 or whole else (inner.plus(one, number(-1)), False)
            case Apply("ceil", (x,)) if (inner := linear(x)) is not None:
                if sign > 0 and whole:
                    yield inner.plus(one), True
                yield (inner, False) if sign > 0 or whole else (inner.plus(one), False)
            case Apply("mod", (x, b)) if (
                (inner := linear(b)) is not None and not inner.atoms and positive(inner.constant, True)
            ):
                whole_top = (form := linear(x)) is not None and is_whole(form) and is_whole(inner)
                top = inner.plus(one, number(-1)) if whole_top else inner
                yield (Linear((), number(0)) if sign > 0 else top), False
            case Apply("min" | "max" as op, args) if (op == "min") == (sign < 0):
                for arg in args:
                    if (inner := linear(arg)) is not None:
                        yield inner, False
            case Apply("abs", (x,)) if sign > 0:
                yield Linear((), number(0)), False
                if (inner := linear(x)) is not None:
                    yield inner, False
                    yield Linear((), number(0)).plus(inner, number(-1)), False


def is_whole(form: Linear) -> bool:
    """Whether the form is a whole number at every point."""
    extents = [form.constant, *(c for _, c in form.atoms)]
    exact = all(c.denominator == 1 and all(p > 0 for _, p in m) for e in extents for m, c in e.terms)
    return (exact and all(isinstance(a, Position) or (isinstance(a, Apply) and a.op in ("floor", "ceil"))
                          for a, _ in form.atoms))


@lru_cache(maxsize=1 << 12)
def _alternatives(atom: Term, sign: int) -> tuple[Linear, ...] | None:
    """The forms that must all do: min from below, max and abs from above."""
    match atom:
        case Apply("abs", (x,)) if sign < 0:
            inner = linear(x)
            return None if inner is None else (inner, Linear((), number(0)).plus(inner, number(-1)))
        case Apply("min" | "max" as op, args) if (op == "min") == (sign > 0):
            forms = [linear(arg) for arg in args]
            return None if any(f is None for f in forms) else tuple(f for f in forms if f is not None)
    return None


def proves(given: Term, goal: Term, sizes: Mapping[str, int] = _NO_SIZES, cases: int = _CASES,
           some: Set[str] | None = None) -> bool:
    """Whether the goal holds wherever `given` does, for sizes of which some may be known. Sound, not complete.

    A size is at least 1; where `some` is said, those alone are, and others may be 0.
    """
    known = conjuncts(given)
    if cases and (condition := next(_gates(Apply("and", (given, goal))), None)) is not None:
        ways = [(way, holds) for way, holds in ((condition, True), (negation(condition), False))
                if negation(way) not in known]
        return all(proves(both(_gated(given, condition, holds), way), _gated(goal, condition, holds), sizes,
                          cases - (len(ways) > 1), some) for way, holds in ways)
    either = next((a for a in known if isinstance(a, Apply) and a.op == "or"), None) if cases else None
    if either is not None:
        rest = tuple(a for a in known if a is not either)
        return all(proves(Apply("and", (*rest, *conjuncts(option))), goal, sizes, cases - 1, some)
                   for option in either.args)
    search = _Search(facts(given), sizes, some=some)
    return all(_proves_atom(search, set(known), atom, sizes) for atom in conjuncts(goal))


def _gates(term: Term) -> Iterator[Term]:
    """The conditions of the indicators in a term, but for those inside of a fold, which are of other points."""
    if isinstance(term, Where):
        yield term.condition
    if not isinstance(term, Fold):
        for kid in children(term):
            yield from _gates(kid)


def _gated(term: Term, condition: Term, holds: bool) -> Term:
    """The term where a condition holds, or does not, its indicators being 1 or 0."""
    if isinstance(term, Where) and term.condition == condition:
        return _gated(term.then, condition, holds) if holds else ZERO
    if isinstance(term, Fold):
        return term
    return rebuild(term, tuple(_gated(kid, condition, holds) for kid in children(term)))


def empty(domain: Term, sizes: Mapping[str, int] = _NO_SIZES, cases: int = _CASES) -> bool:
    """Whether no point at all is in the domain, for sizes of which some may be known. Sound, not complete."""
    known = conjuncts(domain)
    either = next((a for a in known if isinstance(a, Apply) and a.op == "or"), None) if cases else None
    if either is not None:
        rest = both(*(a for a in known if a is not either))
        return all(empty(both(rest, option), sizes, cases - 1) for option in either.args)
    if Truth(False) in known:
        return True
    said = [facts(atom) for atom in known]
    named = [{t for t in walk(atom) if isinstance(t, Read)} for atom in known]
    often = Counter(chain.from_iterable(named))
    for n, atom in enumerate(known):
        if any(often[x] == 1 for form in said[n] for x, _ in form.atoms if isinstance(x, Read)):
            continue  # it compares a value of which no other condition says anything
        match atom:
            case Apply("le" | "lt", (a, b)):
                against: tuple[Term, ...] = (negation(atom),)
            case Apply("eq", (a, b)):
                against = (Apply("lt", (a, b)), Apply("lt", (b, a)))
            case Apply("ne", pair):
                against = (Apply("eq", pair),)
            case _:
                against = ()
        others, given = {*known[:n], *known[n + 1:]}, list(chain(*said[:n], *said[n + 1:]))
        if any(_proves_atom(_Search(given, sizes, _FEW), others, x, sizes) for x in against):
            return True
    return False


def _proves_atom(search: _Search, known: set[Term], goal: Term, sizes: Mapping[str, int]) -> bool:
    """Returns whether a proof of the goal is found in the known conditions and by the search; never True wrongly."""
    if goal == Truth(True) or goal in known or Truth(False) in known:
        return True
    match goal:
        case Apply("le", (a, b)):
            form = difference(a, b)
            return form is not None and search.nonnegative(form)
        case Apply("lt", (a, b)):
            form = difference(a, b)
            # Positions and their terms are whole numbers; what is not, is compared as it is.
            return form is not None and (search.nonnegative(form.plus(Linear((), number(-1)))) if is_whole(form)
                                         else search.nonnegative(form, True))
        case Apply("eq", (a, b)):
            return a == b or Apply("eq", (b, a)) in known or all(
                _proves_atom(search, known, Apply("le", pair), sizes) for pair in ((a, b), (b, a)))
        case Apply("or", args):
            return any(proves(both(*known), arg, sizes, 0, search.some) for arg in args)
    return False


def negation(condition: Term) -> Term:
    """Not the condition, pushed to the atoms."""
    match condition:
        case Truth(value):
            return Truth(not value)
        case Apply("and", args):
            return Apply("or", tuple(negation(a) for a in args))
        case Apply("or", args):
            return Apply("and", tuple(negation(a) for a in args))
        case Apply("not", (inner,)):
            return inner
        case Apply("le", (a, b)):
            return Apply("lt", (b, a))
        case Apply("lt", (a, b)):
            return Apply("le", (b, a))
        case Apply("eq", args):
            return Apply("ne", args)
        case Apply("ne", args):
            return Apply("eq", args)
    return Apply("not", (condition,))
