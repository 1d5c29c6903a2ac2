"""The entries of a file that generates: a step that takes what is kept of the past, and a first one that begins it."""

from __future__ import annotations

from einc.backends.host.contractions import stored
from einc.backends.host.naming import Named
from einc.backends.writer import Writer, folded, sized
from einc.ir.indices import WIDTHS, number, size
from einc.ir.plan import Buffer, Loop, Module, PerRequest, leaves, makes, takes

# What such a file needs for itself.
NAMES = ("cache", "chunk", "lengths", "latest", "requests", "pool", "Cache", "Pool", "Exhausted", "os", "prefill", "step")


def rows(buffer: Buffer, axis: int) -> str:
    """In which order the axes of what is kept lie in memory: the rows of one position after another, head by head."""
    last = [n for n, s in enumerate(buffer.sets) if s.cls in WIDTHS and n != axis]
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


def shared(module: Module) -> int:
    """Behind which step nothing is done for each request any more."""
    behind = (n for n, step in enumerate(module.steps, 1) if isinstance(step, PerRequest | Loop))
    return max(behind, default=0) if module.past else len(module.steps)


def latest(module: Module, ahead: int, body: Writer) -> None:
    """From there on the last new position of each request alone, where that is asked for."""
    rest, made, read = module.steps[ahead:], set[str](), {key for _, key in module.outputs}
    for step in leaves(rest):
        made |= makes(step)
        read |= takes(step)
    own = size(module.new)
    found = [(b.name, n) for b in module.buffers.values() if b.name in read - made for n, s in enumerate(b.sets) if s.extent == own]
    body.open("if latest:  # of each request the last position alone")
    body("_last = torch.tensor([last - 1 for _, _, last in requests], dtype=torch.long, device=device)")
    for name, axis in dict(reversed(found)).items():
        body(f"{name} = {name}.index_select({axis}, _last)")
    body(f"{module.new} = len(_last)")
    body.close()


def end(module: Module, body: Writer) -> None:
    """The caches have the new positions once all has been done: a step that fails leaves them as they were."""
    body.open("for one, first, last in requests:")
    body("one.length += last - first")
    if module.generation is not None and module.generation.back:
        most = [sized(extent) for extent in module.generation.back]
        body(f"one.forget({most[0] if len(most) == 1 else f'max({chr(44).join(most)})'})")
    body.close()


def prefill(naming: Named, asked: list[str], parameters: str, returns: str) -> list[str]:
    """The first step, with a cache of its own."""
    tensors = [naming.public[t.key] for t in naming.module.given]
    names = [*tensors, *(naming.size(name) for name in asked)]
    given = ", ".join(f"{name}={name}" for name in names)
    chunk, pool = (f"{name}_" if name in names else name for name in ("chunk", "pool"))
    return [
        "", "",
        *folded(f"def prefill({parameters or '*'}, {chunk}: int = 256, {pool}: Pool | None = None, "
                f"latest: bool = False) -> tuple[{returns}, Cache]:"),
        f'    """The first positions, and the cache that has them; its room grows by `{chunk}` positions, or page by page."""',
        f"    cache = Cache({chunk}, {pool})",
        "    try:",
        f"        return step(cache, {given}, latest=latest), cache",
        "    except BaseException:",
        "        cache.free()",
        "        raise",
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
    caches = list(cache) if isinstance(cache, (list, tuple)) else [cache]
    if not all(isinstance(one, Cache) for one in caches):
        raise TypeError("a cache is expected that this very file has made, by `prefill` or `Cache`, or a list of such caches")
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
''',
    "_joined": '''
def _joined(parts, axis):
    """What was made for each request, side by side."""
    if len({(*x.shape[:axis], *x.shape[axis + 1 :]) for x in parts}) > 1:
        raise ValueError("a result has something for all positions of a text, so a step is of one text: give one cache")
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)
''',
    "_Turned": '''
class _Turned:
    """What is kept, with its axes in another order."""

    def __init__(self, laid, order):
        self.laid, self.order, self.single, self.upto, self.tiles = laid, order, laid.single, laid.upto, laid.tiles
        self.rows, self.table = laid.rows.permute(order), laid.table

    def tile(self, first, last):
        return self.laid.tile(first, last).permute(self.order)

    def whole(self):
        return self.laid.whole().permute(self.order)
''',
    "_cuts": '''
def _cuts(*kept):
    """Pieces of what is kept: those of what does not lie side by side."""
    laid = next(one for one in kept if not one.single)
    return laid.tiles(((0, laid.upto),), laid.upto)
