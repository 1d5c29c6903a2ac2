"""How far exponentials take a value: whether it may be too large or too small for a float
where what is made of it is neither.

An exponent less a maximum that it takes part in is at most 0, and a sum of such exponentials is at least 1 where the
maximum is attained in it: whoever wrote the maximum has taken care of the scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from einc.ir.indices import Index
from einc.ir.primitives import NONNEGATIVE, POSITIVE, PRIMITIVES, REALS, UNKNOWN, Interval, sign_of
from einc.ir.programs import Equation
from einc.ir.sums import factors
from einc.ir.terms import (
    TRUE,
    Apply,
    Const,
    Fold,
    Join,
    Position,
    Read,
    Size,
    Term,
    Where,
    both,
    canonical,
    children,
    conjuncts,
    free_indices,
    reads,
    rebuild,
    walk,
)

LARGE, SMALL = "large", "small"
Reach = frozenset[str]
NOWHERE: Reach = frozenset()
FAR = 40.0  # exponentials of less are neither, in any type: the square of e^40 is a bfloat16


@dataclass
class Reaches:
    """The analysis of the values of one program, by its equations; what was found is kept."""

    equations: dict[str, Equation]
    found: dict[str, Reach] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    signs: dict[str, int] = field(default_factory=dict)

    def opened(self, read: Read) -> Term | None:
        """The body of what is read, at the point where it is read; None where it has no
        equation or axes that are no letters."""
        equation = self.equations.get(read.tensor)
        if equation is None or not all(isinstance(axis, Position) for axis in equation.axes):
            return None
        return equation.at(read.subs)

    def reach(self, term: Term) -> Reach:
        """Whether the value may be too large, too small, both or neither, because of an exponential in it. Changes
        `self.found`."""
        match term:
            case Read(tensor) if tensor in self.equations:
                if tensor not in self.found:
                    self.found[tensor] = NOWHERE
                    self.found[tensor] = self.reach(self.equations[tensor].body)
                return self.found[tensor]
            case Apply("exp", (power,)):
                return self._exponential(power)
            case Apply("pow", (Const(Fraction() as base), Apply() | Read() as power)) if base > 0:
                far = FAR / abs(math.log(base)) if base != 1 else math.inf
                return NOWHERE if self._closed(power) else _turned(self._spread(power, far), base < 1)
            case Apply("pow", (base, Const(Fraction() as power))):
                return _turned(self.reach(base), power < 0)
            case Apply("expm1", (power,)):
                return self._exponential(power) - {SMALL}
            case Apply("mul" | "sqrt" | "neg", args):
                return NOWHERE.union(*map(self.reach, args))
            case Apply("abs", (inner,)) if self.sign(inner) >= NONNEGATIVE:
                return self.reach(inner)
            case Apply("div", (above, below)):
                return self.reach(above) | _turned(self.reach(below), True)
            case Apply("add" | "sub", args):
                found = [self.reach(a) for a in args]
                if not all(f or self.sign(a) != UNKNOWN or self._closed(a) for f, a in zip(found, args, strict=True)):
                    return NOWHERE  # the scale of such data is their own
                small = all(SMALL in f for f in found) and not self._attained(args)
                return frozenset({LARGE for f in found if LARGE in f} | ({SMALL} if small else set()))
            case Where(_, then):
                return self.reach(then)
            case Fold("prod"):
                return self.reach(term.body)
            case Fold("sum"):
                if self.apart(term.body):
                    return NOWHERE
                return self.reach(term.body) - ({SMALL} if any(True for _ in self._covered(term)) else set())
        return NOWHERE

    def apart(self, term: Term) -> bool:
        """Whether a product of exponentials has sides with indices of their own: those of
        a product of matrices stay apart."""
        letters = [free_indices(f) for f in factors(term) if self.reach(f)]
        return len(letters) > 1 and not all(x <= max(letters, key=len) for x in letters)

    def _exponential(self, power: Term) -> Reach:
        if self._closed(power):
            return NOWHERE
        if self.arms(power) or self._is_share(power):
            return frozenset({SMALL})
        return self._spread(power, FAR)

    def _closed(self, term: Term) -> bool:
        """Whether a term is one number, which is computed in float64."""
        inner = [self.equations.get(r.tensor) for r in reads(term)]
        return not free_indices(term) and all(e is not None and not e.indices and self._closed(e.body) for e in inner)

    def _spread(self, power: Term, far: float) -> Reach:
        low, high = self.interval(power)
        return frozenset({LARGE for _ in (1,) if high > far} | {SMALL for _ in (1,) if low < -far})

    # maxima that an exponent takes part in

    def arms(self, power: Term) -> list[tuple[Term, Term]]:
        """For x − m, where m is a maximum, of several values or over a domain: m, and
        each value in it that x is one of."""
        match power:
            case Apply("sub", (x, m)) | Apply("add", (x, Apply("neg", (m,)))):
                return [(m, arm) for arm in self._values(m) if self._among(x, arm)]
        return []

    def _is_share(self, power: Term) -> bool:
        """For x − m, where m is the logarithm of a sum of exponentials: whether e^x is one of these."""
        match power:
            case Apply("sub", (x, m)) | Apply("add", (x, Apply("neg", (m,)))):
                whole = self.spelled(m)
                return isinstance(whole, Apply) and whole.op == "logaddexp" and any(
                    self.same(x, arm) for arm in whole.args)
        return False

    def _values(self, term: Term) -> list[Term]:
        """What a maximum is taken of: numbers, and maxima over a domain; nothing where the term is no maximum."""
        match term:
            case Read():
                body = self.opened(term)
                return [] if body is None else self._values(body)
            case Apply("max", args):
                return [v for a in args for v in self._values(a) or [a]]
            case Fold("max"):
                return [term]
        return []

    def _among(self, x: Term, arm: Term) -> bool:
        """Whether x is the value of an arm, or one of those that it runs over."""
        if not isinstance(arm, Fold):
            return self.same(x, arm)
        theirs = Fold("max", arm.bound, TRUE, arm.body)
        return any(self.same(Fold("max", found, TRUE, x), theirs) for found in letters_for(x, arm.bound))

    def same(self, x: Term, y: Term) -> bool:
        """Whether two terms are one, whatever the letters that they bind and the names of what they read."""
        return canonical(x) == canonical(y) or canonical(self.spelled(x)) == canonical(self.spelled(y))

    def spelled(self, term: Term) -> Term:
        """The term with what it reads written out, but for folds."""
        match term:
            case Read():
                body = self.opened(term)
                return term if body is None or isinstance(body, Fold | Join) else self.spelled(body)
        return rebuild(term, tuple(self.spelled(kid) for kid in children(term)))

    def _covered(self, part: Term) -> Iterator[Term]:
        """The arms that a part of a sum has the exponential of: it is 1 where the maximum is attained there."""
        match part:
            case Read():
                body = self.opened(part)
                yield from self._covered(body) if body is not None else ()
            case Apply("exp", (power,)):
                yield from (arm for _, arm in self.arms(power) if not isinstance(arm, Fold))
            case Fold("sum", bound, domain, body):
                reached = [f for f in self._factors(body) if self.reach(f)]
                inside = self.power(reached[0]) if len(reached) == 1 else None
                for m, arm in self.arms(inside) if inside is not None else ():
                    if isinstance(arm, Fold) and not free_indices(m) & set(bound):
                        theirs = _over(arm.bound, arm.domain, arm.body)
                        yield from (arm,) if self.same(_over(bound, domain, _first(inside)), theirs) else ()

    def power(self, body: Term) -> Term | None:
        """The exponent of a body that is one exponential."""
        match body:
            case Read():
                found = self.opened(body)
                return None if found is None else self.power(found)
            case Apply("exp", (power,)):
                return power
        return None

    def _factors(self, body: Term) -> list[Term]:
        """The factors of a product above its stroke, some of which may have names."""
        match body:
            case Read() if self.reach(body) and (found := self.opened(body)) is not None:
                return self._factors(found)
            case Apply("mul", args):
                return [f for a in args for f in self._factors(a)]
            case Apply("div", (above, below)) if not self.reach(below):
                return self._factors(above)
        return [body]

    def _attained(self, parts: tuple[Term, ...]) -> bool:
        """Whether a sum has the exponential of every arm of one maximum."""
        covered = {canonical(self.spelled(arm)) for part in parts for arm in self._covered(part)}
        powers = [x.args[0] for part in parts for x in walk(part) if isinstance(x, Apply) and x.op == "exp"]
        maxima = [m for power in powers for m, _ in self.arms(power)]
        return any({canonical(self.spelled(arm)) for arm in self._values(m)} <= covered for m in maxima)

    # intervals and signs

    def interval(self, term: Term) -> Interval:
        """An interval that holds the value wherever it exists. Changes `self.intervals`."""
        match term:
            case Const(value):
                return float(value), float(value)
            case Size():
                return 0.0, math.inf
            case Position(index):
                return float(min(index.set.start, 0)), math.inf
            case Read(tensor) if tensor in self.equations:
                if tensor not in self.intervals:
                    self.intervals[tensor] = REALS
                    self.intervals[tensor] = self.interval(self.equations[tensor].body)
                return self.intervals[tensor]
            case Where(_, then):
                low, high = self.interval(then)
                return min(low, 0.0), max(high, 0.0)
            case Fold("max" | "min"):
                return self.interval(term.body)
            case Fold("sum"):
                low, high = self.interval(term.body)
                return 0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf
            case Apply("mul", (x, y)) if x == y:
                return 0.0, math.inf
            case Apply("pow", (_, Const(Fraction() as power))) if power > 0 and power % 2 == 0:
                return 0.0, math.inf
            case Apply("nonpositive"):
                return -math.inf, 0.0
            case Apply(op, args) if PRIMITIVES[op].kind == "value":
                return _combined(op, [self.interval(a) for a in args])
        return REALS

    def sign(self, term: Term) -> int:
        """POSITIVE, NONNEGATIVE or UNKNOWN: what is known of the sign where the value exists. Changes `self.signs`."""
        match term:
            case Read(tensor) if tensor in self.equations:
                if tensor not in self.signs:
                    self.signs[tensor] = self.sign(self.equations[tensor].body)
                return self.signs[tensor]
            case Fold("sum"):
                return min(self.sign(term.body), NONNEGATIVE)
            case Where(_, then):
                return min(self.sign(then), NONNEGATIVE)
            case Apply(op, args) if PRIMITIVES[op].kind == "value" and op not in ("pick", "max", "min"):
                known = sign_of(op, [self.sign(a) for a in args])
                if known != UNKNOWN:
                    return known
        low, _ = self.interval(term)
        return POSITIVE if low > 0 else NONNEGATIVE if low >= 0 else UNKNOWN


def _turned(found: Reach, turned: bool) -> Reach:
    """How far 1 / x reaches where `turned`, else x: of a reciprocal large values are small, and small ones large."""
    return frozenset(SMALL if f == LARGE else LARGE for f in found) if turned else found


def _over(bound: tuple[Index, ...], domain: Term, body: Term) -> Fold:
    """A maximum over what a domain says of the letters."""
    return Fold("max", bound, both(*(c for c in conjuncts(domain) if free_indices(c) & set(bound))), body)


def _first(power: Term | None) -> Term:
    """x of x − m."""
    assert isinstance(power, Apply)
    return power.args[0]


def letters_for(x: Term, bound: tuple[Index, ...]) -> Iterator[tuple[Index, ...]]:
    """The ways to take letters of a term for those of a maximum."""
    free = sorted(free_indices(x), key=lambda i: i.name)
    for found in product(*([i for i in free if i.set == b.set] for b in bound)):
        if len(set(found)) == len(found):
            yield found


def _combined(op: str, found: list[Interval]) -> Interval:
    """The interval of a primitive's value from those of its arguments."""
    match op, found:
        case "add", _:
            return sum(low for low, _ in found), sum(high for _, high in found)
        case "sub", ((a, b), (c, d)):
            return a - d, b - c
        case "neg", ((a, b),):
            return -b, -a
        case "mul", _:
            low, high = found[0]
            for a, b in found[1:]:
                ends = [x * y if x and y else 0.0 for x in (low, high) for y in (a, b)]
                low, high = min(ends), max(ends)
            return low, high
        case "div", ((a, b), (c, d)) if c > 0 and not math.isinf(max(c, min(abs(a), abs(b)))):
            return a / (d if a >= 0 else c), b / (c if b >= 0 else d)
        case "div", ((a, b), (c, _)) if c >= 0 and (a >= 0 or b <= 0):
            return (0.0, math.inf) if a >= 0 else (-math.inf, 0.0)
        case "max", _:
            return max(low for low, _ in found), max(high for _, high in found)
        case "min", _:
            return min(low for low, _ in found), min(high for _, high in found)
        case "logaddexp", _:
            return max(low for low, _ in found), max(high for _, high in found) + math.log(len(found))
        case "log", ((a, b),) if b > 0:
            return math.log(a) if a > 0 else -math.inf, math.log(b) if math.isfinite(b) else b
        case "sqrt", ((a, b),):
            return math.sqrt(max(a, 0.0)), math.sqrt(b) if 0 <= b < math.inf else math.inf
    return PRIMITIVES[op].range
