"""The laws, applied from the leaves up until none applies."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from einc.ir.indices import Index
from einc.ir.programs import Equation
from einc.ir.terms import Apply, Fold, Position, Term, children, free_indices, reads, rebuild
from einc.transforms.laws import RULES
from einc.transforms.laws.rule import Rule

ROUNDS = 200



def picked(equation: Equation) -> tuple[Fold, Index] | None:
    """The ordered fold and the rank, of an equation that has a point for each rank, counted from 1."""
    match equation.body:
        case Apply("pick", (Fold() as ordered, Position(rank))) if rank in equation.indices and rank.set.start == 1:
            return None if rank in free_indices(ordered) else (ordered, rank)
    return None



def is_number(term: Term) -> bool:
    """Whether a term is the same everywhere, and no data has a part in it."""
    return not free_indices(term) and not any(True for _ in reads(term))


def simplify(term: Term, rules: tuple[Rule, ...] = RULES) -> Term:
    """The laws, from the leaves up, until none applies."""
    return _simplifier(id(rules), rules)(term)


_SIMPLIFIERS: dict[int, tuple[tuple[Rule, ...], Callable[[Term], Term]]] = {}


def _simplifier(key: int, rules: tuple[Rule, ...]) -> Callable[[Term], Term]:
    """A function that applies these laws and keeps what it found: the same terms come again and again."""
    if key not in _SIMPLIFIERS:
        applied = tuple(rule.apply for rule in rules)

        @lru_cache(maxsize=1 << 15)
        def simplified(term: Term) -> Term:
            here = rebuild(term, tuple([simplified(kid) for kid in children(term)]))
            for _ in range(ROUNDS):
                new = next((found for apply in applied if (found := apply(here)) is not None), None)
                if new is None:
                    return here
                here = rebuild(new, tuple([simplified(kid) for kid in children(new)]))
            return here

        _SIMPLIFIERS[key] = rules, simplified
    return _SIMPLIFIERS[key][1]
