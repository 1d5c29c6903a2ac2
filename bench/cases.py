"""The cases: what is computed and at which sizes. A new one is an entry of CASES with the
name or the text of its spec."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bench.attention import Attention, Mask, Score
from bench.case import Case, Sizes, Tensors
from bench.latents import LatentDecode
from bench.losses import LinearCrossEntropy

ALIBI = """
use "sdpa"
m_h = 2^{-8 h / H}
override L_{n h t s} = 1/√d_k Q_{n h t}^k K_{n h s k} - m_h (t - s)
"""

WINDOW = """
use "sdpa"
dim W
mask L_{n h t s} : s ∈ (t - W, t]
"""

GQA = """
index n    : batch(B)
index h    : head(H)
index g    : head(G)
index t, s : time(T)
index d, k : feature(d_k)
map π(h) = ceil(h G / H) : g

input Q_{n h t}^d, K_{n g s}^d, V_{n g s}^d

mask L_{n h t s} : s ≤ t
L_{n h t s} = 1/√d_k Q_{n h t}^k K_{n, π(h), s k}
output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n, π(h), s}^d
"""


def alibi(sizes: Sizes) -> Score:
    slopes = torch.exp2(-8.0 * torch.arange(1, sizes["H"] + 1) / sizes["H"])
    return lambda logits, b, h, t, s: logits - slopes[h] * (t - s)


def softcap(sizes: Sizes) -> Score:
    return lambda logits, b, h, t, s: 50 * torch.tanh(logits / 50)


def window(sizes: Sizes, tensors: Tensors) -> Mask:
    width = sizes["W"]
    return lambda b, h, t, s: (s <= t) & (s > t - width)


def prefix(sizes: Sizes, tensors: Tensors) -> Mask:
    seen = sizes["P"]
    return lambda b, h, t, s: (s <= t) | (s < seen)


def documents(sizes: Sizes, tensors: Tensors) -> Mask:
    doc = tensors["doc"]
    return lambda b, h, t, s: (s <= t) & (doc[t] == doc[s])


def document_ids(sizes: Sizes) -> Tensors:
    """Documents of 1, 2, 3, 4, 1, 2, … parts of T/20 positions: sorted, of unequal lengths."""
    part = max(1, sizes["T"] // 20)
    lengths = torch.tensor([part * (1 + i % 4) for i in range(sizes["T"] // part + 1)])
    return {"doc": torch.repeat_interleave(torch.arange(1, len(lengths) + 1), lengths)[:sizes["T"]]}


@dataclass(frozen=True)
class Layer(Attention):
    """A whole layer: X (T, d_model) through projections and RoPE to the kernel, and the merge."""

    def tensors(self, sizes: Sizes, generator: torch.Generator, spread: float) -> Tensors:
        T, H, D, F = (sizes[name] for name in ("T", "H", "D", "F"))
        shapes = {"X": (T, F), "W_Q": (H, F, D), "W_K": (H, F, D), "W_V": (H, F, D), "W_O": (H, D, F)}
        scales = {"X": 1.0, "W_Q": spread * F**-0.5, "W_O": (H * D)**-0.5}
        return {name: torch.randn(shape, generator=generator) * scales.get(name, F**-0.5)
                for name, shape in shapes.items()}

    def before(self, x: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        q, k, v = (torch.einsum("tf,hfd->htd", x["X"], x[name])[None] for name in ("W_Q", "W_K", "W_V"))
        return turned(q), turned(k), v

    def after(self, y: torch.Tensor, x: Tensors) -> torch.Tensor:
        return torch.einsum("htd,hdf->tf", y[0], x["W_O"])

    def around_flops(self, sizes: Sizes) -> int:
        return 2 * 4 * sizes["T"] * sizes["H"] * sizes["D"] * sizes["F"]


def turned(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions, pairs side by side."""
    T, D = x.shape[-2:]
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    speed = 10000 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    angle = torch.arange(T, dtype=torch.float64)[:, None] * speed
    cos, sin = angle.cos().to(wide), angle.sin().to(wide)
    one, two = x[..., 0::2].to(wide), x[..., 1::2].to(wide)
    return torch.stack((one * cos - two * sin, two * cos + one * sin), -1).flatten(-2).to(x.dtype)


def _kernel(**changes: int) -> Sizes:
    return {"B": 1, "H": 8, "T": 2048, "D": 64, **changes}


def _large(**changes: int) -> Sizes:
    return {"B": 1, "H": 32, "T": 4096, "D": 128, **changes}


def _latents(**changes: int) -> Sizes:
    return {"H": 128, "T": 1, "S": 4096, "D": 128, "R": 512, **changes}


def _growth(upto: int, after: int = 0, **changes: int) -> tuple[Sizes, ...]:
    """Two heads (so that what is quadratic fits the machine) over T = 512, 1024, …, those beyond `after`."""
    return tuple(_kernel(H=2, T=512 * 2**i, **changes) for i in range(6) if after < 512 * 2**i <= upto)


CASES: tuple[Case, ...] = (
    Attention("causal", "causal", "sdpa", (_kernel(),), (_large(),)),
    Attention("alibi", "causal with ALiBi", ALIBI, (_kernel(),), (_large(),), score=alibi, additive=True),
    Attention("window", "a window of 256", WINDOW, (_kernel(W=256),), (_kernel(W=256, T=4096), _large(W=256)), ("W",),
              mask=window),
    Attention("gqa", "grouped queries 8:1", GQA, (_kernel(G=1),), (_large(G=4),)),
    Attention("prefix", "prefix of a quarter", "gallery/prefix_lm", (_kernel(P=512),), (_large(P=1024),), ("P",),
              mask=prefix),
    Attention("documents", "packed documents", "gallery/documents", (_kernel(),), (_large(),), mask=documents,
              extra=document_ids),
    Attention("softcap", "softcap 50", "gallery/softcap", (_kernel(),), (_large(),), score=softcap),
    Attention("decode", "one query, cache of 8192", "gallery/decode", (_kernel(T=1, S=8192),), (_large(T=1, S=8192),),
              mask=None),
    Layer("layer", "attention.ein, X to A", "attention", (_kernel(F=512),), (_large(T=2048, H=16, F=2048),)),
    LinearCrossEntropy("cross-entropy", "linear cross-entropy", "linear_cross_entropy",
                       ({"T": 4096, "V": 32768, "F": 512},)),
    LatentDecode("mla-decode", "one position asks 4096 latents of 512", "gallery/mla_decode", (_latents(),),
                 (_latents(S=16384),)),
    Attention("growth", "causal over T", "sdpa", _growth(4096), _growth(16384, 4096)),
    Attention("growth-alibi", "ALiBi over T", ALIBI, _growth(4096), _growth(16384, 4096), score=alibi, additive=True),
    Attention("growth-window", "a window of 256 over T", WINDOW, _growth(4096, W=256), _growth(16384, 4096, W=256),
              ("W",),
              mask=window),
)

BY_NAME = {case.name: case for case in CASES}
