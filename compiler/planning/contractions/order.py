"""In which order a contraction of several factors is done. The only file that knows opt_einsum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import opt_einsum

from einc.ir.indices import Index


def path(
    operands: tuple[tuple[Index, ...], ...], out: tuple[Index, ...], sizes: Mapping[str, int]
) -> tuple[tuple[int, ...], ...]:
    """Pairs of operands, by place in the list that shrinks as they are contracted (opt_einsum's convention).

    An index of the result that stands in no operand, but in the domain alone, has no part in it.
    """
    if len(operands) < 3:
        return (tuple(range(len(operands))),)
    indices = dict.fromkeys(i for o in operands for i in o)
    letters = {index: opt_einsum.get_symbol(n) for n, index in enumerate(indices)}
    equation = ",".join("".join(letters[i] for i in o) for o in operands) + "->" + "".join(letters[i] for i in out if i in letters)
    shapes = [tuple(max(1, round(i.set.extent.at(sizes))) for i in o) for o in operands]
    found, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize="optimal" if len(operands) < 8 else "auto")
    return tuple(tuple(pair) for pair in found)


def pairs(
    operands: tuple[tuple[Index, ...], ...], out: tuple[Index, ...], order: tuple[tuple[int, ...], ...]
) -> Iterator[tuple[tuple[frozenset[Index], ...], frozenset[Index]]]:
    """What each step of a path takes, and what it leaves."""
    left = [frozenset(o) for o in operands]
    for pair in order:
        taken = tuple(left[n] for n in pair)
        left = [o for n, o in enumerate(left) if n not in pair]
        made = frozenset().union(*taken) & frozenset(out).union(*left)
        yield taken, made
        left.append(made)
