"""Which memory a statement may write over: that of a value which nothing written later reads.

A value is read by lets and by stores. What a statement makes, together with the lets that stand inside its text, is
done once the statement is written. So a value's memory is free for the statement that does the last of its readers, if
it reads the value once, if the memory was made in the same block (the next round of a loop reads what stands before it
again), and if it is the value's alone: what is no new memory may be a view of anything that its statement reads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from einc.ir.plan import Kernel, Load, Module


@dataclass
class Ownership:
    """Which values of a kernel a statement may write over: those of its own memory that nothing reads afterwards."""

    kernel: Kernel
    done: set[str] = field(default_factory=set)  # lets and stores that are written
    made: dict[str, int] = field(default_factory=dict)  # values with memory of their own, and how deep the block stands
    making: set[str] = field(default_factory=set)  # what the statement being written makes
    here: dict[str, int] = field(default_factory=dict)  # how often it reads each variable

    def __post_init__(self) -> None:
        self.readers: dict[str, set[str]] = {}
        for let in self.kernel.lets:
            for name in let.reads:
                self.readers.setdefault(name, set()).add(let.name)
        for store in self.kernel.stores:
            self.readers.setdefault(store.value, set()).add(_store(store.buffer))

    def begin(self, made: set[str], read: dict[str, int]) -> None:
        """Notes that a statement begins: `made` are the lets whose values it makes, `read` is how often it reads each
        variable.
        """
        self.making, self.here = made, read

    def end(self, name: str, depth: int, fresh: bool) -> None:
        """Notes that the statement is written; its value has new memory, or may share that of all it read."""
        self.merged()
        if fresh:
            self.made[name] = depth
        else:
            for shared in self.here:
                self.made.pop(shared, None)

    def merged(self) -> None:
        """Notes that the statement is written; its value went into memory that another holds."""
        self.done |= self.making

    def stored(self, buffer: str) -> None:
        """Notes that the store into a buffer is written, so it no longer counts as a reader that is still to come."""
        self.done.add(_store(buffer))

    def free(self, name: str, depth: int) -> bool:
        """Whether the statement being written may write over the value."""
        once = self.here.get(name) == 1 and self.made.get(name) == depth
        return once and self.readers.get(name, set()) <= self.done | self.making


def spent(module: Module, kernel: Kernel, passed: frozenset[str]) -> frozenset[str]:
    """What a kernel without tiles reads once, of what is `passed` to it alone: it may write over that. What the module
    returns is not, as what lies between two collectives returns what is read behind them.
    """
    if kernel.grid is not None or kernel.stream is not None or len(kernel.stores) != 1:
        return frozenset()
    loads = [(let.op.buffer, let.name) for let in kernel.lets if isinstance(let.op, Load)]
    buffers = [buffer for buffer, _ in loads]
    shown = {key for _, key in module.outputs}
    used = Counter(name for let in kernel.lets for name in let.reads) + Counter(s.value for s in kernel.stores)
    return frozenset(b for b, name in loads if b in passed and buffers.count(b) == used[name] == 1
                     and module.buffers[b].role == "local" and b not in shown)


def _store(buffer: str) -> str:
    return f"{buffer}[]"
