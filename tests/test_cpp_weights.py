"""Products of the new positions of a step with its weights, which compiled kernels read once as they lie."""

from __future__ import annotations

from functools import cache
from inspect import unwrap
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from cpp_driver import checked, recorded
from cpp_texts import COMPILER, NEEDED
from test_cpp_driver import SANITIZERS, by_library, sanitized

import einc
from einc.backends.cpp.emit import header
from einc.backends.cpp.runtime import product

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

SIZES = {"d_model": 67, "r_Q": 35, "r": 70, "d_h": 33, "d_k": 6, "H": 3}  # no whole vectors
WEIGHTS = {"W_DQ": ("d_model", "r_Q"), "W_UQ": ("H", "r_Q", "d_h"), "W_QR": ("H", "r_Q", "d_k"),
           "W_D": ("d_model", "r"), "W_UK": ("H", "r", "d_h"), "W_UV": ("H", "r", "d_h"), "W_KR": ("d_model", "d_k"),
           "W_O": ("H", "d_h", "d_model")}
PAST = 9
SMALL = """index t, s : time(T)
index f : feature(F)
index e : feature(E)
input X_t^f
weight W_f^e, U_f^e, V_f^e
q_t^e = X_t^f W_f^e
k_s^e = X_s^f U_f^e
v_s^e = X_s^f V_f^e
mask L_{t s} : s ≤ t
L_{t s} = q_t^e k_s^e
output Y_t^e = Σ_s softmax_s(L_{t s}) v_s^e
"""
TEXT = "\n".join([header("lanes.h"), header("product.h"), "PRODUCT(k0, DATA, DATA, 6)",  # 6 strides of four tensors
                  'extern "C" L complete() { return 1; }'])
DTYPES = [torch.float32, *(pytest.param(dtype, marks=pytest.mark.whole) for dtype in (torch.bfloat16, torch.float16))]


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices are multiplied here, too."""
    monkeypatch.setattr(product, "_PLAIN_NUMBERS", 0)


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_drawn_products_with_weights_are_exact(dtype: torch.dtype) -> None:
    """Whole numbers, bit for bit, whichever letters lie side by side in the matrix, for any number of threads."""
    turn, before = Random(3), torch.get_num_threads()
    try:
        for n in range(12):
            sizes = {"h": turn.choice((1, 2, 3)), "t": turn.choice((1, 2, 3, 4)), "f": turn.choice((1, 5, 33, 70)),
                     "e": turn.choice((1, 7, 32, 131, 300))}
            x, w, out = (turn.sample(letters, len(letters)) for letters in ("htf" if n % 2 else "tf", "hfe", "hte"))
            drawn = torch.Generator().manual_seed(n)
            given = [(torch.randint(-3, 4, [sizes[c] for c in axes], generator=drawn).to(dtype), "".join(axes))
                     for axes in (x, w)]
            want = torch.einsum(f"{given[0][1]},{given[1][1]}->{''.join(out)}", *(y.double() for y, _ in given))
            groups = ("h", "t", "", "f", "e")
            torch.set_num_threads(n % 3 + 1)
            made = product._native_product(TEXT, "k0", 1, dtype, *given, None, groups, sizes, "".join(out))
            lies = 1 in (sizes["h"], sizes["f"], sizes["e"]) or w[-1] != "h"
            alone = dtype == torch.float32 and sizes["h"] * sizes["t"] == 1
            assert (made is not None) == (lies and not alone), (n, sizes, w)
            if made is not None:
                assert torch.equal(made.double(), want), (n, sizes)
    finally:
        torch.set_num_threads(before)


def products(source: str) -> list[str]:
    """The calls of compiled products in a file."""
    return [line for line in source.split("\n") if "_native_product(_CPP" in line]


def test_a_step_alone_multiplies_so() -> None:
    """A call without a cache has any number of rows."""
    assert len(products(einc.compile(SMALL, "cpp", plan="serve").source)) == 3
    assert not products(einc.compile(SMALL, "cpp").source)


@pytest.mark.whole
def test_what_is_kept_is_multiplied_by_torch() -> None:
    """It has many rows."""
    found = products(module().source)
    assert len(found) == len(WEIGHTS)
    assert not any("c_all" in line for line in found)


@cache
def module() -> Any:
    """A layer whose step multiplies with weights in all ways: rows with one matrix, with one for each head, and sums
    over heads."""
    return einc.compile("mla_rope", "cpp", plan="serve")


def weights(lies: str) -> dict[str, torch.Tensor]:
    """Weights with their last axis side by side, the one before it, or neither."""
    drawn = torch.Generator().manual_seed(1)
    found = {}
    for name, axes in WEIGHTS.items():
        shape = [SIZES[axis] for axis in axes]
        x = torch.randn(*shape, generator=drawn, dtype=torch.float64) * shape[-2] ** -0.5
        apart = torch.zeros(*shape[:-1], 2 * shape[-1], dtype=torch.float64)[..., ::2].copy_(x)
        found[name] = {"last": x, "turned": x.mT.contiguous().mT, "apart": apart}[lies]
    return found


def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in another type, as it lies."""
    return torch.empty_strided(x.shape, x.stride(), dtype=dtype).copy_(x)


