"""Products of numbers of 8 bits with exponents: by torch's product of them where a device has it, else widened.

No device of these tests has it, so that the question whether one has is answered for it: the CPU's own way stands in.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import einc
from einc.backends.host.runtime import whole

ROWS = """index t : time(T)
index f : feature(F)
index e : feature(D)
input x_t^f : e4m3
input w_f^e : TYPE
input z_t
σ_t = z_t
output Y_t^e = σ_t x_t^f w_f^e
"""


def drawn(rows: int, depth: int, columns: int, kind: torch.dtype = torch.float8_e4m3fn) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(rows)
    return (30 * torch.randn(rows, depth)).to(torch.float8_e4m3fn), (30 * torch.randn(depth, columns)).to(kind)


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 1, 1), (5, 40, 7), (0, 4, 4), (2, 3, 0)])
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("has", [True, False])
def test_both_ways_make_the_same(shape: tuple[int, int, int], kind: torch.dtype, has: bool,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Any]()
    product = torch._scaled_mm
    monkeypatch.setattr(whole, "_has_products_of_codes", lambda a, b: has and torch.float8_e4m3fn == b.dtype)
    monkeypatch.setattr(torch, "_scaled_mm", lambda *args, **kwargs: asked.append(1) or product(*args, **kwargs))
    a, b = drawn(*shape, kind)
    for right in (b, b.view(torch.uint8).T.contiguous().T.view(kind)):
        made, want = whole._product_of_codes(a, right, torch.float32), a.double() @ b.double()
        # numbers of 4 digits: their products have 8, and sums of so few of them lose nothing but float32's last digit
        assert made.dtype == torch.float32 and torch.allclose(made.double(), want, rtol=1e-6, atol=1e-6 * 448**2)
    assert bool(asked) == (has and kind == torch.float8_e4m3fn and bool(a.numel()))


def test_whole_numbers_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_has_products_of_codes", lambda a, b: True)
    torch.manual_seed(0)
    a, b = (torch.randint(-15, 16, size).float().to(torch.float8_e4m3fn) for size in ((2, 9, 64), (64, 5)))
    assert torch.equal(whole._product_of_codes(a, b, torch.float32), a.float() @ b.float())


def test_no_cpu_is_asked_for_it() -> None:
    assert not whole._has_products_of_codes(*drawn(16, 16, 16))


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_files_ask_for_it(kind: str) -> None:
    run = einc.compile(ROWS.replace("TYPE", kind), backend="torch")
    assert "_product_of_codes(x, w, wide)" in run.source and "_scaled_mm" in run.source
    x, w = drawn(4, 24, 6, {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[kind])
    z = torch.rand(4)
    want = z.double()[:, None] * (x.double() @ w.double())
    assert torch.allclose(run(x=x, w=w, z=z).double(), want, rtol=1e-5, atol=1e-2)
