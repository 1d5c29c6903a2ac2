"""Exponentials that neither overflow nor vanish where what is made of them does not: a law of scaled numbers.

A value made of exponentials is kept as v · e^m. A product adds the m, a quotient subtracts them, and a sum
has the largest m of its addends, so that its v is a sum of exponentials of at most 1, one of which is 1. A
logarithm is m + log(v), and a scale that a quotient's two sides share cancels. Names are seen through, so
that naming a part never changes a value.

The law is applied where a term needs it: at a logarithm, a root, a power, a quotient or a product of
what may be too large or too small. Everything else stays as it is written. The form that is made needs
nothing more, so that it may be applied again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

from einc.ir.domains import negation, proves
from einc.ir.draft import unused
from einc.ir.finite import surely_above
from einc.ir.primitives import NONNEGATIVE, POSITIVE
from einc.ir.programs import Equation, Program, Tensor, local
from einc.ir.sums import addends, factors, fraction, reached, signed
from einc.ir.sums import product as short
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Join,
    Position,
    Read,
    Term,
    Where,
    both,
    canonical,
    conjuncts,
    const,
    free_indices,
    in_body,
    rebuild,
    substitute,
    walk,
)
from einc.ir.witnesses import witnessed
from einc.transforms.laws.linear import may_leave
from einc.transforms.laws.simplify import simplify
from einc.transforms.normal.delta_elimination import appearance, axis_order
from einc.transforms.normal.exponents import with_exponents
from einc.transforms.normal.reach import LARGE, SMALL, Reaches, letters_for
from einc.transforms.normal.scale_terms import at, cancelled, divided, is_part, merged, minus, only, total

Scaled = tuple[Term, Term]  # m and v of v · e^m; m is 0 for what has no exponential
_Program = TypeVar("_Program", bound=Program)
_NEAR = const(Fraction("-0.7"))  # about −log 2: from here on 1 − e^x is nearer to 1 than to 0


def scaled(program: _Program, named: bool = False) -> _Program:
    """The program with its exponentials relative to the largest of each sum, wherever something needs that.

    Where they are to be `named`, every such scale is an equation whose tensor is a `scale`.
    """
    program = with_exponents(program)
    known = program.by_target
    if not any(x.op == "exp" or (x.op == "pow" and isinstance(x.args[0], Const)) for e in program.equations
               for x in _applied(e)):
        return program
    work = _Scaling(Reaches(dict(known)), dict(program.tensors), named)
    equations = [work.equation(e) for e in program.equations]
    return program.but(equations=(*work.made.values(), *equations), tensors=work.tensors)


def _applied(equation: Equation) -> Sequence[Apply]:
    return [x for x in walk(equation.body) if isinstance(x, Apply)]


@dataclass(frozen=True)
class _Scaling:
    """The law for the terms of one program. `given` is what holds where a term is read.

    `made` are scales that have equations of their own, by what they are: written out in every addend, those of sums
    inside sums would double with each of them. They are added to `tensors`, and to the equations that are `known`;
    `places` has for each of their axes the place of its letter among those of the term. All scales have equations where
    they are to be `named`.
    """

    known: Reaches
    tensors: dict[str, Tensor]
    named: bool
    made: dict[Term, Equation] = field(default_factory=dict)
    places: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def equation(self, equation: Equation) -> Equation:
        """The equation with its body rewritten where that needs it."""
        body = self.term(equation.body, equation.domain)
        return equation if body is equation.body else Equation(
            equation.target, equation.axes, equation.domain, body, equation.source)

    def term(self, term: Term, given: Term) -> Term:
        """The term, rewritten wherever a part of it needs that."""
        made = self._needed(term, given)
        if made is not None:
            return made
        match term:
            case Where(condition, then):
                return rebuild(term, (condition, self.term(then, both(given, condition))))
            case Fold(_, _, domain, body):
                return rebuild(term, (domain, self.term(body, in_body(given, term))))
            case Join(index, parts):
                return Join(index, tuple((i, self.term(part, given)) for i, part in parts))
            case Apply(_, args):
                return rebuild(term, tuple(self.term(a, given) for a in args))
        return term

    def _needed(self, term: Term, given: Term) -> Term | None:
        """The term by the law, where it needs that."""
        match term:
            case Apply("log", (inner,)) if self.known.reach(inner):
                return self._log(inner, given)
            case Apply("sqrt" | "pow", (base, *rest)) if self.known.reach(base) and all(is_part(r) for r in rest):
                return self._whole(self._scaled(term, given))
            case Apply("div" | "mul") if self._clashes(term):
                return self._whole(self._scaled(term, given))
            case Apply("sub", (above, one)) if one == ONE and (power := self._exponent(above, given)) is not None:
                return Apply("expm1", (power,))
            case Apply("sub", (one, above)) if one == ONE and (power := self._exponent(above, given)) is not None:
                return Apply("neg", (Apply("expm1", (power,)),))
        return None

    def _exponent(self, term: Term, given: Term) -> Term | None:
        """x of a term that is e^x: an exponential, a power of a positive value, powers and products of these."""
        match term:
            case Apply("exp", (power,)):
                return self.term(power, given)
            case Read():
                found = self.known.opened(term)
                return None if found is None else self._exponent(found, given)
            case Apply("pow", (base, Const() as power)):
                inner = self._exponent(base, given)
                if inner is None and self.known.reach(base) and self.known.sign(base) == POSITIVE:
                    inner = self._log(base, given)
                return None if inner is None else Apply("mul", (power, inner))
            case Apply("pow", (base, power)) if self.known.sign(base) == POSITIVE:
                return Apply("mul", (self.term(power, given), self._log(base, given)))
            case Apply("mul", args):
                parts = [self._exponent(arg, given) for arg in args]
                known = [part for part in parts if part is not None]
                return Apply("add", tuple(known)) if len(known) == len(parts) else None
        return None

    def _clashes(self, term: Apply) -> bool:
        """Whether a quotient or a product of floats may be none where it is one of real numbers: ∞/∞, 0/0, 0 · ∞."""
        found = [self.known.reach(a) for a in term.args]
        if term.op == "div":
            above, below = found
            return bool(above & below)
        large, small = ([n for n, f in enumerate(found) if side in f] for side in (LARGE, SMALL))
        return any(n != m for n in large for m in small) and not self.known.apart(term)

    def _whole(self, found: Scaled) -> Term:
        """v · e^m as one term, its quotient outside."""
        power, value = simplify(cancelled(found[0])), found[1]
        if power == ZERO:
            return value
        match value:
            case Apply("div", (above, below)):
                return Apply("div", (short((*factors(above), Apply("exp", (power,)))), below))
        return short((*factors(value), Apply("exp", (power,))))

    # v · e^m

    def _scaled(self, term: Term, given: Term) -> Scaled:
        """The pair (m, v) with term = v · e^m, where `given` holds; m is 0 where no exponential in the term can
        leave the range."""
        if not self.known.reach(term):
            return ZERO, self.term(term, given)
        match term:
            case Read():
                return self._scaled(self._opened(term, given), given)
            case Apply("exp", (power,)):
                return self.term(power, given), ONE
            case Apply("pow", (Const(Fraction() as base), power)) if not isinstance(power, Const):
                return Apply("mul", (self.term(power, given), Apply("log", (const(base),)))), ONE
            case Apply("pow" | "sqrt" as op, (inner, *rest)):
                power, value = self._scaled(inner, given)
                times = rest[0] if rest else const(Fraction(1, 2))
                return Apply("mul", (times, power)), self._raised(op, value, rest)
            case Apply("neg", (inner,)):
                power, value = self._scaled(inner, given)
                return power, Apply("neg", (value,))
            case Apply("mul" | "div"):
                return self._quotient(term, given)
            case Apply("add" | "sub"):
                return self._sum([(sign, *self._scaled(part, given)) for sign, part in addends(term)], given)
            case Where(condition, then):
                power, value = self._scaled(then, both(given, condition))
                return only(power, condition), Where(condition, value)
            case Fold():
                return self._fold(term, given)
        return ZERO, self.term(term, given)

    def _raised(self, op: str, value: Term, rest: list[Term]) -> Term:
        """A root or power of v, of a quotient above and below its stroke: 0 / 0 is 0, and what is taken of 1 / 0 would
        be infinite before it meets e^m."""
        rises = all(isinstance(power, Const) and power.value > 0 for power in rest)
        match value:
            case Apply("div", (above, below)) if rises and self.known.sign(below) >= NONNEGATIVE:
                return Apply("div", (self._raised(op, above, rest), Apply(op, (below, *rest))))
        return ONE if value == ONE else Apply(op, (value, *rest))

    def _opened(self, read: Read, given: Term) -> Term:
        """What a read value is, 0 where it does not exist."""
        equation, body = self.known.equations[read.tensor], self.known.opened(read)
        if body is None:
            return read
        domain = simplify(at(equation, read))
        left = [c for c in conjuncts(domain) if c != TRUE and c not in conjuncts(given) and not proves(given, c)]
        return Where(both(*left), body) if left else body

    def _quotient(self, term: Term, given: Term) -> Scaled:
        """Products and quotients: an exponential above is the scale of a sum below that has it as an addend."""
        above, below = fraction(term)
        over = [self._scaled(f, given) for f in above]
        powers, under = [p for p, _ in over if p != ZERO], list[Scaled]()
        for factor in below:
            common = next((p for p, v in over
                           if v == ONE and p in powers and p != ZERO and self._has(factor, p, given)
                           and self._never_zero(factor, given)), None)
            if common is None:
                under.append(self._scaled(factor, given))
            else:
                under.append((ZERO, self._relative(factor, common, given)))
                powers.remove(common)
        down = [p for p, _ in under if p != ZERO]
        for power in tuple(down):  # 0 / 0 is 0 where a scale of both is −∞
            if power in powers:
                powers.remove(power)
                down.remove(power)
        power = signed([*((1, p) for p in powers), *((-1, self._finite(p)) for p in down)])
        value, divisor = short(tuple(v for _, v in over)), short(tuple(self._beside(p, v, down) for p, v in under))
        return cancelled(power), value if divisor == ONE else Apply("div", (value, divisor))

    def _beside(self, power: Term, value: Term, down: list[Term]) -> Term:
        """v of what is divided by: a sum is 0 with all its exponentials, and one alone says where it is 0."""
        alone = value == ONE and power in down and not self._above(power)
        return Where(reached(power), ONE) if alone else value

    def _parts(self, term: Term, given: Term) -> list[tuple[int, Term, Term]]:
        """The addends of a sum that is written out, each as a sign and v · e^m."""
        inner = self._opened(term, given) if isinstance(term, Read) and self.known.reach(term) else term
        if not (isinstance(inner, Apply) and inner.op in ("add", "sub")):
            return []
        return [(sign, *self._scaled(part, given)) for sign, part in addends(inner)]

    def _has(self, term: Term, power: Term, given: Term) -> bool:
        """Whether e^m is an addend of a sum of positive values: relative to it the sum is at least 1, unless all are 0.
        """
        parts = self._parts(term, given)
        positive = all(sign > 0 and self.known.sign(v) >= NONNEGATIVE for sign, _, v in parts)
        return positive and any(p == power and v == ONE for _, p, v in parts)

    def _never_zero(self, term: Term, given: Term) -> bool:
        """Whether one of the exponentials of a sum that is written out is surely more than 0."""
        return self._above(Apply("max", tuple(p for _, p, _ in self._parts(term, given))))

    def _relative(self, term: Term, power: Term, given: Term) -> Term:
        return total([(sign, v, minus(p, power)) for sign, p, v in self._parts(term, given)])

    def _sum(self, parts: list[tuple[int, Term, Term]], given: Term) -> Scaled:
        """A sum relative to the largest of its scales."""
        powers = list(dict.fromkeys(p for _, p, _ in parts))
        largest = powers[0] if len(powers) == 1 else self._named(Apply("max", tuple(powers)), given)
        reference = largest if len(powers) == 1 else self._finite(largest)
        return largest, total([(sign, v, minus(p, reference)) for sign, p, v in parts])

    def _finite(self, power: Term) -> Term:
        """A scale that something is divided by: 0 in place of the −∞ that it is where there is nothing to sum, and
        where all that is summed may be 0 by finite data or by a bias of −∞."""
        return power if self._above(power) else Where(reached(power), power)

    def _above(self, power: Term) -> bool:
        """Whether an exponent is surely more than −∞."""
        return self.known.interval(power)[0] > -math.inf or surely_above(power, self.known.equations)

    def _named(self, largest: Apply | Fold, given: Term) -> Term:
        """A maximum of the scales of a sum, with an equation of its own where there are others inside it. Changes
        `self.tensors`, `self.made`, `self.known.equations` and `self.places`."""
        nested = isinstance(largest, Apply) and any(
            x is not largest and isinstance(x, Apply) and x.op == "max" for x in walk(largest))
        if not (nested or self.named):
            return largest
        order = appearance(largest, TRUE)
        domain = both(*(c for c in conjuncts(given) if free_indices(c) <= set(order)))
        key = Apply("and", (canonical(largest, order), canonical(domain, order)))
        if key not in self.made:
            letters = tuple(sorted(order, key=axis_order))
            target, axes = unused("scale", self.tensors), tuple(map(Position, letters))
            self.tensors[target] = replace(local(target, letters), scale=True)
            self.made[key] = self.known.equations[target] = Equation(target, axes, domain, largest)
            self.places[target] = tuple(map(order.index, letters))
        target = self.made[key].target
        return Read(target, tuple(Position(order[n]) for n in self.places[target]))

    def _fold(self, fold: Fold, given: Term) -> Scaled:
        """A sum over a domain relative to the largest scale in it, which is −∞ where the domain has no point: a scale
        that all points share is infinite there, where it comes from another sum without a point."""
        fold = merged(fold)
        power, value = self._scaled(fold.body, in_body(given, fold))
        held = not free_indices(power) & set(fold.bound)
        if held and (may_leave(power, fold.bound, fold.domain)
                     or witnessed(fold.domain, fold.bound, free_indices(power), given)):
            return power, Fold("sum", fold.bound, fold.domain, value)
        largest = self._named(Fold("max", fold.bound, fold.domain, power), given)
        relative = short((Apply("exp", (Apply("sub", (power, self._finite(largest))),)), *factors(value)))
        return largest, Fold("sum", fold.bound, fold.domain, relative)

    # logarithms

    def _log(self, term: Term, given: Term) -> Term:
        """log(v e^m) = m + log(v), of products and quotients of positive values factor by factor."""
        if not self.known.reach(term):
            return ZERO if term == ONE else Apply("log", (self.term(term, given),))
        match term:
            case Read():
                return self._log(self._opened(term, given), given)
            case Apply("mul" | "div"):
                above, below = fraction(term)
                apart = [(sign, f) for sign, side in ((1, above), (-1, below)) for f in side
                         if self.known.sign(f) >= NONNEGATIVE]
                rest = [[f for f in side if (sign, f) not in apart] for sign, side in ((1, above), (-1, below))]
                logs = [(sign, self._log(f, given)) for sign, f in apart]
                left = divided(*(short(tuple(self.term(f, given) for f in side)) for side in rest))
                whole = [*logs, *([(1, Apply("log", (left,)))] if left != ONE else [])]
                empty = [[f for s, f in apart if s == sign and self._may_be_zero(f, given)] for sign in (1, -1)]
                return self._log_quotient(whole, empty, given) if all(empty) else signed(whole)
            case Apply("add" | "sub"):
                return self._log_sum(addends(term), given)
            case Apply("pow" | "sqrt", (base, *rest)) if (
                not isinstance(base, Const) and self.known.sign(base) >= NONNEGATIVE
            ):
                return Apply("mul", (rest[0] if rest else const(Fraction(1, 2)), self._log(base, given)))
        power, value = self._scaled(term, given)
        return power if value == ONE else Apply("add", (power, Apply("log", (value,))))

    def _log_quotient(self, logs: list[tuple[int, Term]], zero: list[list[Term]], given: Term) -> Term:
        """The logarithm of a quotient of what may be 0 on both sides: 0 / 0 is 0, so what is below counts only where a
        side is not 0. Where an exponential above is one of those that are summed below, that is where the sum is not.
        """
        over, under = (signed([(1, log) for sign, log in logs if sign == side]) for side in (1, -1))
        among = len(zero[1]) == 1 and any(self._among(f, zero[1][0], given) for f in zero[0])
        counts = reached(under) if among else Apply("or", (reached(over), reached(under)))
        return signed([(1, over), (-1, Where(counts, under))])

    def _may_be_zero(self, factor: Term, given: Term) -> bool:
        """Whether a value may be 0: exponents may be −∞, or what they are the scale of may be 0. A sum of nothing but
        exponentials is at least 1 relative to the largest."""
        power, value = self._scaled(factor, given)
        if power != ZERO and not self._above(power):
            return True
        match value:
            case Fold("sum", _, _, Apply("exp")) if power != ZERO:
                return False
        return value != ONE and self.known.sign(value) != POSITIVE

    def _among(self, factor: Term, total: Term, given: Term) -> bool:
        """Whether a value is one exponential, and one of those that another is the sum of."""
        power, value = self._scaled(factor, given)
        inner = self._opened(total, given) if isinstance(total, Read) else total
        if value != ONE:
            return False
        if not isinstance(inner, Fold):
            return self._has(inner, power, given)
        inner = merged(inner)
        theirs, weight = self._scaled(inner.body, in_body(given, inner))
        return weight == ONE and any(
            self.known.same(substitute(theirs, by), power) and all(
                proves(given, c) for c in conjuncts(simplify(substitute(inner.domain, by))))
            for found in letters_for(power, inner.bound)
            for by in [dict(zip(inner.bound, map(Position, found), strict=True))])

    def _log_sum(self, parts: list[tuple[int, Term]], given: Term) -> Term:
        """log(e^p + e^q) is logaddexp(p, q); of a difference nothing is lost where its
        sides are near each other, or far apart."""
        if all(sign > 0 and self.known.sign(part) >= NONNEGATIVE for sign, part in parts):
            return Apply("logaddexp", tuple(self._log(part, given) for _, part in parts))
        found = sorted(((sign, *self._scaled(part, given)) for sign, part in parts), key=lambda part: -part[0])
        match found:
            case [(1, p, v), (-1, q, w)] if v == w == ONE:
                far = minus(q, p)
                near = Apply("lt", (_NEAR, far))
                inside = Where(near, Apply("log", (Apply("neg", (Apply("expm1", (far,)),)),)))
                beyond = Where(negation(near), Apply("log1p", (Apply("neg", (Apply("exp", (far,)),)),)))
                return Apply("add", (*(x for x in (p,) if x != ZERO), inside, beyond))
        power, value = self._sum(found, given)
        return Apply("add", (power, Apply("log", (value,))))
