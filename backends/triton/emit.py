"""Plan -> the text of a Python file that needs torch and triton."""

from __future__ import annotations

from einc.backends.host import folding
from einc.backends.host.contractions import contract, named_types
from einc.backends.host.file import write_file
from einc.backends.host.legal import legal
from einc.backends.host.loops import Page
from einc.backends.host.recurrences import by_torch
from einc.backends.host.source import Source
from einc.backends.triton.absolute import shortened
from einc.backends.triton.launch import launch
from einc.backends.triton.layout import follows
from einc.backends.triton.spelling import definitions, spells
from einc.backends.writer import sized
from einc.ir.plan import (
    BroadcastView,
    Call,
    Contract,
    Gradient,
    InSlices,
    Kernel,
    Leaf,
    Module,
    ModuleClass,
    PerRank,
    SegmentedModule,
    leaves,
    product_kernel,
)


def emit(plan: Module | Gradient | SegmentedModule | PerRank, module_class: ModuleClass | None = None) -> str:
    """The text of the whole file of a plan, with a class of torch where there is a `module_class`."""
    return write_file(plan, _Triton(), module_class)


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
        kernels = any(isinstance(step, Kernel | BroadcastView | Call) or _widening(step, module)
                      for step in leaves(module.steps))
        return ["_ready(device, dtype)"] * kernels + named_types(module, wide=kernels)

    def kernel(self, kernel: Kernel, page: Page) -> None:
        """Writes a call; the function itself stands after the entry."""
        self.lines += launch(shortened(legal(kernel, spells)), page)

    def contracted(self, step: Contract | InSlices, page: Page) -> bool:
        """Writes a kernel for a product of few bits with data: its tiles widen the few bits, and nothing else does. Of
        products of blocks that are summed after it, where they are no more than the few bits themselves.
        """
        module, body = page.module, page.body
        found = _widening(step, module)
        if found is None:
            return False
        kernel, (first, *others) = found
        if not others:
            self.kernel(kernel, page)
            return True
        made, given = (" * ".join(sized(s.extent, tight=True) for s in module.buffers[name].sets)
                       for name in (first.out, _few(first, module)[0]))
        body.open(f"if {made} <= {given}:")
        self.kernel(kernel, page)
        for one in others:
            contract(module, one, body, page.names, page.helpers)
        body.close()
        body.open("else:")
        contract(module, step, body, page.names, page.helpers)
        body.close()
        return True

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


def _few(step: Contract, module: Module) -> list[str]:
    """The operands of few bits."""
    return [name for name in step.reads if module.buffers[name].element.narrow is not None]


def _widening(step: Leaf, module: Module) -> tuple[Kernel, tuple[Contract, ...]] | None:
    """The kernel of a product of few bits with data, and the contractions of which it does the first; None where a step
    is something else."""
    if not isinstance(step, Contract | InSlices):
        return None
    found = step.contractions if isinstance(step, InSlices) else (step,)
    kernel = product_kernel(found[0], module.buffers) if len(_few(found[0], module)) == 1 else None
    return None if kernel is None else (kernel, found)
