"""Where passes over sorted numbers begin and end: each program searches for the least and the greatest of its tile in
running extremes, which the host makes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from helpers import arrays, assert_close, called, meaning, tensors, typed
from triton_modes import interpreted, tiled

from einc.driver import front
from einc.ir.programs import TypedProgram

NEAR = 1e-9
SMALL = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (4, 4, 4, 1), "_POINTS": (32, 1, 4, 1)}
TEXT = """
index n : batch(B)
index t : time(T)
index s : time(S)
index d, k : feature(D)
input Q_{n t}^k, K_{n s}^k, V_{n s}^d
input KEYS, LIST : int
mask L_{n t s} : DOMAIN
L_{n t s} = Q_{n t}^k K_{n s k}
output Y_{n t}^d = Σ_s softmax_s(L_{n t s}) V_{n s}^d : all
"""
DOMAINS = ["LIST = KEYS", "LIST < KEYS", "LIST ≤ KEYS + 2", "LIST ≥ KEYS", "KEYS - 1 < LIST and LIST ≤ KEYS + 1"]
NAMES = [("lo_t", "of_s"), ("lo_{n t}", "of_{n s}"), ("lo_{t n}", "of_{s n}"), ("lo_{t n}", "of_{n s}")]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@cache
def emitted(names: tuple[str, str], domain: str) -> tuple[TypedProgram, str]:
    text = TEXT.replace("DOMAIN", domain)
    for word, name in zip(("KEYS", "LIST"), names, strict=True):
        text = text.replace(word, name)
    program = typed(text)
    return program, front.emit(front.plan(program, front.choices(own=True, backend="triton")), "triton")


@pytest.mark.parametrize(("names", "domain", "seed"), [
    pytest.param(names, domain, seed, marks=[] if (m + seed) % 4 == n and not seed else pytest.mark.whole)
    for n, names in enumerate(NAMES) for m, domain in enumerate(DOMAINS) for seed in range(4)])
def test_a_program_searches_for_the_ends_of_its_pass(names: tuple[str, str], domain: str, seed: int) -> None:
    """Numbers in any order or sorted, most of them several times, of sizes that cut tiles."""
    program, source = emitted(names, domain)
    assert "_count" in source
    random = np.random.default_rng(seed)
    sizes = {"B": 2, "T": int(random.integers(1, 40)), "S": int(random.integers(17, 60)), "D": 3}
    inputs = arrays(program, sizes, {"lo": ("0", "1"), "of": ("0", "1")}, seed)
    for name, written in zip(("lo", "of"), names, strict=True):
        drawn = random.integers(0, 6, inputs[name].shape)
        axis = -1 if written[-2] in "ts" or written[-1] in "ts" else 0
        inputs[name] = np.sort(drawn, axis) if seed % 2 == 0 else drawn
    function = tiled(source, "text", lambda kind, rows, columns: SMALL[kind])
    assert_close(called(function, program, tensors(inputs), sizes), meaning(program, inputs, sizes), NEAR)
