"""What the specs of `specs/precision` compute, in plain torch and float64 from the definitions of their papers.

Rounding is `clamp` and torch's `round`, which takes the even one of two, in units of the distance of two codes; what
comes out passes torch's own cast to float8. That cast alone would round twice: it takes a number of float64 to float32
first, which puts one of two million onto the middle between two codes. Scales are made group by group in loops. None
of it comes from einc or from the specs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

Tensors = dict[str, Tensor]
Sizes = dict[str, int]


@dataclass
class Rounder:
    """Rounds, and keeps in `margin` how near a value came to the middle of two codes, in units of their distance.

    Where a margin is small, digits that float32 does not have decide which of the two is taken.
    """

    margin: float = math.inf

    def e4m3(self, x: Tensor) -> Tensor:
        inside = x.clamp(-448, 448)
        step = torch.exp2(torch.floor(torch.log2(inside.abs().clamp(min=2.0**-6))) - 3)
        codes = (inside / step).round() * step
        return self._codes(inside, codes.to(torch.float8_e4m3fn).to(x.dtype), step)

    def e5m2(self, x: Tensor) -> Tensor:
        inside = x.clamp(-57344, 57344)
        step = torch.exp2(torch.floor(torch.log2(inside.abs().clamp(min=2.0**-14))) - 2)
        codes = (inside / step).round() * step
        return self._codes(inside, codes.to(torch.float8_e5m2).to(x.dtype), step)

    def int8(self, x: Tensor) -> Tensor:
        inside = x.clamp(-128, 127)
        return self._codes(inside, inside.round(), torch.ones_like(x))

    def int4(self, x: Tensor) -> Tensor:
        inside = x.clamp(-8, 7)
        return self._codes(inside, inside.round(), torch.ones_like(x))

    def _codes(self, inside: Tensor, codes: Tensor, step: Tensor) -> Tensor:
        """The codes, through which autograd goes as through the identity of what is inside the range."""
        if codes.numel():
            steps = (inside / step).detach()
            self.margin = min(self.margin, float((steps - steps.floor() - 0.5).abs().min()))
        return inside + (codes - inside).detach()


Round = Callable[[Tensor], Tensor]


def dequantised(x: Tensor, rounding: Round, largest: float, over: Sequence[int]) -> Tensor:
    """The codes of x times their scale: one scale for all elements that differ in the axes `over` alone, so that the
    largest of them becomes the largest code. Where all are 0, so are the codes."""
    if not x.numel():
        return x
    scale = x.abs().amax(tuple(over), keepdim=True) / largest
    return rounding(x / torch.where(scale == 0, 1, scale)) * scale


def in_blocks(x: Tensor, size: int, each: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of every piece of so many rows."""
    return torch.cat([each(piece) for piece in x.split(size)])


def seen(logits: Tensor, values: Tensor) -> Tensor:
    """Causal attention: logits are (head, query, key), values (key, head, feature)."""
    future = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
    weights = torch.softmax(logits.masked_fill(future, -torch.inf), -1)
    return torch.einsum("hts,shd->thd", weights, values)


def products(q: Tensor, k: Tensor) -> Tensor:
    """Of queries with keys, head by head, over the root of the width."""
    return torch.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5


def ffn(r: Rounder, X: Tensor, W_1: Tensor, W_2: Tensor) -> Tensor:
    """One scale for each tensor, for the hidden values, too."""
    one = [dequantised(x, r.e4m3, 448, (0, 1)) for x in (X, W_1, W_2)]
    hidden = gelu(one[0] @ one[1], approximate="tanh")
    return dequantised(hidden, r.e4m3, 448, (0, 1)) @ one[2]


def rowwise(r: Rounder, X: Tensor, W: Tensor) -> Tensor:
    """A scale for each row of X and each column of W."""
    return dequantised(X, r.e4m3, 448, (1,)) @ dequantised(W, r.e4m3, 448, (0,))


