"""The folds that a pass carries: those of the source that hold no result, and those that others are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from einc.ir.draft import unused
from einc.ir.indices import Index
from einc.ir.letters import MADE
from einc.ir.programs import Equation
from einc.ir.terms import ONE, TRUE, Fold, Position, Read, Term, canonical, free_indices, reads
from einc.planning.streaming.passes import CarriedFold


@dataclass
class Basis:
    """What a pass has so far."""

    index: Index
    source: tuple[Equation, ...]
    virtual: frozenset[str]
    taken: frozenset[str]
    # values that hold results, to be put in their readers' place
    opened: dict[str, Equation] = field(default_factory=dict)
    out: dict[str, Equation] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)  # results of folds over the index, and what is made of them alone
    known: dict[Term, str] = field(default_factory=dict)  # basis folds by canonical body
    carries: dict[str, CarriedFold] = field(default_factory=dict)
    finishes: list[str] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)  # names of what was carried when a tile began

    def _holds(self, term: Term) -> bool:
        return any(r.tensor in self.held for r in reads(term))

    def _moves(self, term: Term) -> bool:
        return self.index in free_indices(term)

    def _result(self, name: str) -> Read:
        return Read(name, self.out[name].axes)

    def _finish(self, equation: Equation, body: Term) -> None:
        self.held.add(equation.target)
        self.finishes.append(equation.target)
        self.out[equation.target] = Equation(equation.target, equation.axes, equation.domain, body, equation.source)

    def _named(self, equation: Equation, fold: Fold) -> str:
        """The name under which a fold is carried along the pass; an equal fold that is carried already gives its name.
        Else adds the fold to `known`, `held`, `carries` and `out`."""
        key = key_of(fold)
        if key in self.known:
            return self.known[key]
        free = free_indices(fold)
        axes = tuple(a for a in equation.axes if isinstance(a, Position) and a.index in free)
        target = self._fresh(equation.target, "part")
        self._basis(target, Equation(target, axes, TRUE, ONE), fold)
        return target

    def _fresh(self, owner: str, what: str) -> str:
        """A name that stands for what is made for a value until `stream` gives it a letter."""
        return unused(f"{owner}{MADE}{what}", {*self.out, *self.before})

    def _basis(self, target: str, equation: Equation, fold: Fold) -> None:
        self.known.setdefault(key_of(fold), target)
        self.held.add(target)
        self.carries[target] = CarriedFold(target, fold.op)
        self.out[target] = Equation(target, equation.axes, equation.domain, fold, equation.source)


def key_of(fold: Fold) -> Term:
    """The fold whatever its bound letters are: the free ones are axes of the kernel."""
    return canonical(fold)
