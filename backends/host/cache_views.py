"""How a step reads what is kept of the past: tile by tile where a kernel passes over its
positions, else all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from einc.backends.host.contractions import stored
from einc.backends.writer import Writer, sized
from einc.ir.plan import Append, BroadcastView, Call, Kernel, Leaf, Loop, Module, Step, leaves, takes, within

Streams = Callable[[Module, Kernel, str, int], bool]  # whether a kernel takes a buffer tile by tile along the axis


@dataclass(frozen=True)
class CacheViews:
    """The buffers that are objects of the cache, with their axis of positions; what is
    read of them whole has another name."""

    axes: Mapping[str, int]
    streams: Streams

    def whole(self, module: Module, step: Leaf) -> list[str]:
        """The cached buffers of which a step reads all rows at once, and not tile by tile."""
        mine = sorted(self.axes.keys() & reads(step))
        return [name for name in mine if not self.passes(module, step, name)]

    def passes(self, module: Module, step: Leaf, name: str) -> bool:
        """Whether a step takes a buffer of `axes` tile by tile. A view does if its own result is such a buffer; a call
        does if all of its steps that read the buffer do.
        """
        match step:
            case Kernel():
                return self.streams(module, step, name, self.axes[name])
            case BroadcastView():
                return step.out in self.axes
            case Call():  # where rows lie side by side they are the operand as a whole
                return all(name not in reads(s) or self.passes(module, s, name) for s in step.steps)
        return False


def laid(module: Module, streams: Streams) -> CacheViews:
    """What some kernel of the module takes from the cache tile by tile."""
    found: dict[str, int] = {}
    for step in leaves(module.steps):
        match step:
            case Append():
                found[step.out] = step.axis
            case BroadcastView() if step.operand in found and stored(module, step.operand, step.out) == step.operand:
                found[step.out] = step.order.index(found[step.operand])
    rounds = [step for step in module.steps if isinstance(step, Loop)]
    given = {key for _, key in module.outputs}
    given |= {name for step in rounds for name in step.reads}
    known = CacheViews({name: axis for name, axis in found.items() if name not in given}, streams)
    while known.axes:
        passed = {n for s in leaves(module.steps) for n in known.axes.keys() & reads(s) if known.passes(module, s, n)}
        if passed == known.axes.keys():
            return known
        known = CacheViews({name: axis for name, axis in known.axes.items() if name in passed}, streams)
    return known


def view(module: Module, step: BroadcastView, body: Writer, known: CacheViews | None, helpers: set[str]) -> None:
    """Writes the view where runs are of one length; adds the helper that it calls, if it calls one."""
    onto, text = sized(step.onto, tight=True), stored(module, step.operand, step.out)
    if step.order != tuple(range(len(step.order))):
        in_tiles = known is not None and step.out in known.axes
        helpers |= {"_Turned"} if in_tiles else set()
        text = f"_Turned({text}, {step.order})" if in_tiles else f"{text}.permute({', '.join(map(str, step.order))})"
    body.open(f"if {step.count} == {onto}:")
    body(f"{step.out} = {text}")
    body.close()


def reads(step: Step) -> frozenset[str]:
    """The buffers whose elements a step reads, those by which it finds the ends of its tiles among them."""
    return takes(step).union(*(inner.searched for inner in within((step,)) if isinstance(inner, Kernel)))
