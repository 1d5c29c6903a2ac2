"""In which order a contraction of several factors is done. The only file that knows opt_einsum."""

from __future__ import annotations

import opt_einsum

from einc.indices import Index
from einc.planning.cost import nominal


def path(operands: tuple[tuple[Index, ...], ...], out: tuple[Index, ...]) -> tuple[tuple[int, ...], ...]:
    """Pairs of operands, by place in the list that shrinks as they are contracted (opt_einsum's convention).

    Extents are not known yet, so the nominal ones of `cost` stand in.
    """
    if len(operands) < 3:
        return (tuple(range(len(operands))),)
    indices = dict.fromkeys(i for o in operands for i in o)
    letters = {index: opt_einsum.get_symbol(n) for n, index in enumerate(indices)}
    equation = ",".join("".join(letters[i] for i in o) for o in operands) + "->" + "".join(letters[i] for i in out)
    shapes = [tuple(nominal(i.set) for i in o) for o in operands]
    found, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize="optimal" if len(operands) < 8 else "auto")
    return tuple(tuple(pair) for pair in found)
