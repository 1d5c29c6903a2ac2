"""Products of matrices of whole numbers of 8 bits: exact in 32 bits, where the processor sums those."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from cpp_texts import NEEDED

import einc
from einc.backends.host.runtime import whole
from einc.backends.host.runtime.whole import _whole_product
from einc.driver.checking import typed as checked
from einc.meaning.interpret import interpret

PLAIN = """
index t, s : time(T)
index h : head(H)
index f : feature(M)
index e : feature(F)
input X_t^f : int8
weight W_f^e : int8
weight R_{h f}^e : int8
input σ
output Y_t^e = σ X_t^f W_f^e
output Z_t = Σ_e Σ_f σ X_t^f W_f^e
output A_{t h}^e = σ X_t^f R_{h f}^e
output B_t^e = Σ_{s ≤ t} exp(σ X_t^f X_{s f} / 10^6) X_s^f W_f^e
"""

SCORES = """
index t, s : time(T)
index h : head(H)
index d : feature(D)
input Q_{t h}^d : int8
input K_{s h}^d : int8
input V_{s h}^d, σ
mask L_{t s}^{(h)} : s ≤ t
L_{t s}^{(h)} = 8 tanh(σ Q_{t h}^d K_{s h d})
output Y_{t h}^d = Σ_s softmax_s(L_{t s}^{(h)}) V_{s h}^d
"""


def codes(*shape: int, seed: int = 0) -> torch.Tensor:
    """All of the type, its ends above all."""
    some = torch.randint(-140, 140, shape, generator=torch.Generator().manual_seed(seed))
    return some.clamp(-128, 127).to(torch.int8)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("rows", [(), (1,), (3,), (2, 5), (0,)])
def test_a_product_is_that_of_whole_numbers(rows: tuple[int, ...], fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_has_dots", lambda: fast)
    for depth, columns in ((1, 1), (65, 3), (300, 7), (0, 4), (4, 0)):
        a, b = codes(*rows, depth), codes(depth, columns, seed=1)
        for right in (b, b.t().contiguous().t()):
            got = _whole_product(a, right, torch.float64)
            assert got.dtype == torch.float64 and torch.equal(got, a.double() @ right.double())


def test_a_batch_is_formed_in_memory_that_is_there() -> None:
    a, b, memory = codes(2, 3, 5, 9), codes(2, 3, 9, 4, seed=1), torch.empty(2, 3, 5, 4)
    assert _whole_product(a, b, torch.float32, memory) is memory
    assert torch.equal(memory.double(), a.double() @ b.double())
    assert torch.equal(_whole_product(a, b, torch.float32), memory)


def test_sums_that_32_bits_hold_are_formed_in_them_and_no_others() -> None:
    for depth in (2**17 - 1, 2**17):
        a = torch.full((2, depth), -128, dtype=torch.int8)
        assert _whole_product(a, a.mT, torch.float64).eq(2**14 * depth).all()
    odd = torch.full((1, 1025), 127, dtype=torch.int8)
    odd[0, 0] = 1
    if whole._has_dots():  # float32 rounds sums beyond 2^24 on the way
        assert _whole_product(odd, odd.mT, torch.float32).item() == np.float32(1024 * 127**2 + 1)


def lying(rows: int, columns: int) -> Iterator[torch.Tensor]:
    """Matrices of these extents, their numbers apart from each other in memory or not."""
    yield codes(rows, columns)
    yield codes(columns, rows, seed=1).t()
    yield codes(2 * rows + 1, 3 * columns + 1, seed=2)[1::2, 1::3]
    yield codes(rows, columns + 5, seed=3)[:, :columns]
    yield codes(columns, rows + 5, seed=4)[:, :rows].t()
    for shape in ((1, columns), (rows, 1), (1, 1)):
        yield codes(*shape, seed=5).expand(rows, columns)
    for strides in ((1, 1), (2, 1), (1, 2), (0, 1), (1, 0), (1, rows), (columns, 1)):
        yield codes(rows * columns + 2 * (rows + columns), seed=6).as_strided((rows, columns), strides)


@pytest.mark.parametrize("fast", [True, False])
def test_it_does_not_matter_how_operands_lie_in_memory(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_has_dots", lambda: fast)
    extents = (0, 1, 2, 5, 17) if fast else (0, 1, 17)
    for rows, depth, columns in itertools.product(extents, repeat=3):
        for a, b in itertools.product(lying(rows, depth), lying(depth, columns)):
            got = _whole_product(a, b, torch.float64)
            assert torch.equal(got.long(), a.long() @ b.long()), (rows, depth, columns, a.stride(), b.stride())


@pytest.mark.parametrize("count", [4, 200])
@pytest.mark.parametrize("capped", [True, False])
def test_attention_with_one_feature_is_that_of_whole_numbers(count: int, capped: bool) -> None:
    q, k, v = codes(count, 1, 1), codes(count, 1, 1, seed=1), torch.randn(count, 1, 1, dtype=torch.float64)
    text = SCORES if capped else SCORES.replace("8 tanh(σ Q_{t h}^d K_{s h d})", "σ Q_{t h}^d K_{s h d}")
    got = einc.compile(text)(Q=q, K=k, V=v, sigma=torch.tensor(1 / 2**12, dtype=torch.float64))
    scores = torch.einsum("thd,shd->hts", q.double(), k.double()) / 2**12
    scores = (8 * scores.tanh() if capped else scores).masked_fill(torch.ones(count, count).triu(1).bool(), -torch.inf)
    assert torch.allclose(got, torch.einsum("hts,shd->thd", scores.softmax(2), v), rtol=0, atol=1e-9)


@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_files_form_products_of_whole_numbers(backend: str) -> None:
    sizes = {"T": 9, "H": 3, "M": 33, "F": 5}
    given = {"X": codes(9, 33), "W": codes(33, 5, seed=1), "R": codes(3, 33, 5, seed=2), "sigma": torch.tensor(0.25)}
    run = einc.compile(PLAIN, backend=backend)
    assert "_int_mm" in run.source
    want = interpret(checked(PLAIN), {key: x.double().numpy() for key, x in given.items()}, sizes)
    for name, got in run(**given)._asdict().items():
        assert np.abs(got.double().numpy() - want[name]).max() <= 2e-6 * np.abs(want[name]).max(), name


def test_a_plan_forms_its_products_so() -> None:
    """Numbers that are stored as whole ones by a plan, in tiles of attention and in matrices."""
    matrices = """
