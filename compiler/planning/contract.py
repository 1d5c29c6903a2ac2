"""An unrestricted sum of products of plain reads -> a contraction: the library's own matrix product does it best."""

from __future__ import annotations

from collections.abc import Mapping

from einc.plan import Buffer, Contract
from einc.planning.cost import path_cost
from einc.planning.order import pairs, path
from einc.show import equation_text
from einc.simplify import factors
from einc.terms import ONE, TRUE, Equation, Fold, NormalProgram, Position, Read, free_indices


def contraction(
    program: NormalProgram, equation: Equation, buffers: dict[str, Buffer], usual: Mapping[str, int]
) -> Contract | None:
    """None where the equation is something else. `usual` sizes decide the order of more than two operands."""
    body = equation.body
    if not isinstance(body, Fold) or body.op != "sum" or body.domain != TRUE or body.body == ONE:
        return None
    parts = [p for p in factors(body.body) if isinstance(p, Read)]
    if len(parts) < len(factors(body.body)) or not all(isinstance(s, Position) for p in parts for s in p.subs):
        return None
    if not all(isinstance(a, Position) for a in equation.axes) or any(buffers[p.tensor].kind == "integer" for p in parts):
        return None
    covered = {i for p in parts for i in free_indices(p)}
    if not {*body.bound, *equation.indices} <= covered:
        return None
    letters = tuple(tuple(s.index for s in p.subs if isinstance(s, Position)) for p in parts)
    found = path(letters, equation.indices, usual)
    return Contract(
        equation.target,
        tuple((p.tensor, tuple(i.name for i in o)) for p, o in zip(parts, letters, strict=True)),
        tuple(i.name for i in equation.indices),
        found,
        equation_text(program, equation),
        path_cost(tuple(pairs(letters, equation.indices, found)), [buffers[p.tensor] for p in parts], buffers[equation.target]),
    )
