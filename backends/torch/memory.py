"""Memory that every tile uses again: fresh pages for each of the largest values cost more
than what is done with them."""

from __future__ import annotations

from einc.backends.torch.loads import Reader
from einc.backends.writer import Writer, sized
from einc.ir.plan import Axis, Dot, Kernel, Let, Load

NEAR = 19  # log2 of the elements that stay near the processor while a product reads them


def near(kernel: Kernel, stream: Axis, body: Writer, reader: Reader) -> None:
    """Writes memory in which parts of what is passed over are widened, where a product reads it."""
    lets = {let.name: let for let in kernel.lets}
    operands = [lets[a] for let in kernel.lets if isinstance(let.op, Dot) and let.kind == "real" for a in let.args]
    if any(isinstance(x.op, Load) and stream.name in x.axes for x in operands):
        reader.again.near = reader.names.fresh("near")
        body(f"{reader.again.near} = torch.empty(2**{NEAR} if dtype != wide else 0, dtype=wide, device=device)")


def allot(kernel: Kernel, grid: Axis, stream: Axis, rows: str, columns: str, body: Writer, reader: Reader) -> None:
    """Writes memory for the largest products, and for the largest factors of those whose factors may be rounded."""
    tile = {grid.name, stream.name}
    lets = {let.name: let for let in kernel.lets}
    for let in kernel.lets:
        if not isinstance(let.op, Dot) or let.kind != "real":
            continue
        count = _count(kernel, let, tile, rows, columns)
        if let.carry is None and tile <= set(let.axes):
            reader.again.memory[let.name] = reader.names.fresh(f"{let.name}_memory")
            kind = "ranged" if let.op.may_round else "wide"
            body(f"{reader.again.memory[let.name]} = torch.empty({count}, dtype={kind}, device=device)")
            if let.op.may_round:
                _converted(let.name, count, "wide", body, reader)
        for name in let.args if let.op.may_round else ():
            big = tile <= set(lets[name].axes) and lets[name].kind == "real"
            if big and not isinstance(lets[name].op, Load):
                _converted(name, _count(kernel, lets[name], tile, rows, columns), "ranged", body, reader)


def _converted(name: str, count: str, kind: str, body: Writer, reader: Reader) -> None:
    """Writes memory for a value in another type; none where the two types are one."""
    if (name, kind) not in reader.again.converted:
        reader.again.converted[name, kind] = reader.names.fresh(f"{'x' if name.startswith('_') else name}_{kind}")
        body(f"{reader.again.converted[name, kind]} = torch.empty({count} if ranged != wide else 0, dtype={kind}, "
             f"device=device)")


def _count(kernel: Kernel, let: Let, tile: set[str], rows: str, columns: str) -> str:
    others = [sized(kernel.axis(a).set.extent, tight=True) for a in let.axes if a not in tile]
    return " * ".join([rows, columns, *others])
