"""Exponentials that neither overflow nor vanish where what is made of them does not: a law of scaled numbers.

A value made of exponentials is kept as v · e^m (`scaled_values`). A logarithm is m + log(v), and a scale that a
quotient's two sides share cancels. Names are seen through, so that naming a part never changes a value.

The law is applied where a term needs it: at a logarithm, a root, a power, a quotient or a product of
what may be too large or too small. Everything else stays as it is written. The form that is made needs
nothing more, so that it may be applied again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import TypeVar

from einc.ir.domains import negation, proves
from einc.ir.primitives import NONNEGATIVE, POSITIVE
from einc.ir.programs import Equation, Program
from einc.ir.sums import addends, factors, fraction, reached, signed
from einc.ir.sums import product as short
from einc.ir.terms import (
    ONE,
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
    conjuncts,
    const,
    in_body,
    rebuild,
    substitute,
    walk,
)
from einc.transforms.laws.simplify import simplify
from einc.transforms.normal.exponents import with_exponents
from einc.transforms.normal.reach import FAR, LARGE, SMALL, Reaches, letters_for
from einc.transforms.normal.scale_terms import cancelled, divided, is_part, merged, minus
from einc.transforms.normal.scaled_values import Scaled, ScaledValues

_Program = TypeVar("_Program", bound=Program)
_FAR = const(Fraction(FAR))
_NEAR = const(Fraction("-0.7"))  # about −log 2: from here on 1 − e^x is nearer to 1 than to 0


def scaled(program: _Program, named: bool = False) -> _Program:
    """The program with its exponentials relative to the largest of each sum, wherever something needs that.

    Where they are to be `named`, every such scale is an equation whose tensor is a `scale`.
    """
    program = with_exponents(program)
    known = program.by_target
    if not any(x.op in ("exp", "expm1") or (x.op == "pow" and isinstance(x.args[0], Const)) for e in program.equations
               for x in _applied(e)):
        return program
    work = ScaledValues(Reaches(dict(known)), dict(program.tensors), named, _rewritten)
    equations = [_Scaling(work).equation(e) for e in program.equations]
    scales = [*_read(tuple(work.made.values()), equations)]
    unread = {e.target for e in work.made.values()} - {e.target for e in scales}
    tensors = {key: tensor for key, tensor in work.tensors.items() if key not in unread}
    return program.but(equations=(*scales, *equations), tensors=tensors)


def _read(scales: tuple[Equation, ...], equations: Iterable[Equation]) -> list[Equation]:
    """The scales, each of which may read those before it, that something reads."""
    read = {key for e in equations for key in e.reads}
    made = list[Equation]()
    for scale in reversed(scales):
        if scale.target in read:
            made.insert(0, scale)
            read.update(scale.reads)
    return made


def _applied(equation: Equation) -> Sequence[Apply]:
    return [x for x in walk(equation.body) if isinstance(x, Apply)]


def _rewritten(values: ScaledValues, term: Term, given: Term) -> Term:
    """The term by the law, with the pairs of its program."""
    return _Scaling(values).term(term, given)


@dataclass(frozen=True)
class _Scaling:
    """The law for the terms of one program, whose pairs are `values`. `given` is what holds where a term is read."""

    values: ScaledValues

    @property
    def known(self) -> Reaches:
        """What is known of the values of the program."""
        return self.values.known

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
            case Apply("log1p", (inner,)) if self.known.reach(inner):
                return self._log_beside_one(inner, given)
            case Apply("sqrt" | "pow", (base, *rest)) if self.known.reach(base) and all(is_part(r) for r in rest):
                return self._whole(self.values.scaled(term, given))
            case Apply("div" | "mul") if self._clashes(term):
                return self._whole(self.values.scaled(term, given))
            case Apply("add" | "sub"):
                return self._difference(term, given)
        return None

    def _difference(self, term: Term, given: Term) -> Term | None:
        """e^x − 1 and 1 − e^x by e^x − 1 as one function, which keeps its digits where x is near 0."""
        parts = [(-sign, ONE) if part == const(-1) else (sign, part) for sign, part in addends(term)]
        for (sign, above), other in permutations(parts) if len(parts) == 2 else ():
            if other == (-sign, ONE) and (power := self._exponent(above, given)) is not None:
                found = Apply("expm1", (power,))
                return found if sign > 0 else Apply("neg", (found,))
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
            case Apply("sqrt", (base,)):
                inner = self._exponent(base, given)
                return None if inner is None else Apply("mul", (const(Fraction(1, 2)), inner))
            case Apply("div", (above, below)):
                over, under = ZERO if above == ONE else self._exponent(above, given), self._exponent(below, given)
                return None if over is None or under is None else minus(over, under)
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

    # logarithms

    def _log(self, term: Term, given: Term) -> Term:
        """log(v e^m) = m + log(v), of products and quotients of positive values factor by factor."""
        if not self.known.reach(term):
            return ZERO if term == ONE else Apply("log", (self.term(term, given),))
        match term:
            case Read():
                return self._log(self.values.opened(term, given), given)
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
            case Fold("prod", bound, domain, body) if self.known.sign(body) >= NONNEGATIVE:
                return Fold("sum", bound, domain, self._log(body, in_body(given, term)))
        power, value = self.values.scaled(term, given, None)
        return power if value == ONE else Apply("add", (power, Apply("log", (value,))))

    def _log_beside_one(self, term: Term, given: Term) -> Term:
        """log(1 + v e^m): where the value may be negative, m + log(e^−m + v) where e^m is large, and as it stands
        elsewhere: that sum would lose the digits of a small value."""
        if self.known.sign(term) >= NONNEGATIVE:
            return Apply("logaddexp", (ZERO, self._log(term, given)))
        if isinstance(term, Apply) and term.op == "expm1":
            return self.term(term.args[0], given)
        parts = addends(cancelled(Apply("add", (ONE, term))))
        if len(parts) < 2 or (len(parts) == 2 and self._exponent(parts[1][1], given) is not None):
            return self._log(signed(parts), given)
        power, value = self.values.scaled(term, given, None)
        far = both(Apply("lt", (_FAR, power)), Apply("ne", (value, ZERO)))
        beyond = Apply("log", (Apply("add", (Apply("exp", (Apply("neg", (power,)),)), value)),))
        half = Apply("exp", (Apply("mul", (const(Fraction(1, 2)), power)),))  # e^m may be infinite where v is 0
        inside = Apply("log1p", (short((value, half, half)),))
        return Apply("add", (Where(negation(far), inside), Where(far, Apply("add", (power, beyond)))))

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
        power, value = self.values.scaled(factor, given, None)
        if power != ZERO and not self.values.above(power):
            return True
        match value:
            case Fold("sum", _, _, Apply("exp")) if power != ZERO:
                return False
        return value != ONE and self.known.sign(value) != POSITIVE

    def _among(self, factor: Term, total: Term, given: Term) -> bool:
        """Whether a value is one exponential, and one of those that another is the sum of."""
        power, value = self.values.scaled(factor, given, None)
        inner = self.values.opened(total, given) if isinstance(total, Read) else total
        if value != ONE:
            return False
        if not isinstance(inner, Fold):
            return self.values.has(inner, power, given)
        inner = merged(inner)
        theirs, weight = self.values.scaled(inner.body, in_body(given, inner), None)
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
        pairs = [(sign, *self.values.scaled(part, given, None)) for sign, part in parts]
        found = sorted(pairs, key=lambda part: -part[0])
        match found:
            case [(1, p, v), (-1, q, w)] if v == w == ONE:
                far = minus(q, p)
                near = Apply("lt", (_NEAR, far))
                inside = Where(near, Apply("log", (Apply("neg", (Apply("expm1", (far,)),)),)))
                beyond = Where(negation(near), Apply("log1p", (Apply("neg", (Apply("exp", (far,)),)),)))
                return Apply("add", (*(x for x in (p,) if x != ZERO), inside, beyond))
        power, value = self.values.sum_of(found, given, True)
        return Apply("add", (power, Apply("log", (value,))))
