"""Scales of values v · e^m: the largest of several, which may have an equation, and others relative to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from einc.ir.draft import unused
from einc.ir.finite import surely_above
from einc.ir.primitives import POSITIVE
from einc.ir.programs import Equation, Tensor, local
from einc.ir.sums import reached
from einc.ir.terms import (
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Position,
    Read,
    Term,
    Where,
    both,
    canonical,
    children,
    conjuncts,
    free_indices,
    walk,
)
from einc.transforms.normal.delta_elimination import appearance, axis_order
from einc.transforms.normal.reach import SMALL, Reaches
from einc.transforms.normal.scale_terms import minus


@dataclass(frozen=True)
class Scales:
    """The scales of one program.

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

    def below(self, power: Term, reference: Term) -> Term:
        """A scale relative to a largest one: 0 where both are ∞, which a difference would be no number of."""
        made = minus(power, reference)
        paired = isinstance(made, Apply) and made.op == "min"  # relative to another one
        if ZERO in (made, power) or paired or self.above(Apply("neg", (power,))):
            return made
        return Where(Apply("ne", (Const(math.inf), power)), made)

    def finite(self, power: Term) -> Term:
        """A scale that something is divided by: 0 in place of the −∞ that it is where there is nothing to sum, and
        where all that is summed may be 0 by finite data or by a bias of −∞."""
        return power if self.above(power) else Where(reached(power), power)

    def above(self, power: Term) -> bool:
        """Whether an exponent is surely more than −∞."""
        return self.known.interval(power)[0] > -math.inf or surely_above(power, self.known.equations)

    def largest(self, largest: Apply | Fold, given: Term) -> Term:
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

    def vanish(self, above: Term, below: Term) -> bool:
        """Whether both sides of a quotient may be 0, that below because data make all its exponentials 0."""
        return (SMALL in self.known.reach(below) and self._from_nothing(below, set())
                and (self.known.sign(above) != POSITIVE or self._from_nothing(above, set())))

    def _from_nothing(self, term: Term, seen: set[str]) -> bool:
        """Whether data may make an exponential in a term 0, but for what was `seen`, to which tensors are added."""
        match term:
            case Read(tensor) if tensor in self.known.equations and tensor not in seen:
                seen.add(tensor)
                return self._from_nothing(self.known.equations[tensor].body, seen)
            case Apply("exp", (power,)):
                return not self.above(power)
        return any(self._from_nothing(kid, seen) for kid in children(term))
