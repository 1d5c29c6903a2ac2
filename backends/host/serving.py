"""The entries of a file that generates: a step that takes what is kept of the past, and a first one that begins it."""

from __future__ import annotations

from collections.abc import Sequence

from einc.backends.host.contractions import element, stored
from einc.backends.host.naming import Named
from einc.backends.writer import Names, Writer, folded, sized
from einc.ir.indices import WIDTH, number, size
from einc.ir.plan import Buffer, Loop, Module, PerRequest, leaves, makes, takes

# What such a file needs for itself.
NAMES = ("cache", "chunk", "lengths", "latest", "requests", "pool", "Cache", "Pool", "Exhausted", "os", "weakref",
         "prefill", "step")


# The classes that its callers see; what they need stands with them, above the entries, whose annotations name them.
CLASSES = ("Cache", "Pool")


def rows(buffer: Buffer, axis: int) -> str:
    """In which order the axes of what is kept lie in memory: the rows of one position after another, head by head."""
    last = [n for n, s in enumerate(buffer.sets) if s.cls in WIDTH and n != axis]
    first = [n for n in range(len(buffer.sets)) if n != axis and n not in last]
    order = (*first, axis, *last)
    return f"({', '.join(map(str, order))}{',' * (len(order) == 1)})"


def label(naming: Named, key: str) -> str:
    """What a kept tensor is called in the cache."""
    return naming.public[key].removesuffix("_past")


def append(module: Module, out: str, parts: tuple[str, ...], axis: int) -> str:
    """The expression that lays the new rows after those in a cache."""
    kept, new = parts
    return f"{kept}.append({stored(module, new, out)}, {axis}, {rows(module.buffers[out], axis)})"


def single(module: Module, body: Writer, helpers: set[str]) -> None:
    """Writes what the cache tells before the sizes are known, where the caller gives something for all that it has."""
    told = {n for t in module.given for s in t.slots for n in s.set.extent.sizes}
    if told & {module.past, module.dropped}:
        helpers.add("_only")
        body(f"{module.past} = _only(cache).length - _only(cache).dropped")
    if module.dropped in told:
        body(f"{module.dropped} = _only(cache).dropped")


def begin(naming: Named, body: Writer, helpers: set[str]) -> None:
    """Writes whose the new positions are, and what is kept for each."""
    module = naming.module
    states = dict(module.generation.states) if module.generation is not None else {}
    if module.unpaged:
        helpers.add("_unpaged")
        body("_unpaged(cache)")
    helpers.add("_requests")
    body(f"requests = _requests(cache, lengths, {module.new})")
    for tensor in module.inputs:
        if tensor.role == "place":
            places = "torch.arange(last - first, device=device) + one.length + 1"
            body(f"{tensor.key} = torch.cat([{places} for one, first, last in requests])")
            for _, over in (x for x in module.keys if x[0] == tensor.key):
                helpers.add("_within")
                body(f'_within("the new positions", {tensor.key}, {over.start}, '
                     f'{sized(over.extent + number(over.start - 1))})')
        elif tensor.key in states:
            helpers.add("_left")
            shape = ", ".join(sized(s.set.extent) for s in tensor.slots)
            body(f'{tensor.key} = _left(requests, "{label(naming, tensor.key)}", [{shape}], '
                 f'{element(module.buffers[tensor.key], named=False)}, device)')
        elif tensor.role == "cache":
            body(f'{tensor.key} = [one["{label(naming, tensor.key)}"] for one, _, _ in requests]')


def shared(module: Module) -> int:
    """Behind which step nothing is done for each request any more."""
    behind = (n for n, step in enumerate(module.steps, 1) if isinstance(step, PerRequest | Loop))
    return max(behind, default=0) if module.past else len(module.steps)


def latest(module: Module, ahead: int, body: Writer) -> None:
    """Writes statements after which only the last new position of each request is there, where that is asked for."""
    rest, made, read = module.steps[ahead:], set[str](), {key for _, key in module.outputs}
    for step in leaves(rest):
        made |= makes(step)
        read |= takes(step)
    own = size(module.new)
    found = [(b.name, n) for b in module.buffers.values() if b.name in read - made for n, s in enumerate(b.sets)
             if s.extent == own]
    body.open(f"if latest and {module.new} > len(requests):  # of each request the last position alone")
    body("_last = torch.tensor([last - 1 for _, _, last in requests], dtype=torch.long, device=device)")
    for name, axis in dict(reversed(found)).items():
        body(f"{name} = {name}.index_select({axis}, _last)")
    body(f"{module.new} = len(_last)")
    body.close()


def end(naming: Named, body: Writer, names: Names) -> None:
    """Writes into the caches the new positions and states once all has been done: a step that fails leaves them as they
    were.
    """
    module = naming.module
    states = module.generation.states if module.generation is not None else ()
    if states:
        n, one = names.fresh("n"), names.fresh("one")
        left = ", ".join(f'"{label(naming, past)}": {state}[{n}]' for past, state in states)
        body.open(f"for {n}, ({one}, _, _) in enumerate(requests):")
        body(f"{one}.states = {{**{one}.states, {left}}}")
        body.close()
    body.open("for one, first, last in requests:")
    body("one.length += last - first")
    if module.generation is not None and module.generation.back:
        most = [sized(extent) for extent in module.generation.back]
        body(f"one.forget({most[0] if len(most) == 1 else f'max({chr(44).join(most)})'})")
    body.close()


def classes(module: Module, texts: Sequence[str]) -> list[str]:
    """The lines of the classes of the cache, above the entries."""
    text = "".join(f"{text}\n\n\n" for text in texts)
    page = 0 if module.generation is None else module.generation.page
    if page:  # a hole, because callers see the page size of their plan as a default in the signature of `Pool`
        text = text.replace("page: int = 16", f"page: int = {page}")
    return text.split("\n")[:-1]


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
        f'    """The first positions, and the cache that has them; its room grows by `{chunk}` positions, or page by '
        f'page."""',
        f"    cache = Cache({chunk}, {pool})",
        "    try:",
        f"        return step(cache, {given}, latest=latest), cache",
        "    except BaseException:",
        "        cache.free()",
        "        raise",
    ]  # fmt: skip
