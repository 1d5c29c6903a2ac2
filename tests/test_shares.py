"""Folds over the axis of the tiles: the same as the interpreter says, twice the same
bits, and memory that grows with T alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import pytest
import torch
from helpers import Function, Tiles, arrays, assert_close, called, cut, meaning, plan_of, tensors, typed_of
from programs import Case
from triton_modes import Tiling, interpreted, tiled

from einc.backends.torch.load import load
from einc.driver import front
from einc.ir.choices import Choices
from einc.ir.plan import Dot, Kernel, leaves
from einc.planning.analysis.cost import size_of

NEAR = 1e-9  # sums in another order
TILES = [None, (3, 5), (5, 2), (1, 1)]
SIZES = {"T": 11, "H": 3, "D": 5, "R": 4, "G": 2, "N": 2, "W": 3}
HEAD = """
    index h : head(H)
    index t, s : time(T)
    index d, k : feature(D)
    index r : feature(R)
    input Q_{h t}^k, K_{h s}^k, V_{h s}^d, Y_{h t}^d, Δ_{h t}
"""
TILE = HEAD + """
    mask P_{h t s} : s ≤ t
    P_{h t s} = exp(Q_{h t}^k K_{h s k} - 20)
    U_{h t s} = P_{h t s} (V_{h s}^d Y_{h t d} - Δ_{h t})
"""
FREE = HEAD + """
    mask U_{h t s} : s ≤ t
    U_{h t s} = tanh(Q_{h t}^k K_{h s k}) (V_{h s}^d Y_{h t d} - Δ_{h t})
