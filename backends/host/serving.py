"""The entries of a file that generates: a step that takes what is kept of the past, and a first one that begins it."""

from __future__ import annotations

from einc.backends.host.contractions import stored
from einc.backends.host.naming import Named
from einc.backends.writer import Writer, sized
from einc.indices import number
from einc.plan import Buffer, Module

# What such a file needs for itself.
NAMES = ("cache", "chunk", "lengths", "requests", "pool", "Cache", "Pool", "Exhausted", "os", "prefill", "step")


def rows(buffer: Buffer, axis: int) -> str:
    """In which order the axes of what is kept lie in memory: the rows of one position after another, head by head."""
    last = [n for n, s in enumerate(buffer.sets) if s.cls in ("feature", "latent") and n != axis]
    first = [n for n in range(len(buffer.sets)) if n != axis and n not in last]
    order = (*first, axis, *last)
    return f"({', '.join(map(str, order))}{',' * (len(order) == 1)})"


def label(naming: Named, key: str) -> str:
    """What a kept tensor is called in the cache."""
    return naming.public[key].removesuffix("_past")


def append(module: Module, out: str, parts: tuple[str, ...], axis: int) -> str:
    """What is new laid after what is kept."""
    kept, new = parts
    return f"{kept}.append({stored(module, new, out)}, {axis}, {rows(module.buffers[out], axis)})"


def single(module: Module, body: Writer, helpers: set[str]) -> None:
    """What the cache tells before the sizes are known, where the caller gives something for all that it has."""
    told = {n for t in module.given for s in t.slots for n in s.set.extent.sizes}
    if told & {module.past, module.dropped}:
        helpers.add("_only")
        body(f"{module.past} = _only(cache).length - _only(cache).dropped")
    if module.dropped in told:
        body(f"{module.dropped} = _only(cache).dropped")


def begin(naming: Named, body: Writer, helpers: set[str]) -> None:
    """Whose the new positions are, and what is kept for each."""
    module = naming.module
    helpers.add("_requests")
    body(f"requests = _requests(cache, lengths, {module.new})")
    for tensor in module.inputs:
        if tensor.role == "place":
            places = "torch.arange(last - first, device=device) + one.length + 1"
            body(f"{tensor.key} = torch.cat([{places} for one, first, last in requests])")
            for _, over in (x for x in module.keys if x[0] == tensor.key):
                helpers.add("_within")
                body(f'_within("the new positions", {tensor.key}, {over.start}, {sized(over.extent + number(over.start - 1))})')
        elif tensor.role == "cache":
            body(f'{tensor.key} = [one["{label(naming, tensor.key)}"] for one, _, _ in requests]')


def end(module: Module, body: Writer) -> None:
    """The caches have the new positions once all has been done: a step that fails leaves them as they were."""
    body.open("for one, first, last in requests:")
    body("one.length += last - first")
    if module.back:
        most = [sized(extent) for extent in module.back]
        body(f"one.forget({most[0] if len(most) == 1 else f'max({chr(44).join(most)})'})")
    body.close()


def prefill(naming: Named, asked: list[str], parameters: str, returns: str) -> list[str]:
    """The first step, with a cache of its own."""
    tensors = [naming.public[t.key] for t in naming.module.given]
    given = ", ".join(f"{name}={name}" for name in [*tensors, *(naming.size(name) for name in asked)])
    return [
        "", "",
        f"def prefill({parameters or '*'}, chunk: int = 256) -> tuple[{returns}, Cache]:",
        '    """The first positions, and the cache that has them; its room grows by at least `chunk` positions at a time."""',
        "    cache = Cache(chunk)",
        f"    return step(cache, {given}), cache",
    ]  # fmt: skip


