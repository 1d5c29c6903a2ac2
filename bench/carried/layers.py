"""Entries of the list that only GPUs are asked: rotary positions, a fading sum, latents of many requests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from bench.case import CannotError, Entry, Prepared, Sizes, Task, Tensors
from bench.cases import turned

CHUNK = 256


class Plain(Entry):
    """What has no kernel in the library: eager torch, and the same compiled."""

    def whole(self, task: Task) -> Callable[[], torch.Tensor]:
        """The result by eager torch as a person writes it who knows what is fast."""
        raise NotImplementedError

    def eager(self, task: Task) -> Prepared:
        return Prepared(self.whole(task))

    def naive(self, task: Task) -> Prepared:
        return Prepared(torch.compile(self.whole(task), dynamic=False))

    def library(self, task: Task) -> Prepared:
        raise CannotError("has no such kernel")

    def flex(self, task: Task) -> Prepared:
        raise CannotError("is attention")


@dataclass(frozen=True)
class Rotary(Plain):
    """x (B, H, T, D) turned, pairs side by side. The rivals have the angles' cosines and
    sines in tables, as models do."""

    def tensors(self, sizes: Sizes, generator: torch.Generator, spread: float) -> Tensors:
        shape = [sizes[name] for name in "BHTD"]
        return {"x": torch.randn(shape, generator=generator) * spread}

    def whole(self, task: Task) -> Callable[[], torch.Tensor]:
        T, D = task.sizes["T"], task.sizes["D"]
        x = task.tensors["x"]
        speed = 10000 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
        angle = torch.arange(T, dtype=torch.float64)[:, None] * speed
        cos, sin = angle.cos().float(), angle.sin().float()

        def call() -> torch.Tensor:
            one, two = x[..., 0::2].float(), x[..., 1::2].float()
            return torch.stack((one * cos - two * sin, two * cos + one * sin), -1).flatten(-2).to(x.dtype)

        return call

    def rows(self, sizes: Sizes) -> torch.Tensor:
        return torch.arange(sizes["T"])

    def exact(self, task: Task, rows: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return turned(task.tensors["x"].to(dtype))[..., rows, :]

    def picked(self, result: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return result[..., rows, :]

    def flops(self, task: Task) -> int:
        return 3 * task.tensors["x"].numel()


@dataclass(frozen=True)
class Retention(Plain):
    """Y_t = Σ_{s ≤ t} γ^{t - s} (Q_t · K_s) V_s over (H, T, D); the rivals go in chunks,
    with the chunks' sums as matrices."""

    def tensors(self, sizes: Sizes, generator: torch.Generator, spread: float) -> Tensors:
        H, T, D = (sizes[name] for name in "HTD")
        drawn = {name: torch.randn((H, T, D), generator=generator) for name in ("Q", "K", "V")}
        drawn["Q"] = drawn["Q"] * (spread * D**-0.5)
        fading = 1 - torch.exp2(-(3.0 + torch.arange(H) % 6))  # what bfloat16 holds exactly
        return {**drawn, "gamma": fading}

    def whole(self, task: Task) -> Callable[[], torch.Tensor]:
        q, k, v, gamma = (task.tensors[name] for name in ("Q", "K", "V", "gamma"))
        T = task.sizes["T"]
        chunk = CHUNK if T % CHUNK == 0 else T
        near = _fading(gamma, chunk, 1).to(q.dtype)
        far = _fading(gamma, T // chunk, chunk, before=True)
        place = torch.arange(chunk)
        into = gamma.float()[:, None] ** (chunk - 1 - place)
        out = gamma.float()[:, None] ** (place + 1)

        def call() -> torch.Tensor:
            qs, ks, vs = (torch.unflatten(x, 1, (-1, chunk)) for x in (q, k, v))
            inside = ((qs @ ks.mT) * near[:, None]) @ vs
            sums = ((ks * into[:, None, :, None].to(q.dtype)).mT @ vs).float()
            held = torch.einsum("hnm,hmde->hnde", far, sums).to(q.dtype)
            outside = (qs @ held) * out[:, None, :, None].to(q.dtype)
            return torch.flatten(inside + outside, 1, 2)

        return call

    def rows(self, sizes: Sizes) -> torch.Tensor:
        return torch.linspace(0, sizes["T"] - 1, min(512, sizes["T"]), dtype=torch.float64).round().long()

    def exact(self, task: Task, rows: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        q, k, v = (task.tensors[name].to(dtype) for name in ("Q", "K", "V"))
        wide = torch.promote_types(dtype, torch.float32)
        gamma = task.tensors["gamma"].to(wide)[:, None, None]
        parts = []
        for some in torch.split(rows, 64):
            far = some[:, None] - torch.arange(task.sizes["T"])
            weights = torch.where(far >= 0, gamma ** far.clamp(min=0), 0).to(dtype)
            parts.append(((q[:, some] @ k.mT) * weights) @ v)
        return torch.cat(parts, 1)

    def picked(self, result: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return result[:, rows]

    def flops(self, task: Task) -> int:
        """Of the sum that goes from position to position: every other way does more."""
        H, T, D = (task.sizes[name] for name in "HTD")
        return 4 * H * T * D * D


def _fading(gamma: torch.Tensor, count: int, step: int, before: bool = False) -> torch.Tensor:
    """γ^{step (i - j)} for i ≥ j as (H, count, count), 0 elsewhere; `before`: γ^{step (i - 1 - j)} for i > j."""
    far = torch.arange(count)[:, None] - torch.arange(count) - int(before)
    return torch.where(far >= 0, gamma.float()[:, None, None] ** (step * far.clamp(min=0)), 0)


@dataclass(frozen=True)
class Latents(Plain):
    """One query q (B, T, H, D) per request over its latents L (B, S, R); P and Q (H, R,
    D) make keys and values of them.

    Every way here is the absorbed one: expanded keys and values of so many requests would not fit.
    """

    def tensors(self, sizes: Sizes, generator: torch.Generator, spread: float) -> Tensors:
        B, T, H, S, D, R = (sizes[name] for name in "BTHSDR")
        shapes = {"q": (B, T, H, D), "L": (B, S, R), "P": (H, R, D), "Q": (H, R, D)}
        scales = {"q": spread, "L": 1.0}
        return {name: torch.randn(shape, generator=generator) * scales.get(name, R**-0.5)
                for name, shape in shapes.items()}

    def whole(self, task: Task) -> Callable[[], torch.Tensor]:
        def middle(q: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
            weights = torch.softmax(q[:, :, 0] @ latents.mT * task.sizes["D"] ** -0.5, -1)
            return (weights @ latents)[:, :, None]

        return self._around(task, middle)

    def library(self, task: Task) -> Prepared:
        scale = task.sizes["D"] ** -0.5

        def middle(q: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
            held = latents[:, None]
            return scaled_dot_product_attention(q, held, held, scale=scale, enable_gqa=True)

        return Prepared(self._around(task, middle))

    def flex(self, task: Task) -> Prepared:
        scale, compiled = task.sizes["D"] ** -0.5, torch.compile(flex_attention, dynamic=False)

        def middle(q: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
            held = latents[:, None]
            y: torch.Tensor = compiled(q, held, held, scale=scale, enable_gqa=True)
            return y

        return Prepared(self._around(task, middle))

    def _around(self, task: Task,
                middle: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """The products before and after: `middle` is given (B, H, 1, R) and (B, S, R)."""
        q, latents, into, out = (task.tensors[name] for name in ("q", "L", "P", "Q"))

        def call() -> torch.Tensor:
            asked = torch.einsum("bthd,hrd->bhtr", q, into)
            return torch.einsum("bhtr,hrd->bthd", middle(asked, latents), out)

        return call

    def rows(self, sizes: Sizes) -> torch.Tensor:
        return torch.arange(0, sizes["B"], max(1, sizes["B"] // 8))

    def exact(self, task: Task, rows: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """In the expanded form, a request at a time."""
        x = {name: tensor.to(dtype) for name, tensor in task.tensors.items()}
        found = []
        for row in rows.tolist():
            k, v = x["L"][row] @ x["P"], x["L"][row] @ x["Q"]
            logits = x["q"][row].transpose(0, 1) @ k.mT / math.sqrt(task.sizes["D"])
            found.append((torch.softmax(logits, -1) @ v).transpose(0, 1))
        return torch.stack(found)

    def picked(self, result: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return result[rows]

    def flops(self, task: Task) -> int:
        B, T, H, S, D, R = (task.sizes[name] for name in "BTHSDR")
        return 4 * B * T * H * R * (S + D)
