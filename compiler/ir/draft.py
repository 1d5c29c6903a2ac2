"""Programs in the making: new tensors under names that are still free, and the equations that define them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from einc.ir.elements import REAL, Element
from einc.ir.indices import Index
from einc.ir.programs import Equation, Program, Slot, Tensor, slot_of
from einc.ir.terms import TRUE, Position, Read, Term, transform

P = TypeVar("P", bound=Program)


def unused(stem: str, taken: Container[str]) -> str:
    """The stem itself, or the stem with the first number from 2 after it that makes a name which is not taken."""
    name, n = stem, 2
    while name in taken:
        name, n = f"{stem}{n}", n + 1
    return name


class Draft:
    """Tensors and equations from which a program is made.

    `tensors` grows by the tensors that are made here; `equations` are in the order in which they were added.
    """

    def __init__(self, tensors: Mapping[str, Tensor], equations: Iterable[Equation] = ()) -> None:
        self.tensors = dict(tensors)
        self.equations = list(equations)

    def add(self, equation: Equation) -> None:
        """Adds an equation of a tensor that is known."""
        self.equations.append(equation)

    def tensor(self, stem: str, slots: Iterable[Slot], element: Element = REAL) -> str:
        """Makes a local tensor with these slots; returns its name, which begins with the stem."""
        key = unused(stem, self.tensors)
        self.tensors[key] = Tensor(key, key, tuple(slots), "local", element)
        return key

    def value(self, stem: str, indices: Iterable[Index], body: Term, domain: Term = TRUE,
              element: Element = REAL) -> Read:
        """Makes a local tensor with these indices and adds its equation; returns a read of it at the indices."""
        letters = tuple(indices)
        axes = tuple(map(Position, letters))
        key = self.tensor(stem, map(slot_of, letters), element)
        self.equations.append(Equation(key, axes, domain, body))
        return Read(key, axes)

    def done(self, program: P) -> P:
        """The program with the tensors and equations of the draft in place of its own;
        itself where nothing was made."""
        if len(self.tensors) == len(program.tensors) and tuple(self.equations) == program.equations:
            return program
        return program.but(equations=self.equations, tensors=self.tensors)


def renamed(term: Term, names: Mapping[str, str]) -> Term:
    """The term with other names for some of the tensors that it reads."""
    return transform(term, lambda t: Read(names.get(t.tensor, t.tensor), t.subs) if isinstance(t, Read) else t)


def with_other_names(program: P, names: Mapping[str, str]) -> P:
    """The program with other names for some of its tensors."""
    equations = (replace(e.map(lambda t: renamed(t, names)), target=names.get(e.target, e.target))
                 for e in program.equations)
    tensors = {names.get(k, k): replace(t, key=names.get(k, k), text=names.get(k, t.text))
               for k, t in program.tensors.items()}
    return program.but(equations=equations, tensors=tensors)
