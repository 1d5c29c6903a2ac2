"""Memory in pages: what a pool holds of each kept tensor, which pages are whose, and rows that lie in pages."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from einc.backends.host.runtime.cache_view import _CacheView
from einc.backends.host.runtime.exhausted import Exhausted

if TYPE_CHECKING:
    from einc.backends.host.runtime.cache import Cache
    from einc.backends.host.runtime.pool import Pool


class _Store:
    """The memory of one kept tensor, its axes laid in an order: as rows, and as pages side by side."""

    def __init__(self, memory: torch.Tensor, axis: int, order: tuple[int, ...], page: int) -> None:
        self.memory, self.axis, self.order, self.back = (memory, axis, order,
                                                         [order.index(n) for n in range(memory.ndim)])
        at = order.index(axis)
        front, slots, behind = memory.shape[:at], memory.shape[at], memory.shape[at + 1 :]
        self.rows, self.shape = memory.permute(self.back), (*front, -1, *behind)
        self.pages = memory.view(math.prod(front), slots // page, page * math.prod(behind))

    def gather(self, pages: list[int], memory: torch.Tensor | None) -> torch.Tensor:
        """Rows of some pages, one page after another: copied into memory that is large enough, or into new."""
        places, size = torch.tensor(pages, device=self.memory.device), len(pages) * self.pages[:, 0].numel()
        memory = self.memory.new_empty(size) if memory is None else memory[:size]
        torch.index_select(self.pages, 1, places, out=memory.view(len(self.pages), len(pages), self.pages.shape[2]))
        return memory.view(self.shape).permute(self.back)


class _Table:
    """The pages of one cache; `runs` are the entries that do not follow the one before,
    `given` those that its user named."""

    pages: list[int]
    runs: list[int]
    told: torch.Tensor  # None where the pages have changed since they were asked for
    given: list[int]

    def __init__(self, pool: Pool, given: Iterable[int] | torch.Tensor | None, length: int) -> None:
        self.pool, self.pages, self.runs, self.told = pool, [], [], None  # type: ignore[assignment]
        self.given = [] if given is None else given.tolist() if hasattr(given, "tolist") else list(given)
        count = -(-length // pool.page)
        if count > len(self.given):
            raise ValueError(f"{length} positions lie in {count} pages, the table names {len(self.given)}")
        self.check(count)
        if len(set(self.given[:count])) < count:
            raise ValueError(f"the table names a page twice among the {count} in which {length} positions lie")
        self.share(self.given[:count])
        del self.given[:count]

    def check(self, count: int) -> None:
        """The next entries that the user named are pages. Raises ValueError for one that is none."""
        for n, page in enumerate(self.given[:count], len(self.pages)):
            if page not in range(len(self.pool.counts)):
                raise ValueError(f"entry {n} of the table is {page}, the pages of the pool are 0 to "
                                 f"{len(self.pool.counts) - 1}")

    def share(self, pages: list[int]) -> None:
        """Pages that others may hold too."""
        self.pool.hold(pages)
        self.lay(len(self.pages), pages)

    def lay(self, first: int, pages: list[int]) -> None:
        """Other pages from an entry on. Those that stood there are gone."""
        self.pages[first:], self.told = pages, None  # type: ignore[assignment]
        del self.runs[bisect_left(self.runs, first) :]
        self.runs += [n for n in range(first, len(self.pages)) if n == 0 or self.pages[n] != self.pages[n - 1] + 1]

    def numbers(self, device: torch.device) -> torch.Tensor:
        """The pages as kernels read them."""
        if self.told is None:
            self.told = torch.tensor(self.pages, dtype=torch.int32, device=device)
        return self.told

    def moved(self) -> torch.Tensor:
        """The runs of pages: the first position of each, and how many places further on in memory it lies."""
        page = self.pool.page
        return torch.tensor([[n * page, (self.pages[n] - n) * page] for n in self.runs], dtype=torch.int64)

    def drop(self, count: int) -> int:
        """Gives pages in front back; how many positions these are."""
        if count:
            self.pool.hold(self.pages[:count], -1)
            self.lay(0, self.pages[count:])
        return count * self.pool.page

    def ready(self, past: int, count: int) -> bool:
        """Whether positions to come have pages of one's own."""
        pages = self.pages[past // self.pool.page : -(-(past + count) // self.pool.page)]
        return past + count <= len(self.pages) * self.pool.page and all(self.pool.counts[page] == 1 for page in pages)

    def ahead(self, past: int, count: int) -> tuple[range, int]:
        """The entries in which positions to come lie, and how many more there must be."""
        upto = -(-(past + count) // self.pool.page) if count else 0
        return range(past // self.pool.page, min(upto, len(self.pages))), max(upto - len(self.pages), 0)

    def need(self, past: int, count: int, counts: dict[int, int]) -> int:
        """How many free pages it takes to go on, once others have theirs."""
        entries, more = self.ahead(past, count)
        self.check(more)
        for page in self.pages[entries.start : entries.stop]:
            left = counts.get(page, self.pool.counts[page])
            more, counts[page] = more + (left > 1), left - (left > 1)
        return more

    def make(self, past: int, count: int) -> None:
        """Pages of one's own for positions to come: copies of shared ones, and free ones. Changes the table and the
        pool, which has so many free."""
        entries, more = self.ahead(past, count)
        for n in entries:
            if self.pool.counts[self.pages[n]] > 1:
                (mine,) = self.pool.take(1, self.pages[n - 1] if n else -2, [])
                for store in self.pool.stores.values():
                    store.pages[:, mine] = store.pages[:, self.pages[n]]
                self.pool.hold(self.pages[n : n + 1], -1)
                self.lay(n, [mine, *self.pages[n + 1 :]])
        if more:
            self.lay(len(self.pages), self.pool.take(more, self.pages[-1] if self.pages else -2, self.given[:more]))
            del self.given[:more]

    def run(self, position: int) -> tuple[int, int]:
        """Where a position lies, and up to which one those after it lie side by side."""
        entry, within = divmod(position, self.pool.page)
        n = bisect_right(self.runs, entry)
        end = self.runs[n] if n < len(self.runs) else len(self.pages)
        return self.pages[entry] * self.pool.page + within, end * self.pool.page


class _Paged(_CacheView):
    """Rows in pages: views where pages lie side by side, copies elsewhere, those of tiles
    in memory that is used again."""

    table: _Table
    memory: torch.Tensor  # None before it is asked for, as are `copy` and `all`
    copy: torch.Tensor
    all: torch.Tensor

    def __init__(self, store: _Store, table: _Table, upto: int) -> None:
        super().__init__(store.rows, store.axis)
        self.store, self.table, self.upto, self.memory = store, table, upto, None  # type: ignore[assignment]
        self.at, self.copy, self.all = (0, 0), None, None  # type: ignore[assignment]

    @property
    def single(self) -> bool:  # type: ignore[override]
        return self.upto == 0 or self.upto <= self.table.run(0)[1]

    def put(self, new: torch.Tensor, past: int) -> None:
        at = past
        while at < self.upto:
            slot, end = self.table.run(at)
            count = min(end, self.upto) - at
            self.rows.narrow(self.axis, slot, count).copy_(new.narrow(self.axis, at - past, count))
            at += count

    def cut(self, low: int, columns: int) -> int:
        """Long runs are read where they lie, short ones are copied, several at a time."""
        least, most = min(columns, 256), min(columns, 512)
        last = self.table.run(low)[1]
        if last - low >= least:
            return min(last, low + columns)
        while last < min(low + most, self.upto) and (end := self.table.run(last)[1]) - last < least:
            last = end
        return min(last, low + most)

    def tile(self, first: int, last: int) -> torch.Tensor:
        slot, end = self.table.run(first) if first < last else (0, last)
        if last <= end:
            return self.rows.narrow(self.axis, slot, last - first)
        if self.at != (first, last):
            size = ((last - first) // self.table.pool.page + 2) * self.store.pages[:, 0].numel()
            if self.memory is None or len(self.memory) < size:
                self.memory = self.rows.new_empty(size)
            self.at, self.copy = (first, last), self.copied(first, last, self.memory)
        return self.copy

    def copied(self, first: int, last: int, memory: torch.Tensor | None = None) -> torch.Tensor:
        page = self.table.pool.page
        rows = self.store.gather(self.table.pages[first // page : -(-last // page)], memory)
        return rows.narrow(self.axis, first % page, last - first)

    def whole(self) -> torch.Tensor:
        slot, end = self.table.run(0) if self.upto else (0, 0)
        if self.upto <= end:
            return self.rows.narrow(self.axis, slot, self.upto)
        if self.all is None:
            self.all = self.copied(0, self.upto)
        return self.all


def _reserve(caches: list[Cache], counts: list[int]) -> None:
    """Room for so many more positions of each cache: for all of them, or for none. Raises Exhausted then."""
    for pool in {cache.pool for cache in caches if cache.pool is not None}:
        pool.sweep()
    asked = [(cache, cache.length - cache.dropped, count) for cache, count in zip(caches, counts, strict=True)]
    paged = [(cache, past, count) for cache, past, count in asked
             if cache.pool is not None and not cache.table.ready(past, count)]
    needed: dict[Pool, int]
    held: dict[Pool, dict[int, int]]
    needed, held = {}, {}
    for cache, past, count in paged:
        more = cache.table.need(past, count, held.setdefault(cache.pool, {}))
        needed[cache.pool] = needed.get(cache.pool, 0) + more
    for pool, more in needed.items():
        if more > pool.free:
            told = (f"{more} more {'page is' if more == 1 else 'pages are'} needed, {pool.free} of {len(pool.counts)} "
                    f"are free")
            raise Exhausted(f"{told}: free a cache, or make a larger pool")
    for cache, past, count in paged:
        cache.table.make(past, count)
        cache.pool.caches[cache.number] = cache
    for cache, past, count in asked:
        if cache.pool is None:
            for rows in cache.kept.values():
                rows.room(past, past + count)
