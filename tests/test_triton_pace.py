"""What `triton_pace` exchanges in Triton's interpreter gives what the interpreter itself gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import triton.language as tl
from triton.runtime import interpreter as inner
from triton_modes import interpreted

USUAL = (inner.ReduceOps.generic_reduce, inner.ScanOps.generic_scan)


@pytest.fixture(scope="module", autouse=True)
def _interpreter() -> Iterator[None]:
    with interpreted():
        yield


class Later:
    """Of two pairs (a, b) of maps x ↦ a x + b the one that takes both in order: their order matters."""

    @staticmethod
    def fn(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
        return a * c, b * c + d


def blocks(*shape: int) -> tuple[Any, ...]:
    """Two blocks of small whole numbers in float64, of which every order of work makes the same."""
    draw = np.random.default_rng(len(shape))
    made = (draw.integers(-2, 3, shape).astype(np.float64) for _ in range(2))
    return tuple(tl.core.tensor(inner.TensorHandle(x, tl.float64), tl.block_type(tl.float64, list(shape)))
                 for x in made)


def numbers(found: Any) -> list[Any]:
    return [np.asarray(x.handle.data) for x in found]


@pytest.mark.parametrize(("shape", "axis"), [((8,), 0), ((4, 8), 0), ((4, 8), 1), ((2, 1), 1), ((4, 2, 8), 1)])
@pytest.mark.parametrize("keep", [False, True])
def test_a_fold_is_that_of_the_interpreter(shape: tuple[int, ...], axis: int, keep: bool) -> None:
    patch = inner._patch_lang(None)
    try:
        found, usual = (numbers(fold(inner.ReduceOps(axis, Later, keep), blocks(*shape)))
                        for fold in (inner.ReduceOps.generic_reduce, USUAL[0]))
        for got, want in zip(found, usual, strict=True):
            np.testing.assert_array_equal(got, want)
            assert got.shape == want.shape
    finally:
        patch.restore()


@pytest.mark.parametrize(("shape", "axis"), [((8,), 0), ((4, 8), 0), ((4, 8), 1), ((2, 1), 1), ((4, 2, 8), 1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_is_that_of_the_interpreter(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    patch = inner._patch_lang(None)
    try:
        ops = inner.ScanOps(axis, Later, reverse)
        for got, want in zip(numbers(ops.generic_scan(blocks(*shape))), numbers(USUAL[1](ops, blocks(*shape))),
                             strict=True):
            np.testing.assert_array_equal(got, want)
    finally:
        patch.restore()
