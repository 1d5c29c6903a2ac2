"""Folds up to a position as folds up to one before it and the last points: Σ_{s ≤ t} x_s is Σ_{s ≤ t - 1} x_s + x_t.

So what a round adds is told apart from what the rounds before it left, where a claim says both in one fold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einc.ir.domains import empty, facts, is_whole, linear, proves
from einc.ir.folds import FOLDS
from einc.ir.indices import INDEX_CLASSES, Index, number
from einc.ir.terms import (
    ONE,
    TRUE,
    ZERO,
    Apply,
    Const,
    Fold,
    Position,
    Size,
    Term,
    Where,
    both,
    children,
    conjuncts,
    const,
    rebuild,
    substitute,
    walk,
)

_MOST = 4  # points that are told apart from a fold


def apart(terms: tuple[Term, ...], here: Index, given: Term) -> tuple[Term, ...]:
    """The terms, which are read where `given` holds, with all folds that end near a position ending at one place."""
    ends = [end for term in terms for fold in walk(term) if isinstance(fold, Fold)
            for _, _, end in _ends(fold, here)] or [0]
    found = tuple(_Apart(here, max(min(ends), max(ends) - _MOST)).term(term, given) for term in terms)
    at = here.set.start
    if proves(given, Apply("le", (Position(here), const(at)))):  # then it is the first
        found = tuple(substitute(term, {here: const(at)}) for term in found)
    return found


def _ends(fold: Fold, here: Index) -> Iterator[tuple[Index, Term, int]]:
    """Each index of a fold that a condition keeps at or before here + n, with the condition and n."""
    for index in fold.bound:
        if INDEX_CLASSES[index.set.cls].before == "le" and not index.set.by:
            for atom in conjuncts(fold.domain):
                for form in facts(atom) if isinstance(atom, Apply) and atom.op in ("le", "lt") else ():
                    rest = form.without(Position(index))
                    end = rest.constant.constant
                    if (form.coefficient(Position(index)) == number(-1) and rest.atoms == ((Position(here), number(1)),)
                            and end is not None and end.denominator == 1):
                        yield index, atom, int(end)


@dataclass(frozen=True)
class _Apart:
    """Folds that end at here + n with n above `least` end there, and their last points stand beside them."""

    here: Index
    least: int

    def term(self, term: Term, given: Term) -> Term:
        """The term where `given` holds, with the last point of its folds beside the others."""
        match term:
            case Where(condition, then):
                if proves(given, condition):
                    return self.term(then, given)
                if empty(both(given, condition)):
                    return ZERO
                return Where(condition, self.term(then, both(given, condition)))
            case Fold(op, bound, domain, body) if FOLDS[op].step:
                if empty(both(given, domain)):
                    return _none(op)
                split = next((found for index, atom, end in _ends(term, self.here) if end > self.least
                              and (found := self._split(term, index, atom, end, given)) is not None), None)
                if split is not None:
                    return self.term(split, given)
                return Fold(op, bound, domain, self.term(body, both(given, domain)))
            case Apply("pow", (base, power)) if self._is_later(power) and proves(given, Apply("le", (ONE, power))):
                return Apply("mul", (base, self.term(Apply("pow", (base, Apply("sub", (power, ONE)))), given)))
        return rebuild(term, tuple(self.term(kid, given) for kid in children(term)))

    def _is_later(self, power: Term) -> bool:
        """Whether a power is a whole number that counts from further on than all folds end."""
        form = linear(power)
        end = None if form is None or not is_whole(form) else form.constant.constant
        return (form is not None and end is not None and end > self.least
                and form.coefficient(Position(self.here)) == number(1))

    def _split(self, fold: Fold, index: Index, atom: Term, end: int, given: Term) -> Term | None:
        """The fold up to one point fewer, and its value at the last; None where that cannot be written."""
        last: Term = Position(self.here) if not end else Apply("add", (Position(self.here), const(end)))
        before = Apply("le", (Position(index), Apply("add", (Position(self.here), const(end - 1)))))
        rest = tuple(a for a in conjuncts(fold.domain) if a not in (atom, TRUE))
        low, high = index.set.start, index.set.extent + number(index.set.start - 1)
        ranges = (Apply("le", (const(low), last)), Apply("le", (last, Size(high))))
        holds = both(*(substitute(a, {index: last}) for a in rest), *ranges)
        holds = both(*(a for a in conjuncts(holds) if not proves(given, a)))
        body = substitute(fold.body, {index: last})
        others = tuple(i for i in fold.bound if i != index)
        value = Fold(fold.op, others, holds, body) if others else _where(fold.op, holds, body, given)
        whole = Fold(fold.op, fold.bound, both(*rest, before), fold.body)
        return None if value is None else FOLDS[fold.op].merged(whole, value)


def _where(op: str, holds: Term, value: Term, given: Term) -> Term | None:
    """A value where a condition holds, else the value of a fold of nothing."""
    if holds == TRUE:
        return value
    if empty(both(given, holds)):
        return _none(op)
    match op:
        case "sum":
            return Where(holds, value)
        case "prod":
            return Apply("add", (ONE, Where(holds, Apply("sub", (value, ONE)))))
    return None


def _none(op: str) -> Term:
    """The value of a fold of nothing."""
    start = FOLDS[op].start
    return const(int(start)) if abs(start) < 2 else Const(start)
