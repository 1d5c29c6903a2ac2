"""Powers of two that are too small to be normal numbers: arithmetic on such takes a
processor many times as long, so they are 0."""

from __future__ import annotations

from collections.abc import Mapping

from einc.ir.plan import Iota, Kernel, Let, Map, Select


def is_far(let: Let, lets: Mapping[str, Let], kernel: Kernel) -> bool:
    """Whether a power may be that small over much of a tile: its exponent is arithmetic on the places along the
    row, as a distance is, and grows with it.
    """
    row = kernel.stream.name if kernel.stream is not None else None
    stack = list(let.args) if let.op == Map("exp2") else []
    seen = set[str]()
    while stack:
        name = stack.pop()
        op, args = lets[name].op, lets[name].args
        if op == Iota(row or ""):
            return True
        if name not in seen and row in lets[name].axes:
            stack += args if isinstance(op, Map) else args[1:] if isinstance(op, Select) else ()
        seen.add(name)
    return False
