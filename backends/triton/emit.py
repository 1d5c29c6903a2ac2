"""Plan -> the text of a Python file that needs torch and triton."""

from __future__ import annotations

from einc.backends.host import folding
from einc.backends.host.contractions import speaks_wide
from einc.backends.host.gradient import write_gradient
from einc.backends.host.legal import legal
from einc.backends.host.loops import Page
from einc.backends.host.module import write
from einc.backends.host.recurrences import by_torch
from einc.backends.host.source import Source
from einc.backends.host.stages import write_ranks
from einc.backends.triton.absolute import shortened
from einc.backends.triton.launch import launch
from einc.backends.triton.layout import follows
from einc.backends.triton.spelling import definitions, spells
from einc.ir.plan import BroadcastView, Call, Gradient, Kernel, Module, ModuleClass, PerRank, SegmentedModule, leaves


def emit(plan: Module | Gradient | SegmentedModule | PerRank, module_class: ModuleClass | None = None) -> str:
    """The whole file."""
    if isinstance(plan, PerRank):
        return write_ranks(plan, _Triton(), module_class)
    if isinstance(plan, Gradient | SegmentedModule):
        return write_gradient(plan, _Triton(), module_class)
    return write(plan, _Triton(), module_class)


class _Triton:
    """Kernels as Triton functions after the entry, started where the plan has them."""

    needs = "torch and triton"
    imports: tuple[str, ...] = ("import torch", "import triton", "import triton.language as tl")
    runtime = (
        *(Source(f"einc.backends.triton.runtime.{name}") for name in ("device", "launch", "tiles")),
        *folding.RUNTIME,
        *definitions(),
    )

    recurrence = staticmethod(by_torch)

    def __init__(self) -> None:
        self.lines: list[str] = []

    def types(self, module: Module) -> list[str]:
        """The element type that the kernels compute in."""
        kernels = any(isinstance(step, Kernel | BroadcastView | Call) for step in leaves(module.steps))
        wide = "wide = torch.float64 if dtype == torch.float64 else torch.float32"
        return ["_ready(device, dtype)"] * kernels + [wide] * (kernels or speaks_wide(module))

    def kernel(self, kernel: Kernel, page: Page) -> None:
        """Writes a call; the function itself stands after the entry."""
        self.lines += launch(shortened(legal(kernel, spells)), page)

    def ahead(self, kernel: Kernel, page: Page) -> str:
        """Nowhere: the rows of the library say where it is the faster one."""
        del kernel, page
        return ""

    def streams(self, module: Module, kernel: Kernel, buffer: str, axis: int) -> bool:
        """Where every load of it follows the passed axis there, and nothing of it is read to find the ends of tiles."""
        return buffer not in kernel.searched and follows(kernel, buffer, axis)

    def definitions(self) -> list[str]:
        """The functions of all kernels."""
        return self.lines
