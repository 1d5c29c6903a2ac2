"""How many bytes of buffers are in memory during each step of a plan, and how many bytes each step moves.

A buffer counts from the step that writes it to the last step that reads it; an output stays to the end. Inputs belong
to the caller and are not counted. Elements of the data have `real` bytes each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from einc.ir.elements import REAL
from einc.ir.indices import Extent, number
from einc.ir.plan import (
    FREE,
    Append,
    BroadcastView,
    Buffer,
    Call,
    Choose,
    Cost,
    InSlices,
    Kernel,
    Leaf,
    Loop,
    Module,
    PerRequest,
    RowBlocks,
    Step,
    leaves,
    makes,
    summed,
    takes,
)
from einc.planning.analysis.cost import size_of
from einc.planning.analysis.held import held

_NOTHING = number(0)
_GIVEN = ("input", "weight", "cache", "place", "derived")


def standing(module: Module, steps: Sequence[Step], real: int) -> list[Extent]:
    """The bytes of buffers that are in memory while each step runs, those that it writes included; `steps` are one way
    through the module.

    Rounds add what is in memory within one round, where most is.
    """
    views = {s.out: s.reads[0] for s in steps if isinstance(s, BroadcastView | Append)}
    mine = [frozenset(_source(name, views) for name in step.writes) for step in steps]
    read = [frozenset(_source(name, views) for name in takes(step)) for step in steps]
    outputs = {_source(key, views) for _, key in module.outputs}
    stored = {n: b for n, b in module.buffers.items() if b.role not in _GIVEN and n not in views}
    out = []
    for at, step in enumerate(steps):
        before = frozenset[str]().union(*mine[: at + 1])
        later = outputs.union(*read[at:]) | mine[at]
        alive = (stored[name] for name in sorted(before & later & stored.keys()))
        out.append(sum((_counted(module, size_of(b, real)) for b in alive), _inside(step, real)))
    return out


def largest(candidates: Iterable[Extent]) -> tuple[Extent, ...]:
    """Those that no other one exceeds in every term; equal ones once."""
    found = list(dict.fromkeys(candidates))
    return tuple(x for x in found if not any(y != x and _within(x, y) for y in found))


def _within(small: Extent, large: Extent) -> bool:
    most = dict(large.terms)
    return all(c <= most.get(m, 0) for m, c in small.terms)


def _source(name: str, views: Mapping[str, str]) -> str:
    """The buffer whose memory a view shows."""
    while name in views:
        name = views[name]
    return name


def _inside(step: Step, real: int) -> Extent:
    """The most that one round, or what is done for one request or for a block of rows, has in memory beside what it is
    given; the first of ways to choose from."""
    if not isinstance(step, Loop | PerRequest | RowBlocks):
        return _NOTHING
    found = largest(standing(step.body, first_way(step.body.steps), real))
    return found[0] if found else _NOTHING


def first_way(steps: Iterable[Step]) -> list[Step]:
    """The steps with the first option of each choice."""
    return [s for step in steps for s in (step.bodies[0] if isinstance(step, Choose) else (step,))]


def _counted(module: Module, extent: Extent) -> Extent:
    """The extent with the number of runs, which only the emitted file knows, in terms of the other sizes."""
    return extent.put({s.count: s.onto for s in leaves(module.steps) if isinstance(s, BroadcastView)})


def work(step: Leaf, module: Module, real: int) -> Cost:
    """The cost of a step, which is reckoned for elements of 4 bytes, for others."""
    if isinstance(step, Call):
        return summed(work(inner, module, real) for inner in step.steps)
    if isinstance(step, BroadcastView):
        return FREE
    cost = step.cost
    sliced = isinstance(step, InSlices)  # what is made on the way is read and written near the processor
    read = _scaled(cost.read, step.reads if sliced else takes(step), module.buffers, real)
    written = _scaled(cost.written, step.writes if sliced else makes(step), module.buffers, real)
    tiled = isinstance(step, Kernel) and bool(cost.held.terms)
    tile = held(step.lets, step.axes, max(real, REAL.bytes)) if tiled and isinstance(step, Kernel) else _NOTHING
    return Cost(cost.flops, read, written, _counted(module, tile))


def _scaled(moved: Extent, names: Iterable[str], buffers: Mapping[str, Buffer], real: int) -> Extent:
    """Bytes in which those of the data take another number each; those of whole numbers and of running sums stay."""
    if real == REAL.bytes:
        return moved
    other = [buffers[name] for name in names if name in buffers and buffers[name].element != REAL]
    fixed = sum((size_of(b) for b in other), _NOTHING)
    over = (moved - fixed).over(number(REAL.bytes))
    assert over is not None
    return over * number(real) + sum((size_of(b, real) for b in other), _NOTHING)
