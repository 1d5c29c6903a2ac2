"""Emitted text -> callable, where it runs, and what is told when a kernel fails: its equations and its lines."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from einc.backends.host import load as host
from einc.errors.report import EincError, Help, Problem

_AROUND = 3  # lines shown on each side of the one that failed


def device(dtype: str) -> str:
    """Where tensors of the type are put when nobody says where: the GPU; without one the CPU, for Triton's interpreter.

    EincError where that interpreter computes wrongly: in bfloat16.
    """
    if torch.cuda.is_available():
        return "cuda"
    if dtype == "bfloat16":
        raise EincError([Problem("without a GPU, Triton's interpreter computes wrongly in bfloat16",
                                 helps=(Help("take float32 or float16 to see what a kernel computes"),))])
    return "cpu"


def settle() -> None:
    """Waits for the kernels that were started."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def load(source: str, entry: str) -> Callable[..., Any]:
    """The function `entry` of an emitted module.

    EincError where Triton is not installed. Calls, and gradients, raise RuntimeError where Triton refuses a kernel,
    with its equations and the lines at which it stopped.
    """
    try:
        function = host.load(source, entry)
    except ModuleNotFoundError as error:
        help_ = Help("`pip install 'triton>=3.6'` on Linux, or compile for the torch back end, which runs anywhere")
        raise EincError([Problem(f"{error.name} is not installed, which these kernels are written in",
                                 helps=(help_,))]) from None
    for name, kernel in inspect.unwrap(function).__globals__.items():
        if type(kernel).__module__.startswith("triton.") and f"\ndef {name}(\n" in source:
            kernel.run = _telling(kernel.run, name, source, host.filename(source, entry))
    return function


def _telling(run: Callable[..., Any], kernel: str, source: str, name: str) -> Callable[..., Any]:
    """The way a kernel runs, whoever starts it: a function, the gradient of one, a class."""

    @wraps(run)
    def told(*values: Any, **named: Any) -> Any:
        try:
            return run(*values, **named)
        except Exception as error:
            text = None if named.get("warmup") else _failure_text(error, kernel, source, name)
            if text is None:
                raise
            raise RuntimeError(text) from error

    return told


def _failure_text(error: BaseException, kernel: str, source: str, name: str) -> str | None:
    """The kernel, its equations, and its lines around the failure; None for errors that are not Triton's."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    if not any(type(e).__module__.startswith("triton") for e in chain):
        return None
    lines = source.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"def {kernel}("))
    node = next((n for e in chain if (n := getattr(getattr(e, "node", None), "lineno", None))), None)
    frames = (frame for e in chain for frame in traceback.extract_tb(e.__traceback__) if frame.filename == name)
    inner = [line for frame in frames if (line := frame.lineno or 0) > start + 1]
    at = start - 1 + node if node is not None else inner[-1] - 1 if inner else None  # Triton counts from the decorator
    reason = str(chain[-1]).strip().splitlines()
    out = [f"the kernel {kernel} failed: {reason[-1] if reason else type(chain[-1]).__name__}",
           *_equations(lines, start)]
    if at is not None:
        shown = range(max(start, at - _AROUND), min(len(lines), at + _AROUND + 1))
        out += ["the lines:", *(f"{'>' if n == at else ' '} {n + 1:5} {lines[n]}" for n in shown)]
    return "\n".join(out)


def _equations(lines: list[str], start: int) -> list[str]:
    """The text of a kernel that says what it computes."""
    first = next((n for n in range(start, len(lines)) if lines[n].strip().startswith('r"""')), None)
    if first is None:
        return []
    last = next(n for n in range(first + 1, len(lines)) if lines[n].strip().endswith('"""'))
    told = [lines[first].strip().removeprefix('r"""'), *(line.strip() for line in lines[first + 1 : last])]
    return ["it computes:", *(f"  {line}" for line in told)]
