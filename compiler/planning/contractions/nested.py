"""A fold over pairs of positions that leaves no position: first over one of the two, then over the other.

Σ_{t s} x_{t s} = Σ_t (Σ_s x_{t s}): rows of t are done in tiles, with what else runs over the same
pairs, and what is stored is one number for each row. Non-goals: results that keep a position, and
sums that are products of stored tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from einc.ir.draft import Draft
from einc.ir.indices import OUTER, PLACES, Index
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import factors
from einc.ir.terms import TRUE, Apply, Fold, Read, Term, both, conjuncts, free_indices
from einc.planning.contractions.networks import contraction_of


def with_rows(program: NormalProgram, *, later: bool = False) -> NormalProgram:
    """The program with such folds one in another; with `later`, not yet those that are
    products whose order is still open."""
    draft = Draft(program.tensors)
    for equation in program.equations:
        body = equation.body
        row = (_row(equation, body, program) if isinstance(body, Fold) and not (later and _ordered(equation, program))
               else None)
        if row is None or not isinstance(body, Fold):
            draft.add(equation)
            continue
        kept = [b for b in body.bound if b == row or b.set.cls in OUTER]
        draft.add(split_fold(draft, equation, body, "row", kept, [*equation.indices, *kept]))
    return draft.done(program)


def split_fold(draft: Draft, equation: Equation, fold: Fold, name: str, kept: Sequence[Index],
               letters: Iterable[Index]) -> Equation:
    """An equation that folds, over `kept` alone: the fold over its other indices is a
    value of its own, added to the draft.

    The value has these letters, and exists where all is true that the equation and the fold ask of them.
    """
    gone, axes = tuple(b for b in fold.bound if b not in kept), tuple(letters)
    inner = [c for c in conjuncts(fold.domain) if free_indices(c) & {*gone}]
    outer = [c for c in conjuncts(fold.domain) if c not in inner]
    exists = both(*(c for c in (*conjuncts(equation.domain), *outer) if free_indices(c) <= {*axes}))
    each = draft.value(f"{equation.target}_{name}", axes, Fold(fold.op, gone, both(*inner), fold.body), exists)
    return replace(equation, body=Fold(fold.op, tuple(b for b in fold.bound if b in kept), both(*outer), each))


def _ordered(equation: Equation, program: NormalProgram) -> bool:
    network = contraction_of(program, equation)
    return network is not None and len(network.factors) > 1


def _row(equation: Equation, fold: Fold, program: NormalProgram) -> Index | None:
    """The position that stays for the outer fold: the first that is folded."""
    places = [b for b in fold.bound if b.set.cls in PLACES]
    if len(places) < 2 or any(i.set.cls in PLACES for i in equation.indices):
        return None
    if any(isinstance(c, Apply) and c.op == "eq" and free_indices(c) & set(equation.indices)
           for c in conjuncts(fold.domain)):
        return None  # a table: each pair meets one of its entries, a row would have them all
    made = {e.target for e in program.equations}
    parts: list[Term] = [f for f in factors(fold.body) if not isinstance(f, Read) or f.tensor in made]
    paired = any(len(free_indices(x) & {*places}) > 1 for x in (*conjuncts(fold.domain), *parts) if x != TRUE)
    return places[0] if paired else None