index f : feature(M)
index e : feature(F)
index t : time(T)
input X_t^f
weight V_f^e
output Y_t^e = X_t^f V_f^e
plan few:
    products of V by int8 per row
"""
    for spec in ("precision/sage1", matrices):
        assert "_whole_product(" in einc.compile(spec, plan="few").source.split("\ndef _", maxsplit=1)[0]


@NEEDED
@pytest.mark.usefixtures("kernel_cache")
@pytest.mark.parametrize(("count", "depth", "turned"), [
    (40, 7, False), (33, 64, True), (300, 130, False), (40, 1100, False)])
def test_compiled_attention_forms_products_of_whole_numbers(count: int, depth: int, turned: bool) -> None:
    """Of codes at the ends of their type, sums are beyond 2^24; features may lie apart."""
    q, k = codes(count, 2, depth), codes(count, 2, depth, seed=1)
    k[:, :, : depth // 2] = q[:, :, : depth // 2]
    if turned:
        q, k = (x.transpose(0, 2).contiguous().transpose(0, 2) for x in (q, k))
    v = torch.randn(count, 2, depth, generator=torch.Generator().manual_seed(2))
    run = einc.compile(SCORES, backend="cpp")
    got = run(Q=q, K=k, V=v, sigma=torch.tensor(1.0 / 2**17))
    scores = torch.einsum("thd,shd->hts", q.double(), k.double()) / 2**17
    scores = 8 * scores.tanh()  # a number that is added to a row of scores would make no difference without
    scores = scores.masked_fill(torch.ones(count, count).triu(1).bool(), -torch.inf)
    want = torch.einsum("hts,shd->thd", scores.softmax(2), v.double())
    assert (got.double() - want).abs().max() < 2e-6
    assert "products8<N>(" in run.source
