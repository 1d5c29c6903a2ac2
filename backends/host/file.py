"""The whole file of a plan, whatever the plan is of."""

from __future__ import annotations

from typing import assert_never

from einc.backends.host.gradient import write_gradient
from einc.backends.host.loops import Dialect
from einc.backends.host.module import write
from einc.backends.host.stages import write_ranks
from einc.ir.plan import Gradient, Module, ModuleClass, PerRank, SegmentedModule


def write_file(plan: Module | Gradient | SegmentedModule | PerRank, dialect: Dialect,
               module_class: ModuleClass | None = None) -> str:
    """The text of the whole file of a plan, its kernels in a dialect: of one function, of a function with its gradient,
    or of what each rank runs. With a `module_class` the file has a class of torch, too.
    """
    match plan:
        case PerRank():
            return write_ranks(plan, dialect, module_class)
        case Gradient() | SegmentedModule():
            return write_gradient(plan, dialect, module_class)
        case Module():
            return write(plan, dialect, module_class)
        case _:
            assert_never(plan)
