"""Attention forward and backward: the gradients of Q, K and V for a gradient of the result that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from bench.attention import Attention
from bench.case import Prepared, Sizes, Task, Tensors

LEAVES = ("Q", "K", "V")


@dataclass(frozen=True)
class Backward(Attention):
    """A call is one forward and one backward. Of each gradient the first and the last head of the first text are
    compared, which takes logits of all positions in float64."""

    grad = True

    def tensors(self, sizes: Sizes, generator: torch.Generator, spread: float) -> Tensors:
        drawn = super().tensors(sizes, generator, spread)
        return {**drawn, "dY": torch.randn(drawn["Q"].shape, generator=generator)}

    def used(self, function: Callable[..., Any], given: Mapping[str, Any]) -> torch.Tensor:
        leaves = _leaves({name: x for name, x in given.items() if isinstance(x, torch.Tensor)})
        asked = {name: x for name, x in given.items() if name not in leaves}
        read = {name: x for name, x in leaves.items() if name != "dY"}
        return self._differentiated(lambda: function(**read, **asked), leaves)

    def eager(self, task: Task) -> Prepared:
        return self._prepared(task, super().eager)

    def naive(self, task: Task) -> Prepared:
        return self._prepared(task, super().naive)

    def library(self, task: Task) -> Prepared:
        return self._prepared(task, super().library)

    def flex(self, task: Task, mode: str | None = None) -> Prepared:
        forward = super().flex
        return self._prepared(task, lambda task: forward(task, mode))

    def _prepared(self, task: Task, forward: Callable[[Task], Prepared]) -> Prepared:
        """A way of the forward half, and back through it."""
        leaves = _leaves(task.tensors)
        ready = forward(replace(task, tensors=leaves))
        return Prepared(lambda: self._differentiated(ready.call, leaves), ready.held)

    def _differentiated(self, forward: Callable[[], torch.Tensor], leaves: Tensors) -> torch.Tensor:
        with torch.enable_grad():
            value = forward()
        found = torch.autograd.grad(value, [leaves[name] for name in LEAVES], leaves["dY"])
        return torch.stack([x[0, :: max(x.shape[1] - 1, 1)] for x in found])  # a slice: it copies nothing to the device

    # the exact answer

    def rows(self, sizes: Sizes) -> torch.Tensor:
        return torch.tensor(sorted({0, sizes["H"] - 1}))

    def exact(self, task: Task, rows: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        some = {name: x[:1, rows].to(dtype) for name, x in task.tensors.items()}
        count = len(rows)
        whole = replace(task, sizes={**task.sizes, "B": 1, "H": count}, tensors=_leaves(some))
        with torch.enable_grad():
            value = super().exact(whole, torch.arange(task.sizes["T"]), dtype)
        return torch.stack([x[0] for x in torch.autograd.grad(value, [whole.tensors[n] for n in LEAVES], some["dY"])])

    def picked(self, result: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return result

    def flops(self, task: Task) -> int:
        """Two products forward, five backward, over visible pairs."""
        return super().flops(task) * 7 // 2


def _leaves(tensors: Mapping[str, torch.Tensor]) -> Tensors:
    """The same data, of which Q, K and V ask for gradients."""
    return {name: x.detach().requires_grad_(name in LEAVES) for name, x in tensors.items()}
