"""A contraction of two operands as a kernel: one pass over what is summed, with a sum that is carried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from einc.ir.indices import DATA, IndexSet
from einc.ir.plan.kernels import Axis, Kernel, Role, Store
from einc.ir.plan.lets import AxisRef, Carry, Dot, Flatten, Let, Load, Subscript
from einc.ir.plan.modules import Buffer
from einc.ir.plan.operations import Contract


def product_kernel(step: Contract, buffers: Mapping[str, Buffer]) -> Kernel | None:
    """The kernel that does what a contraction does; None unless it has two operands of real numbers and sums over one
    axis of both, and no slot is read in part.
    """
    sets = axes_of_contraction(step, buffers)
    every = {*step.axes, *(axis for letters in step.letters for axis in letters)}
    summed = [axis for axis in sets if axis not in step.axes]
    kinds = {buffers[name].element.kind for name in (*step.reads, step.out)}
    if len(step.reads) != 2 or len(summed) != 1 or every - sets.keys() or kinds != {"real"}:
        return None
    if not all(summed[0] in letters for letters in step.letters):
        return None
    lets = [Let(f"_{n}", letters, "real", Load(name, view), (), "", None)
            for n, ((name, letters), view) in enumerate(zip(step.operands, step.views, strict=True))]
    made = Let(step.out, step.axes, "real", Dot((summed[0],), True), tuple(let.name for let in lets), step.text,
               Carry("sum", None, False, True))
    grid = next((axis for axis in step.axes if sets[axis].cls in DATA), None)
    role: dict[str, Role] = {summed[0]: "stream"}
    if grid is not None:
        role[grid] = "grid"
    axes = tuple(Axis(axis, over, role.get(axis, "whole")) for axis, over in sets.items())
    places = iter(step.axes)
    stored = Store(step.out, step.out, tuple(tuple(next(places) for _ in range(count)) for count in step.slots))
    return Kernel(step.out, axes, (*lets, made), (stored,), step.texts, (), step.cost)


def axes_of_contraction(step: Contract, buffers: Mapping[str, Buffer]) -> dict[str, IndexSet]:
    """The axes of the operands with their sets, those of the result first; without those of slots read in part."""
    found = {axis: over for name, view in zip(step.reads, step.views, strict=True)
             for sub, whole in zip(view, buffers[name].sets, strict=True) for axis, over in _axes(sub, whole)}
    return {axis: found[axis] for axis in dict.fromkeys((*step.axes, *found)) if axis in found}


def _axes(sub: Subscript, over: IndexSet) -> Iterator[tuple[str, IndexSet]]:
    """The axes of a subscript of a slot over this set, each with its own."""
    match sub:
        case AxisRef(axis):
            yield axis, over
        case Flatten(parts, sets):
            for part, one in zip(parts, sets, strict=True):
                yield from _axes(part, one)
