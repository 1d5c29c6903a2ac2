"""What a pass is: its equations, and what it carries from tile to tile. Made by `stream`
and `chunks`, lowered by `planner`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from einc.ir.domains import proves
from einc.ir.indices import Extent, Index, number
from einc.ir.plan import Bound
from einc.ir.primitives import SAID, unsaid
from einc.ir.programs import Equation
from einc.ir.terms import TRUE, Apply, Position, Size, Term, const, substitute
from einc.planning.analysis.ends import Tile
from einc.planning.analysis.prefix import Prefix
from einc.planning.analysis.ranges import reach


@dataclass(frozen=True)
class CarriedFold:
    """A result that grows tile by tile; with a reference it is rescaled by exp(r − r′) when the reference grows."""

    target: str
    fold: str
    reference: str | None = None


@dataclass(frozen=True)
class ChunkedScan:
    """A scan in chunks: tiles of so many points, one after the other, each of which goes on from what the last one
    carried."""

    found: Prefix
    length: int

    @property
    def domain(self) -> Term:
        """The condition `over ≤ along + shift`, or its reverse for a pass that goes back."""
        last = Apply("add", (Position(self.found.along), Size(self.found.shift)))
        here = Position(self.found.over)
        return Apply("le", (last, here) if self.found.back else (here, last))

    def bound(self, index: Index) -> Bound | None:
        """The bound of the streamed axis, whose tiles each begin where the one before ended; None for another axis."""
        tile = Tile(self.found.over, self.found.along, {})
        reached = reach([self.domain], tile, True) if index == self.found.over else None
        return None if reached is None else replace(reached, within=None, resumes="back" if self.found.back else "on")

    def visited(self) -> dict[tuple[str, str], Extent]:
        """The pairs of points that the tiles reach: each meets its own share of what is folded."""
        return {(self.found.over.name, self.found.along.name): self.found.along.set.extent * number(self.length)}

    @property
    def late(self) -> bool:
        """Whether the first tile may have nothing to meet."""
        start = {self.found.over: const(self.found.over.set.start)}
        return self.found.back or not proves(TRUE, substitute(self.domain, start))


@dataclass(frozen=True)
class Streamed:
    """The equations of one pass over `index`, and what it carries. Empty carries: the folds stay as they are.

    `before` are the names under which a tile reads what the tiles before it carried; of `grid` each tile has a share.
    `spare`: it could carry states between tiles in order, which cost more than its pairs at usual extents.
    """

    equations: tuple[Equation, ...]
    index: Index | None
    carries: tuple[CarriedFold, ...]
    notes: tuple[str, ...] = ()
    base2: bool = False
    before: Mapping[str, str] = field(default_factory=dict)
    chunks: ChunkedScan | None = None
    grid: Index | None = None
    spare: bool = False


def silent(streamed: Streamed, said: Set[str] = SAID) -> Streamed:
    """The pass without words that say something of a value."""
    return replace(streamed, equations=tuple(replace(e, body=unsaid(e.body, said)) for e in streamed.equations))
