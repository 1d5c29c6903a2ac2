"""Rule: a law with a name, what it holds over, and samples on which every run of the tests tries it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from einc.ir.indices import Index, IndexSet, size
from einc.ir.programs import Slot, Tensor
from einc.ir.terms import Apply, Position, Read, Term


@dataclass(frozen=True, slots=True)
class Rule:
    """`apply` gives the rewritten term, or None where the law does not apply.

    `floats`: equal bit for bit; `reals`: equal as real numbers, so rounding may differ.
    """

    name: str
    law: str
    holds: Literal["floats", "reals"]
    apply: Callable[[Term], Term | None]
    samples: tuple[Term, ...]


# The vocabulary of the samples: a square world, so that any index fits any slot.
_SET = IndexSet("feature", size("n"))
I, J, K = (Index(name, _SET) for name in "ijk")  # noqa: E741
i, j, k = Position(I), Position(J), Position(K)
TENSORS = {
    name: Tensor(name, name, tuple(Slot(_SET, "lower", x) for x in letters), "input")
    for name, letters in {"a": "", "u": "i", "v": "i", "w": "ij", "x": "ij", "r": "ijk"}.items()
}
a, u, v, w, x, r = (Read("a", ()), Read("u", (i,)), Read("v", (j,)), Read("w", (i, j)), Read("x", (i, j)),
                    Read("r", (i, j, k)))


def mul(*factors: Term) -> Term:
    """The product of the factors, as it stands."""
    return Apply("mul", factors)


def add(*terms: Term) -> Term:
    """The sum of the terms, as it stands."""
    return Apply("add", terms)


def eq(left: Term, right: Term) -> Term:
    """The condition that two terms are equal."""
    return Apply("eq", (left, right))


def le(left: Term, right: Term) -> Term:
    """The condition that the left term is at most the right one."""
    return Apply("le", (left, right))
