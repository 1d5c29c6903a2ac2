"""Folds from a point on are the mirror image of folds up to a point: what the tiles
behind left is carried the other way.

The examples are the adjoints, written by hand, of layers whose past is a carried sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers import arrays, assert_close, called, cut, distance, meaning, tensors, typed
from test_scan import STATES, TWO, chunks, tiled
from triton_modes import interpreted
from triton_modes import tiled as in_triton

from einc.backends.torch.load import load
from einc.driver import front
from einc.ir.plan import Module

HEAD = """
index h       : head(H)
index t, s, u : time(T)
index d, e    : feature(d_k), feature(d_v)
input Q_{h t}^d, K_{h s}^d, V_{h s}^e, dY_{h t}^e
"""
LINEAR = """
input Y_{h t}^e, z_{h t}
q_{h t}^d = exp(Q_{h t}^d)
k_{h s}^d = exp(K_{h s}^d)
mask A_{h t s}, dA_{h t s} : s ≤ t
A_{h t s} = q_{h t}^d k_{h s}^d / z_{h t}
dA_{h t s} = (V_{h s}^e dY_{h t e} - Y_{h t}^e dY_{h t e}) / z_{h t}
output dQ_{h t}^d = q_{h t}^d Σ_s dA_{h t s} k_{h s}^d
output dK_{h s}^d = k_{h s}^d Σ_t dA_{h t s} q_{h t}^d : all
output dV_{h s}^e = Σ_t A_{h t s} dY_{h t}^e : all
"""
RETENTION = """
input γ_h
mask W_{h t s} : s ≤ t
W_{h t s} = (γ_h)^{t - s}
dP_{h t s} = W_{h t s} dY_{h t}^e V_{h s e}
output dQ_{h t}^d = Σ_s dP_{h t s} K_{h s}^d
output dK_{h s}^d = Σ_t dP_{h t s} Q_{h t}^d : all
output dV_{h s}^e = Σ_t W_{h t s} (Q_{h t}^d K_{h s d}) dY_{h t}^e : all
"""
GATED = """
input x_{h t}^d
g_{h t}^d = Σ_{u ≤ t} log(sigmoid(x_{h u}^d))
mask W_{h t s}^d : s ≤ t
W_{h t s}^d = exp(g_{h t}^d - g_{h s}^d)
dP_{h t s} = dY_{h t}^e V_{h s e}
output dQ_{h t}^d = Σ_s W_{h t s}^d K_{h s}^d dP_{h t s}
output dK_{h s}^d = Σ_t W_{h t s}^d Q_{h t}^d dP_{h t s} : all
output dV_{h s}^e = Σ_t (Σ_d W_{h t s}^d Q_{h t}^d K_{h s}^d) dY_{h t}^e : all
a_{h t}^d = Q_{h t}^d dQ_{h t}^d - K_{h t}^d dK_{h t}^d
output dx_{h s}^d = (1 - sigmoid(x_{h s}^d)) Σ_{t ≥ s} a_{h t}^d : all
"""
ADJOINTS = {"linear": LINEAR, "retention": RETENTION, "gated": GATED}
TILES = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (4, 4, 4, 1), "_POINTS": (32, 1, 4, 1)}


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def functions(plan: Module) -> list[Callable[..., Any]]:
    """Both back ends, the tiles as they come and short."""
    source, kernels = front.emit(plan), front.emit(plan, "triton")
    short = in_triton(kernels, plan.name, lambda kind, rows, columns: TILES[kind])
    return [load(source, plan.name), load(cut(source, (4, 5)), plan.name), in_triton(kernels, plan.name), short]


@pytest.mark.parametrize("name", ADJOINTS)
def test_adjoints_mean_what_the_interpreter_says(name: str) -> None:
    program = typed(HEAD + ADJOINTS[name])
    plan = front.plan(program)
    runs = functions(plan)
    for extent in (0, 1, 9, 37):
        sizes = {"H": 2, "T": extent, "d_k": 3, "d_v": 2}
        given = arrays(program, sizes, {}, extent)
        if "z" in given:
            given["z"] = abs(given["z"]) + 1
        want = meaning(program, given, sizes)
        for run in runs:
            assert_close(called(run, program, tensors(given), sizes), want, 1e-9)


def dense(name: str, x: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The layer with all pairs of positions, and what it divides by."""
    length = x["Q"].shape[1]
    behind = torch.ones(length, length, dtype=torch.bool, device=x["Q"].device).tril()
    if name == "gated":
        g = torch.nn.functional.logsigmoid(x["x"]).cumsum(1)
        decay = (g[:, :, None] - g[:, None]).masked_fill(~behind[..., None], -torch.inf).exp()
        return torch.einsum("htsd,htd,hsd,hse->hte", decay, x["Q"], x["K"], x["V"]), x["Q"]
    if name == "linear":
        scores = torch.einsum("htd,hsd->hts", x["Q"].exp(), x["K"].exp()) * behind
        return scores @ x["V"] / scores.sum(-1, keepdim=True), scores.sum(-1)
    t = torch.arange(length, device=x["Q"].device)
    decay = x["gamma"][:, None, None] ** (t[:, None] - t).clamp(min=0) * behind
    return (torch.einsum("htd,hsd->hts", x["Q"], x["K"]) * decay) @ x["V"], x["Q"]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ADJOINTS)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_adjoints_are_the_derivatives_of_torch(name: str, dtype: torch.dtype, bound: float) -> None:
    """Over several tiles, in float32 with the digits that a sum of so many numbers has."""
    program, sizes = typed(HEAD + ADJOINTS[name]), {"H": 2, "T": 301, "d_k": 4, "d_v": 3}
    given = tensors({k: v.astype("float32") for k, v in arrays(program, sizes, {}).items()}, torch.float64)
    if "gamma" in given:
        given["gamma"] = torch.tensor([0.9375, 0.5], dtype=torch.float64)
    leaves = {k: given[k].requires_grad_() for k in ("Q", "K", "V", "x") if k in given}
    y, z = dense(name, given)
    y.backward(given["dY"])  # type: ignore[no-untyped-call]
    given |= {"Y": y, "z": z} if "z" in given else {}
    inputs = {k: v.detach().to(dtype) for k, v in given.items()}
    for run in functions(front.plan(program)):
        got = called(run, program, inputs, sizes)
        far = {k: distance(got[f"d{k}"].numpy(), leaf.grad.numpy()) for k, leaf in leaves.items()
               if leaf.grad is not None}
        assert len(far) == len(leaves) and max(far.values()) < bound, far


