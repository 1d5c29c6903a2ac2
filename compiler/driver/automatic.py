"""The back end `auto`: which one computes is decided at the call, by the device of the tensors and what compiling would
pay.

On the CPU the file of the back end `cpp` runs: its statements are torch's until calls would, by estimate, have saved
the time that a C++ compiler takes. Where a tensor lies on a GPU, Triton's kernels run, which are written at the first
such call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from inspect import unwrap
from typing import Any

from einc.driver import back_ends
from einc.ir.plan import Leaf, Module

CPU, GPU = "cpp", "triton"
PATIENCE = 2.0  # seconds: about what a compiler takes for the kernels of a file
# Seconds that one operation of a kernel saves, over threads: `python -m bench` recorded 48 operations in a nanosecond
# and thread for torch's statements and 87 for compiled kernels (float32, two threads); 1/48 - 1/87 is 0.0093.
GAIN = 1e-11
OPERATIONS = PATIENCE / GAIN  # of a thread, which calls have to have before kernels are compiled


def function(source: str, entry: str, elsewhere: Callable[[], Callable[..., Any]] | None) -> Callable[..., Any]:
    """The function of a file of the back end for the CPU. What `elsewhere` gives takes calls with tensors on a GPU; it
    is asked for at the first of them.
    """
    here = back_ends.load(source, entry, "torch")  # a machine without a compiler computes with torch's statements
    names = unwrap(here).__globals__
    if "_NATIVE_PATIENCE" in names:
        names["_NATIVE_PATIENCE"][0] = OPERATIONS
    if elsewhere is None:
        return here
    there, tensor = cache(elsewhere), names["torch"].Tensor

    @wraps(here)
    def run(*values: Any, **given: Any) -> Any:
        on_gpu = any(isinstance(x, tensor) and x.is_cuda for x in (*values, *given.values()))
        return (there() if on_gpu else here)(*values, **given)

    return run


def compiled(step: Leaf, module: Module) -> bool:
    """Whether a step of a plan has a kernel that may be compiled on the CPU."""
    found: bool = import_module(back_ends.record(CPU).emit).compiled(step, module)
    return found


def load(source: str, entry: str) -> Callable[..., Any]:
    """The function of a file as it stands, which no compiler need be there for."""
    return back_ends.load(source, entry, "torch")


def _place() -> str:
    """The back end for what torch finds here; Triton itself is loaded only where there is a GPU."""
    return GPU if import_module("einc.backends.host.load").has_gpu() else CPU


def device(dtype: str) -> str:
    """Where tensors of the type are put when nobody says where: on a GPU if there is one."""
    return back_ends.runner(_place()).device(dtype)


def settle() -> None:
    """Waits for the work that was started."""
    back_ends.runner(_place()).settle()
