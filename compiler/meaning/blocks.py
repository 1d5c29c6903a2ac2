"""Block: a value of the interpreter at every point, an axis for each index it varies over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from einc.ir.indices import Index

Array = npt.NDArray[Any]
Pair = tuple[Array, Array]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A value at every point: `array` has one axis for each of `indices`, in order.

    `wide`: v and m, where the value is v · e^m and no float64 may hold it: see `meaning.wide`.
    """

    indices: tuple[Index, ...]
    array: Array
    wide: Pair | None = None

    def over(self, indices: Sequence[Index]) -> Array:
        """The array with its axes in the order of `indices`, of extent 1 where the value does not vary."""
        order = [self.indices.index(i) for i in indices if i in self.indices]
        return self.array.transpose(order)[tuple(slice(None) if i in self.indices else None for i in indices)]

    def reduced(self, by: Callable[..., Array], gone: Iterable[Index]) -> Block:
        """The value with the indices `gone` folded away by a function of numpy that takes `axis`."""
        axes = tuple(self.indices.index(i) for i in gone if i in self.indices)
        return Block(tuple(i for i in self.indices if i not in gone), by(self.array, axis=axes)) if axes else self

    def along(self, old: Index, new: Index, piece: slice) -> Block:
        """The piece of the value along one index, along another."""
        places = tuple(piece if i == old else slice(None) for i in self.indices)
        return Block(tuple(new if i == old else i for i in self.indices), self.array[places])


class Rounding:
    """What becomes of the result of each operation on real numbers; here nothing does.

    `scaled`: numbers have exponents of any size, as real ones have.
    """

    scaled = True

    def __call__(self, x: Array) -> Array:
        """The result as it is kept."""
        return np.asarray(x)

    def total(self, x: Array, sizes: Callable[[int], Array]) -> Array:
        """What becomes of a sum once it is made, by default the sum itself; `sizes` gives the sums of powers of the
        sizes of what was added.
        """
        return self(x)


EXACT = Rounding()


def union(blocks: Iterable[Block]) -> tuple[Index, ...]:
    """The indices that some of the blocks vary over, each once, in the order in which they are met."""
    return tuple(dict.fromkeys(i for block in blocks for i in block.indices))


def picked(points: Block, index: Index, extent: int, rank: Block) -> Block:
    """The element of `index` that has the rank, counted from 1: the largest first, of
    equal ones the smaller element first.

    −∞ is no candidate, NaN counts as +∞. Beyond the candidates it is the number before the first element.
    """
    rows = tuple(i for i in points.indices if i != index)
    found = points.over((*rows, index))
    keys = -np.where(np.isnan(found), np.inf, np.broadcast_to(found, (*found.shape[:-1], extent)).astype(np.float64))
    order = Block((*rows, index), np.argsort(keys, axis=-1, kind="stable"))
    candidates = Block(rows, np.sum(keys < np.inf, axis=-1))
    indices = union((candidates, rank))
    place = rank.over(indices) - 1
    inside = (place >= 0) & (place < candidates.over(indices))
    lined = order.over((*indices, index))
    shape = np.broadcast_shapes(inside.shape, lined.shape[:-1])
    if not extent:
        return Block(indices, np.full(shape, index.set.start - 1))
    places = np.broadcast_to(place.clip(0, extent - 1), shape)[..., None]
    taken = np.take_along_axis(np.broadcast_to(lined, (*shape, extent)), places, -1)[..., 0]
    return Block(indices, np.where(inside, taken, -1) + index.set.start)