@pytest.mark.parametrize("name", ADJOINTS)
def test_work_and_memory_of_an_adjoint_grow_with_the_length(name: str) -> None:
    """What several gradients share is stored for none of them."""
    plan = front.plan(typed(HEAD + ADJOINTS[name]))
    assert {k.resumed.bound.resumes for k in chunks(plan) if k.resumed and k.resumed.bound} == {"on", "back"}
    assert all(k in chunks(plan) for k in tiled(plan))
    assert not [b for b in plan.buffers.values() if sum(s.cls == "time" for s in b.sets) > 1]
    flops = [sum(step.cost.flops.at({"H": 4, "d_k": 16, "d_v": 16, "T": n}) for step in plan.steps)
             for n in (1 << 12, 1 << 16)]
    assert flops[1] < 17 * flops[0]


MIRRORED = {
    name: body.removesuffix(" : all").replace("≤", "<=").replace("≥", "≤").replace("<=", "≥").replace("s <", "s >")
    for name, body in STATES.items() if name not in ("backwards and behind", "some")
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", MIRRORED)
def test_what_comes_apart_is_carried_the_other_way(name: str) -> None:
    text = MIRRORED[name].replace("(t - s)", "(u - t)").replace("t - s", "s - t").replace("2 t - 2 s", "2 s - 2 t")
    program = typed(f"{TWO}output Y_{{h t}}^e = {text.replace('(u - t)', '(s - t)')} : all")
    plan = front.plan(program)
    (only,) = chunks(plan)
    assert only.resumed and only.resumed.bound and only.resumed.bound.resumes == (
        "on" if name == "backwards" else "back")
    for extent in (0, 1, 4, 9):
        sizes = {"H": 2, "T": extent, "D": 3, "E": 2}
        given = arrays(program, sizes, {"k": ("0", "2")}, extent)
        want = meaning(program, given, sizes)
        for run in functions(plan):
            assert_close(called(run, program, tensors(given), sizes), want, 1e-9)


DISTANCES = {  # small where their terms are large
    "one and another": "(x_{h t} - x_{h s}) V_{h s}^e",
    "squared": "(x_{h t} - x_{h s})^2 V_{h s}^e",
    "of vectors": "((Q_{h t}^d Q_{h t d}) - 2 (Q_{h t}^d K_{h s d}) + K_{h s}^d K_{h s d}) V_{h s}^e",
    "less than one": "(1 - P_{h t}^c R_{h s c}) V_{h s}^e",
}
LEVELS = {
    "a level": "((P_{h t}^c R_{h s c}) - x_{h t}) V_{h s}^e",
    "the other's level": "((P_{h t}^c R_{h s c}) - x_{h s}) V_{h s}^e",
    "two of them": "((P_{h t}^c R_{h s c}) - (Q_{h t}^d K_{h s d})) V_{h s}^e",
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("end", ["s ≤ t", "s ≥ t"])
@pytest.mark.parametrize("name", [*DISTANCES, *LEVELS])
def test_only_distances_stay_together(name: str, end: str) -> None:
    program = typed(f"{TWO}output Y_{{h t}}^e = Σ_{{{end}}} {({**DISTANCES, **LEVELS})[name]} : all")
    plan = front.plan(program)
    assert len(chunks(plan)) == (name in LEVELS)
    sizes = {"H": 2, "T": 9, "D": 3, "E": 2}
    given = arrays(program, sizes, {})
    assert_close(called(load(cut(front.emit(plan), (4, 5)), plan.name), program, tensors(given), sizes),
                 meaning(program, given, sizes), 1e-10)
