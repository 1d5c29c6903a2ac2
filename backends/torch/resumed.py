"""An axis that tile after tile goes through once: each begins where the one before it ended."""

from __future__ import annotations

from einc.backends.torch.expressions import Scribe
from einc.backends.writer import Writer, identifier, sized
from einc.plan import Axis, Kernel, arguments


def begin(axis: Axis, body: Writer, scribe: Scribe) -> None:
    """Before the tiles: nothing is gone through."""
    low, high = (scribe.names.fresh(f"{identifier(axis.name)}{n}") for n in (0, 1))
    scribe.ranges[axis.name] = (low, high)
    body(f"{low} = 0" if _on(axis) else f"{high} = {sized(axis.set.extent)}")


def go_on(axis: Axis, scribe: Scribe) -> None:
    """How far this tile goes."""
    assert axis.bound is not None and scribe.numbers is not None
    (span,) = axis.bound.spans
    low, high = scribe.ranges[axis.name]
    start = axis.set.start
    if _on(axis):
        ends = ", ".join(scribe.numbers.text(t, 1 - start, True) for t in span.high)
        scribe.write(f"{high} = max({low}, min({sized(axis.set.extent)}, {ends}))")
    else:
        ends = ", ".join(scribe.numbers.text(t, -start, True) for t in span.low)
        scribe.write(f"{low} = min({high}, max(0, {ends}))")


def resume(axis: Axis, body: Writer, scribe: Scribe) -> None:
    """After the tile: the next one goes on there."""
    low, high = scribe.ranges[axis.name]
    body(f"{low} = {high}" if _on(axis) else f"{high} = {low}")


def _on(axis: Axis) -> bool:
    return axis.bound is not None and axis.bound.resumes == "on"


def left_over(kernel: Kernel) -> set[str]:
    """What is computed in a tile only for the tiles after it."""
    if kernel.resumed is None:
        return set()
    needed: set[str] = set()
    stack = [s.value for s in kernel.stores]
    by = {let.name: let for let in kernel.lets}
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += arguments(by[name].op)
    return set(by) - needed