def delayed(r: Rounder, X: Tensor, W: Tensor, **x: Tensor) -> Tensor:
    """The forward half of a step, with the scales that the steps before have left."""
    return stepped(r, X, W, **x)[0]


def stepped(r: Rounder, X: Tensor, W: Tensor, Z: Tensor, alpha: Tensor, beta: Tensor,
            gamma: Tensor) -> tuple[Tensor, ...]:
    """A step of a linear layer as Transformer Engine trains it, to come near Z: what it makes, the slopes along its
    operands, and the largest numbers of the last steps once this one has been put in front of them."""
    def scaled(x: Tensor, past: Tensor, rounding: Round, end: float) -> tuple[Tensor, Tensor, Tensor]:
        scale = past.max() / end if past.max() != 0 else torch.ones((), dtype=x.dtype)
        return rounding(x / scale), scale, torch.cat([x.detach().abs().max()[None], past[:-1]])

    (x, of_x, left_x), (w, of_w, left_w) = scaled(X, alpha, r.e4m3, 448), scaled(W, beta, r.e4m3, 448)
    made = of_x * of_w * (x @ w)
    d, of_d, left_d = scaled(made - Z, gamma, r.e5m2, 57344)
    return made, of_d * of_w * (d @ w.T), of_x * of_d * (x.T @ d), left_x, left_w, left_d


def tiled(r: Rounder, X: Tensor, W: Tensor, rows: int, columns: int) -> Tensor:
    """Tiles of 1 × `rows` of X, blocks of `rows` × `columns` of W, each with its own scale; each block's product is
    added to a wide sum."""
    out = []
    for blocks in W.split(columns, 1):
        parts = zip(X.split(rows, 1), blocks.split(rows, 0), strict=True)
        out.append(sum((dequantised(x, r.e4m3, 448, (1,)) @ dequantised(w, r.e4m3, 448, (0, 1)) for x, w in parts),
                       torch.zeros(len(X), blocks.shape[1], dtype=X.dtype)))
    return torch.cat(out, 1)


def blockwise(r: Rounder, X: Tensor, W: Tensor, P: int) -> Tensor:
    """DeepSeek-V3: tiles of 1 × P of X, blocks of P × P of W."""
    return tiled(r, X, W, P, P)


def layer(r: Rounder, H: Tensor, D: int, **x: Tensor) -> Tensor:
    """A layer of GPT-2 with products of that kind, in tiles of D features, and of a head along its features."""
    batch, steps, width = H.shape
    heads, d, _ = x["W_O"].shape
    stream = H.flatten(0, 1)
    before = layer_norm(stream, (width,), x["gamma_1"], x["beta_1"])
    q, k, v = (tiled(r, before, x["W_qkv"], D, d) + x["b_qkv"]).unflatten(1, (3, heads, d)).unbind(1)
    found = torch.cat([seen(products(*pieces[:2]), pieces[2]) for pieces in zip(*(
        y.split(steps) for y in (q, k, v)), strict=True)])
    stream = stream + tiled(r, found.flatten(1), x["W_O"].flatten(0, 1), d, D) + x["b_O"]
    before = layer_norm(stream, (width,), x["gamma_2"], x["beta_2"])
    hidden = gelu(tiled(r, before, x["W_1"], D, D) + x["b_1"], approximate="tanh")
    return (stream + tiled(r, hidden, x["W_2"], D, D) + x["b_2"]).unflatten(0, (batch, steps))


def model(r: Rounder, w: Tensor, D: int, E: Tensor, P: Tensor, gamma: Tensor, beta: Tensor, **x: Tensor) -> Tensor:
    """A language model of such layers; positions beyond those of P take the last."""
    stream = E[w] + P[torch.arange(w.shape[1]).clamp(max=len(P) - 1)]
    for n in range(len(x["W_1"])):
        stream = layer(r, stream, D, **{name: value[n] for name, value in x.items()})
    return layer_norm(stream, stream.shape[-1:], gamma, beta) @ E.T


