"""Results of a kernel in memory: stored tile by tile, or merged from the shares of tiles
that come one after the other."""

from __future__ import annotations

from einc.backends.host.contractions import element
from einc.backends.host.folding import start, step
from einc.backends.torch.expressions import Scribe
from einc.backends.writer import Writer, identifier, sized
from einc.ir.elements import EXACT, RANGED, REAL
from einc.ir.plan import Axis, Kernel, Load, Module, Store


def results(module: Module, kernel: Kernel, body: Writer, helpers: set[str]) -> None:
    """Writes memory for what a kernel stores; what is merged begins at the neutral element, in the type in which it
    grows.
    """
    for store in kernel.stores:
        buffer = module.buffers[store.buffer]
        shape = ", ".join(sized(s.extent) for s in buffer.sets)
        shape = f"({shape}{',' * (len(buffer.sets) == 1)})"
        kind = "wide" if store.merge and buffer.element in (REAL, RANGED) else element(buffer)
        made = "torch.zeros" if store.merge == "sum" else "torch.full" if store.merge else "torch.empty"
        first = f", {start(store.merge, helpers)}" if made == "torch.full" else ""
        body(f"{identifier(store.buffer)} = {made}({shape}{first}, dtype={kind}, device=device)")


def merged(module: Module, kernel: Kernel, body: Writer) -> None:
    """Writes, after the last tile, the conversion of results that were summed over tiles to their type."""
    for store in kernel.stores:
        buffer = module.buffers[store.buffer]
        if store.merge and buffer.element in (REAL, RANGED):
            body(f"{identifier(store.buffer)} = {identifier(store.buffer)}.to({element(buffer)})")


def along(kernel: Kernel, store: Store, stream: Axis) -> bool:
    """Whether a result has the axis of the pass: each step has its share of a part of it."""
    return any(stream.name in let.axes for let in kernel.lets if let.name == store.value)


def _store_text(store: Store, place: str, text: str, helpers: set[str]) -> str:
    """A tile's value into its place, or merged with what stands there."""
    if not store.merge:
        return f"{place} = {text}" if store.axes else f"{place}.copy_({text})"
    match store.merge:
        case "sum":
            return f"{place} += {text}"
        case "prod":
            return f"{place} *= {text}"
    return f"{place}.copy_({step(store.merge, helpers)}({place}, {text}))"


def write_store(module: Module, kernel: Kernel, store: Store, body: Writer, scribe: Scribe) -> None:
    """Writes a value into its buffer, its axes in the buffer's order and its composites flat."""
    let = scribe.lets[store.value]
    code = scribe.value(store.value) if store.value in scribe.variables else scribe.statement(let)
    flat = tuple(a for axes in store.axes for a in axes)
    text = code.at(9)
    if let.axes != flat:
        text = f"{text}.permute({', '.join(str(let.axes.index(a)) for a in flat)})"
    cut = [len(axes) > 1 and scribe.tile.inside and any(a in scribe.tile.ranges for a in axes) for axes in store.axes]
    target, dim = identifier(store.buffer), 0
    for axes, apart in zip(store.axes, cut, strict=True):
        if apart:  # a tile of one of its parts: the buffer is split, not the value made flat
            target += f".unflatten({dim}, ({', '.join(sized(kernel.axis(a).set.extent) for a in axes)}))"
        elif len(axes) > 1:
            text += f".flatten({dim}, {dim + len(axes) - 1})"
        dim += len(axes) if apart else 1
    buffer = module.buffers[store.buffer]
    scribe.owned.stored(store.buffer)
    if scribe.tile.inside:
        pairs = zip(store.axes, cut, strict=True)
        places = [place for axes, apart in pairs for place in (axes if apart or len(axes) == 1 else ("",))]
        slices = [":".join(scribe.tile.ranges[p]) if p in scribe.tile.ranges else ":" for p in places]
        while slices and slices[-1] == ":":
            slices.pop()
        place = f"{target}[{', '.join(slices) or '...'}]" if slices or (store.axes and not store.merge) else target
        if code.last is not None and text == code.text and store.axes and not store.merge:
            (first, function, other) = code.last
            body(f"torch.{function}({first}, {other}, out={place})")
        else:
            body(_store_text(store, place, text, scribe.helpers))
        return
    if let.text:
        body(f"# {let.text}")
    kind = element(buffer)
    if let.kind == "scalar":
        text = f"torch.as_tensor({code.text}, dtype={kind}, device=device)"
    elif buffer.element != EXACT or let.kind != "exact":
        shared = buffer.role == "output" and not code.fresh and isinstance(let.op, Load)
        copied = ", copy=True" if shared else ""  # a result is never a caller's tensor
        text = f"{text if flat != let.axes or len(flat) != len(store.axes) else code.at(9)}.to({kind}{copied})"
    else:
        text = text if text != code.at(9) else code.text
    body.statement(f"{identifier(store.buffer)} = ", text)
