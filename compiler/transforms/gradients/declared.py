"""Where a gradient is declared: what passes a function by a slope that is not that of its meaning."""

from __future__ import annotations

from collections.abc import Iterator

from einc.ir.primitives import PRIMITIVES
from einc.ir.programs import Equation, Program
from einc.ir.terms import Apply, reads, walk


def declared(program: Program) -> Iterator[tuple[str, Equation]]:
    """Each function with a declared slope that a gradient may pass, and the equation in which it stands."""
    for equation in program.equations:
        for term in walk(equation.body):
            if isinstance(term, Apply) and PRIMITIVES[term.op].declared and any(
                    not program.tensors[read.tensor].constant for read in reads(term)):
                yield term.op, equation
