"""A pool of pages that caches share."""

from __future__ import annotations

import os

import torch

from einc.backends.host.runtime.cache import Cache
from einc.backends.host.runtime.pages import _Store


class Pool:
    """Memory for `pages` pages of `page` positions each, which caches share; neighbouring pages lie side by side.

    `counts` says how many caches hold each page, `caches` are those that may hold some, by their numbers. What lies in a page
    that nobody holds, or in one after the last position, is never read.
    """

    stores: dict[str, _Store]
    caches: dict[int, Cache]

    def __init__(self, pages: int, page: int = 16) -> None:
        if pages < 1 or page < 1:
            raise ValueError(f"a pool of {pages} pages of {page} positions has no room")
        self.page, self.counts, self.held = page, [0] * pages, bytearray(pages)
        self.stores, self.caches, self.joined = {}, {}, 0

    @property
    def free(self) -> int:
        return self.held.count(0)

    @property
    def nbytes(self) -> int:
        return sum(store.rows.nbytes for store in self.stores.values())

    def join(self, cache: Cache) -> int:
        self.joined += 1
        self.caches[self.joined] = cache
        return self.joined

    def store(self, name: str, like: torch.Tensor, axis: int, order: tuple[int, ...]) -> "_Store":
        """The memory of one kept tensor, made when its first rows come."""
        if name not in self.stores:
            shape = [*like.shape[:axis], len(self.counts) * self.page, *like.shape[axis + 1 :]]
            self.stores[name] = _Store(like.new_empty([shape[n] for n in order]), axis, order, self.page)
        return self.stores[name]

    def hold(self, pages: list[int], more: int = 1) -> None:
        """One cache more, or fewer, holds these pages."""
        for page in pages:
            self.counts[page] += more
            self.held[page] = self.counts[page] > 0

    def take(self, count: int, after: int, wished: list[int]) -> list[int]:
        """Free pages: those wished for, else the one after the last, else the middle of the largest hole, so that all can grow."""
        taken = []
        for n in range(count):
            at = wished[n] if n < len(wished) and not self.held[wished[n]] else after + 1
            if not 0 <= at < len(self.held) or self.held[at]:
                size = max(map(len, bytes(self.held).split(b"\x01")))
                first = self.held.find(bytes(size))
                at = first if first == 0 or size <= count - n else min(first + size // 2, first + size - count + n)
            self.hold([at])
            taken.append(at)
            after = at
        return taken

    def save(self, path: str) -> None:
        """What caches hold, written whole or not at all: whoever is stopped goes on from the last save."""
        held = [page for page, count in enumerate(self.counts) if count]
        stores = {name: (list(s.memory.shape), s.axis, s.order, s.pages[:, held]) for name, s in self.stores.items()}
        caches = {n: (c.length, c.dropped, c.most, c.chunk, c.table.pages, c.table.given) for n, c in self.caches.items()}
        with open(f"{path}.part", "wb") as file:
            torch.save((len(self.counts), self.page, self.joined, held, stores, caches), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.part", path)

    @staticmethod
    def load(path: str) -> "Pool":
        """A saved pool with its caches."""
        found: dict[int, Cache]
        pages, page, joined, held, stores, caches = torch.load(path, weights_only=True)
        pool, found = Pool(pages, page), {}
        for name, (shape, axis, order, rows) in stores.items():
            pool.stores[name] = _Store(rows.new_empty(shape), axis, order, page)
            pool.stores[name].pages[:, held] = rows
        for number, (length, dropped, most, chunk, mine, given) in caches.items():
            found[number] = cache = Cache(chunk, pool)
            cache.length, cache.dropped, cache.most, cache.number, cache.table.given = length, dropped, most, number, given
            cache.table.share(mine)
        pool.caches, pool.joined = found, joined
        return pool
