"""Σ w (x − m)^p, m a result of the same pass: moments carried about a mean, or a maximum, that moves.

Multiplied out, powers of x would cancel each other's digits. So the moments M_j = Σ w (x − r)^j are carried about the
running mean r, and when r moves by δ they follow: M_j += Σ_{i<j} C(j, i) δ^{j−i} M_i, the binomial rows of the
separation. Where w makes the mean itself, M_1 = 0: for the variance that leaves Chan's update. With exponentials as
weights, Σ e^a (x − m), the terms count where x is near the maxima in m: M = Σ e^{a−r} (x − n) is carried about these
running maxima n, and is e^{r'−r} (M' + (n' − n) Σ e^{a−r'}) before the tile's own part is added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import comb

from einc.ir.primitives import UNKNOWN
from einc.ir.programs import Equation
from einc.ir.signs import sign
from einc.ir.sums import added, addends, factors, joined, parted, product, reached, signed
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Size,
    Term,
    Where,
    const,
    free_indices,
    reads,
    substitute,
    transform,
)
from einc.ir.witnesses import witnessed
from einc.planning.streaming.carried_folds import Basis, key_of
from einc.planning.streaming.passes import CarriedFold
from einc.planning.streaming.separate import Entangled, separate
from einc.transforms.laws import ALL
from einc.transforms.laws.simplify import simplify

Holds = Callable[[Term], bool]
Signed = list[tuple[int, Term]]
_HIGHEST = 8


@dataclass(frozen=True)
class Moment:
    """outer · weight · (value − center)^power; only `center` and `outer` may hold
    results, only `value` and `weight` move."""

    outer: tuple[Term, ...]
    weight: tuple[Term, ...]
    value: Term
    center: Term
    power: int


def moment(body: Term, held: Holds, moving: Holds) -> Moment | None:
    """The body read as a moment; None where it is none."""
    outer: list[Term] = []
    weight: list[Term] = []
    found: set[tuple[Term, Term]] = set()
    power = 0
    for factor in parted(body):
        if held(factor) and moving(factor):
            base, times = _power(factor)
            parts = _difference(base, held, moving)
            if parts is None or not 1 <= times <= _HIGHEST:
                return None
            value, center, sign = parts
            found.add((value, center))
            power += times
            outer += [const(-1)] if sign < 0 and times % 2 else []
        else:
            (weight if moving(factor) else outer).append(factor)
            if isinstance(factor, Apply) and factor.op == "exp":
                return None  # such a weight is kept relative to a reference of its own
    if len(found) != 1 or not 1 <= power <= _HIGHEST:
        return None
    ((value, center),) = found
    return Moment(tuple(outer), tuple(weight), value, center, power)


@dataclass(frozen=True)
class Offset:
    """outer · e^power · weight · difference: what holds results is `outer`, and addends of the difference."""

    outer: tuple[Term, ...]
    power: Term
    weight: tuple[Term, ...]
    difference: Term


def offset(body: Term, held: Holds, moving: Holds) -> Offset | None:
    """The body read as a difference that is weighed by an exponential; None where it is none."""
    outer: list[Term] = []
    inner: list[Term] = []
    found: list[Term] = []
    for factor in parted(body):
        if held(factor) and moving(factor) and _difference(factor, held, moving) is not None:
            found.append(factor)
            continue
        pairs = separate(factor, held, moving)
        if len(pairs) != 1:
            return None
        outer += pairs[0][0]
        for each in pairs[0][1]:
            (inner if moving(each) else outer).append(each)
    power, weight = exponent(product(tuple(inner)))
    return Offset(tuple(outer), power, weight, found[0]) if len(found) == 1 and power is not None else None


def _without(term: Term, gone: Collection[Term]) -> Term:
    """A sum without some of its addends, the others in the order and the brackets in which they stand."""
    if term in gone:
        return ZERO
    match term:
        case Apply("add", args):
            return added([kept for x in args if (kept := _without(x, gone)) != ZERO])
        case Apply("sub", (x, y)):
            left, right = _without(x, gone), _without(y, gone)
            return left if right == ZERO else Apply("neg", (right,)) if left == ZERO else Apply("sub", (left, right))
        case Apply("neg", (x,)):
            return Apply("neg", (left,)) if (left := _without(x, gone)) != ZERO else ZERO
    return term


def exponent(body: Term) -> tuple[Term | None, tuple[Term, ...]]:
    """exp(p) exp(q) x y -> p + q, and x, y."""
    powers = [f.args[0] for f in factors(body) if isinstance(f, Apply) and f.op == "exp"]
    rest = tuple(f for f in factors(body) if not (isinstance(f, Apply) and f.op == "exp"))
    if not powers:
        return None, rest
    return powers[0] if len(powers) == 1 else simplify(Apply("add", tuple(powers))), rest


def _power(term: Term) -> tuple[Term, int]:
    match term:
        case Apply("pow", (base, Const(Fraction() as times))) if times.denominator == 1:
            return base, int(times)
    return term, 1


def _difference(term: Term, held: Holds, moving: Holds) -> tuple[Term, Term, int] | None:
    """The term as ±(value − center), the value of all parts that move and the center of those that are held: the two,
    and the sign 1 or −1. None where a part is both, or nothing moves."""
    moves: list[tuple[int, Term]] = []
    stays: list[tuple[int, Term]] = []
    for side, part in addends(term):
        if held(part) and moving(part):
            return None
        (moves if moving(part) else stays).append((side, part))
    if not moves:
        return None
    first = moves[0][0]
    return signed([(s * first, p) for s, p in moves]), signed([(-s * first, p) for s, p in stays]), first




def _alike(one: Term, other: Fold) -> bool:
    """Whether a term is this fold, but for the order of its factors."""
    if not isinstance(one, Fold) or replace(one, body=ONE) != replace(other, body=ONE):
        return False
    return sorted(map(repr, parted(one.body))) == sorted(map(repr, parted(other.body)))


def raised(term: Term, power: int) -> Term:
    """The term to a power, written as 1 or as the term itself for the powers 0 and 1."""
    return ONE if power == 0 else term if power == 1 else Apply("pow", (term, const(power)))


def translated(moments: dict[int, Term], by: Term, power: int) -> list[Term]:
    """The addends of Σ_i C(power, i) by^(power − i) M_i, for the moments that are not 0."""
    out = []
    for i, known in sorted(moments.items(), reverse=True):
        factors = (const(comb(power, i)), raised(by, power - i), known)
        out.append(product(factors))
    return out


@dataclass
class RunningValues:
    """What moves with the tiles: means, moments about them, and what left a fold."""

    means: dict[Term, Read] = field(default_factory=dict)  # a quotient of sums, and the running mean that it is
    about: dict[tuple[Term, Read, int], Read] = field(default_factory=dict)
    # differences weighed by an exponential: the sum of the weights, the fold, and the maxima in the difference
    offsets: dict[str, tuple[str, Fold, Signed]] = field(default_factory=dict)
    pulled: list[Term] = field(default_factory=list)  # factors and addends outside a fold that hold results of the pass


@dataclass
class RunningMoments(Basis):
    """A basis with means that move, and moments about them."""

    moved: RunningValues = field(default_factory=RunningValues)

    def _moment(self, equation: Equation, fold: Fold, found: Moment) -> None:
        """Makes the fold from moments about the running mean; where its centre is that mean, it is one of them. Raises
        Entangled."""
        real = any(True for _ in reads(found.value))
        if fold.op != "sum" or fold.bound != (self.index,) or not real:
            raise Entangled(fold.body)
        weight = joined(found.weight)
        own = weight if sign(weight, self.out) != UNKNOWN else ONE
        mean = self._mean(equation, fold, own, found.value)
        moments = self._moments(equation, fold, (weight, found.value, found.power), mean, own == weight)
        if self._inlined(found.center) == mean:
            terms = [moments.get(found.power, ZERO)]
        else:
            terms = translated(moments, Apply("sub", (mean, found.center)), found.power)
            if not witnessed(fold.domain, fold.bound, equation.indices):  # over nothing the centre may be no number
                some = Apply("ne", (self._sum(equation, fold, own), ZERO))
                terms = [Where(some, t) for t in terms]
        self._finish(equation, joined((*found.outer, added(terms))))

    def _mean(self, equation: Equation, fold: Fold, weight: Term, value: Term) -> Read:
        """r ← r + (Σ w (x − r)) / Σ w over what has been seen; where that is nothing, r stays. Changes `self.out` and
        `self.moved.means`."""
        sums = Fold("sum", fold.bound, fold.domain, joined((weight, value)))
        count = self._sum(equation, fold, weight)
        known = self.moved.means.get(key_of(sums))
        if known is not None:
            return known
        free = free_indices(sums)
        axes = tuple(a for a in equation.axes if isinstance(a, Position) and a.index in free)
        mean = Read(self._fresh(equation.target, "mean"), axes)
        self._carried(mean, ONE)
        away = Apply("sub", (value, self._before(mean)))
        moved = self._share(mean, Fold("sum", fold.bound, fold.domain,
                                       joined((weight, away))))
        step = Where(Apply("ne", (moved, ZERO)), Apply("div", (moved, count)))
        self.out[mean.tensor] = Equation(mean.tensor, axes, TRUE, step)
        self.moved.means[key_of(sums)] = mean
        plain = next((t for t in self.carries if self.out[t].axes == axes and _alike(self.out[t].body, sums)), None)
        if plain is not None:
            counts: list[Term] = [count]
            counts += [Size(self.index.set.extent)] if weight == ONE and fold.domain == TRUE else []
            self.moved.means.update({Apply("div", (self._result(plain), c)): mean for c in counts})
        return mean

    def _moments(
        self, equation: Equation, fold: Fold, what: tuple[Term, Term, int], mean: Read, central: bool
    ) -> dict[int, Term]:
        """Those that are not 0, up to a power: each grows by the tile's own and by what
        the mean's move makes of lower ones."""
        weight, value, power = what
        count = self._sum(equation, fold, weight)
        moments: dict[int, Term] = {0: count}
        before: dict[int, Term] = {0: self._before(count)}
        moved = Apply("sub", (self._before(mean), mean))
        for j in range(2 if central else 1, power + 1):
            away = raised(Apply("sub", (value, mean)), j)
            own = Fold("sum", fold.bound, fold.domain, joined((weight, away)))
            key = (key_of(own), mean, j)
            if key not in self.moved.about:
                made = Read(self._fresh(equation.target, "moment"), equation.axes)
                axes = tuple(a for a in equation.axes if isinstance(a, Position) and a.index in free_indices(own))
                made = Read(made.tensor, axes)
                self._carried(made, ONE)
                grown = Apply("add", (self._share(made, own), *translated(before, moved, j)))
                self.out[made.tensor] = Equation(made.tensor, axes, TRUE, grown)
                self.moved.about[key] = made
            moments[j] = self.moved.about[key]
            if j < power:
                before[j] = self._before(self.moved.about[key])
        return moments

    def _offset(self, equation: Equation, fold: Fold, found: Offset) -> None:
        """Makes the fold of one about the running maxima in its difference. Raises Entangled where that has none. Adds
        its equation."""
        results = [(side, part) for side, part in addends(found.difference) if self._holds(part)]
        near = [(side, part) for side, part in results if self._maximum(part, fold)]
        if not near or fold.op != "sum" or fold.bound != (self.index,):
            raise Entangled(fold.body)
        left = [(side, part) for side, part in results if (side, part) not in near]
        weights = (Apply("exp", (found.power,)), *found.weight)
        total = self._result(self._named(equation, replace(fold, body=joined(weights))))
        made = Read(self._fresh(equation.target, "moment"), equation.axes)
        self.held.add(made.tensor)
        self.out[made.tensor] = Equation(made.tensor, equation.axes, TRUE, ONE)
        away = _without(found.difference, [part for _, part in left])
        self.moved.offsets[made.tensor] = total.tensor, replace(fold, body=joined((*weights, away))), near
        rest = [joined((*found.outer, signed(left), total))] if left else []
        self._finish(equation, added([joined((*found.outer, made)), *rest]))

    def _maximum(self, term: Term, fold: Fold) -> bool:
        """Whether a term is a multiple of a maximum or minimum that the pass carries over the domain of a fold."""
        results = [f for f in parted(term) if self._holds(f)]
        if len(results) != 1 or not isinstance(results[0], Read) or results[0].tensor not in self.carries:
            return False
        body = self.out[results[0].tensor].body
        return isinstance(body, Fold) and body.op in ("max", "min") and \
            key_of(replace(body, op="sum", body=ONE)) == key_of(replace(fold, op="sum", body=ONE))

    def _followed(self, made: str, mantissa: Read, reference: Read | None) -> None:
        """Adds the equation of a difference's fold, once the sum of its weights has the scale e^reference, or none."""
        _, fold, near = self.moved.offsets[made]
        axes, body = self.out[made].axes, fold.body
        moment = Read(made if reference is None else self._fresh(made, "scaled"), axes)
        moves = signed([(side, Apply("sub", (part, self._as_before(part)))) for side, part in near])
        moved = product((moves, self._before(mantissa)))
        if reference is not None:
            before = self._before(reference)
            power, rest = exponent(body)
            assert power is not None
            body = joined((Apply("exp", (Apply("sub", (power, reference)),)), *rest))
            moved = Where(reached(before),
                          product((Apply("exp", (Apply("sub", (before, reference)),)), moved)))
            self.finishes.append(made)
            self.out[made] = Equation(made, axes, TRUE, product((Apply("exp", (reference,)), moment)))
        self._carried(moment, ONE)
        grown = added([self._share(moment, replace(fold, body=body)), moved])
        self.carries[moment.tensor] = CarriedFold(moment.tensor, "sum", None if reference is None else reference.tensor)
        self.out[moment.tensor] = Equation(moment.tensor, axes, TRUE, grown)

    def _as_before(self, term: Term) -> Term:
        """A term of what is carried, as it was when the tile began."""
        return transform(term, lambda x: self._before(x) if isinstance(x, Read) and x.tensor in self.carries else x)

    def _sum(self, equation: Equation, fold: Fold, weight: Term) -> Read:
        return self._result(self._named(equation, Fold("sum", fold.bound, fold.domain, weight)))

    def _carried(self, made: Read, body: Term) -> None:
        self.held.add(made.tensor)
        self.carries[made.tensor] = CarriedFold(made.tensor, "sum")
        self.out[made.tensor] = Equation(made.tensor, made.subs, TRUE, body)

    def _share(self, of: Read, fold: Fold) -> Read:
        """A fold over one tile alone. Adds its equation; returns a read of it."""
        target = self._fresh(of.tensor, "share")
        self.out[target] = Equation(target, of.subs, TRUE, fold)
        return Read(target, of.subs)

    def _before(self, made: Read) -> Read:
        known = next((n for n, target in self.before.items() if target == made.tensor), None)
        name = known or self._fresh(made.tensor, "before")
        self.before[name] = made.tensor
        return Read(name, made.subs)

    def _inlined(self, term: Term) -> Term:
        """The term with results in the place of their names, and means where they are meant."""

        def change(inner: Term) -> Term:
            if isinstance(inner, Read) and inner.tensor in self.finishes:
                equation = self.out[inner.tensor]
                by = dict(zip(equation.indices, inner.subs, strict=True))
                return self._inlined(substitute(equation.body, by))
            return self.moved.means.get(inner, inner)

        return transform(simplify(term, ALL), change)

    def _settle(self) -> None:
        """Puts running means in place of the quotients of sums that they are."""
        for target in self.finishes:
            body = transform(self.out[target].body, lambda t: self.moved.means.get(t, t))
            self.out[target] = Equation(target, self.out[target].axes, self.out[target].domain, body,
                                        self.out[target].source)
