"""Roundings of multiples of an exponential that is relative to the largest of its row: each may be relative to the
largest so far, as the line `round E about its running maximum` of a plan asks for.

The text that comes of it says so by the word `relative`, whose value is its argument: what an interpreter computes is
unchanged, and a pass that carries the sum of what is rounded rounds numbers relative to the largest that it has met.
"""

from __future__ import annotations

from einc.ir.narrow import NARROW
from einc.ir.programs import BlockLoop, Equation, TypedProgram
from einc.ir.sums import fraction
from einc.ir.terms import Apply, Read, Term, transform
from einc.transforms.rounding import UnroundableError
from einc.transforms.scales import Bounds


def loosened(program: TypedProgram, key: str) -> TypedProgram:
    """The program in which each rounding of a multiple of a tensor may be relative. Raises UnroundableError where the
    tensor is no exponential less the largest of its row, or where nothing rounds a multiple of it.
    """
    equation = program.equation(key)
    if equation is None or not equation.has_letters or not Bounds(program).share(Read(key, equation.axes)):
        raise UnroundableError(f"`{key}` is not the exponential of numbers less the largest of these")
    found = list[Term]()

    def change(term: Term) -> Term:
        match term:
            case Apply(op, (Apply("relative", (inner,)),)) if op in NARROW and _multiple(inner, key):
                found.append(term)
            case Apply(op, (inner,)) if op in NARROW and _multiple(inner, key):
                found.append(term)
                return Apply(op, (Apply("relative", (inner,)),))
        return term

    def changed(equation: Equation) -> Equation:
        return equation.map(lambda term: transform(term, change))

    equations = tuple(map(changed, program.equations))
    loops = tuple(x.map(changed) if isinstance(x, BlockLoop) else x for x in program.loops)
    if not found:
        raise UnroundableError(f"nothing rounds a multiple of `{key}`")
    return program.but(equations=equations, loops=loops)


def _multiple(term: Term, key: str) -> bool:
    """Whether a term is a product or a quotient in which a tensor is a factor above the stroke."""
    return any(isinstance(x, Read) and x.tensor == key for x in fraction(term)[0])