def stepped(rows: int, dtype: torch.dtype, lies: str, least: int, monkeypatch: pytest.MonkeyPatch,
            exact: bool = False) -> tuple[torch.Tensor, list[bool]]:
    """What a step of so many positions makes, and whether each product with weights ran compiled; matrices of fewer
    than `least` numbers are torch's."""
    names = unwrap(module().function).__globals__
    monkeypatch.setitem(names, "_PLAIN_NUMBERS", least)
    given = {name: cast(cast(x, dtype), torch.float64) if exact else cast(x, dtype)
             for name, x in weights(lies).items()}
    x = torch.randn(PAST + rows, SIZES["d_model"], generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    x = x.to(dtype).to(torch.float64 if exact else dtype)
    _, kept = module().prefill(X=x[:PAST], **given)
    names["_RAN"].clear()
    made = module()(kept, X=x[PAST:], **given)
    return made, [done for name, done in names["_RAN"].items() if f"PRODUCT({name}," in names["_CPP"]]



@pytest.mark.whole
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("lies", ["last", "turned", "apart"])
def test_a_step_is_as_exact_as_with_the_products_of_torch(lies: str, dtype: torch.dtype,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows run compiled; many rows do not, nor does a matrix whose numbers lie apart."""
    for rows in (1, 3, 4, 5):
        want, none = stepped(rows, dtype, lies, 0, monkeypatch, exact=True)
        usual, left = stepped(rows, dtype, lies, 2**60, monkeypatch)
        made, ran = stepped(rows, dtype, lies, 0, monkeypatch)
        assert not any((*none, *left))
        assert any(ran) == (rows < 5 and lies != "apart"), (rows, ran)
        assert made.dtype == dtype
        error, other = ((x.double() - want).norm() / want.norm() for x in (made, usual))
        assert error <= 1.5 * other + 1e-7, (rows, error, other)


@pytest.mark.whole
@pytest.mark.skipif(not sanitized(), reason="the C++ compiler has no address and undefined-behaviour sanitizers")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sanitizers_find_nothing_in_products_with_weights(dtype: torch.dtype, tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """No read outside of the numbers of a matrix, whose last axis lies side by side or the one before it."""
    run = einc.compile(SMALL, "cpp", plan="serve")
    monkeypatch.setitem(unwrap(run.function).__globals__, "_PLAIN_NUMBERS", 0)
    with recorded(run.function) as calls:
        for rows, F, E in ((2, 5, 33), (3, 70, 7), (4, 33, 300)):
            drawn = torch.Generator().manual_seed(E)
            given = {name: torch.randn(F, E, generator=drawn).to(dtype) for name in "WUV"}
            given["U"] = given["U"].mT.contiguous().mT
            run(run.prefill(X=torch.randn(5, F, generator=drawn).to(dtype), **given)[1],
                X=torch.randn(rows, F, generator=drawn).to(dtype), **given)
    assert len([call for call in calls if call.kernel in ("k0", "k1", "k2")]) == 9
    for some in by_library(calls):
        checked(tmp_path, run.function, some, [COMPILER, *SANITIZERS], bound=1e-4 if dtype == torch.float32 else 2e-2)
