"""Attention cases: a mask and a change of the logits, each written once, and what every rival makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from bench.case import DTYPES, CannotError, Entry, Prepared, Sizes, Task, Tensors, room_for

# FlexAttention's own signatures, (b, h, t, s) and (logits, b, h, t, s). They serve it as they are, and over broadcast
# positions the others too. Positions count from 0.
Mask = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
Score = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
Change = Callable[[torch.Tensor], torch.Tensor]

CHECKED_ROWS = 512


def causal(b: torch.Tensor, h: torch.Tensor, t: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return s <= t


@dataclass(frozen=True)
class Attention(Entry):
    """Kernels over Q K V of (B, H, T, D), (B, G, S, D); S is T and G is H where the sizes have none."""

    mask: Callable[[Sizes, Tensors], Mask] | None = lambda sizes, tensors: causal
    score: Callable[[Sizes], Score] | None = None
    additive: bool = False  # the change of the logits is a bias
    extra: Callable[[Sizes], Tensors] = lambda sizes: {}

    def tensors(self, sizes: Sizes, generator: torch.Generator, spread: float) -> Tensors:
        B, H, G, T, S, D = _read(sizes)
        shapes = {"Q": (B, H, T, D), "K": (B, G, S, D), "V": (B, G, S, D)}
        drawn = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        return {**drawn, "Q": drawn["Q"] * spread, **self.extra(sizes)}

    # what a layer has around its kernel

    def before(self, x: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x["Q"], x["K"], x["V"]

    def after(self, y: torch.Tensor, x: Tensors) -> torch.Tensor:
        return y

    def around_flops(self, sizes: Sizes) -> int:
        return 0

    # the rivals

    def eager(self, task: Task) -> Prepared:
        B, H, _, T, S, _ = _read(task.sizes)
        width = DTYPES[task.dtype].itemsize
        room_for(3 * B * H * T * S * width)
        score = self.score(task.sizes) if self.score and not self.additive else None
        held = self._materialised(task)
        place = _places(H, torch.arange(T), S)

        def change(logits: torch.Tensor) -> torch.Tensor:
            if score is not None:
                logits = score(logits, *place)
            if held is None:
                return logits
            return logits + held if self.additive else logits.masked_fill(~held, -math.inf)

        return Prepared(lambda: self._dense(task.tensors, change), () if held is None else (held,))

    def naive(self, task: Task) -> Prepared:
        B, H, _, T, S, _ = _read(task.sizes)
        room_for(2 * B * H * T * S * 4)
        mods = self._mods(task)

        def whole(x: Tensors) -> torch.Tensor:
            return self._dense(x, partial(_changed, mods=mods, place=_places(H, torch.arange(T), S)))

        compiled = torch.compile(whole, dynamic=False)
        return Prepared(lambda: compiled(task.tensors))

    def library(self, task: Task) -> Prepared:
        if self.score is not None and not self.additive:
            raise CannotError("has no function of the logits")
        mask = self._mods(task)[0]
        held = None if mask is causal and self.score is None else self._materialised(task)
        is_causal = mask is causal and held is None
        _, H, G, _, _, _ = _read(task.sizes)

        def call() -> torch.Tensor:
            q, k, v = self.before(task.tensors)
            y = scaled_dot_product_attention(q, k, v, attn_mask=held, is_causal=is_causal, enable_gqa=H != G)
            return self.after(y, task.tensors)

        return Prepared(call, () if held is None else (held,))

    def flex(self, task: Task, mode: str | None = None) -> Prepared:
        """Compiled FlexAttention; `mode` is one of torch.compile's, in which it may time tiles."""
        _, H, G, T, S, _ = _read(task.sizes)
        mask, score = self._mods(task)
        blocks = None if mask is None else create_block_mask(mask, None, None, T, S, device=task.device)
        compiled = torch.compile(flex_attention, dynamic=False, mode=mode)

        def call() -> torch.Tensor:
            q, k, v = self.before(task.tensors)
            y: torch.Tensor = compiled(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=H != G)
            return self.after(y, task.tensors)

        tables = () if blocks is None else tuple(x for x in blocks.as_tuple() if isinstance(x, torch.Tensor))
        return Prepared(call, tables)

    def flex_anew(self, task: Task) -> Prepared:
        """FlexAttention where the mask is of this call alone: its table of blocks is made in each."""
        _, H, G, T, S, _ = _read(task.sizes)
        mask, score = self._mods(task)
        if mask is None:
            raise CannotError("needs no table of blocks")
        making, compiled = torch.compile(create_block_mask), torch.compile(flex_attention, dynamic=False)

        def call() -> torch.Tensor:
            q, k, v = self.before(task.tensors)
            blocks = making(mask, None, None, T, S, device=task.device)
            y: torch.Tensor = compiled(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=H != G)
            return self.after(y, task.tensors)

        return Prepared(call)

    # the exact answer

    def rows(self, sizes: Sizes) -> torch.Tensor:
        T = sizes["T"]
        if T <= CHECKED_ROWS:
            return torch.arange(T)
        return torch.linspace(0, T - 1, CHECKED_ROWS, dtype=torch.float64).round().long()

    def exact(self, task: Task, rows: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        _, H, _, _, S, _ = _read(task.sizes)
        x = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in task.tensors.items()}
        q, k, v = self.before(x)
        mods = self._mods(task)
        parts = []
        for some in torch.split(rows, 64):
            parts.append(dense(q[:, :, some], k, v, partial(_changed, mods=mods, place=_places(H, some, S))))
        return self.after(torch.cat(parts, 2), x)

    def picked(self, result: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return result[..., rows, :]

    def flops(self, task: Task) -> int:
        B, H, _, T, S, D = _read(task.sizes)
        mask = self._mods(task)[0]
        seen = (T * S if mask is None
                else sum(int(_visible(mask, some, S).sum()) for some in torch.split(torch.arange(T), 1024)))
        return 4 * B * H * D * seen + self.around_flops(task.sizes)

    def _mods(self, task: Task) -> tuple[Mask | None, Score | None]:
        mask = self.mask(task.sizes, task.tensors) if self.mask else None
        return mask, self.score(task.sizes) if self.score else None

    def _dense(self, x: Tensors, change: Change) -> torch.Tensor:
        return self.after(dense(*self.before(x), change), x)

    def _materialised(self, task: Task) -> torch.Tensor | None:
        """What a kernel without functions needs: the mask as booleans (T, S), or the bias in the type of
        the data with -∞ where the mask hides."""
        _, H, _, T, S, _ = _read(task.sizes)
        mask, score = self._mods(task)
        if score is None or not self.additive:
            return None if mask is None else _visible(mask, torch.arange(T), S)
        room_for(H * T * S * DTYPES[task.dtype].itemsize)
        place = _places(H, torch.arange(T), S)
        heads = (score(torch.zeros(()), place[0], h, *place[2:]).to(DTYPES[task.dtype]) for h in torch.arange(H))
        bias = torch.stack(list(heads)).reshape(1, H, T, S)
        return bias if mask is None else bias.masked_fill_(~_visible(mask, torch.arange(T), S), -math.inf)


def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, change: Change) -> torch.Tensor:
    """softmax(QKᵀ)V with all logits at once; a head of K and V serves a group of heads of Q."""
    shared = k.shape[1]
    grouped = torch.unflatten(q, 1, (shared, q.shape[1] // shared))
    logits = torch.einsum("bgrtd,bgsd->bgrts", grouped, k).flatten(1, 2) * (1 / math.sqrt(q.shape[-1]))
    weights = torch.softmax(change(logits), -1).to(v.dtype)
    return torch.einsum("bgrts,bgsd->bgrtd", torch.unflatten(weights, 1, (shared, -1)), v).flatten(1, 2)


def _read(sizes: Sizes) -> tuple[int, int, int, int, int, int]:
    """B, H, G, T, S, D."""
    return (sizes.get("B", 1), sizes["H"], sizes.get("G", sizes["H"]), sizes["T"], sizes.get("S", sizes["T"]),
            sizes["D"])


def _places(heads: int, rows: torch.Tensor, keys: int) -> tuple[torch.Tensor, ...]:
    """b, h, t, s as positions that broadcast to the logits."""
    return torch.zeros((), dtype=torch.long), torch.arange(heads)[:, None, None], rows[:, None], torch.arange(keys)


def _visible(mask: Mask, rows: torch.Tensor, keys: int) -> torch.Tensor:
    zero = torch.zeros((), dtype=torch.long)
    return mask(zero, zero, rows[:, None], torch.arange(keys))


def _changed(logits: torch.Tensor, mods: tuple[Mask | None, Score | None],
             place: tuple[torch.Tensor, ...]) -> torch.Tensor:
    b, h, t, s = place
    mask, score = mods
    if score is not None:
        logits = score(logits, b, h, t, s)
    return logits if mask is None else torch.where(mask(b, h, t, s), logits, -math.inf)
