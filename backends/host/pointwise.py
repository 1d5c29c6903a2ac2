"""Products of which one operand has all indices of the other: point by point, then
summed, where no matrices are multiplied."""

from __future__ import annotations

from collections.abc import Sequence

Axes = tuple[str, ...]


def within(left: Axes, right: Axes, out: Axes) -> bool:
    """Whether the product is best formed point by point: the right one has no index of
    its own, and shares one with the result."""
    mine, theirs = set(left), set(right)
    over = mine - set(out)
    return theirs <= mine and set(out) <= mine and bool(theirs & set(out)) and (not over or bool(over & theirs))


def pair(operands: Sequence[Axes], out: Axes) -> tuple[int, int] | None:
    """Of several operands two, of which the first has all indices of the second: their product is no larger than it."""
    found = [(len(b), m, n) for m, a in enumerate(operands) for n, b in enumerate(operands)
             if m != n and set(b) <= set(a)]
    found = [f for f in found if set(operands[f[2]]) & set(out) or len(operands[f[2]]) == len(operands[f[1]])]
    return max(found)[1:] if found else None


def aligned(text: str, mine: Axes, wanted: Axes) -> str:
    """An operand, an atom of text, that broadcasts against these axes, of which it has some."""
    order = tuple(a for a in wanted if a in mine)
    if order != mine:
        text += f".permute({', '.join(str(mine.index(a)) for a in order)})"
    marks = [":" if a in mine else "None" for a in wanted[wanted.index(order[0]):]] if order else []
    return f"{text}[{', '.join(marks)}]" if "None" in marks else text


def summed(text: str, mine: Axes, out: Axes) -> str:
    """A value, an atom of text, summed over the axes that the result lacks, in the order of the result."""
    over = [n for n, a in enumerate(mine) if a not in out]
    if over:
        text += f".sum({over[0] if len(over) == 1 else tuple(over)})"
    left = tuple(a for a in mine if a in out)
    return text if left == out else f"{text}.permute({', '.join(str(left.index(a)) for a in out)})"