''',
}

CACHE = '''
class Cache:
    """What is kept of the `length` positions so far, but for the first ones, which are `dropped` once nothing reads them.

    Room grows in chunks, so that a step copies nothing of the past; with a pool page by page. A `table` names the pages in
    which the first `length` positions lie, and after them those to be taken next.
    """

    __iter__ = None  # it is no list of caches

    def __init__(self, chunk: int = 256, pool: "Pool | None" = None, table=None, length: int = 0) -> None:
        if chunk < 1 or length < 0:
            raise ValueError(f"chunk = {chunk} and length = {length}, whole numbers from 1 and from 0 are expected")
        if pool is None and (length or table is not None):
            raise ValueError("a table needs the pool whose pages it names")
        self.length, self.dropped, self.most, self.chunk, self.kept = length, 0, 0, chunk, {}
        self.pool, self.table = pool, None if pool is None else _Table(pool, table, length)
        self.number = 0 if pool is None else pool.join(self)

    def __getitem__(self, name: str) -> "_Rows":
        return self.kept.setdefault(name, _Rows(self, name))

    @property
    def nbytes(self) -> int:
        """The bytes that are held, room for positions to come among them; of a pool those of the pages."""
        if self.pool is not None:
            return len(self.table.pages) * self.pool.nbytes // len(self.pool.counts)
        return sum(rows.nbytes for rows in self.kept.values())

    def reserve(self, count: int) -> None:
        """Room for so many more positions, before anything is computed."""
        _reserve([self], [count])

    def forget(self, most: int) -> None:
        """Only so many of the past are read from now on. Pages in front go back to the pool; without one, the rows move to the
        front once there are twice as many, and a chunk."""
        self.most, past = max(most, 0), self.length - self.dropped
        if self.pool is not None:
            self.dropped += self.table.drop(max(past - self.most, 0) // self.pool.page)
        elif past >= 2 * self.most + self.chunk:
            for rows in self.kept.values():
                rows.move(past, self.most)
            self.dropped = self.length - self.most

    def fork(self, length: int | None = None) -> "Cache":
        """Another cache with the first `length` positions, or all: in the same pages, until one of the two writes there."""
        upto = self.length if length is None else length
        if not 0 <= upto <= self.length or (self.dropped and upto - self.dropped < self.most):
            raise ValueError(f"{upto} positions cannot be forked: the cache has {self.length}, of which it dropped {self.dropped}")
        other = Cache(self.chunk, self.pool)
        other.length, other.dropped, other.most = upto, self.dropped, self.most
        if self.pool is None:
            other.kept = {name: rows.copied(other, upto - self.dropped) for name, rows in self.kept.items()}
        else:
            other.table.share(self.table.pages[: -(-(upto - self.dropped) // self.pool.page)])
        return other

    def free(self) -> None:
        """Gives all room back; the cache is empty, and may be used again."""
        if self.pool is not None:
            self.table.drop(len(self.table.pages))
            self.table.given = []
            self.pool.caches.pop(self.number, None)
        self.length, self.dropped, self.most, self.kept = 0, 0, 0, {}


class _Rows:
    """The rows of one kept tensor; those of each of the rounds by its number."""

    def __init__(self, cache: Cache, name: str) -> None:
        self.cache, self.name, self.rounds, self.store, self.axis, self.order = cache, name, {}, None, 0, ()
        self.passes = {}  # what a pass over these rows had come to, and after how many positions

    def __getitem__(self, at: int) -> "_Rows":
        return self.rounds.setdefault(at, _Rows(self.cache, f"{self.name}.{at}"))

    @property
    def nbytes(self) -> int:
        return sum(r.nbytes for r in self.rounds.values()) + (0 if self.store is None else self.store.nbytes)

    def append(self, new: torch.Tensor, axis: int, order: tuple[int, ...]) -> "_Laid":
        """All rows, the new ones laid after the past; `order` is that of the axes in memory."""
        past, pool = self.cache.length - self.cache.dropped, self.cache.pool
        upto = past + new.shape[axis]
        if pool is not None:
            if not self.cache.table.ready(past, new.shape[axis]):
                self.cache.reserve(new.shape[axis])
            laid = _Paged(pool.store(self.name, new, axis, order), self.cache.table, upto)
        else:
            if self.store is None:
                self.axis, self.order = axis, order
                self.move_to(new, upto, 0, 0)
            self.room(past, upto)
            laid = _Laid(self.store.narrow(axis, 0, upto), axis)
        laid.write(new, past)
        return laid

    def resumed(self, name: str):
        """How far a pass had gone and what it carried at the end of the past, for one's own use; None where that is not known."""
        length, at, carried = self.passes.get(name, (-1, 0, ()))
        return (at, *(x.clone() for x in carried)) if length == self.cache.length else None

    def leave(self, name: str, new: int, at: int, *carried: torch.Tensor) -> None:
        """The same with the new positions, for the next step."""
        self.passes[name] = self.cache.length + new, at, carried

    def room(self, past: int, upto: int) -> None:
        """Room for positions to come."""
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
    """The rows of a kept tensor, one position after another along an axis; `single`: all of them lie side by side."""

    single, table = True, None

    def __init__(self, rows: torch.Tensor, axis: int) -> None:
        self.rows, self.axis, self.upto = rows, axis, rows.shape[axis]

    def write(self, new: torch.Tensor, past: int) -> None:
        """New rows after the past."""
        shape, axis = self.rows.shape, self.axis
        shape = (*shape[:axis], new.shape[axis], *shape[axis + 1 :])
        if shape != new.shape or self.rows.dtype != new.dtype:
            kept, given = f"{self.rows.dtype} rows of shape {shape}", f"{new.dtype}, {tuple(new.shape)}"
            raise ValueError(f"the cache keeps {kept}, those of this step are {given}")
        self.put(new, past)

    def put(self, new: torch.Tensor, past: int) -> None:
        self.rows.narrow(self.axis, past, new.shape[self.axis]).copy_(new)

    def tiles(self, spans: tuple[tuple[int, int], ...], columns: int):
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
'''
