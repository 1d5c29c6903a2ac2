"""What every back end asks of the lets of a kernel: how often each is read, and which serve masks alone."""

from __future__ import annotations

from einc.ir.plan import Kernel, Let, Select


def uses(kernel: Kernel) -> dict[str, int]:
    """How often each let is read, by lets and by stores."""
    out: dict[str, int] = {}
    for name in [*(a for let in kernel.lets for a in let.reads), *(store.value for store in kernel.stores)]:
        out[name] = out.get(name, 0) + 1
    return out


def referred(kernel: Kernel, name: str) -> bool:
    """Whether what is carried is relative to a let, a running maximum, and is rescaled where that grows."""
    return any(let.carry is not None and let.carry.reference == name for let in kernel.lets)


def masks_only(kernel: Kernel) -> set[str]:
    """What runs along the stream and only masks need: it stands where a tile is cut, and a whole tile does without."""
    if kernel.stream is None:
        return set()
    users: dict[str, list[Let]] = {}
    for let in kernel.lets:
        for arg in let.reads:
            users.setdefault(arg, []).append(let)
    out: set[str] = set()
    for let in reversed(kernel.lets):
        mine = users.get(let.name, [])
        if mine and let.carry is None and all(u.name in out or _masked_by(u, let.name) for u in mine):
            out.add(let.name)
    return {let.name for let in kernel.lets if let.name in out and kernel.stream.name in let.axes}


def _masked_by(let: Let, name: str) -> bool:
    return isinstance(let.op, Select) and let.op.cut is not None and let.args[0] == name != let.args[1]
