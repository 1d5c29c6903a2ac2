"""An axis that tile after tile goes through once: each begins where the one before it ended."""

from __future__ import annotations

from zlib import crc32

from einc.backends.host.bounds import limits
from einc.backends.torch.expressions import Scribe
from einc.backends.writer import Writer, identifier, sized
from einc.ir.plan import Append, Axis, AxisRef, Call, Kernel, Load, Module, Scalar, leaves
from einc.ir.terms import Size, walk


def begin(axis: Axis, body: Writer, scribe: Scribe) -> None:
    """Writes, before the tiles, that nothing is gone through."""
    low, high = (scribe.names.fresh(f"{identifier(axis.name)}{n}") for n in (0, 1))
    scribe.tile.ranges[axis.name] = (low, high)
    body(f"{low} = 0" if _on(axis) else f"{high} = {sized(axis.set.extent)}")


def go_on(axis: Axis, scribe: Scribe) -> None:
    """Writes how far this tile goes along an axis that tiles go through one after the other."""
    assert axis.bound is not None and scribe.numbers is not None
    (span,) = axis.bound.spans
    low, high = scribe.tile.ranges[axis.name]
    lows, highs = limits(axis, span, scribe.numbers, inline=True)
    if _on(axis):
        ends = ", ".join(highs)
        scribe.write(f"{high} = max({low}, min({sized(axis.set.extent)}, {ends}))")
    else:
        ends = ", ".join(lows)
        scribe.write(f"{low} = min({high}, max(0, {ends}))")


def resume(axis: Axis, body: Writer, scribe: Scribe) -> None:
    """Writes the statement after a tile from which the next tile begins where this one ended."""
    low, high = scribe.tile.ranges[axis.name]
    body(f"{low} = {high}" if _on(axis) else f"{high} = {low}")


def _on(axis: Axis) -> bool:
    return axis.bound is not None and axis.bound.resumes == "on"


def left_over(kernel: Kernel) -> set[str]:
    """The lets that no result of their own tile needs: they are computed for later tiles alone."""
    if kernel.resumed is None:
        return set()
    needed: set[str] = set()
    stack = [s.value for s in kernel.stores]
    by = {let.name: let for let in kernel.lets}
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += by[name].reads
    return set(by) - needed


def called(module: Module, kernel: Kernel) -> str:
    """The name by which it lasts: where the orders of a product are to choose from, each has its own."""
    steps = [inner for step in leaves(module.steps) for inner in (step.steps if isinstance(step, Call) else (step,))]
    kernels = [step for step in steps if isinstance(step, Kernel)]
    alone = sum(k.name == kernel.name for k in kernels) < 2
    return kernel.name if alone else f"{kernel.name}.{crc32(' '.join(kernel.texts).encode()):x}"


def lasting(module: Module, kernel: Kernel) -> str:
    """The kept rows by which what the kernel carries lasts from step to step: it follows from these rows and from what
    is the same in every step. Nothing where it does not.
    """
    axis, by = kernel.resumed, {let.name: let for let in kernel.lets}
    if axis is None or not _on(axis) or not module.past or module.dropped:
        return ""
    rows = {step.out: step.reads[0] for step in leaves(module.steps) if isinstance(step, Append)}
    given = {t.key for t in module.inputs if not t.each}
    carried = [let.name for let in kernel.lets if let.carry is not None]
    stack, seen, found = list(carried), set(carried), ""
    while stack:
        let = by[stack.pop()]
        match let.op:
            case Load(buffer, subs) if buffer in rows and AxisRef(axis.name) in subs:
                found = rows[buffer]
            case Load(buffer) if buffer not in given or axis.name in let.axes:
                return ""
            case Scalar(term) if (
                any(isinstance(x, Size) and x.extent.sizes & {module.new, module.past} for x in walk(term))
            ):
                return ""
        if kernel.grid is not None and kernel.grid.name in let.axes:
            return ""
        new = [name for name in dict.fromkeys(let.reads) if name not in seen]
        seen |= {*new}
        stack += new
    return found
