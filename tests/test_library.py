"""Rows of a library: used where the equations are those of the kernel, in whatever spelling, and nowhere else."""

from __future__ import annotations

import pytest
import torch

import einc
from einc.plan import Call, leaves

HEAD = """
index n : batch(B)
index h : head(H)
index g : head(G)
index t, s : time(T)
index d, k : feature(D)
index e : feature(E)
map π(h) = ceil(h G / H) : g
input Q_{n h t}^d, K_{n h s}^d, V_{n h s}^d, k_{n g s}^d, v_{n g s}^d, U_{n h s}^e, b_{n h s}
mask L_{n h t s} : s ≤ t
"""
LOGITS = "L_{n h t s} = 1/√D Q_{n h t}^k K_{n h s k}\n"
SAME = {
    "as the row": LOGITS + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "factors in another order": LOGITS.replace("Q_{n h t}^k K_{n h s k}", "K_{n h s}^k Q_{n h t k}")
    + "output Y_{n h t}^d = Σ_s V_{n h s}^d softmax_s(L_{n h t s})",
    "by hand": LOGITS + "z_{n h t} = Σ_s exp(L_{n h t s})\noutput Y_{n h t}^d = Σ_s exp(L_{n h t s}) V_{n h s}^d / z_{n h t}",
    "shared heads": LOGITS.replace("K_{n h s k}", "k_{n, π(h), s k}")
    + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) v_{n, π(h), s}^d",
    "a result in other axes": LOGITS + "output Y_{t n h}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
}
OTHER = {
    "another scale": LOGITS.replace("1/√D", "2/√D") + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "another domain": LOGITS + "mask L_{n h t s} : t - s < 3\noutput Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "an addend": LOGITS.strip() + " + b_{n h s}\noutput Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "another width": LOGITS + "output Y_{n h t}^e = Σ_s softmax_s(L_{n h t s}) U_{n h s}^e",
    "heads shared in one operand": LOGITS.replace("K_{n h s k}", "k_{n, π(h), s k}")
    + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d",
    "a second result": LOGITS
    + "output Y_{n h t}^d = Σ_s softmax_s(L_{n h t s}) V_{n h s}^d\noutput l_{n h t} = logsumexp_s(L_{n h t s})",
}


def calls(text: str, **options: bool) -> list[str]:
    return [step.name for step in leaves(einc.compile(HEAD + text, **options).plan.steps) if isinstance(step, Call)]


@pytest.mark.parametrize("spelling", SAME)
def test_one_thing_in_every_spelling(spelling: str) -> None:
    assert calls(SAME[spelling]) == ["library/causal"]
    assert calls(SAME[spelling], own=True) == []


@pytest.mark.parametrize("spelling", OTHER)
def test_what_is_not_the_same_is_not_called(spelling: str) -> None:
    assert calls(OTHER[spelling]) == []


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1), (6, 4)])
@pytest.mark.parametrize("spelling", SAME)
def test_the_call_gives_what_the_kernel_gives(spelling: str, heads: tuple[int, int]) -> None:
    H, G = heads
    torch.manual_seed(H + G)
    shapes = {"Q": (2, H, 7, 4), "K": (2, H, 7, 4), "V": (2, H, 7, 4), "k": (2, G, 7, 4), "v": (2, G, 7, 4)}
    module = einc.compile(HEAD + SAME[spelling])
    asked = {tensor.key for tensor in module.plan.inputs}
    given = {name: torch.randn(shape) for name, shape in shapes.items() if name in asked}
    wide = {name: tensor.double() for name, tensor in given.items()}
    torch.testing.assert_close(module(**given).double(), module(**wide), rtol=1e-5, atol=1e-5)
