"""Sums over blocks of products, and products of few bits with data: done slice by slice, with a wide sum of the slices,
so that neither what the blocks make nor what is widened is there as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton_modes import interpreted

import einc
from einc.driver import compiling
from einc.driver.checking import typed
from einc.driver.options import Options
from einc.ir.plan import InSlices, Module

HEAD = """index t : time(T)
index b : feature(N)
index u : feature(P)
index f : feature(N P) = (b u)
index e : feature(D)
input X_t^f
"""
GROUPS = f"{HEAD}weight w_f^e : int8\nweight ω^{{(b) e}}\n" + (
    "output Y_t^e = Σ_b ω^{(b) e} Σ_u X_t^{(b u)} w_{(b u)}^e")
PLAIN = "index t : time(T)\nindex f : feature(F)\nindex e : feature(D)\ninput X_t^f\n"
COLUMNS = f"{PLAIN}weight w_f^e : int8\nweight ω^e\noutput Y_t^e = ω^e X_t^f w_f^e"
TURNED = f"{PLAIN}weight w_e^f : int8\nweight ω_e\noutput Y_t^e = ω_e X_t^f w_{{e f}}"
SIZES = {"T": 4, "N": 300, "P": 64, "D": 130}


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


class Largest(TorchDispatchMode):
    """The numbers of the largest tensor of real numbers that is made, views of what is given apart."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        made = func(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        if isinstance(made, torch.Tensor) and made.is_floating_point() and (
                made.untyped_storage().data_ptr() not in given):
            self.count = max(self.count, made.numel())
        return made


def drawn(kind: torch.dtype, turned: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    shape = (SIZES["N"] * SIZES["P"], SIZES["D"])
    w = torch.randint(-127, 128, shape[::-1] if turned else shape, dtype=torch.int8)
    return torch.randn(SIZES["T"], shape[0]).to(kind), w


@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
def test_weights_of_few_bits_are_widened_slice_by_slice(backend: str) -> None:
    x, w = drawn(torch.float32)
    omega = torch.rand(SIZES["N"], SIZES["D"])
    want = torch.einsum("tbu,bue,be->te", x.double().unflatten(1, (-1, 64)), w.double().unflatten(0, (-1, 64)),
                        omega.double())
    run = einc.compile(GROUPS, backend=backend)
    with Largest() as most:
        y = run(X=x, w=w, omega=omega, P=SIZES["P"])
    assert (y - want).abs().max() <= 2e-6 * want.abs().max()
    assert most.count <= 2**20 < w.numel()


@pytest.mark.parametrize("text", [COLUMNS, TURNED], ids=["of rows", "of columns"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_either_way_in_which_a_matrix_lies(text: str, kind: torch.dtype) -> None:
    x, w = drawn(kind, text == TURNED)
    omega = torch.rand(SIZES["D"]).to(kind)
    run = einc.compile(text)
    with Largest() as most:
        y = run(X=x, w=w, omega=omega)
    want = x.double() @ (w.T if text == TURNED else w).double() * omega.double()
    assert (y - want).abs().max() <= (2e-6 if kind == torch.float32 else 2e-2) * want.abs().max()
    assert most.count <= 2**20 < w.numel()


@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_products_of_blocks_are_never_there_as_a_whole(backend: str, kind: torch.dtype) -> None:
    """DeepSeek-V3's product: the sum over blocks of 4 numbers is kept wide, whatever the data is."""
    blocks, width, rows, columns = 192, 4, 96, 96
    torch.manual_seed(2)
    x, w = torch.randn(rows, blocks * width).to(kind), torch.randn(blocks * width, columns).to(kind)
    run = einc.compile("precision/fp8_blockwise", backend=backend)
    with Largest() as most:
        y = run(X=x, W=w, N=blocks, M=columns // width, P=width)
    assert y.dtype == kind and most.count <= 2**20 < blocks * rows * columns
    want = _by_hand(x, w, width)
    assert (y - want).abs().max() <= (1e-5 if kind == torch.float32 else 8e-2) * want.abs().max()


def _by_hand(x: torch.Tensor, w: torch.Tensor, width: int) -> torch.Tensor:
    """The sum over blocks by a loop, in float64."""
    def few(block: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
        scale = block.abs().amax(dims, keepdim=True) / 448
        return scale * (block / scale).float().to(torch.float8_e4m3fn).double()

    out = torch.zeros(len(x), w.shape[1], dtype=torch.float64)
    for at in range(0, w.shape[0], width):
        rows = w[at : at + width].double()
        parts = [few(rows[:, n : n + width], (0, 1)) for n in range(0, w.shape[1], width)]
        out += few(x[:, at : at + width].double(), (1,)) @ torch.cat(parts, 1)
    return out


def test_the_plan_counts_no_products_of_blocks() -> None:
    plan = compiling.planned(typed("precision/fp8_blockwise"), Options())
    assert isinstance(plan, Module)
    (step,) = (one for one in plan.steps if isinstance(one, InSlices))
    assert [one.out for one in step.contractions] == ["S", "Y"] and step.adds
    assert "S" not in step.writes and step.cost.written.sizes == {"T", "M", "P"}
