"""Compiled kernels of few rows, whose lanes are features: what heads share is read once, and as it lies in memory."""

from __future__ import annotations

from random import Random

import pytest
import torch
from cpp_texts import NEEDED, loaded, running
from helpers import typed
from torch.nn.functional import scaled_dot_product_attention

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

SHARED = """
index h : head(H)
index g : head(G)
index t : time(T)
index s : time(S)
index d, k : feature(D)
map π(h) = ceil(h G / H) : g
input Q_{h t}^d, K_{g s}^d, V_{g s}^d
mask L_{h t s} : all
L_{h t s} = 1/√D Q_{h t}^k K_{π(h), s k}
output Y_{h t}^d = Σ_s softmax_s(L_{h t s}) V_{π(h), s}^d
"""
BOUNDS = {torch.float32: 2e-6, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.whole)], ids=str)
def test_any_width_for_any_number_of_heads_that_share(dtype: torch.dtype) -> None:
    """What torch gives in float64; more positions and features than wait beside each other, and fewer."""
    random, drawn = Random(0), torch.Generator().manual_seed(0)
    function = loaded(typed(SHARED), 256)
    for each in (1, 2, 3, 4, 7, 8):
        for D in (1, 16, 33, 64, 80, 128, 272, 530):
            S = random.choice((1, 15, 17, 40, 300, 700))
            Q, K, V = (torch.randn(count, length, D, generator=drawn).to(dtype)
                       for count, length in ((2 * each, random.choice((1, 3))), (2, S), (2, S)))
            with running(function) as ran:
                found = function(Q=Q, K=K, V=V)
            want = scaled_dot_product_attention(Q.double(), *(x.double().repeat_interleave(each, 0) for x in (K, V)))
            assert isinstance(found, torch.Tensor) and any(ran.values())
            assert (found.double() - want).abs().max() <= BOUNDS[dtype] * want.abs().max(), (each, S, D)
