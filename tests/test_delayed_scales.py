"""Training with scales that steps hand on to each other, against a loop in plain torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from helpers import EXACT
from triton_modes import interpreted

import einc
from bench.rounded import Rounder, stepped

NAMES = ("alpha", "beta", "gamma")


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@pytest.mark.parametrize("steps", [pytest.param(3, id="few"), pytest.param(40, id="many", marks=pytest.mark.whole)])
@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
def test_steps_that_hand_on_their_scales(backend: str, steps: int) -> None:
    """Both begin with nothing known of any scale, and go on from their own weights and their own largest numbers. Data
    grow now and then beyond what the last steps have seen, so that numbers are cut off."""
    step = einc.compile("precision/fp8_step", backend=backend)
    random = torch.Generator().manual_seed(4)
    sought = torch.randn(7, 5, generator=random, dtype=torch.float64)
    weights = [torch.randn(7, 5, generator=random, dtype=torch.float64) / 3] * 2
    past = [{name: torch.zeros(4, dtype=torch.float64) for name in NAMES}] * 2
    far, cut = list[float](), 0
    for n in range(steps):
        x = torch.randn(16, 7, generator=random, dtype=torch.float64) * (5 if n % 5 == 2 else 1)
        z = x @ sought
        cut += int(n > 0 and x.abs().max() > past[1]["alpha"].max())
        made = step(X=x, Z=z, W=weights[0], **past[0])
        want = stepped(Rounder(), x, weights[1], z, **past[1])
        for got, other in zip(made, want, strict=True):
            assert (got - other).abs().max() <= EXACT * max(1, float(other.abs().max()))
        rate = 0.01 / (25 if n % 5 == 2 else 1)
        weights = [w - rate * found[2] for w, found in zip(weights, (made, want), strict=True)]
        past = [dict(zip(NAMES, found[3:], strict=True)) for found in (made, want)]
        far.append(float((weights[0] - sought).norm()))
    assert cut and far[-1] < far[0]