HELPERS = {
    "_only": '''
def _only(cache):
    """The one cache of a step that is given something for all positions of it."""
    if not isinstance(cache, Cache):
        raise ValueError("what is given for all positions is of one text: give its cache alone")
    return cache
''',
    "_requests": '''
def _requests(cache, lengths, total):
    """For each cache the first of the new positions that are its own, and the first that is not any more."""
    caches = [cache] if isinstance(cache, Cache) else list(cache)
    counts = [total] if lengths is None and len(caches) == 1 else None if lengths is None else [int(n) for n in lengths]
    if counts is None or len(counts) != len(caches):
        raise ValueError(f"{len(caches)} caches, and lengths = {counts}: one is expected for each")
    if sum(counts) != total or min(counts, default=0) < 0:
        raise ValueError(f"lengths = {counts}, whole numbers that add up to the {total} new positions are expected")
    if len({id(one) for one in caches}) != len(caches):
        raise ValueError("one cache stands twice among those of a step")
    ends = [sum(counts[: n + 1]) for n in range(len(counts))]
    return [(one, end - count, end) for one, count, end in zip(caches, counts, ends) if count]
''',
    "_joined": '''
def _joined(parts, axis):
    """What was made for each request, side by side."""
    if len({(*x.shape[:axis], *x.shape[axis + 1 :]) for x in parts}) > 1:
        raise ValueError("a result has something for all positions of a text, so a step is of one text: give one cache")
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)
''',
}

CACHE = '''
class Cache:
    """What is kept of the `length` positions so far, but for the first ones, which are `dropped` once nothing reads them.

    Room grows in chunks, so that a step copies nothing of the past.
    """

    def __init__(self, chunk: int = 256) -> None:
        self.length, self.dropped, self.chunk, self.kept = 0, 0, chunk, {}

    def __getitem__(self, name: str) -> "_Rows":
        return self.kept.setdefault(name, _Rows(self))

    @property
    def nbytes(self) -> int:
        """The bytes that are held, room for positions to come among them."""
        return sum(rows.nbytes for rows in self.kept.values())

    def forget(self, most: int) -> None:
        """Only so many of the past are read from now on; they move to the front once there are twice as many, and a chunk."""
        past = self.length - self.dropped
        if past >= 2 * max(most, 0) + self.chunk:
            for rows in self.kept.values():
                rows.move(past, max(most, 0))
            self.dropped = self.length - max(most, 0)


class _Rows:
    """The rows of one kept tensor; those of each of the rounds by its number."""

    def __init__(self, cache: Cache) -> None:
        self.cache, self.rounds, self.store, self.axis, self.order = cache, {}, None, 0, ()

    def __getitem__(self, at: int) -> "_Rows":
        return self.rounds.setdefault(at, _Rows(self.cache))

    @property
    def nbytes(self) -> int:
        return sum(r.nbytes for r in self.rounds.values()) + (0 if self.store is None else self.store.nbytes)

    def append(self, new: torch.Tensor, axis: int, order: tuple[int, ...]) -> "_Laid":
        """All rows, the new ones laid after the past; `order` is that of the axes in memory."""
        past = self.cache.length - self.cache.dropped
        upto = past + new.shape[axis]
        if self.store is None or self.store.shape[axis] < upto:
            self.axis, self.order = axis, order
            self.move_to(new, max(upto, past + past // 2), 0, past)
        rows = self.store.narrow(axis, past, new.shape[axis])
        if rows.shape != new.shape:
            raise ValueError(f"the cache keeps rows of shape {tuple(rows.shape)}, those of this step are {tuple(new.shape)}")
        rows.copy_(new)
        return _Laid(self.store.narrow(axis, 0, upto), axis)

    def move(self, past: int, most: int) -> None:
        """The last of the past moved to the front of a room of their own."""
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


class _Laid:
    """The rows of a kept tensor, one position after another along an axis."""

    def __init__(self, rows: torch.Tensor, axis: int) -> None:
        self.rows, self.axis = rows, axis

    def tiles(self, spans: tuple[tuple[int, int], ...], columns: int) -> "Iterator[tuple[int, int]]":
        """From where to where: every position of the spans once, in their order."""
        done = 0
        for low, high in sorted(spans):
            for first in range(max(low, done), high, columns):
                yield first, min(first + columns, high)
            done = max(done, high)

    def tile(self, first: int, last: int) -> torch.Tensor:
        return self.rows.narrow(self.axis, first, last - first)

    def whole(self) -> torch.Tensor:
        return self.rows
'''
