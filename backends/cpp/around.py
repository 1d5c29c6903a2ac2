"""Folds over several axes at once as one pass: one of the axes is the stream, and the others are loops around it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from einc.ir.plan import Axis, Carry, Dot, Kernel, Let, Reduce


def along_one(kernel: Kernel) -> tuple[Kernel, tuple[Axis, ...]]:
    """A kernel whose folds run over the same few axes, as one that carries them along one of these, with the axes of
    the loops around it. Any other kernel comes back as it is, with no axes. Bounds of those are left out: they only
    spare points that conditions leave out as well.
    """
    found = {frozenset(let.over) for let in kernel.lets if len(let.over) > 1}
    if kernel.stream is not None or kernel.grid is not None or len(found) != 1:
        return kernel, ()
    (names,) = found
    axes = [axis for axis in kernel.axes if axis.name in names]
    results = {a for store in kernel.stores for part in store.axes for a in part}
    stream = max(axes, key=lambda axis: (axis.bound is not None, axis.set.cls == "time"))
    if results & names or kernel.resumed is not None or not _once(kernel.lets, names):
        return kernel, ()
    around = {axis.name: replace(axis, bound=None) for axis in axes if axis is not stream}
    placed = around | {stream.name: replace(stream, role="stream")}
    made = replace(kernel, axes=tuple(placed.get(axis.name, axis) for axis in kernel.axes),
                   lets=tuple(_carried(let, stream.name) if let.over else let for let in kernel.lets))
    return made, tuple(around.values())


def _once(lets: Iterable[Let], names: frozenset[str]) -> bool:
    """Whether all folds run over these axes, and nothing that has one of them depends on a fold."""
    late = set[str]()
    for let in lets:
        if late.intersection(let.reads) and names.intersection({*let.axes, *let.over}):
            return False
        if let.over and (set(let.over) != names or let.carry is not None or not isinstance(let.op, Dot | Reduce)):
            return False
        if let.over or late.intersection(let.reads):
            late.add(let.name)
    return True


def _carried(let: Let, stream: str) -> Let:
    """A fold that is carried along the stream alone."""
    assert isinstance(let.op, Dot | Reduce)
    fold = let.op.fold if isinstance(let.op, Reduce) else "sum"
    return replace(let, op=replace(let.op, over=(stream,)), carry=Carry(fold, None, False, False))
