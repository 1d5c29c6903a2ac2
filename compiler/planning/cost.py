"""What a step costs: flops, bytes and what it holds, as formulas in the sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from einc.indices import Extent, IndexSet, number
from einc.plan import Buffer, Cost, Dot, Let, Load, Map, Reduce, Select

_NOMINAL = {"time": 4096, "request": 8, "batch": 4, "feature": 128, "latent": 512, "head": 16, "expert": 64, "vocab": 32768}
_BYTES = {"real": 4, "exact": 8, "integer": 8, "truth": 1, "scalar": 0}


def nominal(set_: IndexSet) -> int:
    """The extent to assume where the data has not said it yet."""
    constant = set_.extent.constant
    return _NOMINAL[set_.cls] if constant is None else max(1, int(constant))


def volume(sets: Iterable[IndexSet]) -> Extent:
    total = number(1)
    for set_ in sets:
        total = total * set_.extent
    return total


def size_of(buffer: Buffer) -> Extent:
    return volume(buffer.sets) * number(_BYTES[buffer.kind])


def lets_cost(
    lets: Iterable[Let], sets: Mapping[str, IndexSet], buffers: Mapping[str, Buffer], written: Iterable[str], held: Extent
) -> Cost:
    """A kernel's cost over the whole grid, as if every tile were full."""
    flops, read, loaded = number(0), number(0), set()
    for let in lets:
        match let.op:
            case Map() | Select() if let.kind != "scalar":
                flops = flops + volume(sets[a] for a in let.axes)
            case Dot(args, over):
                flops = flops + volume(sets[a] for a in {*let.axes, *over}) * number(2 if len(args) > 1 else 1)
            case Reduce(_, _, over):
                flops = flops + volume(sets[a] for a in {*let.axes, *over})
            case Load(buffer) if buffer not in loaded:
                loaded.add(buffer)
                read = read + size_of(buffers[buffer])
    out = number(0)
    for name in written:
        out = out + size_of(buffers[name])
    return Cost(flops, read, out, held)
