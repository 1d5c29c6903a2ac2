"""A layer of Llama's form at one new position, its weights in the type of the data or in 4 bits with a scale for each
group of terms and each column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Protocol

import torch
from torch.nn.functional import silu

import einc
from bench.case import Sizes, Tensors, room_for

NARROW = """
use "rope_half"
index n : batch(B)
index s : time(T)
index h : head(H)
index g : head(G)
index p : feature(N)
index q : feature(P)
index f : feature(N P) = (p q)
index c : feature(C)
index v : feature(P)
index e : feature(C P) = (c v)
map π(h) = ceil(h G / H) : g
input X_{n t}^f
weight w_{Q f h}^d : int4
weight w_{K f g}^d : int4
weight w_{V f g}^d : int4
weight w_{O h d}^f : int4
weight w_{1 f}^e : int4
weight w_{2 f}^e : int4
weight w_{3 e}^f : int4
weight ω_{Q h}^{(p) d}, ω_{K g}^{(p) d}, ω_{V g}^{(p) d}, ω_O_h^f, ω_1^{(p) e}, ω_2^{(p) e}, ω_3^{(c) f}
Z_{n t}^f = RMSNorm(X_{n t}^f)
x_{n t h}^d = Σ_p ω_{Q h}^{(p) d} Σ_q Z_{n t}^{(p q)} w_{Q (p q) h}^d
y_{n t g}^d = Σ_p ω_{K g}^{(p) d} Σ_q Z_{n t}^{(p q)} w_{K (p q) g}^d
Q_{n t h}^k = x_{n t h}^d R_t_d^k
K_{n t g}^k = y_{n t g}^d R_t_d^k
V_{n t g}^d = Σ_p ω_{V g}^{(p) d} Σ_q Z_{n t}^{(p q)} w_{V (p q) g}^d
mask L_{n t s}^{(h)} : s ≤ t
L_{n t s}^{(h)} = 1/√d_k Q_{n t h}^k K_{n s, π(h), k}
A_{n t h}^d = Σ_s softmax_s(L_{n t s}^{(h)}) V_{n s, π(h)}^d
H_{n t}^f = X_{n t}^f + Σ_h ω_O_h^f Σ_d A_{n t h}^d w_{O h d}^f
U_{n t}^f = RMSNorm(H_{n t}^f)
a_{n t}^e = Σ_p ω_1^{(p) e} Σ_q U_{n t}^{(p q)} w_{1 (p q)}^e
b_{n t}^e = Σ_p ω_2^{(p) e} Σ_q U_{n t}^{(p q)} w_{2 (p q)}^e
z_{n t}^e = silu(a_{n t}^e) b_{n t}^e
output Y_{n t}^f = H_{n t}^f + Σ_c ω_3^{(c) f} Σ_v z_{n t}^{(c v)} w_{3 (c v)}^f

plan serve:
    cache K, V
"""
MATRICES = {"Q": ("f", "hd"), "K": ("f", "gd"), "V": ("f", "gd"), "O": ("hd", "f"), "1": ("f", "e"), "2": ("f", "e"),
            "3": ("e", "f")}


class Given(Protocol):
    """What a task has of a layer."""

    sizes: Sizes
    kept: Tensors
    given: Tensors


def plain(narrow: str = NARROW) -> str:
    """The layer with weights in the type of the data."""
    text = re.sub(r"Σ_[pch] ω_.*? (?=Σ_[qvd])", "", narrow).replace(" : int4", "").replace("Σ_d A", "Σ_h Σ_d A")
    text = re.sub(r"(?m)^weight ω.*\n", "", text)
    for parts, whole in (("(p q)", "f"), ("(c v)", "e")):
        text = text.replace(f"{{{parts}}}", whole).replace(f"{parts} ", f"{whole} ").replace(f"{parts}}}", f"{whole}}}")
    return re.sub(r"Σ_[qv] ", "", text).replace("w_{", "W_{")


def given_of(task: Given, few: bool) -> dict[str, torch.Tensor]:
    """What one of the two texts is given."""
    return {name: x for name, x in task.given.items() if name == "X" or (name[0] in "wo") == few}


def extents_of(sizes: Sizes) -> dict[str, int]:
    """The extents of the letters of matrices."""
    N, P, C, H, G, D = (sizes[name] for name in ("N", "P", "C", "H", "G", "d_k"))
    return {"f": N * P, "e": C * P, "h": H, "g": G, "d": D}


def numbers(sizes: Sizes) -> int:
    """The numbers of all weights."""
    extents = extents_of(sizes)
    return sum(math.prod(extents[letter] for letter in summed + made) for summed, made in MATRICES.values())


def make(sizes: Sizes, dtype: torch.dtype, random: torch.Generator) -> tuple[Tensors, Tensors]:
    """Weights of 4 bits, scales that are powers of two, and their products, which are exact in every type."""
    S, P, D = (sizes[name] for name in ("S", "P", "d_k"))
    extents = extents_of(sizes)
    room_for(4 * numbers(sizes))
    given = {"X": torch.randn(sizes["B"], 1, extents["f"], generator=random).to(dtype)}
    for name, (summed, made) in MATRICES.items():
        shape = [extents[letter] for letter in summed + made]
        codes = torch.randint(-7, 8, shape, generator=random, dtype=torch.int8)
        depth = math.prod(shape[: len(summed)])
        group = D if name == "O" else P
        blocks = (depth // group, *shape[len(summed):])
        powers = torch.randint(-1, 2, blocks, generator=random) - 2.0 - round(math.log2(depth) / 2)
        scales = torch.exp2(powers).to(dtype)
        wide = (codes.view(depth // group, group, *blocks[1:]) * scales[:, None]).view(shape)
        given |= {f"w_{name}": einc.in_bytes(codes), f"W_{name}": wide,
                  f"omega_{name}": scales.movedim(0, 1).contiguous() if name in "QKV" else scales}
    kept = {name: torch.randn(sizes["B"], S, sizes["G"], D, generator=random).to(dtype) for name in "KV"}
    return kept, given


def step(task: Given, dtype: torch.dtype, W: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The layer by hand, for the last position."""
    S, H, G, D = (task.sizes[name] for name in ("S", "H", "G", "d_k"))
    x = task.given["X"].to(dtype)
    z = _normed(x) @ torch.cat([W[name].flatten(1) for name in "QKV"], 1)
    q, k, v = z.unflatten(-1, (-1, D)).split([H, G, G], 2)
    keys, values = (torch.cat([task.kept[name][:, : S - 1].to(dtype), new], 1).transpose(1, 2)
                    for name, new in (("K", _turned(k, S - 1)), ("V", v)))
    y = torch.nn.functional.scaled_dot_product_attention(_turned(q, S - 1).transpose(1, 2), keys, values,
                                                         enable_gqa=True)
    h = x + y.transpose(1, 2).flatten(2) @ W["O"].flatten(0, 1)
    u = _normed(h)
    out: torch.Tensor = h + (silu(u @ W["1"]) * (u @ W["2"])) @ W["3"]
    return out


def exact(task: Given, dtype: torch.dtype) -> torch.Tensor:
    """The layer in a type."""
    return step(task, dtype, {name: task.given[f"W_{name}"].to(dtype) for name in MATRICES})


def _normed(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def _turned(x: torch.Tensor, position: int) -> torch.Tensor:
    width = x.shape[-1]
    angle = position * 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
