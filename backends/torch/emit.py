"""Plan -> the text of a Python file that needs torch alone."""

from __future__ import annotations

from einc.backends.host import folding
from einc.backends.host.contractions import from_bytes, named_types
from einc.backends.host.file import write_file
from einc.backends.host.legal import legal
from einc.backends.host.loops import Page
from einc.backends.host.recurrences import by_torch
from einc.backends.host.source import Source
from einc.backends.host.spelled import spells
from einc.backends.torch.expressions import Scribe
from einc.backends.torch.loads import Reader
from einc.backends.torch.ownership import spent
from einc.backends.torch.passing import in_tiles
from einc.backends.torch.stores import merged, results
from einc.backends.torch.tiles import write_kernel
from einc.backends.writer import Names, identifier
from einc.ir.plan import (
    Call,
    Contract,
    Dot,
    Gradient,
    InSlices,
    Kernel,
    Load,
    Module,
    ModuleClass,
    PerRank,
    SegmentedModule,
    leaves,
)


def emit(plan: Module | Gradient | SegmentedModule | PerRank, module_class: ModuleClass | None = None) -> str:
    """The text of the whole file of a plan, with a class of torch where there is a `module_class`."""
    return write_file(plan, Torch(), module_class)


class Torch:
    """Kernels as loops over tiles in Python. Another back end may write those in it that it cannot write itself."""

    needs = "torch alone"
    imports: tuple[str, ...] = ("import torch",)
    runtime = (
        *(Source(f"einc.backends.torch.runtime.{name}")
          for name in ("products", "folds", "chance", "powers", "rounding")),
        *folding.RUNTIME,
    )

    recurrence = staticmethod(by_torch)

    def types(self, module: Module) -> list[str]:
        """The element types that the kernels compute in."""
        kernels = [s for step in leaves(module.steps) for s in (step.steps if isinstance(step, Call) else (step,))
                   if isinstance(s, Kernel)]
        tiled = [k for k in kernels if k.grid is not None or k.stream is not None]
        may_round = any(isinstance(let.op, Dot) and let.op.may_round for k in tiled for let in k.lets)
        return named_types(module, wide=bool(kernels), ranged=may_round)

    def kernel(self, kernel: Kernel, page: Page) -> None:
        """Writes the loops of a kernel, where it stands."""
        kernel = in_tiles(legal(kernel, spells))
        scribe = Scribe(page.module, kernel, page.names, page.helpers, write=page.body, places=page.places)
        scribe.stored.spent = spent(page.module, kernel, page.passed)
        scribe.stored.laid = frozenset(page.laid.axes) if page.laid is not None else frozenset()
        for name in kernel.reads:
            if (buffer := page.module.buffers[name]).element.shared:
                codes = scribe.stored.casts[name] = page.names.fresh(f"{name}_codes")
                page.body(f"{codes} = {from_bytes(buffer, identifier(name), page.helpers)}")
        write_kernel(page.module, kernel, page.body, scribe)

    def contracted(self, step: Contract | InSlices, page: Page) -> bool:
        """False: this dialect writes every contraction as a call of torch."""
        del step, page
        return False

    def allotted(self, kernel: Kernel, page: Page) -> None:
        """Writes memory for the results of a kernel of tiles, under their names."""
        results(page.module, kernel, page.body, page.helpers)

    def grown(self, kernel: Kernel, page: Page) -> bool:
        """Writes what follows the last tile: results to which tiles have added, in the type of the data.
        False for none.
        """
        before = len(page.body.lines)
        merged(page.module, kernel, page.body)
        return len(page.body.lines) > before

    def ahead(self, kernel: Kernel, page: Page) -> str:
        """Nowhere: the rows of the library say where it is the faster one."""
        del kernel, page
        return ""

    def streams(self, module: Module, kernel: Kernel, buffer: str, axis: int) -> bool:
        """Where every load of it follows the streamed axis there, and nothing of it is
        read to find the ends of tiles."""
        loads = [let for let in kernel.lets if isinstance(let.op, Load) and let.op.buffer == buffer]
        reader = Reader(module, kernel, Names(set()), set())
        return buffer not in kernel.searched and all(reader.follows(load, axis) for load in loads)

    def definitions(self) -> list[str]:
        """Nothing: every kernel stands where it is used."""
        return []
