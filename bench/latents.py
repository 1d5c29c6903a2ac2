"""Decoding over a cache of latents from which the keys and values of all heads are
expanded: what each way keeps and makes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from bench.case import DTYPES, CannotError, Entry, Prepared, Sizes, Task, Tensors, room_for


@dataclass(frozen=True)
class LatentDecode(Entry):
    """T queries q (T, H, D) at the end of S latents L (S, R); P and Q (H, R, D) make keys and values of them.

    The library's kernel and FlexAttention have the expanded keys and values in a cache, which is S / T times more than
    they add to it each step; `naive` expands them at each step; `eager` is the absorbed form, written by hand.
    """

    def tensors(self, sizes: Sizes, generator: torch.Generator, spread: float) -> Tensors:
        T, H, S, D, R = (sizes[name] for name in "THSDR")
        shapes = {"q": (T, H, D), "L": (S, R), "P": (H, R, D), "Q": (H, R, D)}
        scales = {"q": spread, "L": 1.0}
        return {name: torch.randn(shape, generator=generator) * scales.get(name, R**-0.5)
                for name, shape in shapes.items()}

    # the rivals

    def eager(self, task: Task) -> Prepared:
        T, H, S = (task.sizes[name] for name in "THS")
        room_for(3 * T * H * S * DTYPES[task.dtype].itemsize)
        return Prepared(lambda: _absorbed(task.tensors))

    def naive(self, task: Task) -> Prepared:
        self._expanded_fits(task)
        compiled = torch.compile(_rebuilt, dynamic=False)
        return Prepared(lambda: compiled(task.tensors))

    def library(self, task: Task) -> Prepared:
        self._expanded_fits(task)
        q, k, v = _expanded(task.tensors)
        hidden = None if task.sizes["T"] == 1 else _visible(task.tensors)

        def call() -> torch.Tensor:
            return scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=hidden)[0].transpose(0, 1)

        return Prepared(call, (k, v))

    def flex(self, task: Task) -> Prepared:
        if task.sizes["T"] > 1:
            raise CannotError("is given no mask here")
        self._expanded_fits(task)
        q, k, v = _expanded(task.tensors)
        compiled = torch.compile(flex_attention, dynamic=False)

        def call() -> torch.Tensor:
            y: torch.Tensor = compiled(q[None], k[None], v[None])
            return y[0].transpose(0, 1)

        return Prepared(call, (k, v))

    def _expanded_fits(self, task: Task) -> None:
        H, S, D = (task.sizes[name] for name in "HSD")
        room_for(4 * H * S * D * DTYPES[task.dtype].itemsize)

    # the exact answer

    def rows(self, sizes: Sizes) -> torch.Tensor:
        return torch.arange(sizes["T"])

    def exact(self, task: Task, rows: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Head by head in the expanded form, so that no head's keys are held beside another's."""
        x = {name: tensor.to(dtype) for name, tensor in task.tensors.items()}
        seen = _visible(x)
        heads = []
        for q, p, u in zip(x["q"].unbind(1), x["P"], x["Q"], strict=True):
            logits = (q @ (x["L"] @ p).mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf)
            heads.append(torch.softmax(logits, -1) @ (x["L"] @ u))
        return torch.stack(heads, 1)[rows]

    def picked(self, result: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return result[rows]

    def flops(self, task: Task) -> int:
        """Of the absorbed form."""
        T, H, S, D, R = (task.sizes[name] for name in "THSDR")
        pairs = sum(max(0, min(S, t + 1 + S - T)) for t in range(T))
        return 4 * H * R * (pairs + T * D)


def _visible(x: Tensors) -> torch.Tensor:
    T, S = len(x["q"]), len(x["L"])
    return torch.arange(S) <= torch.arange(T)[:, None] + S - T


def _expanded(x: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, k and v of (H, T or S, D)."""
    return x["q"].transpose(0, 1), x["L"] @ x["P"], x["L"] @ x["Q"]


def _weights(logits: torch.Tensor, x: Tensors) -> torch.Tensor:
    scaled = logits / math.sqrt(x["q"].shape[-1])
    return torch.softmax(scaled if len(x["q"]) == 1 else scaled.masked_fill(~_visible(x), -math.inf), -1)


def _rebuilt(x: Tensors) -> torch.Tensor:
    q, k, v = _expanded(x)
    return (_weights(q @ k.mT, x) @ v).transpose(0, 1)


def _absorbed(x: Tensors) -> torch.Tensor:
    heads = x["q"].transpose(0, 1) @ x["P"].mT
    logits = (heads.flatten(0, 1) @ x["L"].mT).view(*heads.shape[:2], -1)
    latent = (_weights(logits, x).flatten(0, 1) @ x["L"]).view(heads.shape)
    return (latent @ x["Q"]).transpose(0, 1)
