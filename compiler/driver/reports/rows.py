"""A step of a plan in words: what kind of step it is, what it makes, from what, and what is said below that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from einc.ir.indices import Extent
from einc.ir.plan import (
    BroadcastView,
    Call,
    Cost,
    GroupedMatmul,
    Kernel,
    Leaf,
    Recurrence,
    SegmentSum,
    StateScan,
    TopK,
)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table and what is said below it. Two texts are those before the names and one in their place."""

    texts: tuple[str, ...]
    cost: Cost | None = None
    below: tuple[str, ...] = ()

    @property
    def figures(self) -> tuple[Extent, ...]:
        """The operations, the bytes that are read and those that are written."""
        return (self.cost.flops, self.cost.read, self.cost.written) if self.cost else ()


def row_of(name: str, step: Leaf) -> Row:
    """The row of one step: what it makes, from what, its cost, and what is said below it."""
    match step:
        case GroupedMatmul():
            given = listed(step.reads[1:])
        case SegmentSum():
            given = listed([*(b for b, _ in step.operands), *(ids for ids, _, _ in step.names)])
        case _:
            given = listed(step.reads)
    return Row((name, step.does, listed(step.writes), given), step.cost, tuple(_below(step)))


def _below(step: Leaf) -> Iterator[str]:
    """What is said below the row of a step; nothing of a kind of step that has no words of its own here."""
    match step:
        case TopK():
            yield (f"{step.count} of {step.set.extent} are chosen; what is read at these alone is computed for these "
                   f"alone")
        case GroupedMatmul():
            instead = f"; for all {step.set.extent}: {step.instead} flops" if step.instead else ""
            yield f"group by group of {step.names}{instead}"
        case SegmentSum():
            yield f"rows sorted by {listed(ids for ids, _, _ in step.names)}"
        case BroadcastView():
            yield f"by {step.count}; a copy unless {step.onto} divides {step.of}"
        case Recurrence():
            known, unknown, reads = step.vectors.known, step.vectors.unknown, len(step.vectors.after)
            said = f"affine in {step.writes[-1]}: {known} known and {unknown} unknown writes a position, "
            said += f"{reads} reads; tiles of {step.tile}"
            yield said + ", a triangular system in each" * (unknown > 0) + ", for each request" * step.ragged
        case StateScan():
            yield (f"every element of {step.writes[-1]} goes its own way, stretches of √{step.extents[0][1]} side by "
                   f"side{', for each request' * step.ragged}")
        case Call():
            yield f"{step.library.call.split('(')[0]} where {condition(step)} ({step.library.name}); else"
            for inner in step.steps:
                yield from _pass(inner) if isinstance(inner, Kernel) else (f"contract {inner.out}",)
        case Kernel():
            yield from _pass(step)


def listed(names: Iterable[str]) -> str:
    """The names with commas between them, each once."""
    return ", ".join(dict.fromkeys(names))


def _pass(kernel: Kernel) -> tuple[str, ...]:
    """The loops of a kernel in tiles, what passes from one tile to the next, and what is never stored."""
    said = passing(kernel)
    return (*([said] if said else []), *kernel.notes)


def passing(kernel: Kernel) -> str:
    """The loops of a kernel in tiles and what passes from one tile to the next; empty where it has neither."""
    said = [f"tiles of {kernel.grid.name}{' in order' * (kernel.resumed is not None)}"] if kernel.grid else []
    if kernel.stream is not None:
        said.append(f"one pass over {kernel.stream.name}")
    elif kernel.resumed is not None:
        said.append(f"each going on along {kernel.resumed.name}")
    carried = [let.name for let in kernel.lets if let.carry is not None]
    said += [f"carries {', '.join(carried)}"] if carried else []
    said += [f"shares of {listed(s.buffer for s in kernel.merged)}"] if kernel.merged else []
    ranged = [a.name for a in kernel.axes if a.bound and not a.bound.resumes]
    said += [f"range of {', '.join(ranged)} per tile"] if ranged else []
    return "; ".join(said)


def condition(step: Call) -> str:
    """Where a call is made, in the words of the program."""
    buffers = {key: buffer for key, buffer, _ in step.given}
    return step.library.where.format(**buffers, **{name: str(x) for name, x in step.sizes})
