"""Long products, and choices among many, as trees of named parts, so that the slopes of all arguments share what they
read.

The slope of a product by one of n factors is the product of all others, n (n - 1) factors for all slopes together. With
named parts of a few factors each, the cotangent of a part is made once, and each of its factors has it times the few
beside it: that grows with n. Non-goal: an order. Arguments keep theirs, but for those that nothing moves, which come
first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from einc.ir.draft import Draft, unused
from einc.ir.indices import Index
from einc.ir.primitives import PRIMITIVES, REST
from einc.ir.programs import NormalProgram
from einc.ir.terms import Apply, Fold, Position, Term, Where, both, conjuncts, free_indices, reads

FEW = 8  # arguments whose slopes share nothing


def shared_factors(program: NormalProgram) -> NormalProgram:
    """The same program, in which no value has a slope that reads more than FEW arguments of one
    operation beside its own.
    """
    draft = Draft(program.tensors)
    for equation in program.equations:
        work = _Parts(draft, equation.target, equation.indices)
        draft.add(equation if program.tensors[equation.target].integer else replace(equation, body=work.term(
            equation.body, equation.domain)))
    return draft.done(program)


@dataclass
class _Parts:
    """The parts of one equation; `letters` are the indices of a point at which its terms are read."""

    draft: Draft
    target: str
    letters: tuple[Index, ...]
    made: int = 0

    def term(self, term: Term, domain: Term) -> Term:
        """A term that is read in a domain, with names for parts of what is long in it. Adds the equations of these."""
        match term:
            case Fold(_, bound, inside, Apply(op, args)) if _shares(op) and len(args) > FEW:
                outside, self.letters = self.letters, (*self.letters, *bound)
                parts = self._grouped(op, args, both(domain, inside))
                self.letters = outside
                return replace(term, body=_applied(op, parts))
            case Where(condition, then):
                return replace(term, then=self.term(then, both(domain, condition)))
            case Apply(op, args) if PRIMITIVES[op].slope is not None:
                own = tuple(self.term(arg, domain) for arg in args)
                if not _shares(op) or len(args) <= FEW:
                    return replace(term, args=own)
                return _applied(op, self._few(op, self._grouped(op, own, domain), self.letters, domain))
        return term

    def _grouped(self, op: str, args: tuple[Term, ...], domain: Term) -> tuple[Term, ...]:
        """The arguments, those of the same indices as one each; as a few where all have the same."""
        still = tuple(arg for arg in args if _is_still(arg))
        groups: dict[tuple[Index, ...], tuple[Term, ...]] = {}
        for arg in args:
            if not _is_still(arg):
                plain = all(isinstance(sub, Position) for read in reads(arg) for sub in read.subs)
                own = tuple(i for i in self.letters if i in free_indices(arg)) if plain else self.letters
                groups[own] = (*groups.get(own, ()), arg)
        if len(groups) == 1:
            return (*still, *(arg for own, group in groups.items() for arg in self._few(op, group, own, domain)))
        return (*still, *(self._named(op, group, own, domain) for own, group in groups.items()))

    def _named(self, op: str, args: tuple[Term, ...], own: tuple[Index, ...], domain: Term) -> Term:
        """Some arguments as one that has a name, at the indices that they have; one alone is itself. Adds the equation
        of the name."""
        if len(args) == 1:
            return args[0]
        inside = both(*(c for c in conjuncts(domain) if free_indices(c) <= {*own}))
        body = _applied(op, self._few(op, args, own, inside))
        self.made += 1
        return self.draft.value(unused(f"{self.target}_part{self.made}", self.draft.tensors), own, body, inside)

    def _few(self, op: str, args: tuple[Term, ...], own: tuple[Index, ...], domain: Term) -> tuple[Term, ...]:
        """The arguments as at most FEW, beside those that nothing moves."""
        still, moved = tuple(filter(_is_still, args)), tuple(arg for arg in args if not _is_still(arg))
        if len(moved) <= FEW:
            return args
        many = FEW
        while many * FEW < len(moved):
            many *= FEW
        return (*still, *(self._named(op, moved[at : at + many], own, domain) for at in range(0, len(moved), many)))


def _applied(op: str, args: tuple[Term, ...]) -> Term:
    return args[0] if len(args) == 1 else Apply(op, args)


def _is_still(term: Term) -> bool:
    return not any(True for _ in reads(term))


def _shares(op: str) -> bool:
    """Whether the slope by one argument of an operation of any number reads the others."""
    row = PRIMITIVES[op]
    return not row.arity and (
        row.slope == "taken" or (row.slope is not None and any(REST in reads(x) for x in row.slope)))
