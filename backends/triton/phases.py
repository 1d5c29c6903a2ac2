"""The lets of a kernel by where they stand: once a tile, in a pass over the passed axis, after that pass.

What is carried is merged in the pass that makes it, and everything in that pass may use what is merged so far. A fold
that is not carried is whole only after its pass: what needs it along the passed axis again is a further pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einc.backends.triton.layout import Layout
from einc.ir.plan import Dot, Kernel, Let, PreviousCarry, Reduce, ScatterAdd, Store


@dataclass(frozen=True, slots=True)
class Pass:
    """One loop over the passed axis: its lets, the folds it ends, what is stored in it, and the lets after it."""

    inner: tuple[Let, ...]
    folds: tuple[Let, ...]
    stores: tuple[Store, ...]
    after: tuple[Let, ...]


@dataclass(frozen=True, slots=True)
class Phases:
    """A kernel in the order in which it runs: what stands before its passes, the passes, the stores after them."""

    head: tuple[Let, ...]
    passes: tuple[Pass, ...]
    stores: tuple[Store, ...]


def phases(kernel: Kernel, layout: Layout) -> Phases:
    """Cuts the lets and stores of a kernel into passes over the passed axis, what stands before them, and the stores
    after them. Without such an axis there are no passes.
    """
    dim = layout.role("passed")
    if dim is None:
        return Phases(kernel.lets, (), kernel.stores)
    made = _Cut(kernel, dim.axes)
    inner = [made.inner(n) for n in range(made.count)]
    known = set[str]().union(*inner) | {let.name for let in kernel.lets if made.ends(let)}
    rest = [let for let in kernel.lets if let.name not in known]
    passes = []
    for n in range(made.count):
        lets = tuple(let for let in kernel.lets if let.name in inner[n])
        folds = tuple(let for let in lets if made.ends(let) and (let.carry is not None or not made.whole))
        stores = tuple(s for s in kernel.stores if made.runs(s.value) and made.level[s.value] == n)
        after = tuple(let for let in rest if made.after(let) == n + 1)
        passes.append(Pass(lets, folds, stores, after))
    head = tuple(let for let in rest if made.after(let) == 0)
    return Phases(head, tuple(passes), tuple(s for s in kernel.stores if not made.runs(s.value)))


class _Cut:
    """Levels: how many passes must be over before a let is known. `late` is what depends
    on something merged in a pass."""

    def __init__(self, kernel: Kernel, passed: tuple[str, ...]) -> None:
        """Computes the level of every let; `passed` are the axes that a program passes over in a loop."""
        self.kernel, self.passed = kernel, passed
        self.lets: Mapping[str, Let] = {let.name: let for let in kernel.lets}
        self.whole = kernel.stream is not None  # the plan has made it one pass: what is not carried is a tile's own
        self.level: dict[str, int] = {}
        self.late: set[str] = set()
        for let in kernel.lets:
            below = max((self.level[a] for a in let.reads), default=0)
            self.level[let.name] = below + (self.ends(let) and let.carry is None and not self.whole)
            own = self.whole and (self.ends(let) or isinstance(let.op, PreviousCarry))
            if let.carry is not None or own or any(a in self.late for a in let.reads):
                self.late.add(let.name)
        ends = [self.within(let) for let in kernel.lets if self.ends(let)]
        stored = [self.level[s.value] for s in kernel.stores if self.runs(s.value)]
        self.count = 1 + max([*ends, *stored], default=0)

    def runs(self, name: str) -> bool:
        """Whether a let has one of the axes that the pass goes over."""
        return any(a in self.lets[name].axes for a in self.passed)

    def ends(self, let: Let) -> bool:
        """Whether a let is a fold over the passed axis, or merged tile by tile."""
        folds = isinstance(let.op, Dot | Reduce | ScatterAdd) and any(a in self.passed for a in let.over)
        return folds or let.carry is not None

    def within(self, let: Let) -> int:
        """The pass that a fold is made in."""
        return self.level[let.name] - (let.carry is None and not self.whole)

    def after(self, let: Let) -> int:
        """How many passes have to run before a let that belongs to no pass can be computed."""
        return min(self.count, max(self.level[let.name], int(let.name in self.late)))

    def inner(self, n: int) -> set[str]:
        """What pass n computes on the way to its folds and stores."""
        stack = [let.name for let in self.kernel.lets
                 if self.ends(let) and self.within(let) == n and (let.carry or not self.whole)]
        stack += [s.value for s in self.kernel.stores if self.runs(s.value) and self.level[s.value] == n]
        out: set[str] = set()
        while stack:
            name = stack.pop()
            if name not in out:
                out.add(name)
                stack += [a for a in self.lets[name].reads if self.runs(a) or a in self.late]
        return out
