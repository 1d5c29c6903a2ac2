"""A pool of pages that caches share."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch

from einc.backends.host.runtime.cache import Cache
from einc.backends.host.runtime.checks import _whole
from einc.backends.host.runtime.pages import _Store
from einc.backends.host.runtime.saved import _written


class Pool:
    """Memory for `pages` pages of `page` positions each, which caches share; neighbouring pages lie side by side.

    `counts` says how many caches hold each page, `caches` are those that may hold some, by their numbers, as long as
    somebody has them; `loaded` has those of a saved pool until they are freed or taken from it. What lies in a page
    that nobody holds, or in one after the last position, is never read.
    """

    stores: dict[str, _Store]
    caches: weakref.WeakValueDictionary[int, Cache]
    loaded: dict[int, Cache]
    left: list[list[int]]  # the pages of caches that were dropped, perhaps in the middle of something else

    def __init__(self, pages: int, page: int = 16) -> None:
        _whole("pages", pages, 1)
        _whole("page", page, 1)
        self.page, self.counts, self.held = page, [0] * pages, bytearray(pages)
        self.stores, self.caches, self.joined = {}, weakref.WeakValueDictionary(), 0
        self.loaded, self.left = {}, []

    @property
    def free(self) -> int:
        """How many pages no cache holds; those of caches that are gone are given back first."""
        self.sweep()
        return self.held.count(0)

    def sweep(self) -> None:
        """Takes back the pages of caches that were dropped."""
        while self.left:
            self.hold(self.left.pop(), -1)

    @property
    def nbytes(self) -> int:
        """The bytes of all pages, held or free."""
        return sum(store.rows.nbytes for store in self.stores.values())

    def join(self, cache: Cache) -> int:
        """Takes a cache in, and gives the number that it is known by here."""
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

    def take(self, count: int, after: int, preferred: list[int]) -> list[int]:
        """Free pages, which are held from now on: the preferred ones, else the one after the last, else the middle of
        the largest hole, so that all can grow."""
        taken = []
        for n in range(count):
            at = preferred[n] if n < len(preferred) and not self.held[preferred[n]] else after + 1
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
        self.sweep()
        held = [page for page, count in enumerate(self.counts) if count]
        stores = {name: (list(s.memory.shape), s.axis, s.order, s.pages[:, held]) for name, s in self.stores.items()}
        caches = {n: (c.length, c.dropped, c.most, c.chunk, c.table.pages, c.table.given, c.states)
                  for n, c in self.caches.items()}
        _written(path, (len(self.counts), self.page, self.joined, held, stores, caches))

    @staticmethod
    def load(path: str) -> "Pool":
        """A saved pool with its caches, which `loaded` has. ValueError where what the file says cannot be."""
        found = torch.load(path, weights_only=True)
        try:
            return _restored(*found)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError) as error:
            raise ValueError(f"{path} is no saved pool: {error}") from None


def _restored(
    pages: int, page: int, joined: int, held: list[int], stores: Mapping[str, Any], caches: Mapping[int, Any]
) -> Pool:
    """The pool that a file tells of. Raises what says why there is none."""
    pool = Pool(pages, page)
    _whole("joined", joined, 0)
    _named_pages("what is kept", held, pool)
    for name, (shape, axis, order, rows) in stores.items():
        if sorted(order) != list(range(len(shape))) or shape[order.index(axis)] != pages * page:
            raise ValueError(f"{name} has shape {shape}, which has no axis of {pages * page} positions where it should")
        pool.stores[name] = store = _Store(rows.new_empty(shape), axis, order, page)
        if rows.shape != store.pages[:, held].shape:
            raise ValueError(f"{name} has rows of shape {tuple(rows.shape)} for {len(held)} pages")
        store.pages[:, held] = rows
    for number, (length, dropped, most, chunk, mine, given, states) in caches.items():
        _whole("number", number, 1)
        for told, value in (("length", length), ("dropped", dropped), ("most", most)):
            _whole(told, value, 0)
        _named_pages(f"cache {number}", mine, pool)
        if number > joined or dropped > length or dropped % page or len(mine) * page < length - dropped:
            raise ValueError(f"cache {number} of {joined} has {length} positions, of which it dropped {dropped}, "
                             f"in {len(mine)} pages")
        pool.loaded[number] = cache = Cache(chunk, pool)
        cache.length, cache.dropped, cache.most, cache.number = length, dropped, most, number
        if not all(isinstance(x, torch.Tensor) for x in states.values()):
            raise TypeError("a state is no tensor")
        cache.states = dict(states)
        cache.table.given = list(given)
        cache.table.share(mine)
    if [n for n, count in enumerate(pool.counts) if count] != held:
        raise ValueError(f"the pages {held} are kept, and caches have others")
    pool.caches, pool.joined = weakref.WeakValueDictionary(pool.loaded), joined
    return pool


def _named_pages(whose: str, pages: list[int], pool: Pool) -> None:
    """Pages that a file names are pages of the pool, none of them twice. Raises ValueError where that does not hold."""
    wrong = [page for page in pages if isinstance(page, bool) or page not in range(len(pool.counts))]
    if wrong:
        raise ValueError(f"{whose} has page {wrong[0]}, the pages of the pool are 0 to {len(pool.counts) - 1}")
    if len(set(pages)) < len(pages):
        raise ValueError(f"{whose} has a page twice: {pages}")
