"""How the parts of ranks are laid where blocks go round: in order, or in two blocks, one from each end, whichever gives
all ranks as much to do. It is found by counting the pairs of small blocks that meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from einc.planning.placing.hops import Hopping
from einc.planning.placing.levels import Placed, usual_sizes
from einc.planning.placing.local import Local
from einc.planning.placing.states import Axis, with_rings
from einc.planning.placing.traffic import blocks_met

_EVEN = Fraction(21, 20)  # so much more than with two blocks may the busiest rank have to do with one
_MOST = 128  # small blocks in all, at least two for each rank


def laid(mesh: tuple[Axis, ...], sizes: Mapping[str, int],
         put: Callable[[tuple[Axis, ...]], Iterable[Placed]]) -> tuple[Axis, ...]:
    """The mesh, in which an axis has two blocks for each rank only where that helps. `put` puts the program on a mesh.
    """
    asked = [axis for axis in mesh if axis.balanced is not None and not axis.around]
    if not asked:
        return mesh
    plain = with_rings(replace(axis, balanced=None) for axis in mesh if not axis.around)
    pieces = list(put(plain))
    uneven = [axis.name for axis in asked
              if balance(pieces, axis.name, sizes, 1) > _EVEN * balance(pieces, axis.name, sizes, 2)]
    return with_rings(replace(axis, balanced=axis.balanced if axis.name in uneven else None)
                      for axis in mesh if not axis.around)


def balance(pieces: Iterable[Placed], name: str, sizes: Mapping[str, int], blocks: int) -> Fraction:
    """How much more the busiest rank of an axis has to do than they have on average, by the pairs of small blocks that
    meet, where the part of a rank is in one block or in two.
    """
    total: list[int] = []
    for placed in pieces:
        for level, axis in placed.hopped:
            if placed.mesh[axis].around == name:
                found = loads(placed, level, axis, sizes, blocks)
                total = [a + b for a, b in zip(total or [0] * len(found), found, strict=True)]
    return Fraction(max(total) * len(total), sum(total)) if sum(total) else Fraction(1)


def loads(placed: Placed, level: int, axis: int, sizes: Mapping[str, int], blocks: int) -> list[int]:
    """For each rank the pairs of small blocks that meet in the hops of a level: of its own and of all."""
    ranks = placed.mesh[axis].ranks
    each = max(2, _MOST // ranks // 2 * 2)
    known = {**usual_sizes(placed.program), **placed.program.sizes, **sizes}
    found = blocks_met(Hopping(Local(placed), axis, count=each), level, known)
    rows = [sum(row) for row in found]
    if blocks == 1:
        return [sum(rows[n * each:(n + 1) * each]) for n in range(ranks)]
    half = each // 2
    return [sum(rows[n * half:(n + 1) * half]) + sum(rows[len(rows) - (n + 1) * half:len(rows) - n * half])
            for n in range(ranks)]
