"""What is kept of the past between the steps of an emitted file."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from einc.backends.host.runtime.cache_view import _CacheView
from einc.backends.host.runtime.checks import _whole
from einc.backends.host.runtime.pages import _Paged, _reserve, _Table
from einc.backends.host.runtime.saved import _written

if TYPE_CHECKING:
    from einc.backends.host.runtime.pool import Pool


class Cache:
    """What is kept of the `length` positions so far, but for the first ones, which are
    `dropped` once nothing reads them.

    Room grows in chunks, so that a step copies nothing of the past; with a pool page by page. A `table` names the pages
    in which the first `length` positions lie, and after them those to be taken next. A cache that nobody has any more
    gives its pages back as `free` does, and a copy of one is a fork.
    """

    pool: Pool  # None where rows do not lie in pages
    table: _Table  # None without a pool
    kept: dict[str, _Rows]
    states: dict[str, torch.Tensor]  # what loops over positions left, each tensor never written again
    own: Cache  # itself, for its rows: they do not keep it alive

    __iter__ = None  # it is no list of caches

    def __init__(
        self, chunk: int = 256, pool: "Pool | None" = None, table: Sequence[int] | torch.Tensor | None = None,
        length: int = 0,
    ) -> None:
        """Without a `pool` room grows by at least `chunk` positions at a time; with one `chunk` has no effect. `table`
        names pages of the pool: the first `length` positions lie in its first pages already, the others are taken in
        their order as positions come, and free pages after them.

        Raises ValueError where `chunk` is no whole number from 1 or `length` none from 0, for a length or a table
        without a pool, and where the table names too few pages for the length, or among those for the length one twice
        or one that the pool does not have.
        """
        _whole("chunk", chunk, 1)
        _whole("length", length, 0)
        if pool is None and (length or table is not None):
            raise ValueError("a table needs the pool whose pages it names")
        self.length, self.dropped, self.most, self.chunk, self.kept = length, 0, 0, chunk, {}
        self.states = {}
        self.pool, self.table = pool, None if pool is None else _Table(pool, table, length)  # type: ignore[assignment]
        self.own, self.number = weakref.proxy(self), 0
        if pool is not None:
            weakref.finalize(self, pool.left.append, self.table.pages).atexit = False
            self.number = pool.join(self)

    def __getitem__(self, name: str) -> "_Rows":
        return self.kept.setdefault(name, _Rows(self.own, name))

    def __copy__(self) -> "Cache":
        return self.fork()

    def __deepcopy__(self, memo: object) -> "Cache":
        return self.fork()

    @property
    def nbytes(self) -> int:
        """The bytes that are held, room for positions to come among them; of a pool those of the pages."""
        states = sum(state.nbytes for state in self.states.values())
        if self.pool is not None:
            return states + len(self.table.pages) * self.pool.nbytes // len(self.pool.counts)
        return states + sum(rows.nbytes for rows in self.kept.values())

    def reserve(self, count: int) -> None:
        """Room for so many more positions, before anything is computed."""
        _whole("count", count, 0)
        _reserve([self], [count])

    def forget(self, most: int) -> None:
        """Only so many of the past are read from now on. Pages in front go back to the pool; without one, the rows move
        to the front once there are twice as many, and a chunk."""
        self.most, past = max(most, 0), self.length - self.dropped
        if self.pool is not None:
            self.dropped += self.table.drop(max(past - self.most, 0) // self.pool.page)
        elif past >= 2 * self.most + self.chunk:
            for rows in self.kept.values():
                rows.move(past, self.most)
            self.dropped = self.length - self.most

    def fork(self, length: int | None = None) -> "Cache":
        """Another cache with the first `length` positions, or all: in the same pages, until one of the two writes
        there. Raises ValueError for a length that it has not or may not go back to."""
        upto = self.length if length is None else length
        _whole("length", upto, 0)
        if not 0 <= upto <= self.length or (self.dropped and upto - self.dropped < self.most):
            raise ValueError(f"{upto} positions cannot be forked: the cache has {self.length}, of which it dropped "
                             f"{self.dropped}")
        if self.states and upto not in (0, self.length):
            raise ValueError(f"a state is that of all {self.length} positions: fork them all, not {upto}")
        other = Cache(self.chunk, self.pool)
        other.length, other.dropped, other.most = upto, self.dropped, self.most
        other.states = dict(self.states) if upto else {}
        if self.pool is None:
            other.kept = {name: rows.copied(other.own, upto - self.dropped) for name, rows in self.kept.items()}
        else:
            other.table.share(self.table.pages[: -(-(upto - self.dropped) // self.pool.page)])
        return other

    def save(self, path: str) -> None:
        """What the cache holds, written whole or not at all. ValueError for one in pages: its pool is saved."""
        if self.pool is not None:
            raise ValueError("this cache lies in the pages of a pool: save the pool")
        rows = {name: rows.told(self.length - self.dropped) for name, rows in self.kept.items()}
        _written(path, (self.length, self.dropped, self.most, self.chunk, self.states, rows))

    @staticmethod
    def load(path: str) -> "Cache":
        """A saved cache. ValueError where what the file says cannot be."""
        found = torch.load(path, weights_only=True)
        try:
            return _reread(*found)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RuntimeError) as error:
            raise ValueError(f"{path} is no saved cache: {error}") from None

    def free(self) -> None:
        """Gives all room back; the cache is empty, and may be used again."""
        if self.pool is not None:
            self.table.drop(len(self.table.pages))
            self.table.given = []
            self.pool.caches.pop(self.number, None)
            self.pool.loaded.pop(self.number, None)
        self.length, self.dropped, self.most, self.kept, self.states = 0, 0, 0, {}, {}


def _reread(length: int, dropped: int, most: int, chunk: int, states: dict[str, torch.Tensor],
            kept: dict[str, tuple[Any, ...]]) -> Cache:
    """The cache that a file tells of. Raises what says why there is none."""
    cache = Cache(chunk)
    for told, value in (("length", length), ("dropped", dropped), ("most", most), ("positions", length - dropped)):
        _whole(told, value, 0)
    if not all(isinstance(x, torch.Tensor) for x in states.values()):
        raise TypeError("a state is no tensor")
    cache.length, cache.dropped, cache.most, cache.states = length, dropped, most, dict(states)
    for name, rows in kept.items():
        cache[name].reread(length - dropped, *rows)
    return cache


class _Rows:
    """The rows of one kept tensor; those of each of the rounds by its number."""

    rounds: dict[int, _Rows]
    store: torch.Tensor  # None before the first rows
    order: tuple[int, ...]
    passes: dict[str, tuple[int, int, tuple[torch.Tensor, ...]]]

    def __init__(self, cache: Cache, name: str) -> None:
        self.cache, self.name, self.rounds, self.store, self.axis, self.order = cache, name, {}, None, 0, ()  # type: ignore[assignment]
        self.passes = {}  # what a pass over these rows had come to, and after how many positions

    def __getitem__(self, at: int) -> "_Rows":
        return self.rounds.setdefault(at, _Rows(self.cache, f"{self.name}.{at}"))

    @property
    def nbytes(self) -> int:
        return sum(r.nbytes for r in self.rounds.values()) + (0 if self.store is None else self.store.nbytes)

    def append(self, new: torch.Tensor, axis: int, order: tuple[int, ...]) -> "_CacheView":
        """All rows, the new ones laid after the past; `order` is that of the axes in memory. Writes to the cache.
        Raises ValueError where another function has filled it."""
        laid: _CacheView
        past, pool = self.cache.length - self.cache.dropped, self.cache.pool
        upto = past + new.shape[axis]
        if past and (self.store is None if pool is None else self.name not in pool.stores):
            raise ValueError(f"the cache has {past} positions but no {self.name}: it is another function's")
        if pool is not None:
            if not self.cache.table.ready(past, new.shape[axis]):
                self.cache.reserve(new.shape[axis])
            laid = _Paged(pool.store(self.name, new, axis, order), self.cache.table, upto)
        else:
            if self.store is None:
                self.axis, self.order = axis, order
                self.move_to(new, upto, 0, 0)
            self.room(past, upto)
            laid = _CacheView(self.store.narrow(axis, 0, upto), axis)
        laid.write(new, past)
        return laid

    def resumed(self, name: str) -> tuple[Any, ...] | None:
        """How far a pass had gone and what it carried at the end of the past, for one's
        own use; None where that is not known."""
        length, at, carried = self.passes.get(name, (-1, 0, ()))
        return (at, *(x.clone() for x in carried)) if length == self.cache.length else None

    def leave(self, name: str, new: int, at: int, *carried: torch.Tensor) -> None:
        """Stores how far a pass has gone after the new positions and what it carries, for `resumed` later."""
        self.passes[name] = self.cache.length + new, at, carried

    def room(self, past: int, upto: int) -> None:
        """Makes the memory large enough for `upto` positions, and keeps the first `past` of them."""
        for rows in self.rounds.values():
            rows.room(past, upto)
        if self.store is not None and self.store.shape[self.axis] < upto:
            self.move_to(self.store, max(upto, past + past // 2), 0, past)

    def copied(self, cache: Cache, count: int) -> "_Rows":
        """The first rows, in a room of their own."""
        other = _Rows(cache, self.name)
        other.passes = {name: found for name, found in self.passes.items() if found[0] == cache.length}
        other.rounds = {at: rows.copied(cache, count) for at, rows in self.rounds.items()}
        if self.store is not None:
            other.store, other.axis, other.order = self.store, self.axis, self.order
            other.move_to(self.store, count, 0, count)
        return other

    def told(self, count: int) -> tuple[Any, ...]:
        """The first rows, with the order of their axes in memory, and those of each of the rounds."""
        rows = None if self.store is None else self.store.narrow(self.axis, 0, count).clone()
        return self.axis, self.order, rows, {at: one.told(count) for at, one in self.rounds.items()}

    def reread(self, count: int, axis: int, order: tuple[int, ...], rows: torch.Tensor | None,
               rounds: dict[int, Any]) -> None:
        """Takes what `told` said. ValueError where there are not so many rows."""
        if rows is not None and (sorted(order) != list(range(rows.ndim)) or rows.shape[axis] != count):
            raise ValueError(f"{self.name} has rows of shape {tuple(rows.shape)} for {count} positions")
        if rows is not None:
            self.store, self.axis, self.order = rows, axis, order
            self.move_to(rows, count, 0, count)
        for at, told in rounds.items():
            self[at].reread(count, *told)

    def move(self, past: int, most: int) -> None:
        """Moves the last `most` of the `past` positions to the front of new memory, and drops those before them."""
        for rows in self.rounds.values():
            rows.move(past, most)
        if self.store is not None:
            self.move_to(self.store, 2 * most + self.cache.chunk, past - most, most)

    def move_to(self, like: torch.Tensor, room: int, first: int, count: int) -> None:
        shape = [*like.shape[: self.axis], room + -room % self.cache.chunk, *like.shape[self.axis + 1 :]]
        memory = like.new_empty([shape[n] for n in self.order])
        store = memory.permute([self.order.index(n) for n in range(like.ndim)])
        if count:
            store.narrow(self.axis, 0, count).copy_(self.store.narrow(self.axis, first, count))
        self.store = store
