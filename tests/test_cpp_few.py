"""Compiled kernels of few rows, whose lanes are features: what heads share is read once, and as it lies in memory."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
import torch
from cpp_texts import NEEDED, loaded, running
from helpers import Function, typed
from texts import grouped
from torch.nn.functional import scaled_dot_product_attention

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

SHARED = grouped(False, "all")
CODES = SHARED.replace("input Q_{h t}^d, K_{g s}^d, V_{g s}^d", """input Q_{h t}^d, w_{g s}
input K_{g s}^d : int8
input V_{g s}^d : int8""").replace("1/√D", "1/√D w_{π(h), s}")
BOUNDS = {torch.float32: 2e-6, torch.bfloat16: 2e-2}


FEATURES = (1, 16, 33, 64, 80, 128, 272, 530)  # fewer than wait beside each other, and more


@cache
def shared() -> Function:
    """The function of these equations, with the tile that users have."""
    return loaded(typed(SHARED), 256)


def given(each: int, D: int, S: int, T: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Inputs in which so many heads share keys and values."""
    drawn = torch.Generator().manual_seed(each + D + S)
    shapes = {"Q": (2 * each, T, D), "K": (2, S, D), "V": (2, S, D)}
    return {key: torch.randn(*shape, generator=drawn).to(dtype) for key, shape in shapes.items()}


@pytest.mark.parametrize(("dtype", "heads", "features"), [
    pytest.param(torch.float32, (1, 2, 3, 4, 7, 8), FEATURES, id="float32"),
    pytest.param(torch.bfloat16, (1, 3, 8), (33, 80), id="bfloat16"),
    pytest.param(torch.bfloat16, (1, 2, 3, 4, 7, 8), FEATURES, id="bfloat16-all", marks=pytest.mark.whole)])
def test_any_width_for_any_number_of_heads_that_share(dtype: torch.dtype, heads: tuple[int, ...],
                                                      features: tuple[int, ...]) -> None:
    """What torch gives in float64; more positions and features than wait beside each other, and fewer."""
    random = Random(0)
    for each in heads:
        for D in features:
            S = random.choice((1, 15, 17, 40, 300, 700))
            data = given(each, D, S, random.choice((1, 3)), dtype)
            with running(shared()) as ran:
                found = shared()(**data)
            K, V = (data[key].double().repeat_interleave(each, 0) for key in "KV")
            want = scaled_dot_product_attention(data["Q"].double(), K, V)
            assert isinstance(found, torch.Tensor) and any(ran.values())
            assert (found.double() - want).abs().max() <= BOUNDS[dtype] * want.abs().max(), (each, S, D)


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.whole), torch.bfloat16], ids=str)
def test_codes_of_a_byte_beside_data(dtype: torch.dtype) -> None:
    """In bfloat16 each is half of a pair, for few rows and for many; the least and the greatest code, an odd width, an
    odd number of positions."""
    function, drawn = loaded(typed(CODES), 256), torch.Generator().manual_seed(0)
    for each, D, S, T in ((1, 33, 17, 1), (3, 80, 300, 1), (8, 64, 41, 1), (2, 33, 41, 40)):
        data = given(each, D, S, T, dtype)
        for key in "KV":
            data[key] = torch.randint(-128, 128, data[key].shape, generator=drawn, dtype=torch.int8)
        data["w"] = torch.rand(2, S, generator=drawn).to(dtype) / 32
        with running(function) as ran:
            found = function(**data)
        K = (data["K"].double() * data["w"].double()[..., None]).repeat_interleave(each, 0)
        want = scaled_dot_product_attention(data["Q"].double(), K, data["V"].double().repeat_interleave(each, 0))
        assert isinstance(found, torch.Tensor) and any(ran.values())
        assert (found.double() - want).abs().max() <= BOUNDS[dtype] * want.abs().max(), (each, D, S, T)
