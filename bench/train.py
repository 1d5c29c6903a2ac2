"""A language model trained twice from the same start on the same text: by what einc
derives, and by plain torch with autograd."""

from __future__ import annotations

import math
import statistics
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, layer_norm, linear, scaled_dot_product_attention

import einc
from einc.driver.timing.judge import ratio

Tensors = dict[str, torch.Tensor]
Loss = Callable[[Tensors, torch.Tensor, torch.Tensor], torch.Tensor]

# The words w and those that follow them; of the logits, T × V of them, nothing is stored.
SPEC = """
index n : batch(B)
index t : time(T)
index v : vocab(0..V-1)
input w_{n t} : int
input y_{n t} : int
O_{n t}^v = "decoder_lm"(w = w_{n t})
output ℒ_{n t} = CE(O_{n t}^v, y_{n t})
"""

MATRICES = ("E", "P", "W_qkv", "W_O", "W_1", "W_2")
LETTERS = 256  # the text is bytes
APART = 1e-3


@dataclass(frozen=True)
class Setup:
    """What is trained and how; `sizes` are the spec's own."""

    steps: int = 300
    seed: int = 0
    rate: float = 1e-3
    dtype: torch.dtype = torch.float32
    sizes: Mapping[str, int] = field(default_factory=lambda: {
        "B": 8, "T": 128, "C": 128, "N": 4, "H": 4, "d_k": 32, "d_model": 128, "d_ff": 512, "V": LETTERS})


@dataclass(frozen=True)
class Curve:
    """The loss before each step's update, and the seconds of each."""

    losses: tuple[float, ...]
    seconds: tuple[float, ...]


def corpus(folder: Path | None = None) -> torch.Tensor:
    """The sources of a folder one after the other, as bytes: those of the standard
    library, without what is installed beside it."""
    folder = Path(sysconfig.get_paths()["stdlib"]) if folder is None else folder
    files = sorted(file for file in folder.rglob("*.py")
                   if "site-packages" not in file.parts and "test" not in file.parts)
    return torch.frombuffer(bytearray(b"\n".join(file.read_bytes() for file in files)), dtype=torch.uint8)


def batches(text: torch.Tensor, setup: Setup) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """So many pieces of the text for each step, and the same moved by one."""
    B, T = setup.sizes["B"], setup.sizes["T"]
    random = torch.Generator().manual_seed(setup.seed)
    for _ in range(setup.steps):
        starts = torch.randint(0, len(text) - T, (B, 1), generator=random)
        pieces = text[starts + torch.arange(T + 1)].long()
        yield pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()


def start(setup: Setup) -> Tensors:
    """The first weights, as GPT-2's: normal with 0.02, what adds to the stream less, the
    deeper; shifts are 0, scales 1."""
    N, H, D, F, E, V, C = (setup.sizes[name] for name in ("N", "H", "d_k", "d_model", "d_ff", "V", "C"))
    matrices = ((V, F), (C, F), (N, F, 3 * H * D), (N, H, D, F), (N, F, E), (N, E, F))
    random = torch.Generator().manual_seed(setup.seed)
    out = {name: 0.02 * torch.randn(shape, generator=random) for name, shape in zip(MATRICES, matrices, strict=True)}
    for name in ("W_O", "W_2"):
        out[name] /= (2 * N)**0.5
    ones = {"gamma": (F,), "gamma_1": (N, F), "gamma_2": (N, F)}
    zeros = {"beta": (F,), "beta_1": (N, F), "beta_2": (N, F), "b_qkv": (N, 3 * H * D), "b_O": (N, F), "b_1": (N, E),
             "b_2": (N, F)}
    out |= {name: torch.ones(shape)
            for name, shape in ones.items()} | {name: torch.zeros(shape) for name, shape in zeros.items()}
    return {name: value.to(setup.dtype) for name, value in out.items()}


def derived(backend: str = "torch") -> Loss:
    """Forward and backward as einc writes them."""
    model = einc.compile(SPEC, backend=backend, grad=True)
    return lambda weights, words, following: model(w=words, y=following, **weights).mean()


