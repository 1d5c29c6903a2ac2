"""Losses over a vocabulary: what eager code pays is the logits, T × V of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bench.case import DTYPES, CannotError, Entry, Prepared, Sizes, Task, Tensors, room_for


@dataclass(frozen=True)
class LinearCrossEntropy(Entry):
    """Cross-entropy of X (T, F) projected by W (F, V), for the words w; words count from 1, as in the spec."""

    def tensors(self, sizes: Sizes, generator: torch.Generator, spread: float) -> Tensors:
        T, V, F = (sizes[name] for name in "TVF")
        return {"X": torch.randn(T, F, generator=generator) * spread,
                "W": torch.randn(F, V, generator=generator) * F**-0.5,
                "w": torch.randint(1, V + 1, (T,), generator=generator)}

    def eager(self, task: Task) -> Prepared:
        x, words = task.tensors, task.tensors["w"] - 1
        room_for(2 * task.sizes["T"] * task.sizes["V"] * DTYPES[task.dtype].itemsize)
        return Prepared(lambda: cross_entropy(x["X"] @ x["W"], words, reduction="none"))

    def naive(self, task: Task) -> Prepared:
        room_for(2 * task.sizes["T"] * task.sizes["V"] * 4)
        compiled = torch.compile(_loss, dynamic=False)
        return Prepared(lambda: compiled(task.tensors))

    def library(self, task: Task) -> Prepared:
        if not hasattr(nn.functional, "linear_cross_entropy"):
            raise CannotError(f"came after torch {torch.__version__}")
        x, words = task.tensors, task.tensors["w"] - 1
        weight = x["W"].T.contiguous()  # as the library keeps it
        options = nn.LinearCrossEntropyOptions()
        return (Prepared(
            lambda: nn.functional.linear_cross_entropy(x["X"], weight, words, reduction="none", options=options)))

    def flex(self, task: Task) -> Prepared:
        raise CannotError("is attention")

    def rows(self, sizes: Sizes) -> torch.Tensor:
        return torch.arange(0, sizes["T"], max(1, sizes["T"] // 256))

    def exact(self, task: Task, rows: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        x = task.tensors
        return _loss({"X": x["X"][rows].to(dtype), "W": x["W"].to(dtype), "w": x["w"][rows]})

    def picked(self, result: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return result[rows]

    def flops(self, task: Task) -> int:
        return 2 * task.sizes["T"] * task.sizes["V"] * task.sizes["F"]


def _loss(x: Tensors) -> torch.Tensor:
    logits = torch.einsum("tf,fv->tv", x["X"], x["W"])
    return torch.logsumexp(logits, -1) - logits.gather(-1, (x["w"] - 1)[:, None])[:, 0]
