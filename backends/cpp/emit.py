"""Plan -> the text of a Python file that needs torch alone, and holds the C++ of its kernels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources

from einc.backends.cpp.kernel import function
from einc.backends.cpp.schedule import Unwritten, scheduled
from einc.backends.host.gradient import write_gradient
from einc.backends.host.legal import Unspelled, legal
from einc.backends.host.loops import Page
from einc.backends.host.module import write
from einc.backends.host.source import Part, Source
from einc.backends.host.spelled import spells
from einc.backends.torch.emit import Torch
from einc.backends.writer import sized
from einc.ir.plan import Gradient, Kernel, Module, ModuleClass, SegmentedModule

LEAST_ROWS = 8  # with fewer, most lanes of a vector would be empty


def emit(plan: Module | Gradient | SegmentedModule, shell: ModuleClass | None = None) -> str:
    """The whole file."""
    if isinstance(plan, Gradient | SegmentedModule):
        return write_gradient(plan, Cpp(), shell)
    return write(plan, Cpp(), shell)


@cache
def lanes() -> str:
    """The C++ that every file begins with."""
    return (resources.files("einc.backends.cpp.runtime") / "lanes.h").read_text(encoding="utf-8")


@dataclass
class Cpp:
    """Kernels as C++ functions; torch's statements stand beside each, for where it cannot run."""

    torch: Torch = field(default_factory=Torch)
    functions: list[str] = field(default_factory=list)

    needs = "torch, and compiles its kernels where a C++ compiler is"
    imports: tuple[str, ...] = ("import torch",)

    @property
    def runtime(self) -> tuple[Part, ...]:
        """The helpers of torch's statements, and those that compile and call."""
        return (*self.torch.runtime, Source("einc.backends.cpp.runtime.native"))

    def types(self, module: Module) -> list[str]:
        """As torch's statements need them."""
        return self.torch.types(module)

    def kernel(self, kernel: Kernel, page: Page) -> None:
        """A call of the compiled kernel, and torch's statements for where that cannot run."""
        name = f"k{len(self.functions)}"
        helpers: set[str] = set()
        try:
            made = function(scheduled(legal(kernel, spells)), page.module, name, helpers)
        except (Unwritten, Unspelled):
            self.torch.kernel(kernel, page)
            return
        self.functions.append(made.text)
        page.helpers |= helpers | {"_native"}
        self.torch.allotted(kernel, page)
        rows = sized(kernel.grid.set.extent, tight=True) if kernel.grid is not None else "1"
        page.body.open(f'if {rows} >= {LEAST_ROWS} and _native(_CPP, "{name}", {made.call}, dtype):')
        if not self.torch.grown(kernel, page):
            page.body("pass")
        page.body.close()
        page.body.open("else:")
        self.torch.kernel(kernel, replace(page, places=dict(page.places), wholes=dict(page.wholes)))
        page.body.close()

    def ahead(self, kernel: Kernel, page: Page) -> str:
        """Where the compiled kernel is the faster one."""
        try:
            function(scheduled(legal(kernel, spells)), page.module, "k", set())
        except (Unwritten, Unspelled):
            return ""
        page.helpers.add("_native_ready")
        rows = sized(kernel.grid.set.extent, tight=True) if kernel.grid is not None else "1"
        return f"{rows} >= {LEAST_ROWS} and _native_ready(_CPP, device, dtype)"

    def streams(self, module: Module, kernel: Kernel, buffer: str, axis: int) -> bool:
        """As torch's statements do."""
        return self.torch.streams(module, kernel, buffer, axis)

    def definitions(self) -> list[str]:
        """The text of all compiled kernels."""
        text = "\n".join([lanes(), *self.functions])
        return ["", "", '_CPP = r"""', *text.split("\n"), '"""'] if self.functions else []
