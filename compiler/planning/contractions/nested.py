"""Folds over pairs of positions and more, in the order in which a kernel in tiles can do them.

`with_rows`: a fold that leaves no position runs first over one of the two, then over the other. Σ_{t s} x_{t s} =
Σ_t (Σ_s x_{t s}): rows of t are done in tiles, with what else runs over the same pairs, and what is stored is one
number for each row. Non-goals: results that keep a position, and sums that are products of stored tensors.

`with_batches`: what each pair sums over heads, of values that each pair has for each head, is summed after the
positions. Σ_s (Σ_h x_{t s h}) b_s = Σ_h (Σ_s x_{t s h} b_s): one program has the pairs of one head.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from einc.ir.draft import Draft
from einc.ir.indices import OUTER, SEQUENCE, Index, distinct
from einc.ir.programs import Equation, NormalProgram
from einc.ir.sums import factors
from einc.ir.terms import TRUE, Apply, Fold, Position, Read, Term, both, conjuncts, free_indices, reads, transform
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


def with_batches(program: NormalProgram) -> NormalProgram:
    """The program with such sums over heads in the readers of what is summed."""
    outputs = {key for _, key in program.outputs}
    for equation in program.equations:
        heads = _heads(equation) if equation.target not in outputs else ()
        readers = [e for e in program.equations if equation.target in e.reads]
        if heads and readers and all(_sums(reader, equation.target) for reader in readers):
            program = _later(program, equation, heads)
    return program


def _heads(equation: Equation) -> tuple[Index, ...]:
    """The outer indices that a value of pairs of positions sums over a factor that has them beside both positions."""
    fold, places = equation.body, {i for i in equation.indices if i.set.cls in SEQUENCE}
    if not isinstance(fold, Fold) or fold.op != "sum" or len(places) < 2:
        return ()
    met = frozenset[Index]().union(*(free_indices(f) for f in factors(fold.body) if places <= free_indices(f)))
    return tuple(b for b in fold.bound if b.set.cls in OUTER and b in met - free_indices(fold.domain))


def _sums(reader: Equation, target: str) -> bool:
    """Whether an equation sums, over a position of it, products with one element of the target each."""
    fold = reader.body
    if not isinstance(fold, Fold) or fold.op != "sum" or any(r.tensor == target for r in reads(fold.domain)):
        return False
    mine = [f for f in factors(fold.body) if any(r.tensor == target for r in reads(f))]
    return (len(mine) == 1 and isinstance(mine[0], Read) and bool(reader.indices)
            and any(b.set.cls in SEQUENCE for b in fold.bound if b in free_indices(mine[0])))


def _later(program: NormalProgram, equation: Equation, heads: tuple[Index, ...]) -> NormalProgram:
    """The program in which the readers of a sum run over these of its indices."""
    draft, fold = Draft(program.tensors), equation.body
    assert isinstance(fold, Fold)
    each: Read | None = None
    for other in program.equations:
        if other is equation:
            rest = tuple(b for b in fold.bound if b not in heads)
            body = replace(fold, bound=rest) if rest else fold.body
            each = draft.value(f"{equation.target}_each", (*heads, *equation.indices), body,
                               equation.domain if rest else both(equation.domain, fold.domain))
        elif equation.target in other.reads and each is not None:
            draft.add(_over(other, equation.target, each.tensor, heads))
        else:
            draft.add(other)
    return draft.done(program)


def _over(reader: Equation, target: str, each: str, heads: tuple[Index, ...]) -> Equation:
    """The reader of a sum that sums over heads itself, of the value `each` that the sum was made of."""
    fold = reader.body
    assert isinstance(fold, Fold)
    letters = distinct(heads, {i.name for i in (*reader.indices, *fold.bound)})
    body = transform(fold.body, lambda t: Read(each, (*map(Position, letters), *t.subs))
                     if isinstance(t, Read) and t.tensor == target else t)
    return replace(reader, body=Fold("sum", (*fold.bound, *letters), fold.domain, body))


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
    places = [b for b in fold.bound if b.set.cls in SEQUENCE]
    if len(places) < 2 or any(i.set.cls in SEQUENCE for i in equation.indices):
        return None
    if any(isinstance(c, Apply) and c.op == "eq" and free_indices(c) & set(equation.indices)
           for c in conjuncts(fold.domain)):
        return None  # a table: each pair meets one of its entries, a row would have them all
    made = {e.target for e in program.equations}
    parts: list[Term] = [f for f in factors(fold.body) if not isinstance(f, Read) or f.tensor in made]
    paired = any(len(free_indices(x) & {*places}) > 1 for x in (*conjuncts(fold.domain), *parts) if x != TRUE)
    return places[0] if paired else None
