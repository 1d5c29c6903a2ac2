"""The sets of chosen elements in a program, by the tensors that name these by rank.

Non-goals: what is folded over them.
"""

from __future__ import annotations

from dataclasses import dataclass

from einc.ir.indices import Index
from einc.ir.programs import Equation, Program
from einc.ir.terms import ONE, TRUE, Apply, Fold, Position, Read, Term, Where, conjuncts, const, substitute
from einc.transforms.laws.simplify import picked


@dataclass(frozen=True)
class ChosenSet:
    """A set by the tensor of its elements by rank: of `letters`, with candidates `element` in `domain`."""

    chosen: str
    letters: tuple[Index, ...]
    rank: Index
    element: Index
    domain: Term

    def known(self, owners: tuple[Term, ...], item: Term) -> tuple[Term, ...]:
        """What holds of every element of the set of these owners."""
        by = {**dict(zip(self.letters, owners, strict=True)), self.element: item}
        return conjuncts(substitute(self.domain, by))

    def there(self, item: Read) -> Term:
        """The condition that a rank of a chosen set has an element: there may be fewer elements than ranks."""
        return Apply("le", (const(self.element.set.start), item))


def chosen_sets(program: Program) -> dict[str, ChosenSet]:
    """The sets by the tensors that are 1 on their elements: M_s = Σ_r 𝟙[S_r = s] over all
    ranks, for an S that picks by rank."""
    by = program.by_target
    out: dict[str, ChosenSet] = {}
    for equation in program.equations:
        match equation.body:
            case Fold("sum", (rank,), domain, Where(Apply("eq", (Read(chosen, subs), item)), then)) if chosen in by:
                *owners, last = equation.axes
                plain = all(isinstance(a, Position) for a in equation.axes) and {equation.domain, domain} == {TRUE}
                if plain and then == ONE and item == last and subs == (*owners, Position(rank)):
                    found = _set(by[chosen], equation.indices, rank)
                    out |= {} if found is None else {equation.target: found}
    return out


def _set(equation: Equation, letters: tuple[Index, ...], rank: Index) -> ChosenSet | None:
    """The set whose elements an equation picks, the rank its last axis; each rank has another element."""
    ordered = picked(equation)
    if (ordered is None or equation.axes[-1] != Position(ordered[1])
        or not all(isinstance(a, Position) for a in equation.axes)):
        return None
    (candidate,) = ordered[0].bound
    names = dict(zip((*equation.indices[:-1], candidate), map(Position, letters), strict=True))
    return ChosenSet(equation.target, letters[:-1], rank, letters[-1], substitute(ordered[0].domain, names))
