"""Values made of exponentials as pairs (m, v) of v · e^m: what products, quotients and sums of them are.

A product adds the m, a quotient subtracts them, and a sum has the largest m of its addends, so that its v is a sum of
exponentials of at most 1, one of which is 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from einc.ir.domains import negation, proves
from einc.ir.draft import unused
from einc.ir.finite import surely_above
from einc.ir.indices import Index
from einc.ir.primitives import NONNEGATIVE
from einc.ir.programs import Equation, Tensor, local
from einc.ir.sums import addends, factors, fraction, reached, signed
from einc.ir.sums import product as short
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Term,
    Truth,
    Where,
    both,
    canonical,
    conjuncts,
    const,
    free_indices,
    in_body,
    transform,
    walk,
)
from einc.ir.witnesses import witnessed
from einc.transforms.laws.linear import may_leave
from einc.transforms.laws.simplify import simplify
from einc.transforms.normal.delta_elimination import appearance, axis_order
from einc.transforms.normal.reach import Reaches
from einc.transforms.normal.scale_terms import at, cancelled, merged, minus, only, total, where
from einc.transforms.normal.weights import asked, largest

Scaled = tuple[Term, Term]  # m and v of v · e^m; m is 0 for what has no exponential
Scales = tuple[Term, ...]
Asked = Scales | None  # whether a scale is asked for what is not 0: it is (None), as these scales are, or not ()


@dataclass(frozen=True)
class ScaledValues:
    """The pairs of the terms of one program. `given` is what holds where a term is read.

    `whole` are sums relative to the largest that they sum, with the conditions under which their weights are not 0.
    `made` are scales that have equations of their own, by what they are: written out in every addend, those of sums
    inside sums would double with each of them. They are added to `tensors`, and to the equations that are `known`;
    `places` has for each of their axes the place of its letter among those of the term. All scales have equations where
    they are to be `named`. `rewritten` is the law that these pairs serve: given them, a term without a scale of its
    own and what holds, it gives the term, rewritten wherever a part of it needs a scale.
    """

    known: Reaches
    tensors: dict[str, Tensor]
    named: bool
    rewritten: Callable[[ScaledValues, Term, Term], Term]
    made: dict[Term, Equation] = field(default_factory=dict)
    whole: dict[Term, tuple[Term, ...]] = field(default_factory=dict)
    places: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def term(self, term: Term, given: Term) -> Term:
        """The term, rewritten by the law wherever a part of it needs a scale."""
        return self.rewritten(self, term, given)

    def scaled(self, term: Term, given: Term, beside: Asked = ()) -> Scaled:
        """The pair (m, v) with term = v · e^m, where `given` holds; m is 0 where no exponential in the term can
        leave the range. A sum is relative to the largest of what is not 0 where that is asked (None), or where one
        `beside` it is relative to that; else to the largest of all."""
        if not self.known.reach(term):
            return ZERO, self.term(term, given)
        match term:
            case Read():
                return self.scaled(self.opened(term, given), given, beside)
            case Apply("exp", (power,)):
                return self.term(power, given), ONE
            case Apply("pow", (Const(Fraction() as base), power)) if not isinstance(power, Const):
                return Apply("mul", (self.term(power, given), Apply("log", (const(base),)))), ONE
            case Apply("pow" | "sqrt" as op, (inner, *rest)):
                power, value = self.scaled(inner, given)
                times = rest[0] if rest else const(Fraction(1, 2))
                return Apply("mul", (times, power)), self._raised(op, value, rest)
            case Apply("expm1", (power,)):
                return self._less_one(self.term(power, given), given)
            case Apply("neg", (inner,)):
                power, value = self.scaled(inner, given, beside)
                return power, Apply("neg", (value,))
            case Apply("abs", (inner,)):  # of what is not negative: others have no scale
                return self.scaled(inner, given, beside)
            case Apply("mul" | "div"):
                return self._quotient(term, given, beside)
            case Apply("add" | "sub"):
                parts = [(sign, *self.scaled(part, given, beside)) for sign, part in addends(term)]
                return self.sum_of(parts, given, beside != ())
            case Where(condition, then):
                power, value = self.scaled(then, both(given, condition), beside)
                return only(power, condition), Where(condition, value)
            case Fold("prod", bound, domain, body):
                power, value = self.scaled(body, in_body(given, term))
                return (ZERO if power == ZERO else Fold("sum", bound, domain, power),
                        ONE if value == ONE else Fold("prod", bound, domain, value))
            case Fold():
                return self._fold(term, given, beside)
        return ZERO, self.term(term, given)

    def _raised(self, op: str, value: Term, rest: list[Term]) -> Term:
        """A root or power of v, of a quotient above and below its stroke: 0 / 0 is 0, and what is taken of 1 / 0 would
        be infinite before it meets e^m."""
        rises = all(isinstance(power, Const) and power.value > 0 for power in rest)
        match value:
            case Apply("div", (above, below)) if rises and self.known.sign(below) >= NONNEGATIVE:
                return Apply("div", (self._raised(op, above, rest), Apply(op, (below, *rest))))
        return ONE if value == ONE else Apply(op, (value, *rest))

    def opened(self, read: Read, given: Term) -> Term:
        """What a read value is, 0 where it does not exist."""
        equation, body = self.known.equations[read.tensor], self.known.opened(read)
        if body is None:
            return read
        domain = simplify(at(equation, read))
        left = [c for c in conjuncts(domain) if c != TRUE and c not in conjuncts(given) and not proves(given, c)]
        return Where(both(*left), body) if left else body

    def _quotient(self, term: Term, given: Term, beside: Asked) -> Scaled:
        """The pair of a product or quotient: the scales above the stroke less those below, but for what both share.
        What is divided by is 0 exactly where the whole is, so that 0 / 0 stays 0."""
        above, below = fraction(term)
        under = [self.scaled(f, given, None) for f in below]
        over = self._over(above, tuple(p for p, _ in under if p != ZERO), given, beside)
        powers, under = self._paired(over, below, under, given)
        down = [p for p, _ in under if p != ZERO]
        for power in tuple(down):  # 0 / 0 is 0 where a scale of both is −∞
            if power in powers:
                powers.remove(power)
                down.remove(power)
        power = signed([*((1, p) for p in powers), *((-1, self._finite(p)) for p in down)])
        value, divisor = short(tuple(v for _, v in over)), short(tuple(self._beside(p, v, down) for p, v in under))
        return cancelled(power), value if divisor == ONE else Apply("div", (value, divisor))

    def _over(self, above: list[Term], scales: Scales, given: Term, beside: Asked) -> list[Scaled]:
        """The factors above a stroke. A scale below it may be theirs, where none is left over: what is small relative
        to it is as small in the quotient. Else weights above are asked where no slope is taken: where all of a sum are
        0, its scale would be −∞, and with it the slope in each of them 0."""
        if not scales:
            return [self.scaled(f, given, beside) for f in above]
        made = [self.scaled(f, given, scales) for f in above]
        if self._none_left([p for p, _ in made if p != ZERO], scales):
            return made
        return [self.scaled(f, given, () if self.named else None) for f in above]

    def _paired(self, over: list[Scaled], below: list[Term], under: list[Scaled],
                given: Term) -> tuple[list[Term], list[Scaled]]:
        """The scales above a stroke, and what is below it: an exponential above is the scale of a sum below that has it
        as an addend, where no scale is left over. Else the sum might be large relative to it, and the quotient is not.
        """
        powers = [p for p, _ in over if p != ZERO]
        left, made = list(powers), list[Scaled]()
        for factor, known in zip(below, under, strict=True):
            common = next((p for p, v in over if v == ONE and p in left and self.has(factor, p, given)
                           and self._never_zero(factor, given)), None)
            made.append(known if common is None else (ZERO, self._relative(factor, common, given)))
            left = left if common is None else [p for n, p in enumerate(left) if n != left.index(common)]
        return (left, made) if self._none_left(left, tuple(p for p, _ in made if p != ZERO)) else (powers, under)

    def _none_left(self, powers: list[Term], scales: Scales) -> bool:
        """Whether what the scales above a stroke leave of those below it is at most 1."""
        rest = Counter(scales)
        rest.subtract(powers)
        return all(n >= 0 and (n == 0 or self.known.interval(p)[0] >= 0) for p, n in rest.items())

    def _beside(self, power: Term, value: Term, down: list[Term]) -> Term:
        """v of what is divided by: a sum is 0 with all its exponentials, and one alone says where it is 0."""
        alone = value == ONE and power in down and not self.above(power)
        return Where(reached(power), ONE) if alone else value

    def _parts(self, term: Term, given: Term) -> list[tuple[int, Term, Term]]:
        """The addends of a sum that is written out, each as a sign and v · e^m."""
        inner = self.opened(term, given) if isinstance(term, Read) and self.known.reach(term) else term
        if not (isinstance(inner, Apply) and inner.op in ("add", "sub")):
            return []
        return [(sign, *self.scaled(part, given, None)) for sign, part in addends(inner)]

    def has(self, term: Term, power: Term, given: Term) -> bool:
        """Whether e^m is an addend of a sum of positive values: relative to it the sum is at least 1, unless all are 0.
        """
        parts = self._parts(term, given)
        positive = all(sign > 0 and self.known.sign(v) >= NONNEGATIVE for sign, _, v in parts)
        return positive and any(p == power and v == ONE for _, p, v in parts)

    def _never_zero(self, term: Term, given: Term) -> bool:
        """Whether one of the exponentials of a sum that is written out is surely more than 0."""
        return self.above(Apply("max", tuple(p for _, p, _ in self._parts(term, given))))

    def _relative(self, term: Term, power: Term, given: Term) -> Term:
        """The sum of positive values divided by e^power: a part of which the weight is 0 is 0, be it infinite then."""
        return total([(sign, *self._asked(v, p, given, free_indices(p) | free_indices(power)), minus(p, power))
                      for sign, p, v in self._parts(term, given)])

    def _asked(self, weight: Term, power: Term, given: Term,
               letters: frozenset[Index] | None = None) -> tuple[Term, Term]:
        """Where a weight of e^power, or one with `letters`, is not 0, as far as that is not known, and the weight. What
        is asked has an equation of its own, which exists elsewhere too, where it is a sum, and where a slope is taken
        of it."""
        conditions, by = list[Term](), dict[Term, Term]()
        for condition in asked(weight, power, self.whole, self.known, given, letters or free_indices(power)):
            part = condition.args[0] if isinstance(condition, Apply) and condition.op == "ne" else TRUE
            if not isinstance(part, Read | Truth) and (self.named or any(isinstance(x, Fold) for x in walk(part))):
                by[part] = self._apart(part, given, "weight")
                condition = Apply("ne", (by[part], ZERO))
            conditions.append(condition)
        return both(*conditions), transform(weight, lambda term: by.get(term, term))

    def sum_of(self, parts: list[tuple[int, Term, Term]], given: Term, weighed: bool) -> Scaled:
        """A sum relative to the largest of its scales, where they are `weighed` of those of its parts that are not 0.
        Adds to `self.whole`."""
        alike = len({p for _, p, _ in parts}) == 1
        found = [(sign, p, *((TRUE, v) if alike or not weighed else self._asked(v, p, given))) for sign, p, v in parts]
        powers = list(dict.fromkeys(p if c == TRUE else where(p, c) for _, p, c, _ in found))
        most = powers[0] if alike else self._named(Apply("max", tuple(powers)), given)
        reference = most if alike else self._finite(most)
        value = total([(sign, c, v, minus(p, reference)) for sign, p, c, v in found])
        if weighed and not alike:
            self.whole[value] = ()
        return most, value

    def _less_one(self, power: Term, given: Term) -> Scaled:
        """e^p − 1 relative to e^p where that is the larger part by far: nearer to 0 a difference would lose digits."""
        large = Apply("lt", (ONE, power))
        scale: Term = Where(large, power)
        if self.named:
            scale = self._apart(scale, given, "scale")
        beyond = total([(1, TRUE, ONE, minus(power, scale)), (-1, TRUE, ONE, Apply("neg", (scale,)))])
        return scale, Apply("add", (Where(negation(large), Apply("expm1", (power,))), Where(large, beyond)))

    def _finite(self, power: Term) -> Term:
        """A scale that something is divided by: 0 in place of the −∞ that it is where there is nothing to sum, and
        where all that is summed may be 0 by finite data or by a bias of −∞."""
        return power if self.above(power) else Where(reached(power), power)

    def above(self, power: Term) -> bool:
        """Whether an exponent is surely more than −∞."""
        return self.known.interval(power)[0] > -math.inf or surely_above(power, self.known.equations)

    def _named(self, largest: Apply | Fold, given: Term) -> Term:
        """A maximum of the scales of a sum, with an equation of its own where there are others inside it."""
        nested = isinstance(largest, Apply) and any(
            x is not largest and isinstance(x, Apply) and x.op == "max" for x in walk(largest))
        if not (nested or self.named):
            return largest
        return self._apart(largest, given, "scale")

    def _apart(self, term: Term, given: Term, stem: str) -> Read:
        """The term as a read of an equation of its own, which is named after its `stem`. Changes `self.tensors`,
        `self.made`, `self.known.equations` and `self.places`."""
        order = appearance(term, TRUE)
        domain = both(*(c for c in conjuncts(given) if free_indices(c) <= set(order)))
        key = Apply("and", (canonical(term, order), canonical(domain, order)))
        if key not in self.made:
            letters = tuple(sorted(order, key=axis_order))
            target, axes = unused(stem, self.tensors), tuple(map(Position, letters))
            self.tensors[target] = replace(local(target, letters), scale=stem == "scale")
            self.made[key] = self.known.equations[target] = Equation(target, axes, domain, term)
            self.places[target] = tuple(map(order.index, letters))
        target = self.made[key].target
        return Read(target, tuple(Position(order[n]) for n in self.places[target]))

    def _fold(self, fold: Fold, given: Term, beside: Asked) -> Scaled:
        """A sum over a domain relative to the largest scale in it, which is −∞ where that has no point: a scale that
        all points share is infinite there, where it comes from another sum without a point. Adds to `self.whole`."""
        fold = merged(fold)
        inside = in_body(given, fold)
        power, value = self.scaled(fold.body, inside, None if beside is None else ())
        held = not free_indices(power) & set(fold.bound)
        if held and (may_leave(power, fold.bound, fold.domain)
                     or witnessed(fold.domain, fold.bound, free_indices(power), given)):
            return power, Fold("sum", fold.bound, fold.domain, value)
        weighed, value = (TRUE, value) if beside == () else self._asked(value, power, inside)
        counts = tuple(c for c in conjuncts(weighed) if free_indices(c) & set(fold.bound))
        most = largest(fold, power, counts, () if beside is None else beside, self.known)
        scale = self._named(most, given)
        part: Term = Apply("exp", (Apply("sub", (power, self._finite(scale))),))
        if self.named and most.domain != fold.domain:  # a slope asks for it where its weight is 0, too
            part = self._apart(part, inside, "exp")
        made = Fold("sum", fold.bound, most.domain, short((part, *factors(value))))
        if {*counts} <= {*conjuncts(most.domain)}:
            self.whole[made] = tuple(c for c in conjuncts(weighed) if c not in (TRUE, *counts))
        return scale, made
