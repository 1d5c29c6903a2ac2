"""Every read of a program with the conditions under which it happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from einc.ir.indices import Index, number
from einc.ir.programs import Equation
from einc.ir.terms import (
    TRUE,
    Apply,
    Fold,
    Join,
    Part,
    Position,
    Read,
    Term,
    Where,
    both,
    bound_indices,
    children,
    conjuncts,
    free_indices,
    reads,
)


@dataclass(frozen=True)
class Seen:
    """A read, the condition under which it happens, the folds around it, and every index that is bound around it."""

    read: Read
    given: Term
    folds: tuple[Fold, ...] = ()
    bound: frozenset[Index] = frozenset()

    def within(self, term: Fold | Join, condition: Term = TRUE) -> Seen:
        """The place inside a binder, under one more condition. What a condition around
        says of an index bound anew is another's."""
        new = bound_indices(term)
        given = both(*(c for c in conjuncts(self.given) if free_indices(c).isdisjoint(new)), condition)
        return Seen(self.read, given, (*self.folds, term) if isinstance(term, Fold) else self.folds,
                    self.bound.union(new))

    def under(self, condition: Term) -> Seen:
        """The place where one more condition holds."""
        return replace(self, given=both(self.given, condition))


def everything(equation: Equation) -> Iterator[Seen]:
    """Every read of an equation: in its body where its domain holds, in its domain where what reads nothing holds."""
    yield from seen(equation.body, equation.domain)
    yield from seen(equation.domain, _unread(equation.domain))


def seen(term: Term, given: Term) -> Iterator[Seen]:
    """Every read in a term with the conditions on its way, those that hold around it first."""
    return _seen(term, Seen(Read("", ()), given))


def _seen(term: Term, at: Seen) -> Iterator[Seen]:
    """Every read in a term with the conditions on its way, those of `at` first."""
    match term:
        case Read():
            yield replace(at, read=term)
        case Fold(_, _, domain, body):
            yield from _seen(domain, at.within(term, _unread(domain)))
            yield from _seen(body, at.within(term, domain))
            return
        case Where(condition, then):
            yield from _seen(condition, at.under(_unread(condition)))
            yield from _seen(then, at.under(condition))
            return
        case Join(index, parts):
            before = number(0)
            for part, body in parts:
                here = Apply("eq", (Position(index), Part(Position(part), part.set, before, index.set)))
                yield from _seen(body, at.within(term, here))
                before = before + part.set.extent
            return
        case Apply("and"):
            at = at.under(_unread(term))
    for kid in children(term):
        yield from _seen(kid, at)


def _unread(condition: Term) -> Term:
    """The part of a condition that reads nothing: it is asked first, and what reads is asked only where it holds."""
    return both(*(c for c in conjuncts(condition) if not any(True for _ in reads(c))))
