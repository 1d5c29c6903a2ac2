"""The back end `auto`: which one computes is decided at the call, by the device of the tensors and what compiling would pay.

On the CPU the file of the back end `cpp` runs: its statements are torch's until calls would, by estimate, have saved the time
that a C++ compiler takes. Where a tensor lies on a GPU, Triton's kernels run, which are written at the first such call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib import import_module
from inspect import unwrap
from typing import Any

from einc.driver import back_ends
from einc.driver.options import Options
from einc.ir.programs import TypedProgram

CPU, GPU = "cpp", "triton"
PATIENCE = 2.0  # seconds: about what a compiler takes for the kernels of a file


def function(source: str, entry: str, program: TypedProgram, options: Options) -> Callable[..., Any]:
    """The function of a file of the back end for the CPU, which hands calls with tensors on a GPU to the back end for that."""
    here = back_ends.load(source, entry, "torch")  # a machine without a compiler computes with torch's statements
    names = unwrap(here).__globals__
    if "_NATIVE_PATIENCE" in names:
        names["_NATIVE_PATIENCE"][0] = PATIENCE
    if options.serves or options.module or options.tune:
        return here
    there: list[Callable[..., Any]] = []

    @wraps(here)
    def run(*cache: Any, **given: Any) -> Any:
        if not any(getattr(x, "is_cuda", False) for x in given.values()):
            return here(*cache, **given)
        if not there:
            made = import_module("einc.driver.compiling").built(program, replace(options, backend=GPU))
            there.append(made.function)
        return there[0](*cache, **given)

    return run


def load(source: str, entry: str) -> Callable[..., Any]:
    """The function of a file as it stands, which no compiler need be there for."""
    return back_ends.load(source, entry, "torch")


def device(dtype: str) -> str:
    """Where tensors of the type are put when nobody says where: on a GPU if there is one."""
    torch = import_module("torch")
    return str(back_ends.runner(GPU).device(dtype)) if torch.cuda.is_available() else back_ends.runner(CPU).device(dtype)


def settle() -> None:
    """Waits for the work that was started."""
    torch = import_module("torch")
    back_ends.runner(GPU if torch.cuda.is_available() else CPU).settle()
