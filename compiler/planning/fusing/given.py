"""What a kernel is lowered from: the equations and buffers that it is given, and what its tiles hand on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from einc.ir.indices import Index
from einc.ir.plan import Buffer
from einc.ir.programs import Equation
from einc.ir.terms import Read
from einc.planning.analysis.ends import Tile
from einc.planning.streaming.passes import CarriedFold


@dataclass(frozen=True)
class LoweringInput:
    """The equations of a program with those of the kernel, `inside`, in place of its own; the buffers; which values are
    not stored; the axes of the kernel in their order; and reads as the language writes them.
    """

    equations: Mapping[str, Equation]
    buffers: Mapping[str, Buffer]
    virtual: frozenset[str]
    order: tuple[str, ...]
    inside: frozenset[str] = frozenset()
    said: Mapping[Read, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Passing:
    """How the tiles of a kernel follow each other: the streamed index with the tile of it that one step takes, what is
    carried, and the names of what was carried when a tile began.
    """

    stream: Index | None = None
    tile: Tile | None = None  # of the streamed index
    carries: Mapping[str, CarriedFold] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    resumed: Index | None = None  # the index of which a tile has what those before it left, maybe nothing
    uniform: bool = True  # every fold over the streamed index has the same domain
    base2: bool = False  # exponentials of the pass are powers of two
    late: bool = False  # the first tile may have nothing to meet
    tiled: bool = False  # sums by a number are done in tiles
