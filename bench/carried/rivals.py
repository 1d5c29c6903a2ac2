"""The rivals on a GPU: torch's kernel by each of its back ends, compiled FlexAttention, eager and compiled torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench.attention import Attention
from bench.case import CannotError, Prepared, Task


def by(backend: SDPBackend) -> Callable[[Task], Prepared]:
    """The library's call, restricted to one back end."""
    def prepare(task: Task) -> Prepared:
        ready = task.case.library(task)

        def call() -> torch.Tensor:
            try:
                with sdpa_kernel(backend):
                    return ready.call()
            except RuntimeError as error:
                if str(error).startswith(("No available kernel", "No viable backend")):
                    raise CannotError("has no kernel for this") from None
                raise

        return Prepared(call, ready.held)

    return prepare


def anew(task: Task) -> Prepared:
    if not isinstance(task.case, Attention):
        raise CannotError("needs no table of blocks")
    return task.case.flex_anew(task)


def best(task: Task) -> Prepared:
    """FlexAttention compiled with the tiles that torch finds by timing."""
    if not isinstance(task.case, Attention):
        raise CannotError("is tuned for attention alone")
    return task.case.flex(task, "max-autotune-no-cudagraphs")


RIVALS: dict[str, Callable[[Task], Prepared]] = {
    "sdpa": lambda task: task.case.library(task),
    "sdpa-flash": by(SDPBackend.FLASH_ATTENTION),
    "sdpa-cudnn": by(SDPBackend.CUDNN_ATTENTION),
    "flex": lambda task: task.case.flex(task),
    "flex-tuned": best,
    "flex-mask": anew,
    "eager": lambda task: task.case.eager(task),
    "compiled": lambda task: task.case.naive(task),
}
COMPILED = frozenset({"flex", "flex-tuned", "flex-mask", "compiled"})
