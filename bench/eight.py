"""Causal attention over whole texts with products of queries and keys in 8 bits, as SageAttention has them, beside the
same in the type of the data. Rounding changes nothing here: keys have the mean 0, and all numbers are codes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

import einc
from bench.case import Sizes, Tensors, room_for

PLAIN = """
index t, s : time(T)
index h    : head(H)
index d    : feature(d_k)
input Q_{t h}^d, K_{s h}^d, V_{s h}^d
mask L_{t s}^{(h)} : s ≤ t
L_{t s}^{(h)} = 1/√d_k Q_{t h}^d K_{s h d}
output Y_{t h}^d = Σ_s softmax_s(L_{t s}^{(h)}) V_{s h}^d
"""
CODED = "precision/sage1"
LARGEST, STEP = 127, 1 / 32

Call = Callable[[], torch.Tensor]


class Given(Protocol):
    """What a task has."""

    sizes: Sizes
    given: Tensors


def make(sizes: Sizes, dtype: torch.dtype, random: torch.Generator) -> tuple[Tensors, Tensors]:
    """Queries and keys that are multiples of a 32nd, the largest of each block and head 127 of them; the later half of
    the keys are those of the first half with the other sign."""
    shape = (sizes["N"] * sizes["P"], sizes["H"], sizes["d_k"])
    room_for(6 * math.prod(shape) * dtype.itemsize)
    given = {name: torch.randn(shape, generator=random) for name in "QKV"}
    for name in "QK":
        codes = (given[name] / STEP).round().clamp(-LARGEST, LARGEST)
        codes[:: sizes["P"], :, 0] = LARGEST
        if name == "K":
            codes = torch.cat([codes[: len(codes) // 2], -codes[: len(codes) // 2]])
        given[name] = codes * STEP
    return {}, {name: x.to(dtype) for name, x in given.items()}


def library(task: Given) -> Call:
    """torch's own kernel."""
    q, k, v = (task.given[name].transpose(0, 1)[None] for name in "QKV")
    return lambda: scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1)


def plain(task: Given) -> Call:
    """Our kernel with products in the type of the data."""
    run = einc.compile(PLAIN, "cpp", own=True)
    return lambda: run(**task.given)


def coded(task: Given) -> Call:
    """Our kernel with products of codes, which it makes of the data, too."""
    run, sizes = einc.compile(CODED, "cpp", plan="few"), {name: task.sizes[name] for name in "NP"}
    return lambda: run(**task.given, **sizes)


def exact(task: Given, dtype: torch.dtype) -> torch.Tensor:
    """Attention as it is written, head by head."""
    out = torch.empty(task.given["Q"].shape, dtype=dtype)
    hidden = torch.ones(len(out), len(out), dtype=torch.bool).triu(1)
    for h in range(out.shape[1]):
        q, k, v = (task.given[name][:, h].to(dtype) for name in "QKV")
        out[:, h] = torch.softmax((q @ k.T / math.sqrt(q.shape[1])).masked_fill(hidden, -math.inf), 1) @ v
    return out
