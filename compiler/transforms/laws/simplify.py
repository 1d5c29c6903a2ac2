"""The laws of `rewrites`, applied from the leaves up until none applies."""

from __future__ import annotations

from einc.ir.indices import Index
from einc.ir.terms import (
    ONE,
    Apply,
    Equation,
    Fold,
    Position,
    Term,
    children,
    free_indices,
    rebuild,
    transform,
)
from einc.transforms.laws import RULES
from einc.transforms.laws.rule import Rule

ROUNDS = 200


def product(parts: tuple[Term, ...]) -> Term:
    """The product of factors, as short as it is written by hand."""
    kept = tuple(p for p in parts if p != ONE)
    return ONE if not kept else kept[0] if len(kept) == 1 else Apply("mul", kept)


def picked(equation: Equation) -> tuple[Fold, Index] | None:
    """The ordered fold and the rank, of an equation that has a point for each rank, counted from 1."""
    match equation.body:
        case Apply("pick", (Fold() as ordered, Position(rank))) if rank in equation.indices and rank.set.start == 1:
            return None if rank in free_indices(ordered) else (ordered, rank)
    return None


def factors(body: Term) -> tuple[Term, ...]:
    return body.args if isinstance(body, Apply) and body.op == "mul" else (body,)


def simplify(term: Term, rules: tuple[Rule, ...] = RULES) -> Term:
    """The laws of `rewrites`, from the leaves up, until none applies."""

    def settle(inner: Term) -> Term:
        for _ in range(ROUNDS):
            new = next((found for rule in rules if (found := rule.apply(inner)) is not None), None)
            if new is None:
                return inner
            inner = rebuild(new, tuple(settle_once(kid) for kid in children(new)))
        return inner

    def settle_once(kid: Term) -> Term:
        return settle(rebuild(kid, tuple(settle_once(x) for x in children(kid))))

    return transform(term, settle)
