"""Folds over everything up to a point: one running value where the body does not know the
point, a carried state where it does."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
import triton_modes
from helpers import Array, arrays, assert_close, called, cut, distance, meaning, tensors, typed
from hypothesis import given
from hypothesis import strategies as st
from programs import SPECS

from einc.backends.torch.load import load
from einc.driver import front
from einc.ir.plan import Kernel, Module, Scan

HEAD = """
index t, u, n : time(T)
index s       : time(S)
index d, e    : feature(D)
dim W
input x_t^d, z_s^d
input k_t : int
"""
BODIES = ("x_u^d", "x_u^d x_u^d", "exp(x_u^d)", "(1 + x_u^d)", "x_u^e x_u^d", "2")
DOMAINS = ("u ≤ t", "u < t", "u ≤ t - 2", "u < t + W", "u ≥ t", "u > t + 1", "u ≥ t - W", "u ≤ t, k_u = 1",
           "t < u, u ≠ 2")
FOLDS = ("sum", "prod", "max", "min")


def run(text: str, sizes: dict[str, int], bound: float = 1e-12) -> Module:
    """The emitted text against the interpreter, in float64."""
    program = typed(text)
    plan = front.plan(program)
    given_ = arrays(program, sizes, {"k": ("0", "2")})
    got = called(load(front.emit(plan), plan.name), program, tensors(given_), sizes)
    assert_close({k: v.numpy() for k, v in got.items()}, meaning(program, given_, sizes), bound)
    return plan


def scans(plan: Module) -> list[Scan]:
    return [x.op for step in plan.steps if isinstance(step, Kernel) for x in step.lets if isinstance(x.op, Scan)]


def tiled(plan: Module) -> list[Kernel]:
    return [step for step in plan.steps if isinstance(step, Kernel) and (step.grid or step.stream)]


@given(st.sampled_from(FOLDS), st.sampled_from(BODIES), st.sampled_from(DOMAINS), st.integers(0, 9), st.integers(1, 3))
def test_a_running_fold_is_one_pass(fold: str, body: str, domain: str, extent: int, width: int) -> None:
    left = "y_t" if "^d" not in body else "y_t^{d e}" if "^e" in body else "y_t^d"
    plan = run(f"{HEAD}output {left} = {fold}_{{{'u, ' + domain}}} {body} : all",
               {"T": extent, "S": 3, "D": 2, "W": width})
    assert len(scans(plan)) == 1 and not tiled(plan)


@pytest.mark.parametrize(("extent", "other"), [(0, 0), (0, 3), (3, 0), (1, 1), (5, 2), (2, 9)])
@pytest.mark.parametrize("domain", ["s ≤ n + S - T", "s ≥ n", "s < n - 1"])
def test_the_points_may_be_others_than_the_elements(domain: str, extent: int, other: int) -> None:
    plan = run(f"{HEAD}output y_n = Σ_{{s d, {domain}}} z_s^d : all", {"T": extent, "S": other, "D": 3, "W": 1})
    assert len(scans(plan)) == 1 and not tiled(plan)


@pytest.mark.parametrize("domain", ["t - W < u, u ≤ t", "mod(u, 2) = 0, u ≤ 2 t", "u ≤ t or u ≤ 2", "u = t"])
def test_other_domains_stay_as_they_are(domain: str) -> None:
    assert scans(run(f"{HEAD}output y_t^d = Σ_{{u, {domain}}} x_u^d : all", {"T": 5, "S": 1, "D": 2, "W": 2})) == []


@pytest.mark.always
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_running_sums_keep_their_digits(backend: str) -> None:
    """Differences of sums over a long past: the past cancels, and what is left has the digits of what was summed."""
    program = typed("index t, u : time(T)\ninput x_t\ng_t = Σ_{u ≤ t} x_u\noutput y_t = g_t - g_{max(t - 1, 1)}")
    plan = front.plan(program)
    x = (np.random.default_rng(0).standard_normal(3000) + 1000).astype(np.float32)
    with triton_modes.interpreted():
        source = front.emit(plan, backend)
        run = triton_modes.tiled(source, plan.name) if backend == "triton" else load(source, plan.name)
        got = run(x=torch.from_numpy(x)).numpy()
    assert np.abs(got[1:] - x[1:]).max() < 1e-3


# what depends on both comes apart: tiles in order with a carried state

TWO = """
index h    : head(H)
index t, s : time(T)
index d, e : feature(D), feature(E)
index c    : feature(2)
input Q_{h t}^d, K_{h s}^d, V_{h s}^e, γ_h, x_{h s}, P_{h t}^c, R_{h s}^c
input k_t : int
"""
LINEAR = "(Q_{h t}^d K_{h s d}) V_{h s}^e"
STATES = {  # what comes apart
    "product": f"Σ_{{s ≤ t}} {LINEAR}",
    "decay": f"Σ_{{s ≤ t}} (γ_h)^{{t - s}} {LINEAR}",
    "decay by a number": f"Σ_{{s ≤ t}} 0.9^{{t - s}} {LINEAR}",
    "growth": f"Σ_{{s ≤ t}} 1.1^{{t - s}} {LINEAR}",
    "steps of two": f"Σ_{{s < t}} (γ_h)^{{2 t - 2 s - 1}} {LINEAR}",
    "exponentials": f"Σ_{{s ≤ t}} exp(x_{{h t}} - 2 x_{{h s}}) {LINEAR}",
    "nothing of the point": "Σ_{s ≤ t} exp(-(t - s) / 2) V_{h s}^e",
    "a delay": f"Σ_{{s ≤ t - 3}} (γ_h)^{{t - s}} {LINEAR}",
    "looking ahead": f"Σ_{{s ≤ t + 2}} {LINEAR} : all",
    "backwards": f"Σ_{{s ≥ t}} exp((t - s) / 3) {LINEAR} : all",
    "backwards and behind": f"Σ_{{s > t - 2}} {LINEAR} : all",
    "some": f"Σ_{{s ≤ t, k_s = 1}} exp(x_{{h t}} - x_{{h s}}) {LINEAR}",
    "a sum of two": "Σ_{s ≤ t} ((P_{h t}^c R_{h s c}) + x_{h s} x_{h t}) V_{h s}^e",
    "a power": "Σ_{s ≤ t} (1 + (P_{h t}^c R_{h s c})^2 / 2) V_{h s}^e",
}


def chunks(plan: Module) -> list[Kernel]:
    return [step for step in plan.steps if isinstance(step, Kernel) and step.resumed is not None]


def values(text: str, sizes: dict[str, int], tiles: tuple[int, int] | None = None, seed: int = 0) -> Module:
    """The emitted text, its tiles cut to a length, against the interpreter."""
    program = typed(text)
    plan = front.plan(program)
    source = front.emit(plan)
    given_ = arrays(program, sizes, {"k": ("0", "2")}, seed)
    got = called(load(cut(source, tiles) if tiles else source, plan.name), program, tensors(given_), sizes)
    assert_close({k: v.numpy() for k, v in got.items()}, meaning(program, given_, sizes), 1e-11)
    return plan


@pytest.mark.drawn(6)
@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("rows", [None, 4, 1])
def test_what_comes_apart_is_carried(name: str, rows: int | None) -> None:
    for extent in (0, 1, 4, 7, 9):
        sizes = {"H": 2, "T": extent, "D": 3, "E": 2}
        plan = values(TWO + "output Y_{h t}^e = " + STATES[name], sizes, (rows, 5) if rows else None, seed=extent)
        assert len(chunks(plan)) == 1 and len(tiled(plan)) == 1


WITH_RESULTS = {  # several folds in one pass, one of them of another's result
    "a normaliser": "mask A_{h t s} : s ≤ t\nA_{h t s} = exp(P_{h t}^c) exp(R_{h s c})\n"
    "output Y_{h t}^e = (Σ_s A_{h t s} V_{h s}^e) / Σ_s A_{h t s}",
    "of one side": ("mask A_{h t s} : s < t, k_s ≠ 1\nA_{h t s} = x_{h s} + 0 t\n"
                   "output Y_{h t}^e = Σ_s softmax_s(A_{h t s}) V_{h s}^e"),
    "with a slope": "mask A_{h t s} : s ≤ t\nA_{h t s} = x_{h s} - (t - s)\noutput Y_{h t}^e = Σ_s softmax_s(A_{h t "
                    "s}) V_{h s}^e",
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", WITH_RESULTS)
@pytest.mark.parametrize("rows", [None, 4, 1])
def test_results_that_feed_each_other_are_carried_together(name: str, rows: int | None) -> None:
    for extent in (0, 1, 4, 9):
        sizes = {"H": 2, "T": extent, "D": 3, "E": 2}
        plan = values(TWO + WITH_RESULTS[name], sizes, (rows, 5) if rows else None, seed=extent)
        assert len(chunks(plan)) == 1 and len(tiled(plan)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "Σ_{s ≤ t} exp(Q_{h t}^d K_{h s d}) V_{h s}^e",
        "Σ_{s ≤ t} tanh(x_{h t} - x_{h s}) V_{h s}^e",
        "Σ_{s ≤ t} (x_{h t} - x_{h s})^2 V_{h s}^e",
        "Σ_{s ≤ t} (x_{h t} - x_{h s}) V_{h s}^e",
        "Σ_{s ∈ (t - 3, t]} (Q_{h t}^d K_{h s d}) V_{h s}^e",
        "Σ_{s ≤ t, k_s = k_t} (Q_{h t}^d K_{h s d}) V_{h s}^e",
    ],
)
def test_what_does_not_or_should_not_come_apart_is_not_carried(body: str) -> None:
    assert chunks(values(f"{TWO}output Y_{{h t}}^e = {body}", {"H": 2, "T": 7, "D": 3, "E": 2})) == []


def test_work_grows_with_the_length_not_its_square() -> None:
    for name in ("gallery/retention", "gallery/gated", "gallery/linear", "not_attention/prefix"):
        plan = front.plan(typed((SPECS / f"{name}.ein").read_text(encoding="utf-8")))
        sizes = dict.fromkeys({n for b in plan.buffers.values() for s in b.sets for n in s.extent.sizes}, 8)
        flops = [sum(step.cost.flops.at({**sizes, "T": extent}) for step in plan.steps)
                 for extent in (1 << 12, 1 << 16)]
        assert flops[1] < 17 * flops[0]
        stored = [b for b in plan.buffers.values() if sum(s.cls == "time" for s in b.sets) > 1]
        assert stored == []


def test_each_tile_meets_its_own_share_once() -> None:
    """The elements of a long past that the tiles touch, counted: each once, whatever the length."""
    program = typed((SPECS / "gallery/retention.ein").read_text(encoding="utf-8"))
    plan = front.plan(program)
    reach = "s1 = max(s0, min(T, t1))"
    function = load(front.emit(plan).replace(reach, f"{reach}; seen.append(s1 - s0)"), plan.name)
    for extent in (1000, 3000):
        seen: list[int] = []
        inspect.unwrap(function).__globals__["seen"] = seen
        called(function, program, tensors(arrays(program, {"H": 1, "T": extent, "d_k": 2, "d_v": 2}, {})), {})
        assert sum(seen) == extent and max(seen) <= 128


def recurrent(keep: Array, q: Array, k: Array, v: Array) -> Array:
    """S = keep S + k v, y = q S, step by step in float64; `keep` per feature."""
    state, out = np.zeros((*k[:, 0].shape, v.shape[-1])), []
    for t in range(k.shape[1]):
        state = keep[:, t, :, None] * state + k[:, t, :, None] * v[:, t, None, :]
        out.append(np.einsum("hd,hde->he", q[:, t], state))
    return np.stack(out, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.1, 1.0, 15.0])
def test_a_long_past_with_decay_keeps_its_digits(dtype: torch.dtype, scale: float) -> None:
    """Gates from nearly 1 down to e^-60 over 3000 steps: the logarithms run to -10^5, the results keep their digits."""
    sizes, random = {"H": 2, "T": 3000, "d_k": 3, "d_v": 2}, np.random.default_rng(1)
    bound = 2e-6 if dtype == torch.float32 else 1e-11
    program = typed((SPECS / "gallery/gated.ein").read_text(encoding="utf-8"))
    given_ = {k: x.astype(np.float32).astype(np.float64) for k, x in arrays(program, sizes, {}).items()}
    given_["x"] = -scale * np.abs(given_["x"]).astype(np.float32).astype(np.float64)
    plan = front.plan(program)
    got = called(load(front.emit(plan), plan.name), program, tensors(given_, dtype), sizes)["Y"].numpy()
    assert distance(got, recurrent(1 / (1 + np.exp(-given_["x"])), given_["Q"], given_["K"], given_["V"])) < bound
    program = typed((SPECS / "gallery/retention.ein").read_text(encoding="utf-8"))
    plan = front.plan(program)
    given_ = {**{k: given_[k] for k in "QKV"}, "gamma": random.choice([0.999, 0.5, 0.0, -0.9, 1e-30], 2)}
    given_["gamma"] = given_["gamma"].astype(np.float32).astype(np.float64)
    got = called(load(front.emit(plan), plan.name), program, tensors(given_, dtype), sizes)["Y"].numpy()
    keep = np.broadcast_to(given_["gamma"][:, None, None], given_["K"].shape)
    assert distance(got, recurrent(keep, given_["Q"], given_["K"], given_["V"])) < bound
