"""Contractions that are done for a slice of an axis at a time.

Of the sum over blocks of scaled products, Σ_b σ ω Σ_u x w, the products of one block are larger than anything that they
are made of, and b times as many as what they are summed to. And an operand of few bits that meets data is widened
first, to several times its size. In slices of an axis neither is ever there as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from einc.ir.indices import Extent
from einc.ir.plan import AxisRef, Buffer, Contract, Cost, Flatten, InSlices, Leaf, Subscript, takes
from einc.planning.analysis.cost import size_of, volume


def in_slices(steps: Sequence[Leaf], buffers: Mapping[str, Buffer], kept: Set[str]) -> list[Leaf]:
    """The steps, in which contractions that make or widen large values are done slice by slice; what is `kept` is made
    as a whole."""
    used = Counter(name for step in steps for name in takes(step))
    made = {step.out: step for step in steps if isinstance(step, Contract)}
    found: dict[str, InSlices] = {}
    gone: set[str] = set()
    for step in made.values():
        inner = [one for name in step.reads if (one := made.get(name)) and used[name] == 1]
        inner = [one for one in inner if one.out not in {*kept, *gone, *found}]
        if (sliced := next((pair for one in inner if (pair := _summed(one, step, buffers)) is not None), None)):
            found[step.out] = sliced
            gone |= {one.out for one in sliced.contractions[:-1]}
    for step in made.values():
        if step.out not in {*found, *gone} and (sliced := _widened(step, buffers)) is not None:
            found[step.out] = sliced
    return [found.get(s.out, s) if isinstance(s, Contract) else s
            for s in steps if not (isinstance(s, Contract) and s.out in gone)]


def _summed(first: Contract, then: Contract, buffers: Mapping[str, Buffer]) -> InSlices | None:
    """A contraction and the sum over its results as one step; None where these are no larger than an operand or than
    the sum, as in a chain of matrices, or where they are not read as they lie."""
    at = then.reads.index(first.out)
    refs = [sub.axis for sub in then.views[at] if isinstance(sub, AxisRef)]
    if (then.reads.count(first.out) > 1 or len(refs) < len(then.views[at]) or {*first.slots} != {1}
            or any({*first.axes} <= {*letters} for letters in first.letters) or not {*then.axes} <= {*refs}):
        return None
    names = [(mine, theirs) for mine, theirs in zip(first.axes, refs, strict=True) if theirs not in then.axes]
    if not names:
        return None
    extent = buffers[first.out].sets[first.axes.index(names[0][0])].extent
    flops = first.cost.flops + then.cost.flops
    reads = (*first.reads, *(name for name in then.reads if name != first.out))
    return _of((first, then), names[0], extent, reads, flops, buffers)


def _widened(step: Contract, buffers: Mapping[str, Buffer]) -> InSlices | None:
    """A product of a matrix of few bits and of data in slices of the matrix, along the axis by which these lie one
    after the other in memory; None where it is something else."""
    few = [n for n, name in enumerate(step.reads) if buffers[name].element.narrow is not None]
    if len(step.reads) != 2 or len(few) != 1 or len(step.views[few[0]]) < 2:
        return None
    outer = _outer(step.views[few[0]][0], buffers[step.reads[few[0]]])
    if outer is None or (outer[0] in step.axes and not _own_slot(step, outer[0])):
        return None
    return _of((step,), (outer[0],), outer[1], step.reads, step.cost.flops, buffers)


def _outer(sub: Subscript, buffer: Buffer) -> tuple[str, Extent] | None:
    """The outermost letter of the first slot of a buffer and its extent; None where the slot is read in part."""
    match sub:
        case AxisRef(axis):
            return axis, buffer.sets[0].extent
        case Flatten((AxisRef(axis), *_), sets):
            return axis, sets[0].extent
    return None


def _own_slot(step: Contract, axis: str) -> bool:
    """Whether a slot of the result is made of one axis alone."""
    before, at = 0, step.axes.index(axis)
    for count in step.slots:
        if before == at and count == 1:
            return True
        before += count
    return False


def _of(steps: tuple[Contract, ...], along: tuple[str, ...], extent: Extent, reads: tuple[str, ...], flops: Extent,
        buffers: Mapping[str, Buffer]) -> InSlices:
    """Contractions in slices of an axis of this extent. What is read and written is what lies outside."""
    out = steps[-1].out
    large = [name for name in reads if buffers[name].element.narrow is not None] + [one.out for one in steps[:-1]]
    each = dict.fromkeys(found for name in large if (found := volume(buffers[name].sets).over(extent)) is not None)
    read = sum((size_of(buffers[name]) for name in dict.fromkeys(reads)), start=Extent(()))
    return InSlices(reads=reads, writes=(out,), texts=tuple(one.text for one in steps), bodies=(steps,), along=along,
                    extent=extent, each=tuple(each), cost=Cost(flops, read, size_of(buffers[out]), Extent(())))