"""
TEXTS = {
    "slope": TILE + "output m_h = Σ_t Σ_s U_{h t s} (t - s) : all",
    "scalar": TILE + "output c = Σ_h Σ_t Σ_s U_{h t s} : all",
    "both": TILE + "output m_h = Σ_t Σ_s U_{h t s} (t - s) : all\noutput c = Σ_h Σ_t Σ_s U_{h t s} : all",
    "beside_rows": TILE + "output z_{h t}^k = Σ_s U_{h t s} K_{h s}^k : all\noutput c = 3 Σ_h Σ_t Σ_s U_{h t s} : all",
    "scaled": TILE + "output m_h = 1/√D Σ_t Σ_s U_{h t s} (t - s) : all",
    "greatest": FREE
    + "output m_h = max_{t} max_{s ≤ t} U_{h t s} : all\noutput n = min_{h} min_{t} min_{s ≤ t} U_{h t s} : all",
    "matrix": FREE + "output w_h^{d k} = Σ_t Σ_s U_{h t s} Y_{h t}^d K_{h s}^k : all",
    "bounded": FREE + "output m_h = Σ_t Σ_s U_{h t s} (t - s) : all\noutput z_{h t}^k = Σ_s U_{h t s} K_{h s}^k : all",
    "strip": FREE.replace("s ≤ t", "s ∈ (t - W, t]").replace("index r", "dim W\n    index r") +
    "output m_h = Σ_t Σ_s U_{h t s} (t - s) : all",
    "whole": FREE.replace("mask U_{h t s} : s ≤ t", "mask U_{h t s} : all") + "output c = Σ_h Σ_t Σ_s U_{h t s} : all",
    "both_axes": TILE.replace("exp(Q_{h t}^k K_{h s k} - 20)", "exp(-abs(Q_{h t}^k K_{h s k}))") + """
    output q_{h t}^k = 1/√D Σ_s U_{h t s} K_{h s}^k : all
    output k_{h s}^k = 1/√D Σ_t U_{h t s} Q_{h t}^k : all
    output v_{h s}^d = Σ_t P_{h t s} Y_{h t}^d : all
    output b_s = Σ_h Σ_t U_{h t s} : all
    output c = Σ_h Σ_t Σ_s U_{h t s} : all
    """,
    "large_on_both": TILE + """
    output q_{h t}^k = Σ_s U_{h t s} K_{h s}^k : all
    output v_{h s}^d = Σ_t P_{h t s} Y_{h t}^d : all
    output c = Σ_h Σ_t Σ_s U_{h t s} : all
    """,
    "sides_of_one_bias": FREE
    + "output b_u = Σ_h Σ_s U_{h u s} + Σ_h Σ_{t, u ≤ t} U_{h t u} : all".replace("_u", "_{t'}")
    .replace("{h u s}", "{h t' s}").replace("{t, u ≤ t} U_{h t u}", "{t, t' ≤ t} U_{h t t'}"),
    "table": TILE + "output b_{h r} = Σ_{t, s, min(t - s, 2) + 1 = r} U_{h t s} : all",
    "tables": FREE + """
    index g : feature(G)
    index p : feature(0..2 T)
    input x_t : int
    map π(h) = ceil(h G / H) : g
    output a_{g r} = Σ_{h, t, s, π(h) = g, min(t - s, 7) + 1 = r} U_{h t s} : all
    output b_p = Σ_h Σ_{t, s, t - s + T = p} U_{h t s} : all
    output e_r = Σ_h Σ_{t, s, mod(x_t + x_s, 3) + 1 = r} U_{h t s} : all
    output c = Σ_h Σ_t Σ_s U_{h t s} : all
    """,
    "rows_of_a_table": FREE + """
    output b_r^d = Σ_h Σ_{t, s, max(-1, s - t) + 2 = r} U_{h t s} Y_{h t}^d : all
    output c_r^k = Σ_h Σ_{t, s, max(-1, s - t) + 2 = r} U_{h t s} K_{h s}^k : all
    """,
    "pairs": FREE + """
    index v, w : feature(0..R-1)
    input x_t : int
    output b_{v w} = Σ_h Σ_{t, s, x_t = v, x_s = w} U_{h t s} : all
    output c_v = Σ_h Σ_{t, s, x_t = v} U_{h t s} : all
    """,
    "sides_in_batches": """
    index n : batch(N)
    index h : head(H)
    index t, s : time(T)
    index k : feature(D)
    input Q_{n h t}^k, K_{n h s}^k
    mask U_{n h t s} : all
    U_{n h t s} = exp(-abs(Q_{n h t}^k K_{n h s k}))
    output b_{t'} = Σ_n Σ_h Σ_s U_{n h t' s} + Σ_n Σ_h Σ_t U_{n h t t'} : all
    """,
    "batches": """
    index n : batch(N)
    index h : head(H)
    index t, s : time(T)
    index k : feature(D)
    input Q_{n h t}^k, K_{n h s}^k
    weight m_h
    mask U_{n h t s} : s ≤ t
    U_{n h t s} = tanh(Q_{n h t}^k K_{n h s k} - m_h (t - s))
    output g_h = Σ_n Σ_t Σ_s (1 - U_{n h t s} U_{n h t s}) (s - t) : all
    """,
}
CASES = [Case(name, text, {k: v for k, v in SIZES.items() if f"({k})" in text or f"dim {k}" in text},
              {"x": ("0", "R-1")}) for name, text in TEXTS.items()]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@cache
def text_of(case: Case, ordered: bool) -> str:
    return front.emit(front.plan(typed_of(case), Choices(ordered=ordered)))


def function_of(case: Case, ordered: bool, tiles: Tiles | None) -> Function:
    text = text_of(case, ordered)
    return load(cut(text, tiles) if tiles else text, plan_of(case).name)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("ordered", [True, False])
@each
def test_shares_are_what_the_interpreter_says(case: Case, ordered: bool) -> None:
    """Whatever the tiles, and twice the same bits."""
    program = typed_of(case)
    for seed, sizes in enumerate([dict(case.sizes), *({**case.sizes, "T": n} for n in (0, 1, 37))]):
        inputs = arrays(program, sizes, case.ranges, seed)
        want = meaning(program, inputs, sizes)
        for tiles in TILES:
            function = function_of(case, ordered, tiles)
            found = [called(function, program, tensors(inputs), sizes) for _ in range(2)]
            assert_close(found[0], want)
            assert all(torch.equal(a, b) for a, b in zip(found[0].values(), found[1].values(), strict=True))


@pytest.mark.parametrize("ordered", [True, False])
@each
def test_memory_grows_with_the_length_alone(case: Case, ordered: bool) -> None:
    """No buffer has T twice, and what holds both axes of a tile is formed tile by tile."""
    module = front.plan(typed_of(case), Choices(ordered=ordered))
    powers = [p for b in module.buffers.values() for mono, _ in size_of(b).terms for name, p in mono if name == "T"]
    assert max(powers) == 1
    kernels = [s for s in leaves(module.steps) if isinstance(s, Kernel)]
    assert kernels and all(k.grid is not None for k in kernels if sum(a.set.cls == "time" for a in k.axes) > 1)


def test_what_both_axes_need_is_formed_once() -> None:
    """Where tiles run in order one kernel has five products, two of them the same for all
    results; else two have seven."""
    one = next(c for c in CASES if c.name == "both_axes")
    for ordered, kernels, products in ((True, 1, 5), (False, 2, 7)):
        steps = front.plan(typed_of(one), Choices(ordered=ordered)).steps
        tiled = [s for s in leaves(steps) if isinstance(s, Kernel) and s.stream is not None]
        assert len(tiled) == kernels
        assert sum(isinstance(let.op, Dot) and len(let.args) > 1 for k in tiled for let in k.lets) == products


# the same as GPU kernels


@pytest.fixture
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def kernels_agree(case: Case, trials: Sequence[tuple[int, Tiling | None]]) -> None:
    """The kernels against the interpreter at lengths and in tiles, and twice the same bits."""
    program, source = typed_of(case), front.emit(plan_of(case), "triton")
    for seed, (length, tiles) in enumerate(trials):
        sizes = {**case.sizes, "T": length}
        inputs = arrays(program, sizes, case.ranges, seed)
        function = tiled(source, plan_of(case).name, None if tiles is None else lambda kind, *_, tiles=tiles: tiles)
        found = [called(function, program, tensors(inputs), sizes) for _ in range(2)]
        assert_close(found[0], meaning(program, inputs, sizes), NEAR)
        assert all(torch.equal(a, b) for a, b in zip(found[0].values(), found[1].values(), strict=True))


@pytest.mark.drawn(6)
@pytest.mark.usefixtures("interpreter")
@each
def test_kernels_leave_the_same_shares(case: Case) -> None:
    kernels_agree(case, [(case.sizes["T"], (4, 8, 4, 1)), (37, (16, 16, 4, 1)), (1, (16, 16, 4, 1)), (0, None)])


@pytest.mark.whole
@pytest.mark.usefixtures("interpreter")
@each
def test_kernels_leave_the_same_shares_in_their_own_tiles(case: Case) -> None:
    kernels_agree(case, [(37, None)])
