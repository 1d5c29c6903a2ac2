"""A fold over pairs of positions that leaves none is done row by row, beside what else runs over the pairs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers import arrays, assert_close, called, cut, meaning, tensors, typed
from triton_modes import interpreted, tiled

from einc.backends.torch.load import load
from einc.backends.triton.layout import layout
from einc.driver import front
from einc.ir.plan import Contract, Kernel, Module

HEAD = """
index h       : head(H)
index t, s    : time(T)
index d, e    : feature(d_k), feature(d_v)
index n       : feature(N)
input Q_{h t}^d, K_{h s}^d, V_{h s}^e, dY_{h t}^e, lse_{h t}, D_{h t}, γ_h, x_t, z_s
input k_t : int
mask P_{h t s} : s ≤ t
P_{h t s}  = exp(Q_{h t}^d K_{h s d} - γ_h (t - s) - lse_{h t})
dL_{h t s} = P_{h t s} (V_{h s}^e dY_{h t e} - D_{h t})
"""
SUMS = {
    "a slope": "output y_h = Σ_{t s} dL_{h t s} (s - t) : all",
    "beside others": "output y_h = Σ_{t s} dL_{h t s} (s - t) : all\noutput dQ_{h t}^d = Σ_s dL_{h t s} K_{h s}^d",
    "a number": "output y = Σ_{h t s} dL_{h t s} tanh(x_t z_s) : all",
    "rows and columns": "output y_h = Σ_{t s, k_t = 1, z_s > 0} dL_{h t s} : all",
    "a maximum": "output y_h = max_{t s} (Q_{h t}^d K_{h s d} - x_t z_s) : all",
    "the past": "output y = Σ_{h t s, s ≤ t} (Q_{h t}^d K_{h s d}) : all",
    "the past, fading": "output y_h = Σ_{t s, s ≤ t} (t - s) e^{s - t} (Q_{h t}^d K_{h s d}) (V_{h s}^e dY_{h t e}) : "
                        "all",
}
LEFT = {
    "a table": "output y_h^n = Σ_{t s, min(t - s + 1, N) = n} dL_{h t s} : all",
    "a product": "output y_h = Σ_{t s d} Q_{h t}^d K_{h s d} : all",
    "a position stays": "output y_{h s} = Σ_t dL_{h t s} : all",
    "one position": "output y_h = Σ_{t d} exp(Q_{h t}^d) : all",
}


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def rows(plan: Module) -> list[Kernel]:
    """Kernels that store a number for each row."""
    return [s for s in plan.steps if isinstance(s, Kernel) and any("_row" in store.buffer for store in s.stores)]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", [*SUMS, *LEFT])
def test_folds_over_pairs(name: str) -> None:
    program = typed(HEAD + {**SUMS, **LEFT}[name])
    plan = front.plan(program)
    assert len(rows(plan)) == (name in SUMS)
    assert not [b for b in plan.buffers.values() if sum(s.cls == "time" for s in b.sets) > 1]
    assert all(k.grid for k in rows(plan))
    source, kernels = front.emit(plan), front.emit(plan, "triton")
    functions = [load(source, plan.name), load(cut(source, (4, 5)), plan.name), tiled(kernels, plan.name)]
    for extent in (0, 1, 7, 37):
        sizes = {"H": 2, "T": extent, "d_k": 3, "d_v": 2, "N": 4}
        given = arrays(program, sizes, {"k": ("0", "2")}, extent)
        want = meaning(program, given, sizes)
        for run in functions:
            assert_close(called(run, program, tensors(given), sizes), want, 1e-9)


def test_what_runs_over_the_same_pairs_shares_the_kernel() -> None:
    plan = front.plan(typed(HEAD + SUMS["beside others"]))
    (kernel, last) = plan.steps
    assert isinstance(kernel, Kernel) and {s.buffer for s in kernel.stores} == {"y_row", "dQ"}
    assert isinstance(last, Contract)


GATES = """
index t, s : time(T)
index h    : head(H)
index d, n : feature(d_k), feature(N)
input q_{t h}^d, k_{s h}^d, a_{t h}, B_s^n, C_s^n
mask G_{t s} : s ≤ t
G_{t s} = Σ_{h d} q_{t h}^d exp(a_{t h} - a_{s h}) k_{s h}^d
"""
READERS = {
    "rows": "output y_t^n = Σ_s G_{t s} B_s^n",
    "columns": "output y_s^n = Σ_t G_{t s} C_t^n : all",
    "both": "output y_t^n = Σ_s G_{t s} B_s^n\noutput z_s^n = Σ_t G_{t s} C_t^n : all",
    "scaled twice": "output y_t^n = Σ_s G_{t s} B_s^n tanh(C_s^n)",
    "no sum of products": "output y_t^n = Σ_s exp(G_{t s}) B_s^n",
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", READERS)
def test_heads_of_pairs_are_summed_after_the_positions(name: str) -> None:
    """A tile of pairs has no third dimension: each head is a program of its own, where the reader is linear."""
    program = typed(GATES + READERS[name])
    plan = front.plan(program, choices=front.choices(backend="triton"))
    passes = [s for s in plan.steps if isinstance(s, Kernel) and any({"t", "s"} <= {*let.axes} for let in s.lets)]
    assert all(("h" in layout(k).programs) == (name != "no sum of products") for k in passes) and passes
    run = tiled(front.emit(plan, "triton"), plan.name)
    for extent in (1, 7, 37):
        sizes = {"H": 3, "T": extent, "d_k": 3, "N": 4}
        given = arrays(program, sizes, {}, extent)
        assert_close(called(run, program, tensors(given), sizes), meaning(program, given, sizes), 1e-9)


def test_work_over_the_past_is_linear() -> None:
    for name in ("the past", "the past, fading"):
        plan = front.plan(typed(HEAD + SUMS[name]))
        flops = [sum(s.cost.flops.at({"H": 4, "d_k": 16, "d_v": 16, "T": n}) for s in plan.steps)
                 for n in (1 << 12, 1 << 16)]
        assert flops[1] < 17 * flops[0]
