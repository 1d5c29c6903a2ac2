"""What a move of a plan is told: the ranks that make it, how each tensor lies before and after, and where rows go."""

from __future__ import annotations

from dataclasses import dataclass

from einc.ir.indices import Extent


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks that send to each other: what a rank is told at the call that stands for them, a size, its own place among
    them, counted from 1, and how many they are.
    """

    told: Extent
    place: Extent
    ranks: int


@dataclass(frozen=True, slots=True)
class Along:
    """An axis of which each rank has a part, in one block, or in two, one from each end."""

    axis: int
    blocks: int = 1


@dataclass(frozen=True, slots=True)
class Moved:
    """One tensor of a move. `shape` is what the rank holds before it with composites apart; of its axes one is
    `joined`, of which each rank has a part before, and one is `parted`, of which it has one after; None for none.
    `wide` if shares are put together in the wide type, whatever theirs is.
    """

    shape: tuple[Extent, ...]
    joined: Along | None = None
    parted: Along | None = None
    wide: bool = False

    @property
    def relaid(self) -> bool:
        """Whether the blocks of one axis come into another order."""
        return self.joined is not None and self.parted is not None and self.joined.axis == self.parted.axis


@dataclass(frozen=True, slots=True)
class Routes:
    """Which rows go to which ranks: a row is what a buffer of whole numbers has at one place of its axes `packed`, and
    it goes to each rank that has an element that it names there. A rank has so many elements as its `part`, the first
    of all has the number `start`; `count` is how many rows a rank has. `at` are, for each tensor of a move, its axes
    that stand for those of a row, -1 for none.
    """

    count: Extent
    packed: tuple[int, ...]
    part: Extent
    start: int
    at: tuple[tuple[int, ...], ...]
