"""The entries of a file that generates: a step that takes what is kept of the past, and a first one that begins it."""

from __future__ import annotations

from einc.backends.host.naming import Named
from einc.backends.writer import Writer, sized
from einc.plan import Buffer, Module

NAMES = ("cache", "chunk", "Cache", "prefill", "step")  # what such a file needs for itself


def rows(buffer: Buffer, axis: int) -> str:
    """In which order the axes of what is kept lie in memory: the rows of one position after another, head by head."""
    last = [n for n, s in enumerate(buffer.sets) if s.cls in ("feature", "latent") and n != axis]
    first = [n for n in range(len(buffer.sets)) if n != axis and n not in last]
    order = (*first, axis, *last)
    return f"({', '.join(map(str, order))}{',' * (len(order) == 1)})"


def label(naming: Named, key: str) -> str:
    """What a kept tensor is called in the cache."""
    return naming.public[key].removesuffix("_past")


def begin(naming: Named, body: Writer) -> None:
    """What the cache tells."""
    module = naming.module
    body(f"{module.past} = cache.length - cache.dropped")
    if module.dropped:
        body(f"{module.dropped} = cache.dropped")
    for tensor in module.inputs:
        if tensor.role == "cache":
            body(f'{tensor.key} = cache["{label(naming, tensor.key)}"]')


def end(module: Module, body: Writer) -> None:
    """The cache has the new positions once all has been done: a step that fails leaves it as it was."""
    body(f"cache.length += {module.new}")
    if module.back:
        most = [sized(extent) for extent in module.back]
        body(f"cache.forget({most[0] if len(most) == 1 else f'max({chr(44).join(most)})'})")


def prefill(naming: Named, asked: list[str], parameters: str, returns: str) -> list[str]:
    """The first step, with a cache of its own."""
    tensors = [naming.public[t.key] for t in naming.module.inputs if t.role != "cache"]
    given = ", ".join(f"{name}={name}" for name in [*tensors, *(naming.size(name) for name in asked)])
    return [
        "", "",
        f"def prefill({parameters or '*'}, chunk: int = 256) -> tuple[{returns}, Cache]:",
        '    """The first positions, and the cache that has them; its room grows by at least `chunk` positions at a time."""',
        "    cache = Cache(chunk)",
        f"    return step(cache, {given}), cache",
    ]  # fmt: skip


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

    def append(self, new: torch.Tensor, axis: int, order: tuple[int, ...]) -> torch.Tensor:
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
        return self.store.narrow(axis, 0, upto)

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
'''
