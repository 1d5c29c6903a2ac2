"""A few rows over a long past: exact at every length, count of heads and element type, however it is cut."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
import torch
from texts import grouped
from torch.nn.functional import scaled_dot_product_attention

import einc
from einc.backends.host.contractions import _matrices
from einc.backends.torch.runtime.products import _columns, _shares, _twice

GROUPED = grouped(True, "s ≤ t + S - T")
BOUNDS = {torch.float64: 1e-13, torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 5e-3}


@cache
def compiled(own: bool = True, narrow: bool = False) -> Any:
    return einc.compile(GROUPED, own=own, narrow=narrow)


def drawn(B: int, H: int, G: int, S: int, dtype: torch.dtype, T: int = 1, D: int = 16) -> tuple[torch.Tensor, ...]:
    """Keys and values lie in room for more positions, as in a cache."""
    torch.manual_seed(S + H)
    room = torch.randn(2, B, G, S + 5, D).to(dtype)
    return torch.randn(B, H, T, D).to(dtype), room[0, :, :, :S], room[1, :, :, :S]


def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    (T, S) = q.shape[2], k.shape[2]
    hidden = torch.arange(S) > torch.arange(T)[:, None] + S - T
    return torch.softmax((q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf), -1) @ v


def far(found: torch.Tensor, right: torch.Tensor) -> float:
    return float((found.double() - right).square().mean().sqrt() / right.square().mean().sqrt())


@pytest.mark.drawn(8)
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("length", [1, 17, 1000, 2047, 2048, 4097, 9000])
@pytest.mark.parametrize("heads", [(1, 1), (4, 4), (8, 2), (6, 1), (40, 2)])
def test_one_position_over_any_past(heads: tuple[int, int], length: int, dtype: torch.dtype) -> None:
    for B in (1, 2):
        q, k, v = drawn(B, *heads, length, dtype)
        assert far(compiled()(Q=q, K=k, V=v), exact(q, k, v)) <= BOUNDS[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_several_positions_see_what_is_before_them(dtype: torch.dtype) -> None:
    for T in (2, 3, 5):
        q, k, v = drawn(2, 6, 2, 4099, dtype, T)
        assert far(compiled()(Q=q, K=k, V=v), exact(q, k, v)) <= BOUNDS[dtype]


@pytest.mark.parametrize("length", [17, 1000, 4097])
def test_bfloat16_is_nearly_as_exact_as_torch(length: int) -> None:
    q, k, v = drawn(2, 16, 4, length, torch.bfloat16, D=128)
    right = exact(q, k, v)
    theirs = far(scaled_dot_product_attention(q, k, v, enable_gqa=True), right)
    assert far(compiled()(Q=q, K=k, V=v), right) <= 1.4 * theirs
    assert far(compiled(narrow=True)(Q=q, K=k, V=v), right) <= 4 * theirs


def test_wide_logits_are_not_rounded() -> None:
    """All but one of the logits are near together: rounded to eight bits they would be equal."""
    q, k, v = drawn(1, 2, 1, 3000, torch.bfloat16)
    q, k = torch.full_like(q, 4.0), torch.full_like(k, 4.0)
    k[..., 1500, 0] += 0.03125
    found, right = compiled()(Q=q, K=k, V=v), exact(q, k, v)
    assert far(found, right) <= BOUNDS[torch.bfloat16]


@pytest.mark.drawn(8)
@pytest.mark.parametrize("near", [0, 1, 7, 64, 5000, 2**19])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape",
                         [(3, 2, 5, 3000), (1, 1, 4, 2500), (2, 17, 3, 70), (0, 2, 3, 9), (2, 2, 3, 0),
                          (2, 2, 0, 2100)])
def test_parts_are_the_product(shape: tuple[int, int, int, int], turned: bool, kind: torch.dtype, near: int) -> None:
    """Whatever room there is near the processor, and however the second operand lies;
    parts without elements are neutral."""
    batch, rows, depth, count = shape
    torch.manual_seed(near)
    memory = torch.empty(near if kind != torch.float32 else 0)
    a = torch.randn(batch, rows, depth)
    b = (torch.randn(batch, count, depth).mT if turned else torch.randn(batch, depth, count)).to(kind)
    torch.testing.assert_close(_columns(memory, a, b), a @ b.float(), rtol=1e-4, atol=1e-4)
    out = torch.empty(batch, rows, count + 3)[..., 3:]
    torch.testing.assert_close(_columns(memory, a, b, out=out), a @ b.float(), rtol=1e-4, atol=1e-4)
    c = torch.randn(batch, rows, count).to(kind)
    found = _shares(memory, c, b.mT)
    assert found.shape == (batch, rows, depth)
    torch.testing.assert_close(found.float(), c.float() @ b.mT.float(), rtol=2e-2, atol=5e-1 if kind == torch.bfloat16
                               else 1e-3)


@pytest.mark.parametrize("count", [1, 5, 4096, 5000])
def test_what_rounding_loses_is_given_back(count: int) -> None:
    """A product of narrow operands, and another of what its rounding lost, are as exact
    as a wide one to some 16 bits."""
    torch.manual_seed(count)
    x, b = torch.randn(20, 300), torch.randn(count, 300).to(torch.bfloat16).mT
    out, right = torch.empty(20, count), x.double() @ b.double()
    _twice(x, b, out)
    assert far(out, right) < 2e-5 and far((x.bfloat16() @ b).float(), right) > 5e-4


@pytest.mark.parametrize("spec", ["tf,hfd->thd", "ntf,hfd->nthd", "thd,hdf->tf", "tf,fhd->thd", "tf,hdf->thd",
                                  "thd,fhd->tf"])
@pytest.mark.parametrize("count", [1, 3, 80])
def test_products_with_weights_of_heads(spec: str, count: int) -> None:
    """Rows times the matrices of all heads, as they lie."""
    sizes = {"t": count, "n": 2, "h": 4, "d": 5, "f": 6}
    read, out = spec.split("->")
    left, right = read.split(",")
    a, b = (torch.randn([sizes[x] for x in axes], dtype=torch.float64) for axes in (left, right))
    text = _matrices([("a", tuple(left)), ("b", tuple(right))], tuple(out), "torch.einsum(spec, a, b)")
    assert text
    torch.testing.assert_close(eval(text), torch.einsum(spec, a, b))
