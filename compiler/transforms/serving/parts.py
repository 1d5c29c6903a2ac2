"""Sums over a direct sum as a sum for each of its parts: then one part may be kept as it
is, and another be made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from einc.ir.indices import Index
from einc.ir.programs import Equation, TypedProgram
from einc.ir.terms import ONE, Apply, Fold, Join, Position, Read, Term, free_indices, reads, substitute, transform


def apart(program: TypedProgram) -> TypedProgram:
    """The program with Σ_e x_e y_e, e = c ⊕ d, as Σ_c x_c y_c + Σ_d x_d y_d, where x and
    y are direct sums themselves."""
    joins = {e.target: e for e in program.equations if isinstance(e.body, Join)}

    def change(term: Term) -> Term:
        if not isinstance(term, Fold) or term.op != "sum":
            return term
        return next((found for b in term.bound if (found := _apart(term, b, joins)) is not None), term)

    made = tuple(replace(e, body=transform(e.body, change)) for e in program.equations)
    return replace(program, equations=made) if made != program.equations else program


def _apart(fold: Fold, over: Index, joins: Mapping[str, Equation]) -> Term | None:
    """The sums over the parts; None where the index stands elsewhere than in direct sums of the same parts."""
    here = {r for r in reads(fold.body) if Position(over) in r.subs}
    if not here or not all(_along(r, over, joins) for r in here):
        return None
    others = transform(fold.body, lambda t: ONE if t in here else t)
    letters = {tuple(i.set for i, _ in _parts(joins[r.tensor])) for r in here}
    if over in free_indices(others) | free_indices(fold.domain) or len(letters) != 1:
        return None
    rest = tuple(b for b in fold.bound if b != over)
    first = _parts(joins[min(r.tensor for r in here)])
    sums = []
    for n, (letter, _) in enumerate(first):
        def change(term: Term, n: int = n, letter: Index = letter) -> Term:
            return _part(term, n, letter, joins) if term in here else term

        body = transform(fold.body, change)
        sums.append(Fold("sum", (letter, *rest), fold.domain, body))
    return Apply("add", tuple(sums))


def _parts(equation: Equation) -> tuple[tuple[Index, Term], ...]:
    return equation.body.parts if isinstance(equation.body, Join) else ()


def _along(read: Read, over: Index, joins: Mapping[str, Equation]) -> bool:
    """Whether a read is of a direct sum, with the index where it is joined and nowhere else."""
    equation = joins.get(read.tensor)
    if (equation is None or not isinstance(equation.body, Join)
        or not all(isinstance(a, Position) for a in equation.axes)):
        return False
    return [a for a, s in zip(equation.axes, read.subs, strict=True)
            if over in free_indices(s)] == [Position(equation.body.index)]


def _part(term: Term, n: int, letter: Index, joins: Mapping[str, Equation]) -> Term:
    """The n-th part of a direct sum, at the letter."""
    assert isinstance(term, Read)
    equation = joins[term.tensor]
    own, value = _parts(equation)[n]
    return substitute(value, {**dict(zip(equation.indices, term.subs, strict=True)), own: Position(letter)})