def turned(r: Rounder, Q: Tensor, K: Tensor, V: Tensor, U: Tensor) -> Tensor:
    """Queries and keys are turned before one scale for each head is made."""
    q, k = (dequantised(x @ U, r.e4m3, 448, (0, 2)) for x in (Q, K))
    return seen(products(q, k), V)


def cache(r: Rounder, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Keys and values with a scale for each position and head."""
    k, v = (dequantised(x, r.int8, 127, (2,)) for x in (K, V))
    return seen(products(Q, k), v)


def linear(r: Rounder, X: Tensor, W: Tensor, P: int) -> Tensor:
    """Weights of 4 bits: a scale for each column and group of P rows."""
    return X @ in_blocks(W, P, lambda w: dequantised(w, r.int4, 7, (0,)))


def whole(r: Rounder, Q: Tensor, K: Tensor, V: Tensor, U: Tensor, P: int) -> Tensor:
    """FlashAttention-3 with 8 bits throughout: after the turn a scale for each block and head, for values, too; a
    weight is rounded as a share of the largest of its row, and the sum of the row is that of the unrounded ones."""
    q, k, v = (in_blocks(x, P, lambda x: dequantised(x, r.e4m3, 448, (0, 2))) for x in (Q @ U, K @ U, V))
    logits = products(q, k)
    shares = torch.exp(logits - logits.amax(-1, keepdim=True))
    return torch.einsum("hts,shd->thd", r.e4m3(448 * shares), v) / (448 * shares.sum(-1)).T[..., None]


def sage(bits: int, keys: bool, queries: bool) -> Callable[..., Tensor]:
    """SageAttention with so many bits: `keys` lose their mean over all positions, `queries` that of their block, whose
    products with the keys are added unrounded. A scale for each block of P positions and head."""

    def result(r: Rounder, Q: Tensor, K: Tensor, V: Tensor, P: int) -> Tensor:
        rounding, largest = (r.int8, 127) if bits == 8 else (r.int4, 7)
        K = K - K.mean(0) if keys else K
        means = in_blocks(Q, P, lambda q: q.mean(0).expand_as(q)) if queries else torch.zeros_like(Q)
        q, k = (in_blocks(x, P, lambda x: dequantised(x, rounding, largest, (0, 2))) for x in (Q - means, K))
        return seen(products(q, k) + products(means, K), V)

    return result


@dataclass(frozen=True)
class Rounded:
    """A spec by another implementation: its output, the shapes of what it reads, usual sizes, and those of them that
    the implementation is given."""

    output: str
    result: Callable[..., Tensor]
    shapes: Callable[[Sizes], dict[str, tuple[int, ...]]]
    sizes: Sizes
    given: tuple[str, ...] = ()

    def draw(self, sizes: Sizes, seed: int) -> Tensors:
        """Normal numbers; words w are of the vocabulary."""
        random = torch.Generator().manual_seed(seed)
        return {name: torch.randint(0, sizes["V"], shape, generator=random) if name == "w"
                else torch.randn(shape, generator=random, dtype=torch.float64)
                for name, shape in self.shapes(sizes).items()}

    def clear(self, sizes: Sizes, seed: int, margin: float) -> tuple[Tensors, Tensor]:
        """Inputs for which every value that is rounded is so far from a middle, and the result of them."""
        for attempt in range(1000):
            given, rounder = self.draw(sizes, 1000 * seed + attempt), Rounder()
            found = self.of(given, sizes, rounder)
            if rounder.margin >= margin:
                return given, found
        raise ValueError("every draw has a value near the middle of two numbers")

    def of(self, given: Tensors, sizes: Sizes, rounder: Rounder | None = None) -> Tensor:
        """The result."""
        return self.result(rounder or Rounder(), **given, **{name: sizes[name] for name in self.given})


def _heads(n: Sizes) -> dict[str, tuple[int, ...]]:
    """Queries, keys and values of T positions or of N blocks of P."""
    T = n["T"] if "T" in n else n["N"] * n["P"]
    return dict.fromkeys("QKV", (T, n["H"], n["d_k"]))


def _layer(n: Sizes) -> dict[str, tuple[int, ...]]:
    """The weights of a layer of GPT-2."""
    f, e, y = n["d_model"], n["d_ff"], 3 * n["H"] * n["d_k"]
    return {"gamma_1": (f,), "beta_1": (f,), "gamma_2": (f,), "beta_2": (f,), "W_qkv": (f, y), "b_qkv": (y,),
            "W_O": (n["H"], n["d_k"], f), "b_O": (f,), "W_1": (f, e), "b_1": (e,), "W_2": (e, f), "b_2": (f,)}


BLOCK: Sizes = {"B": 2, "T": 5, "D": 2, "H": 2, "d_k": 3, "d_model": 4, "d_ff": 6}
ROWS: dict[str, Rounded] = {
    "fp8_ffn": Rounded("Y", ffn, lambda n: {
        "X": (n["T"], n["d_model"]), "W_1": (n["d_model"], n["d_ff"]), "W_2": (n["d_ff"], n["d_model"])},
        {"T": 9, "d_model": 7, "d_ff": 11}),
    "fp8_rowwise": Rounded("Y", rowwise, lambda n: {"X": (n["T"], n["d_model"]), "W": (n["d_model"], n["d_ff"])},
                           {"T": 9, "d_model": 7, "d_ff": 11}),
    "fp8_step": Rounded("Y", delayed, lambda n: {
        "X": (n["T"], n["d_model"]), "W": (n["d_model"], n["d_ff"]), "Z": (n["T"], n["d_ff"]),
        **dict.fromkeys(("alpha", "beta", "gamma"), (n["H"],))}, {"T": 9, "d_model": 7, "d_ff": 11, "H": 3}),
    "fp8_blockwise": Rounded("Y", blockwise, lambda n: {
        "X": (n["T"], n["N"] * n["P"]), "W": (n["N"] * n["P"], n["M"] * n["P"])},
        {"T": 9, "N": 4, "P": 4, "M": 2}, ("P",)),
    "fp8_turned": Rounded("Y", turned, lambda n: {**_heads(n), "U": (n["d_k"], n["d_k"])},
                          {"T": 9, "H": 3, "d_k": 5}),
    "int8_cache": Rounded("Y", cache, _heads, {"T": 9, "H": 3, "d_k": 5}),
    "int4_linear": Rounded("Y", linear, lambda n: {"X": (n["T"], n["N"] * n["P"]), "W": (n["N"] * n["P"], n["d_out"])},
                           {"T": 9, "N": 4, "P": 4, "d_out": 5}, ("P",)),
    "fp8_attention": Rounded("Y", whole, lambda n: {**_heads(n), "U": (n["d_k"], n["d_k"])},
                             {"N": 4, "P": 4, "H": 3, "d_k": 5}, ("P",)),
    "sage1": Rounded("Y", sage(8, keys=True, queries=False), _heads, {"N": 4, "P": 4, "H": 3, "d_k": 5}, ("P",)),
    "sage2": Rounded("Y", sage(4, keys=True, queries=True), _heads, {"N": 4, "P": 4, "H": 3, "d_k": 5}, ("P",)),
    "fp8_block": Rounded("H_out", layer, lambda n: {"H": (n["B"], n["T"], n["d_model"]), **_layer(n)}, BLOCK, ("D",)),
    "fp8_lm": Rounded("O", model, lambda n: {
        "w": (n["B"], n["T"]), "E": (n["V"], n["d_model"]), "P": (n["C"], n["d_model"]),
        "gamma": (n["d_model"],), "beta": (n["d_model"],),
        **{name: (n["N"], *shape) for name, shape in _layer(n).items()}}, {**BLOCK, "N": 2, "V": 5, "C": 4}, ("D",)),
}
