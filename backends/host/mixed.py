"""A kernel that a back end cannot write is written by another one, in the same file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from einc.backends.host.legal import Unspelled, legal
from einc.backends.host.loops import Dialect, Page
from einc.backends.host.source import Part, defines
from einc.ir.backend import Spells, Writable
from einc.ir.elements import Kind
from einc.ir.folds import FOLDS
from einc.ir.plan import Contract, InSlices, Kernel, Let, Module, Reduce, Scan


def writes(kernel: Kernel, spells: Spells) -> bool:
    """Whether a back end can write all that a kernel computes, folds and stores, after
    what it does not spell is expanded."""
    try:
        kernel = legal(kernel, spells)
    except Unspelled:
        return False
    kinds = {let.name: let.kind for let in kernel.lets}
    lets = all(spells(what, kind) for let in kernel.lets for what, kind in _asked(let))
    return lets and all(spells(FOLDS[store.merge], kinds[store.value]) for store in kernel.merged)


def _asked(let: Let) -> Iterator[tuple[Writable, Kind]]:
    """The operation of a let and the folds in it, each with its element type."""
    yield type(let.op), let.kind
    if isinstance(let.op, Reduce | Scan):
        yield FOLDS[let.op.fold], let.kind
    if let.carry is not None:
        yield FOLDS[let.carry.fold], let.kind


@dataclass(frozen=True)
class Mixed:
    """The dialect `first` for the kernels that it is `able` to write, and `other` for the rest. A helper that both have
    must come from one module, or have one generated text.
    """

    first: Dialect
    other: Dialect
    able: Callable[[Kernel], bool]

    def __post_init__(self) -> None:
        found = Counter(name for part in self.runtime for name in defines(part))
        clash = [name for name, count in found.items() if count > 1]
        assert not clash, f"two helpers have one name: {', '.join(sorted(clash))}"

    @property
    def needs(self) -> str:
        """What the file imports, as the first dialect says it."""
        return self.first.needs

    @property
    def imports(self) -> tuple[str, ...]:
        """The import lines of both dialects, each once, those of the first one before the others."""
        return tuple(dict.fromkeys((*self.first.imports, *self.other.imports)))

    @property
    def runtime(self) -> tuple[Part, ...]:
        """Where the helpers of both dialects come from, each place once; those of `other` stand first in the file."""
        return tuple(dict.fromkeys((*self.other.runtime, *self.first.runtime)))

    def types(self, module: Module) -> list[str]:
        """The statements on types that either of the two dialects needs, each once."""
        return list(dict.fromkeys((*self.first.types(module), *self.other.types(module))))

    def kernel(self, kernel: Kernel, page: Page) -> None:
        """Writes the kernel in the dialect that can write it."""
        self._of(kernel).kernel(kernel, page)

    def contracted(self, step: Contract | InSlices, page: Page) -> bool:
        """Writes contractions as the first dialect does, where that has statements of its own."""
        return self.first.contracted(step, page)

    def ahead(self, kernel: Kernel, page: Page) -> str:
        """The condition under which the kernel is preferred, of the dialect that writes it."""
        return self._of(kernel).ahead(kernel, page)

    def streams(self, module: Module, kernel: Kernel, buffer: str, axis: int) -> bool:
        """Whether the kernel takes the buffer tile by tile along the axis, by the dialect that writes it."""
        return self._of(kernel).streams(module, kernel, buffer, axis)

    def definitions(self) -> list[str]:
        """The definitions of the first dialect, then those of the other."""
        return [*self.first.definitions(), *self.other.definitions()]

    def _of(self, kernel: Kernel) -> Dialect:
        return self.first if self.able(kernel) else self.other
