"""Texts that join and leave between steps: every step takes the next token of all that
are being made, and reads on in prompts.

A text is what it would be alone, whatever stands beside it, whatever it shares, however often it is put back.
Non-goals: how a token is taken; where anything that is kept lies.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from threading import RLock
from typing import Any

from einc.driver.decoding.sampling import Sampler, Stop, endings, whole
from einc.driver.decoding.vocabulary import Spoken

Array = Any  # a tensor of torch, by its methods
Row = tuple["Request", int]  # a text, and how many of its tokens a step reads
_ALIKE = 16  # positions that texts without pages have in common at least, so that one takes them from the other
_REFUSED = (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError)


@dataclass(eq=False)
class Request:
    """A request to an engine, one text: what it begins with and what was made, `over` when nothing
    more comes, `error` if it failed."""

    prompt: tuple[int, ...] = field(repr=False)
    count: int
    taking: Sampler
    stop: frozenset[int]
    row: int
    number: int
    tokens: list[int] = field(default_factory=list, repr=False)  # the prompt and after it what was made
    cache: Any = field(default=None, repr=False)
    back: bool = field(default=False, repr=False)  # whether it was put back
    over: bool = False
    error: Exception | None = None

    @property
    def made(self) -> list[int]:
        """The tokens that were made so far, without those of the prompt."""
        return self.tokens[len(self.prompt) :]

    @property
    def most(self) -> int:
        """How many tokens are read at most: the last one is not."""
        return len(self.prompt) + self.count - 1

    @property
    def left(self) -> int:
        """How many tokens are there that no step has read."""
        return len(self.tokens) - (0 if self.cache is None else self.cache.length)


@dataclass
class Pages:
    """How many pages of a pool are an engine's, and how many of them were in use at most."""

    room: int
    held: int = 0


