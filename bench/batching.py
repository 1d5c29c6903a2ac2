"""Texts of many lengths in one step: how much of the work is useful, and the time beside
a padded batch of torch's own kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

import einc
from bench import measure
from bench.case import DTYPES, CannotError, Sizes, Tensors
from bench.run import Tell
from einc.driver.timing.judge import judge, ratio

SPEC, SIZES = "llama_attention", {"H": 16, "G": 4, "d_k": 64, "d_model": 512}
COUNT, SHORTEST, LONGEST = 16, 10, 4000
AHEAD = 256  # of a prompt that joins while others go on


@dataclass(frozen=True)
class Texts:
    """What each of the texts has, and how many positions a step adds to it."""

    name: str
    past: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def pairs(self) -> int:
        return sum(n * past + n * (n + 1) // 2 for past, n in zip(self.past, self.new, strict=True))


def lengths(seed: int = 0) -> tuple[int, ...]:
    """Evenly spread in their logarithms, in no order, the shortest and the longest among them."""
    order = torch.randperm(COUNT, generator=torch.Generator().manual_seed(seed)).tolist()
    return tuple(round(SHORTEST * (LONGEST / SHORTEST) ** (n / (COUNT - 1))) for n in order)


def cases() -> list[Texts]:
    """All prompts at once; a token of each; a piece of one prompt beside a token of all others."""
    found = lengths()
    longest = found.index(max(found))
    piece = tuple(AHEAD if n == longest else 1 for n in range(COUNT))
    past = tuple(length - count for length, count in zip(found, piece, strict=True))
    return [Texts("prefill", (0,) * COUNT, found), Texts("decode", tuple(n - 1 for n in found), (1,) * COUNT),
            Texts("both", past, piece)]


def useful(texts: Texts, sizes: Sizes) -> int:
    """Multiply-adds, counted two, of the projections of the new positions and of the pairs that are seen."""
    H, G, d, f = (sizes[name] for name in ("H", "G", "d_k", "d_model"))
    return 2 * sum(texts.new) * f * d * (2 * H + 2 * G) + 4 * H * d * texts.pairs


class Counted(TorchDispatchMode):
    """What the products of matrices in a call take, as they are run."""

    flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.name in ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"):
            left = args[1 if "add" in func._schema.name else 0]
            self.flops += 2 * out.numel() * left.shape[-1]
        elif func._schema.name == "aten::_scaled_dot_product_flash_attention_for_cpu":
            self.flops += 4 * args[0].numel() * args[1].shape[2]  # of rows without a mask, as a step calls it
        return out


class Ours:
    """The step, its caches filled with what the texts have."""

    def __init__(self, texts: Texts, weights: Tensors, rows: list[torch.Tensor]) -> None:
        self.made, self.texts, self.weights = einc.compile(SPEC, "torch", plan="serve"), texts, weights
        self.caches = [self.made.cache() for _ in texts.past]
        if any(texts.past):
            self.step([x[:past] for x, past in zip(rows, texts.past, strict=True)])
        self.new = [x[past:] for x, past in zip(rows, texts.past, strict=True)]

    def step(self, rows: list[torch.Tensor]) -> torch.Tensor:
        return self.made(self.caches, X=torch.cat(rows)[None], **self.weights, lengths=[len(x) for x in rows])[0]

    def __call__(self) -> torch.Tensor:
        out = self.step(self.new)
        for one, past in zip(self.caches, self.texts.past, strict=True):
            one.length = past  # the next call adds the same positions again
        return out


class Padded:
    """Plain torch: all texts as long as the longest, keys and values of the past in one
    tensor, a mask where lengths differ."""

    def __init__(self, texts: Texts, weights: Tensors, rows: list[torch.Tensor]) -> None:
        self.texts, self.w, (count, longest) = texts, weights, (max(texts.new), max(len(x) for x in rows))
        self.x = torch.stack([torch.nn.functional.pad(x[past:], (0, 0, 0, count - n)) for x, past, n in
                              zip(rows, texts.past, texts.new, strict=True)])
        self.at = torch.tensor(texts.past)[:, None] + torch.arange(count)
        whole = torch.stack([torch.nn.functional.pad(x, (0, 0, 0, longest - len(x))) for x in rows])
        places = torch.arange(longest).expand(len(rows), -1)
        self.k, self.v = turned(product(whole, weights["W_K"]), places), product(whole, weights["W_V"])
        self.mask = None if not any(texts.past) else (places[:, None, :] <= self.at[:, :, None])[:, None]

    def __call__(self) -> torch.Tensor:
        at = self.at.clamp(max=self.k.shape[2] - 1)
        q = turned(product(self.x, self.w["W_Q"]), self.at)
        k, v = turned(product(self.x, self.w["W_K"]), self.at), product(self.x, self.w["W_V"])
        if self.mask is None:
            self.k, self.v = k, v
        else:
            row = torch.arange(len(at))[:, None]
            for n, count in enumerate(self.texts.new):
                self.k[n, :, at[n, :count]] = k[n, :, :count]
                self.v[row[n], :, at[n, :count]] = v[n, :, :count].transpose(0, 1)
        y = scaled_dot_product_attention(q, self.k, self.v, attn_mask=self.mask, is_causal=self.mask is None,
                                         enable_gqa=True)
        out = y.transpose(1, 2).flatten(2) @ self.w["W_O"].flatten(0, 1)
        return torch.cat([x[:n] for x, n in zip(out, self.texts.new, strict=True)])


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """All heads of a projection, heads before positions."""
    return (x @ weight.transpose(0, 1).flatten(1)).unflatten(-1, (weight.shape[0], -1)).transpose(1, 2)


def turned(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Rotary pairs, the first half of a head with the second."""
    half = x.shape[-1] // 2
    angle = at[:, None, :, None].double() * 10000 ** -(torch.arange(half).double() / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def data(dtype: str, found: Sequence[int], seed: int = 1) -> tuple[Tensors, list[torch.Tensor]]:
    random, s = torch.Generator().manual_seed(seed), SIZES
    shapes = {"W_Q": (s["H"], s["d_model"], s["d_k"]), "W_K": (s["G"], s["d_model"], s["d_k"]),
              "W_V": (s["G"], s["d_model"], s["d_k"]), "W_O": (s["H"], s["d_k"], s["d_model"])}
    inner = {"W_O": s["H"] * s["d_k"]}
    scales = {name: math.sqrt(inner.get(name, s["d_model"])) for name in shapes}
    weights = {name: torch.randn(shape, generator=random) / scales[name] for name, shape in shapes.items()}
    rows = [torch.randn(n, s["d_model"], generator=random) for n in found]
    return {k: x.to(DTYPES[dtype]) for k, x in weights.items()}, [x.to(DTYPES[dtype]) for x in rows]


def exact(texts: Texts, weights: Tensors, rows: list[torch.Tensor]) -> torch.Tensor:
    """By plain torch in float64, text after text."""
    wide = {k: x.double() for k, x in weights.items()}
    alone = [Padded(Texts("", (0,), (len(x),)), wide, [x.double()])()[past:]
             for x, past in zip(rows, texts.past, strict=True)]
    return torch.cat(alone)


def run(dtypes: Sequence[str], rounds: int, patience: float, tell: Tell) -> Iterator[dict[str, Any]]:
    """A row for each case and type; CannotError where a result is wrong."""
    for dtype in dtypes:
        weights, rows = data(dtype, lengths())
        for texts in cases():
            tell(f"{texts.name} {dtype}")
            ours, padded = Ours(texts, weights, rows), Padded(texts, weights, rows)
            with Counted() as counted:
                result = ours()
            eager = padded()
            found = judge(result, exact(texts, weights, rows), eager, dtype)
            if found.status == "wrong":
                raise CannotError(f"{texts.name} {dtype}: {found.note}")
            times = measure.interleaved({"einc": ours, "padded": padded}, rounds, patience).times
            longest = COUNT * max(p + n for p, n in zip(texts.past, texts.new, strict=True)) * max(texts.new)
            own = useful(texts, SIZES)
            yield {"case": texts.name, "dtype": dtype, "rows": sum(texts.new), "pairs": texts.pairs, "useful": own,
                   "done": counted.flops, "share": own / counted.flops, "padded_pairs": longest, "status": found.status,
                   "error": found.error, "beside": found.beside, "speed": ratio(times["padded"], times["einc"])}