def plain(x: Tensors, words: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """The same model in torch's own functions."""
    stream = x["E"][words] + x["P"][:words.shape[1]]
    for layer in range(len(x["gamma_1"])):
        stream = _block(stream, {name: value[layer] for name, value in x.items()
                                 if name not in ("E", "P", "gamma", "beta")})
    logits = linear(layer_norm(stream, stream.shape[-1:], x["gamma"], x["beta"]), x["E"])
    return cross_entropy(logits.flatten(0, 1), following.flatten())


def _block(stream: torch.Tensor, x: Tensors) -> torch.Tensor:
    H, D, F = x["W_O"].shape
    before = layer_norm(stream, (F,), x["gamma_1"], x["beta_1"])
    q, k, v = torch.unflatten(before @ x["W_qkv"] + x["b_qkv"], -1, (3, H, D)).permute(2, 0, 3, 1, 4)
    heads = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
    stream = stream + heads.flatten(-2) @ x["W_O"].flatten(0, 1) + x["b_O"]
    before = layer_norm(stream, (F,), x["gamma_2"], x["beta_2"])
    return stream + gelu(before @ x["W_1"] + x["b_1"], approximate="tanh") @ x["W_2"] + x["b_2"]


WAYS = ("einc", "einc-cpp", "compiled", "torch")


def loss_of(way: str) -> Loss:
    """The loss that is trained in a way, by its name."""
    match way:
        case "einc":
            return derived()
        case "einc-cpp":
            return derived("cpp")
        case "compiled":
            return torch.compile(plain)
    return plain


class Learner:
    """One of those that are compared: weights of its own, and AdamW with the full rate after a tenth of the steps."""

    def __init__(self, loss: Loss, setup: Setup) -> None:
        self.loss = loss
        self.weights = {name: nn.Parameter(value) for name, value in start(setup).items()}
        matrices = [x for name, x in self.weights.items() if name in MATRICES]
        others = [x for name, x in self.weights.items() if name not in MATRICES]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=setup.rate, betas=(0.9, 0.95))
        rising = max(1, setup.steps // 10)
        self.rate = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / rising))
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def step(self, words: torch.Tensor, following: torch.Tensor) -> None:
        began = time.perf_counter()
        found = self.loss(dict(self.weights), words, following)
        self.optimizer.zero_grad()
        found.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.rate.step()
        self.losses.append(float(found.detach()))
        self.seconds.append(time.perf_counter() - began)


def train(ways: Mapping[str, Loss], text: torch.Tensor, setup: Setup,
          tick: Callable[[Mapping[str, float]], None] = lambda losses: None) -> dict[str, Curve]:
    """All of them on the same batches, step by step side by side; each step another one is the first."""
    learners = {name: Learner(loss, setup) for name, loss in ways.items()}
    names = list(learners)
    for at, (words, following) in enumerate(batches(text, setup)):
        for name in names[at % len(names):] + names[:at % len(names)]:
            learners[name].step(words, following)
        tick({name: learner.losses[-1] for name, learner in learners.items()})
    return {name: Curve(tuple(one.losses), tuple(one.seconds)) for name, one in learners.items()}


def apart(one: Curve, other: Curve) -> float:
    """The largest difference of two curves; what is no number is far away."""
    away = [abs(a - b) for a, b in zip(one.losses, other.losses, strict=True)]
    return max((x if math.isfinite(x) else math.inf for x in away), default=0.0)


def falls(curve: Curve) -> bool:
    """Whether the last tenth of the losses lies below the first."""
    part = max(1, len(curve.losses) // 10)
    return sum(curve.losses[-part:]) < sum(curve.losses[:part])


def wrong(found: Mapping[str, Curve]) -> str:
    """What must not be: curves that part, or that do not fall. Empty where all is well."""
    first, *others = found.values()
    away = max((apart(first, other) for other in others), default=0.0)
    if away > APART:
        return f"the curves part: by {away:.1e}, {APART} is allowed"
    level = [name for name, curve in found.items() if not falls(curve)]
    return f"the loss of {' and '.join(level)} does not fall" if level else ""


def rows(found: Mapping[str, Curve], setup: Setup) -> list[dict[str, Any]]:
    """A row for each, with how far it is from the last and how many times as fast."""
    *_, beside = found.values()
    same = {"case": "decoder_lm", "sizes": dict(setup.sizes), "dtype": str(setup.dtype).removeprefix("torch."),
            "steps": setup.steps, "seed": setup.seed, "rate": setup.rate}
    return [{**same, "rival": name, "seconds": float(f"{statistics.median(one.seconds):.4g}"),
             "ratio": float(f"{ratio(beside.seconds, one.seconds):.4g}"), "apart": float(f"{apart(one, beside):.3g}"),
             "losses": [round(loss, 9) for loss in one.losses]} for name, one in found.items()]
