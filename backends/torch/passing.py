"""Values made point by point in many steps: tile by tile, so that what stands between
stays in the cache and is written over."""

from __future__ import annotations

from dataclasses import replace

from einc.ir.indices import DATA
from einc.ir.plan import Axis, Iota, Kernel, Let, Load, Map, Scalar, Select

_STEPS = 4  # as many passes over memory are worth a loop


def in_tiles(kernel: Kernel) -> Kernel:
    """The kernel with its longest axis cut in tiles, where it has no fold and enough steps."""
    if kernel.grid is not None or kernel.stream is not None or len(kernel.stores) != 1:
        return kernel
    axes = {a for part in kernel.stores[0].axes for a in part}
    steps = [let for let in kernel.lets if isinstance(let.op, Map) and let.kind == "real" and set(let.axes) == axes]
    grid = _longest([a for a in kernel.axes if a.name in axes and a.set.cls in DATA])
    if len(steps) < _STEPS or grid is None or not all(map(_by_points, kernel.lets)):
        return kernel
    made = tuple(replace(a, role="grid") if a == grid else a for a in kernel.axes)
    return replace(kernel, axes=made, largest=tuple(a.name for a in kernel.axes if a.name in axes))


def _longest(axes: list[Axis]) -> Axis | None:
    return next((a for a in axes if a.set.cls == "time"), axes[0] if axes else None)


def _by_points(let: Let) -> bool:
    """Whether a let is arithmetic of the data's numbers, or such a number where it stands."""
    match let.op:
        case Iota() | Scalar():
            return True
        case Map() | Select():
            return let.kind in ("real", "truth", "scalar")
        case Load():
            return let.kind == "real" and not let.args
    return False
