"""What a plan costs beyond pairs of positions in time and positions in memory: one line for each step that takes time
beyond T², stores more than some numbers for each position, or takes positions one after the other.

Non-goals: how large the figures are for given sizes, which the tables print; what the caller asks for as a result.
"""

from __future__ import annotations

from collections.abc import Iterator

from einc.ir.indices import INDEX_CLASSES, Extent, Monomial
from einc.ir.plan import Choose, Loop, Module, PerRequest, Step, makes
from einc.planning.analysis.cost import size_of

_SQUARE, _LINE = 2, 1  # the powers of the number of positions that time and memory may have without a line


def growth(module: Module) -> list[str]:
    """The lines, in the order of the steps, in their numbers."""
    names = {n for s in module.sets if INDEX_CLASSES[s.cls].sequence and s.cls != "vocab" for n in s.extent.sizes}
    return [line for n, step in enumerate(module.steps, 1) for line in _lines(str(n), step, module, names, 0)]


def _lines(name: str, step: Step, module: Module, names: set[str], rounds: int) -> Iterator[str]:
    """What is said of one step, which runs in loops whose rounds grow with this power of the number of positions."""
    match step:
        case Choose():
            ways = [[line for one in way for line in _lines(name, one, module, names, rounds)] for way in step.bodies]
            yield from min(ways, key=len)
        case Loop():
            over = _power(step.index.set.extent, names)
            if over:
                yield (f"step {name} takes {step.index.set.extent} positions one after the other: not each of its "
                       f"states is affine in itself alone")
            for n, one in enumerate(step.body.steps, 1):
                yield from _lines(f"{name}.{n}", one, step.body, names, rounds + over)
        case PerRequest():
            for n, one in enumerate(step.body.steps, 1):
                yield from _lines(f"{name}.{n}", one, step.body, names, rounds)
        case _:
            yield from _of_leaf(name, step, module, names, rounds)


def _of_leaf(name: str, step: Step, module: Module, names: set[str], rounds: int) -> Iterator[str]:
    """What is said of a step without steps inside: its time, with that of the loops around, and what it stores."""
    if _power(step.cost.flops, names) + rounds > _SQUARE:
        yield f"step {name} takes time beyond the square of positions: {_leading(step.cost.flops, names)} flops"
    shown = {key for _, key in module.outputs}
    for key in sorted(makes(step) - shown):
        buffer = module.buffers.get(key)
        if buffer is not None and _power(size_of(buffer), names) > _LINE:
            yield f"step {name} stores pairs of positions: `{key}` has {_leading(size_of(buffer), names)} bytes"


def _degree(mono: Monomial, names: set[str]) -> int:
    """The largest power of one number of positions."""
    return max((int(power) for size, power in mono if size in names), default=0)


def _power(extent: Extent, names: set[str]) -> int:
    """The largest power of one number of positions in a formula."""
    return max((_degree(mono, names) for mono, _ in extent.terms), default=0)


def _leading(extent: Extent, names: set[str]) -> str:
    """The terms of the largest power."""
    most = _power(extent, names)
    leading = Extent(tuple((m, c) for m, c in extent.terms if _degree(m, names) == most))
    return str(leading).replace("**", "^").replace(" * ", "·")