class Engine:
    """Texts that go on side by side, by a spec compiled with `plan="serve"`; `given` are its weights and sizes.

    A step reads one token of each text that is being made, and pieces of prompts, up to `budget` tokens in all. With a
    `pool` (`model.pool(pages, page=16)`) the texts share its pages. One joins when there is room; where pages run out
    the youngest is put back until others are over, and then made again from its tokens. A text that begins like one
    that is there takes over what is kept of that. One that fails, or that alone is too long for the pool, is over and
    has its `error`; the others go on. Any thread may add, close and step: one does at a time, and the others wait. A
    cache or a pool is of one thread at a time, so an engine's pool is left to it.

        engine = einc.Engine(model, weights, pool=model.pool(4096))
        text = engine.add(ids, 100, temperature=0.8, seed=1)
        while engine.busy:
            for text, token in engine.step(): ...
    """

    def __init__(self, model: Any, given: Mapping[str, Any], *, budget: int = 512, pool: Any = None) -> None:
        """An engine without texts; TypeError where the model keeps no cache, ValueError
        where a step may read no token."""
        if getattr(model, "prefill", None) is None:
            raise TypeError('an engine takes a compiled spec that keeps a cache: compile it with plan="serve"')
        self.model, self.budget, self.pool = Spoken(model, given), whole("budget", budget, 1), pool
        self.pages = Pages(0 if pool is None else pool.free)
        self.running: list[Request] = []  # both in the order in which texts were added
        self.waiting: list[Request] = []
        self.added = 0
        # tokens: of prompts, of texts that are being made, taken over from others
        self.read = self.grown = self.shared = 0
        self.back = 0  # texts that were put back
        self.turn = RLock()  # of the thread that adds, closes or steps

    @property
    def room(self) -> int:
        """How many pages of the pool were free at first."""
        return self.pages.room

    @property
    def held(self) -> int:
        """How many pages were in use at most."""
        return self.pages.held

    @property
    def busy(self) -> bool:
        """Whether a text is being made or waits for its turn."""
        return bool(self.running or self.waiting)

    def add(self, ids: Array | Sequence[int], count: int, *, temperature: float = 0.0, top_k: int | None = None,
            top_p: float | None = None, seed: int = 0, stop: Stop = None, row: int = 0) -> Request:
        """A text to go on with by `count` tokens, or up to one of `stop`; it joins in the
        next step that has room for it.

        `row` is the number that it is drawn by: the text is that of this row of `einc.generate` with the same seed.
        Raises ValueError.
        """
        try:
            tokens = list(map(index, ids.tolist() if hasattr(ids, "tolist") else ids))
        except TypeError:
            raise ValueError("ids are the tokens of one text, whole numbers (T,)") from None
        if not tokens:
            raise ValueError("a text begins with at least one token")
        taking = Sampler(temperature, top_k, top_p, seed)
        count, row = whole("count", count, 1), whole("row", row)
        stops = frozenset(endings(stop))
        with self.turn:
            text = Request(tuple(tokens), count, taking, stops, row, self.added, tokens)
            self.added += 1
            self.waiting.append(text)
        return text

    def close(self, text: Request) -> None:
        """Ends a text; its room is free for others. Changes `text.over`."""
        with self.turn:
            self._forget(text)
            text.over = True
            for texts in (self.running, self.waiting):
                if text in texts:
                    texts.remove(text)

    def step(self) -> list[tuple[Request, int]]:
        """One step: the tokens that it made, each with its text. It makes none while it
        only reads, or when a text fails."""
        with self.turn:
            rows = self._fitting(self._planned())
            out: list[tuple[Request, int]] = []
            for mine in [rows] if self.model.beside else [[row] for row in rows]:
                for texts, last in self._ahead(mine):
                    out += self._taken(texts, last)
            for text, token in out:
                text.tokens.append(token)
                if token in text.stop or len(text.tokens) > text.most:
                    self.close(text)
            return out

    # what a step reads

    def _planned(self) -> list[Row]:
        """How many tokens of each text are read: those that are being made first, then
        beginnings, older ones before younger."""
        for text in [text for text in self.running if not text.left]:  # A step was broken off once it had read.
            self._put_back(text)
        self._join(self.budget - sum(text.left for text in self.running))
        rows, left = [], self.budget
        for text in sorted(self.running, key=lambda text: text.left > 1):
            count = 1 if text.left == 1 else min(text.left, left)
            left = max(left - count, 0)
            if count:
                rows.append((text, count))
        return rows

    def _join(self, left: int) -> None:
        """Lets texts that wait begin, in their order, while there is room; one waits for what another is about to have
        for it.
        """
        for text in self.waiting.copy():
            if left <= 0 and self.running:
                return
            like, count, comes = self._alike(text)
            if comes:
                continue
            if self.running and not self._fits(text, count):
                return
            text.cache = self.model.made.cache(pool=self.pool) if like is None else like.cache.fork(count)
            self.shared += count
            self.waiting.remove(text)
            insort(self.running, text, key=lambda text: text.number)
            left -= text.left

    def _alike(self, text: Request) -> tuple[Request | None, int, bool]:
        """The text that has most of what this one begins with, how much, and whether one will soon have more."""
        least, found, best, comes = _ALIKE if self.pool is None else self.pool.page, None, 0, False
        for other in self.running:
            count = _common(text.tokens[:-1], other.tokens)
            here = min(count, other.cache.length)
            whole = bool(other.cache.dropped or other.cache.states)  # what is there is shared as a whole or not at all
            if here >= max(least, best + 1) and (not whole or here == other.cache.length):
                found, best = other, here
            comes = comes or (other.left > 1 and count - here >= least and not other.cache.states)
        return found, best, comes

    # the pages of a pool

    def _pages(self, positions: int) -> int:
        return -(-positions // int(self.pool.page))

    def _fits(self, text: Request, count: int) -> bool:
        """Whether there is room for the tokens of a text of which `count` are there already, and for
        those that others will read soon. One that was put back waits for room for all that it and they
        may still become: it is put back once at most.
        """
        if self.pool is None:
            return True
        mine, others = (text.left, [other.left for other in self.running])
        if text.back:
            mine, others = text.most, [other.most - other.cache.length for other in self.running]
        return self._pages(mine - count) + sum(map(self._pages, others)) <= int(self.pool.free)

    def _fitting(self, rows: list[Row]) -> list[Row]:
        """The rows for which there are pages: the youngest texts are put back until all that are left have theirs; one
        that has the pool for itself is too long for it.
        """
        if self.pool is None:
            return rows
        reserve, exhausted = (self.model.made.named(name) for name in ("_reserve", "Exhausted"))
        while rows:
            try:
                reserve([text.cache for text, _ in rows], [count for _, count in rows])
                self.pages.held = max(self.held, self.room - self.pool.free)
                return rows
            except exhausted:
                last = self.running[-1]
                if self.running == [last]:
                    pages = (f"{self.room} page{'s' * (self.room > 1)} of {self.pool.page} "
                             f"position{'s' * (self.pool.page > 1)}")
                    self._fail(last, exhausted(f"{len(last.tokens)} tokens of one text have no room in {pages}: "
                                               f"{self._pages(last.most)} are enough for it"))
                else:
                    self._put_back(last)
                rows = [row for row in rows if row[0] is not last]
        return rows

    def _forget(self, text: Request) -> None:
        if self.pool is not None and text.cache is not None:
            text.cache.free()
        text.cache = None

    def _put_back(self, text: Request) -> None:
        """Lets a text wait again, and frees what is kept of it."""
        self._forget(text)
        text.back = True
        self.running.remove(text)
        insort(self.waiting, text, key=lambda text: text.number)
        self.back += 1

    # what a step makes

    def _ahead(self, rows: list[Row]) -> list[tuple[list[Request], Array]]:
        """The texts that have been read to their end, and what comes next for them. Where a step is refused, that of
        each text alone says whose fault it is: a step that fails leaves what is kept as it was.
        """
        try:
            return [self._run(rows)] if rows else []
        except _REFUSED as error:
            if len(rows) > 1:
                return [one for row in rows for one in self._ahead([row])]
            self._fail(rows[0][0], error)
            return []

    def _run(self, rows: list[Row]) -> tuple[list[Request], Array]:
        caches, counts = [text.cache for text, _ in rows], [count for _, count in rows]
        new = [token for text, count in rows for token in text.tokens[text.cache.length :][:count]]
        begun = sum(count for text, count in rows if count > 1 or not text.made)
        logits = self.model.step(caches, new, counts)
        self.read, self.grown = self.read + begun, self.grown + len(new) - begun
        whole = [n for n, (text, _) in enumerate(rows) if not text.left]
        return [rows[n][0] for n in whole], logits[whole]

    def _taken(self, texts: list[Request], last: Array) -> Iterator[tuple[Request, int]]:
        """The next token of each text; those that are taken in one way are taken at once."""
        ways = dict[Sampler, list[int]]()
        for n, (text, fine) in enumerate(zip(texts, last.amax(-1).isfinite().tolist(), strict=True)):
            if fine:
                ways.setdefault(text.taking.way, []).append(n)
            else:  # It has no part in what is drawn, where one such row would be the fault of all.
                self._fail(text, ValueError(f"among the logits after {len(text.tokens)} tokens none is a finite "
                                            f"greatest"))
        for way, places in ways.items():
            mine = [texts[n] for n in places]
            tokens = way.taken(last[places], [text.taking.draw(text.row, len(text.tokens)) for text in mine])
            yield from zip(mine, tokens.tolist(), strict=True)

    def _fail(self, text: Request, error: Exception) -> None:
        text.error = error
        self.close(text)


def _common(first: list[int], second: list[int]) -> int:
    """How many tokens two texts have in common at their beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low
