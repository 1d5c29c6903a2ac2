"""Which of the new positions are whose, for the step of an emitted file that generates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from einc.backends.host.runtime.cache import Cache
from einc.backends.host.runtime.cache_view import _CacheView
from einc.backends.host.runtime.pages import _reserve


def _only(cache: object) -> Cache:
    """The one cache of a step that is given something for all positions of it. Raises ValueError where there are
    several."""
    if not isinstance(cache, Cache):
        raise ValueError("what is given for all positions is of one text: give its cache alone")
    return cache


def _requests(
    cache: Cache | list[Cache] | tuple[Cache, ...], lengths: Sequence[int] | None, total: int
) -> list[tuple[Cache, int, int]]:
    """For each cache the first of the new positions that are its own, and the first that is not any more. Makes room
    in the caches. Raises TypeError for what is no cache, ValueError where lengths and caches do not agree."""
    caches = list(cache) if isinstance(cache, (list, tuple)) else [cache]
    if not all(isinstance(one, Cache) for one in caches):
        raise TypeError("a cache is expected that this very file has made, by `prefill` or `Cache`, or a list of such "
                        "caches")
    if not total:
        raise ValueError("there is no new position: a step is of one at least")
    counts = [total] if lengths is None and len(caches) == 1 else None if lengths is None else [int(n) for n in lengths]
    if counts is None or len(counts) != len(caches):
        raise ValueError(f"{len(caches)} caches, and lengths = {counts}: one is expected for each")
    if sum(counts) != total or min(counts, default=0) < 0 or (lengths is not None and counts != list(lengths)):
        raise ValueError(f"lengths = {counts}, whole numbers that add up to the {total} new positions are expected")
    if len({id(one) for one in caches}) != len(caches):
        raise ValueError("one cache stands twice among those of a step")
    _reserve(caches, counts)
    ends = [sum(counts[: n + 1]) for n in range(len(counts))]
    return [(one, end - count, end) for one, count, end in zip(caches, counts, ends) if count]


def _unpaged(cache: object) -> None:
    """Raises where a file that keeps states alone is given a cache in pages."""
    for one in cache if isinstance(cache, (list, tuple)) else [cache]:
        if isinstance(one, Cache) and one.pool is not None:
            raise ValueError("this file keeps states, one for each text, which lie in no pages: make the cache without "
                             "a pool")


def _left(requests: list[tuple[Cache, int, int]], name: str, shape: list[int], dtype: torch.dtype,
          device: torch.device) -> list[torch.Tensor]:
    """What the past of each request left of a state; zeros, which nothing reads, where there is no past. Raises
    ValueError where the cache has none for its past, or one of another shape."""
    out = []
    for one, _, _ in requests:
        state = one.states.get(name)
        if state is None and one.length:
            raise ValueError(f"the cache has {one.length} positions and no state {name}: let this file's steps make it "
                             f"from the first position on")
        state = torch.zeros(shape, dtype=dtype, device=device) if state is None else state
        if (list(state.shape), state.dtype, state.device) != (shape, dtype, device):
            kept, wanted = f"{state.dtype} of shape {tuple(state.shape)} on {state.device}", f"{dtype}, {tuple(shape)}"
            raise ValueError(f"the cache keeps a state {name} of {kept}, that of this step is {wanted} on {device}")
        out.append(state)
    return out


def _joined(parts: list[torch.Tensor], axis: int) -> torch.Tensor:
    """What was made for each request, side by side. Raises ValueError where they differ in another axis, which only
    one request may have."""
    if len({(*x.shape[:axis], *x.shape[axis + 1 :]) for x in parts}) > 1:
        raise ValueError("a result has something for all positions of a text, so a step is of one text: give one cache")
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


def _stacked(parts: list[torch.Tensor], axis: int, shape: list[int], dtype: torch.dtype,
             device: torch.device) -> torch.Tensor:
    """What each round made, one after the other along an axis; without rounds a tensor without elements."""
    return torch.stack(parts, axis) if parts else torch.empty(shape, dtype=dtype, device=device)


class _Turned:
    """What is kept, with its axes in another order."""

    def __init__(self, laid: _CacheView, order: tuple[int, ...]) -> None:
        self.laid, self.order, self.single, self.upto, self.tiles = laid, order, laid.single, laid.upto, laid.tiles
        self.table = laid.table

    @property
    def rows(self) -> torch.Tensor:
        return self.laid.rows.permute(self.order)

    def tile(self, first: int, last: int) -> torch.Tensor:
        return self.laid.tile(first, last).permute(self.order)

    def whole(self) -> torch.Tensor:
        return self.laid.whole().permute(self.order)

    def spread(self) -> torch.Tensor:
        return self.laid.spread().permute(self.order)


def _cuts(*kept: _CacheView | _Turned) -> Iterator[tuple[int, int]]:
    """Pieces of what is kept: those of what does not lie side by side."""
    laid = next(one for one in kept if not one.single)
    return laid.tiles(((0, laid.upto),), laid.upto)
