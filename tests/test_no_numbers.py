"""What is no number stays none in rows that may be empty: no guard takes it for a row without a point."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from cpp_texts import COMPILER

import einc

HEAD = """
index t : time(T)
index s : time(S)
input q_t, k_s, v_s
mask L_{t s} : s ≤ 5 t
L_{t s} = q_t k_s
"""
BODIES = {
    "logsumexp": "output y_t = logsumexp_s(L_{t s})",
    "softmax": "output y_t = Σ_s softmax_s(L_{t s}) v_s",
    "both": "output y_t = Σ_s softmax_s(L_{t s}) v_s + logsumexp_s(L_{t s})",
    "square": "output y_t = Σ_s softmax_s(L_{t s})^2",
}
BACKS = ["torch", pytest.param("cpp", marks=pytest.mark.skipif(not COMPILER, reason="no C++ compiler is here"))]


def values(name: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What a body sums, where it does."""
    return {"v": torch.ones(4, dtype=dtype)} if "v_s" in BODIES[name] else {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKS)
@pytest.mark.parametrize("wrong", [(1,), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.usefixtures("kernel_cache")
def test_softmax_of_what_is_no_number(name: str, wrong: Sequence[int], backend: str, dtype: torch.dtype) -> None:
    keys = torch.zeros(4, dtype=dtype)
    keys[list(wrong)] = math.nan
    made = einc.compile(HEAD + BODIES[name], backend, own=True)
    assert made(q=torch.ones(1, dtype=dtype), k=keys, **values(name, dtype)).isnan().all()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", BACKS)
@pytest.mark.usefixtures("kernel_cache")
def test_a_loss_of_what_is_no_number(backend: str, grad: bool) -> None:
    """As torch's own cross entropy: NaN in its row, and numbers elsewhere."""
    words, weights = torch.tensor([1, 2, 3]), torch.randn(4, 5)
    inputs = torch.randn(3, 4)
    inputs[1, 0] = math.nan
    found = einc.compile("linear_cross_entropy", backend, grad=grad)(w=words, X=inputs, W=weights)
    assert found.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("backend", BACKS)
@pytest.mark.usefixtures("kernel_cache")
def test_rows_without_a_point_stay_what_they_were(backend: str) -> None:
    """The guard is still there: −∞ and 0 where nothing is summed."""
    for name, want in (("logsumexp", -math.inf), ("softmax", 0.0), ("square", 0.0)):
        text = (HEAD + BODIES[name]).replace("s ≤ 5 t", "s < t")
        got = einc.compile(text, backend, own=True)(q=torch.ones(3), k=torch.zeros(4), **values(name, torch.float32))
        assert got[0] == want
        assert got[1:].isfinite().all()
