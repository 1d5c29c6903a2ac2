"""A step of a plan in words: what kind of step it is, what it makes, from what, and what is said below that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from einc.ir.indices import Extent
from einc.ir.plan import (
    Append,
    BroadcastView,
    Call,
    Concat,
    Contract,
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
    cost = step.cost
    match step:
        case Contract():
            return Row((name, "contract", step.out, listed(step.reads)), cost)
        case TopK():
            said = (f"{step.count} of {step.set.extent} are chosen; what is read at these alone is computed for these "
                    f"alone")
            return Row((name, "pick", step.out, step.operand), cost, (said,))
        case GroupedMatmul():
            said = f"group by group of {step.names}"
            said += f"; for all {step.set.extent}: {step.instead} flops" if step.instead else ""
            return Row((name, "contract", step.out, listed(step.reads[1:])), cost, (said,))
        case SegmentSum():
            named = listed(ids for ids, _, _ in step.names)
            given = listed([*(b for b, _ in step.operands), named])
            return Row((name, "sum", step.out, given), cost, (f"rows sorted by {named}",))
        case BroadcastView():
            said = f"by {step.count}; a copy unless {step.onto} divides {step.of}"
            return Row((name, "view", step.out, step.operand), cost, (said,))
        case Recurrence():
            known, unknown, reads = step.vectors.known, step.vectors.unknown, len(step.vectors.after)
            said = f"affine in {step.writes[-1]}: {known} known and {unknown} unknown writes a position, "
            said += f"{reads} reads; tiles of {step.tile}"
            said += ", a triangular system in each" * (unknown > 0) + ", for each request" * step.ragged
            return Row((name, "recur", listed(step.writes), listed(step.reads)), cost, (said,))
        case StateScan():
            said = (f"every element of {step.writes[-1]} goes its own way, stretches of √{step.extents[0][1]} side by "
                    f"side{', for each request' * step.ragged}")
            return Row((name, "recur", listed(step.writes), listed(step.reads)), cost, (said,))
        case Concat() | Append():
            return Row((name, "concat", step.out, listed(step.reads)), cost)
        case Call():
            called = f"{step.library.call.split('(')[0]} where {condition(step)} ({step.library.name}); else"
            results, operands_ = listed(step.writes), listed(step.reads)
            own = (line for s in step.steps for line in (_pass(s) if isinstance(s, Kernel) else (f"contract {s.out}",)))
            return Row((name, "call", results, operands_), cost, (called, *own))
        case Kernel():
            return Row((name, "kernel", listed(step.writes), listed(step.reads)), cost, _pass(step))


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
