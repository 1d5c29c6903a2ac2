"""The rows of a kept tensor, as steps read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from einc.backends.host.runtime.pages import _Table


class _CacheView:
    """A view of the rows of a cached tensor, one position after another along an axis; `single`: all of them lie side
    by side."""

    table: _Table | None
    single, table = True, None

    def __init__(self, rows: torch.Tensor, axis: int) -> None:
        self.rows, self.axis, self.upto = rows, axis, rows.shape[axis]

    def write(self, new: torch.Tensor, past: int) -> None:
        """New rows after the past. Raises ValueError where those of the past have another shape or type."""
        shape: tuple[int, ...]
        shape, axis = self.rows.shape, self.axis
        shape = (*shape[:axis], new.shape[axis], *shape[axis + 1 :])
        if shape != new.shape or self.rows.dtype != new.dtype:
            kept, given = f"{self.rows.dtype} rows of shape {shape}", f"{new.dtype}, {tuple(new.shape)}"
            raise ValueError(f"the cache keeps {kept}, those of this step are {given}")
        self.put(new, past)

    def put(self, new: torch.Tensor, past: int) -> None:
        self.rows.narrow(self.axis, past, new.shape[self.axis]).copy_(new)

    def tiles(self, spans: tuple[tuple[int, int], ...], columns: int) -> Iterator[tuple[int, int]]:
        """Tiles of at most so many positions that hold each position of the spans once, in their order."""
        done = 0
        for low, high in sorted(spans):
            low = max(low, done)
            while low < high:
                last = min(self.cut(low, columns), high)
                yield low, last
                low = last
            done = max(done, high)

    def cut(self, low: int, columns: int) -> int:
        """Where a tile that begins here ends at the latest."""
        return low + columns

    def tile(self, first: int, last: int) -> torch.Tensor:
        return self.rows.narrow(self.axis, first, last - first)

    def whole(self) -> torch.Tensor:
        return self.rows

    def spread(self) -> torch.Tensor:
        """All memory over which the rows are spread."""
        return self.rows
