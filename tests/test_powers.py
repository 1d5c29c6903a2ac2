"""Powers of two that are no normal numbers: made 0 where an exponent falls with the distance, and nowhere else."""

from __future__ import annotations

import math

import pytest
import torch

import einc

FALLING = 'use "sdpa"\nweight m_h\noverride L_{n h t s} = 1/√d_k Q_{n h t}^k K_{n h s k} - m_h (t - s)\n'
TOLD = 'use "sdpa"\nindex p : feature(0..T-1)\nweight b_{h p}\n'
TOLD += 'override L_{n h t s} = 1/√d_k Q_{n h t}^k K_{n h s k} + b_{h, t - s}\n'


@pytest.mark.parametrize(("spec", "falls"),
                         [(FALLING, True), (TOLD, False), ("sdpa", False), ("sliding_window", False)])
def test_only_exponents_that_fall_with_the_distance(spec: str, falls: bool) -> None:
    assert ("_normal(" in einc.compile(spec, own=True).source) == falls


@pytest.mark.drawn(2)
@pytest.mark.parametrize("slope", [0.0, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("grad", [False, True])
def test_results_are_those_of_float64(slope: float, grad: bool) -> None:
    torch.manual_seed(3)
    module = einc.compile(FALLING, grad=grad)
    given = {**{name: torch.randn(1, 2, 300, 4) for name in "QKV"}, "m": torch.tensor([slope, slope / 2])}
    wide = {name: x.double() for name, x in given.items()}
    pairs = [(module(**given), module(**wide))]
    if grad:
        leaves = [{name: x.requires_grad_() for name, x in data.items()} for data in (given, wide)]
        found = [torch.autograd.grad(module(**data).sum(), list(data.values())) for data in leaves]
        pairs += list(zip(*found, strict=True))
    for mine, exact in pairs:
        torch.testing.assert_close(mine.double(), exact, rtol=1e-4, atol=1e-4)


def test_what_is_no_number_stays_none() -> None:
    module = einc.compile(FALLING)
    given = {**{name: torch.randn(1, 1, 9, 4) for name in "QKV"}, "m": torch.ones(1)}
    given["K"][0, 0, 2, 0] = math.nan
    found = module(**given)[0, 0].isnan().any(-1)
    assert not found[:2].any() and found[2:].all()
