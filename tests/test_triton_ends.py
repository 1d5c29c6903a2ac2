"""A pass that data end before the last row: places beyond its end are no part of it, whatever stands there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from helpers import arrays, assert_close, called, meaning, tensors, typed
from triton_modes import interpreted, tiled

from einc.driver import front

TILES = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (4, 4, 4, 1), "_POINTS": (32, 1, 4, 1)}
TEXT = """
index t, s : time(T)
index d, k : feature(D)
input Q_t^k, K_s^k, V_s^d
input b_t, c_t : int
mask L_{t s} : DOMAIN
L_{t s} = Q_t^k K_{s k}
output Y_t^d = Σ_s softmax_s(L_{t s}) V_s^d : all
output C_t = 0 + c_t
"""
OTHER = ["b_s < b_t and s ≤ t", "s ≤ t and b_s ≤ b_t - 2", "s ≤ t and b_s = c_t", "s ≤ t and b_s < t - 3"]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@pytest.mark.parametrize("domain", ["s ≤ t and b_s < 2", "s ≤ t and c_s ≤ b_t", "s ≤ t and b_s ≤ c_t",
                                    *(pytest.param(x, marks=pytest.mark.whole) for x in OTHER)])
def test_places_behind_the_end_of_a_pass_do_not_count(domain: str) -> None:
    """Numbers that rise and numbers in any order, where what is read beyond the end is 0."""
    program = typed(TEXT.replace("DOMAIN", domain))
    function = tiled(front.emit(front.plan(program, front.choices(own=True, backend="triton")), "triton"), "text",
                     lambda kind, rows, columns: TILES[kind])
    random, sizes = np.random.default_rng(1), {"T": 40, "D": 3}
    for rise in (True, False):
        inputs = arrays(program, sizes, {"b": ("0", "1"), "c": ("0", "1")}, 1)
        for name in ("b", "c"):
            drawn = random.integers(0, 9, 40)
            inputs[name] = np.sort(drawn) if rise else drawn
        assert_close(called(function, program, tensors(inputs), sizes), meaning(program, inputs, sizes), 1e-9)
