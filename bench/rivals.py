"""The rivals: ways to do a case. Each makes a task ready to be called, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

import einc
from bench.case import DTYPES, CannotError, Prepared, Task


@dataclass(frozen=True)
class Rival:
    name: str
    title: str
    prepare: Callable[[Task], Prepared]


def ours(task: Task, backend: str = "torch", narrow: bool = False, own: bool = False) -> Prepared:
    """The front door's module, from the spec each time: the first call pays for the compiler."""
    module = einc.compile(task.case.spec, backend, narrow=narrow, own=own)
    given = {**task.tensors, **{name: task.sizes[name] for name in task.case.asks}}
    return Prepared(lambda: module(**given))


@cache
def onednn_is_exact() -> bool:
    """Whether float32 products by the oneDNN route are as near to float64 as by the default one; on some
    machines they are computed in bfloat16."""
    a, b = torch.randn(8, 256, 64), torch.randn(8, 64, 512)
    wanted = a.double() @ b.double()
    plain = float((a @ b - wanted).abs().max())
    return float((onednn(lambda: a @ b)() - wanted).abs().max()) <= 2 * plain


def onednn(call: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """The call with float32 products by the oneDNN route: a switch of the process that a
    user may set around any module."""
    route: Any = torch.backends.mkldnn
    route = route.matmul

    def switched() -> torch.Tensor:
        before = route.fp32_precision
        route.fp32_precision = "bf16"
        try:
            return call()
        finally:
            route.fp32_precision = before

    return switched


def ours_cpp(task: Task) -> Prepared:
    try:
        return ours(task, "cpp")
    except einc.EincError as error:
        raise CannotError("no C++ compiler is here") from error


def ours_own(task: Task) -> Prepared:
    if "one call of the library" not in einc.compile(task.case.spec, "torch").source:
        raise CannotError("the plan calls no library")
    return ours(task, own=True)


def ours_narrow(task: Task) -> Prepared:
    if DTYPES[task.dtype].itemsize > 2:
        raise CannotError("is for half types")
    return ours(task, narrow=True)


def ours_onednn(task: Task) -> Prepared:
    if task.dtype != "float32":
        raise CannotError("the route is for float32")
    if not onednn_is_exact():
        raise CannotError("the route is not exact on this machine")
    return Prepared(onednn(ours(task, own=True).call))


# The library's kernel: scaled_dot_product_attention wherever it is attention, else its chunked linear_cross_entropy.
RIVALS = (
    Rival("einc", "ours", ours),
    Rival("einc-cpp", "ours, kernels in C++", ours_cpp),
    Rival("einc-onednn", "ours, products by oneDNN", ours_onednn),
    Rival("einc-own", "ours, no kernel of the library", ours_own),
    Rival("einc-narrow", "ours, every product rounded", ours_narrow),
    Rival("library", "scaled_dot_product_attention", lambda task: task.case.library(task)),
    Rival("flex", "FlexAttention, compiled", lambda task: task.case.flex(task)),
    Rival("naive", "einsum, compiled", lambda task: task.case.naive(task)),
    Rival("eager", "softmax(QKᵀ)V", lambda task: task.case.eager(task)),
)
REFERENCES = ("library", "eager")  # ratios are to the first of these that did the case

BY_NAME = {rival.name: rival for rival in RIVALS}
