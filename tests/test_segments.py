"""What a gather sends back: sums over the rows that name an element, sorted, with nothing of rows times elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers import arrays, assert_close, called, distance, meaning, plan_of, tensors, typed
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import FILES
from triton_modes import interpreted, tiled

from einc.backends.torch.load import load
from einc.driver import front
from einc.ir.plan import Kernel, Module, SegmentSum, leaves

HEAD = """
index t, s : time(T)
index b    : batch(B)
index v    : vocab(0..V-1)
index u    : time(0..U-1)
index f, k : feature(D)
index e    : feature(E)
index x    : expert(X)
index r    : latent(R)
index h, g : head(H), head(G)
dim M
map π(h) = ceil(h G / H) : g
input X_t^f as X_in, Y_{b t}^f, Z_t^e, G_{t r}, P_{t v}, Q_h^f, N_r^f, β_v, S_t^v
input w_t : int
input z_t : int
input c_{b t} : int
input C_{t r} : int
"""
ROWS = {
    "one": "output y_v^f = Σ_{t, w_t = v} X_t^f : all",
    "turned": "output y_v^f = Σ_{t, v = w_t} X_t^f : all",
    "features first": "output y^f_v = Σ_{t, w_t = v} 2 X_t^f : all",
    "several": "output y_v^f = Σ_{b t, c_{b t} = v} Y_{b t}^f : all",
    "for each batch": "output y_{b v}^f = Σ_{t, c_{b t} = v} Y_{b t}^f : all",
    "a batch behind": "output y_{v b}^f = Σ_{t, w_t = v} Y_{b t}^f : all",
    "less than its rows": "output y_x^f = Σ_{t r, C_{t r} = x} X_t^f : all",
    "of the other rows": "output y_x^f = Σ_{t r, C_{t r} = x} N_r^f G_{t r} : all",
    "how many": "output y_x = Σ_{t r, C_{t r} = x} 1 : all",
    "numbers alone": "output y_v = Σ_{t, w_t = v} 3/2 : all",
    "whole numbers": "output y_v = Σ_{t, w_t = v} z_t : all",
    "two names": "output y_{v u} = Σ_{t, w_t = v, z_t = u} Z_t^e Z_{t e} : all",
    "two names, others between": "output y_u^f_v = Σ_{t, w_t = v, z_t = u} X_t^f : all",
    "one element twice": "output y_v^f = Σ_{t, w_t = v, z_t = v} X_t^f : all",
    "further conditions": "output y_v^f = Σ_{t, w_t = v, t > 2, z_t ≠ 1, w_t < 4 + t} X_t^f : all",
    "conditions on the element": "output y_v^f = Σ_{t, w_t = v, v > 1, z_t ≤ v} X_t^f : all",
    "a shift": "output y_v^f = Σ_{t, w_t + z_t = v} X_t^f : all",
    "a cut shift": "output y_s^f = Σ_{t, min(t + M, T) = s} X_t^f : all",
    "heads": "output y_g^f = Σ_{h, π(h) = g} Q_h^f",
    "heads, folded before": "output y_{g s}^f = Σ_{h t, π(h) = g, s ≤ t} exp(Q_h^k X_{t k} - X_s^k X_{s k}) X_t^f : "
                            "all",
    "the element in the body": "output y_v = Σ_{t, w_t = v} P_{t v} β_v : all",
    "folded before": "output y_v^f = Σ_{t s, w_t = v, s ≤ t} exp(X_t^k X_{s k}) X_s^f : all",
    "folded before, chosen": "output y_v^f = Σ_{b t, w_t = v, c_{b t} = 1} Y_{b t}^f X_t^f : all",
    "exponentials": "output y_v^f = Σ_{t, w_t = v} exp(X_t^f) Z_t^e Z_{t e} : all",
    "read again": "y_v^f = Σ_{t, w_t = v} X_t^f\noutput n^f = Σ_v (y_v^f)^2 : all\noutput m_t^f = y_{w_t}^f : all",
}
PRODUCTS = {
    "experts": "output y_x^{f e} = Σ_{t r, C_{t r} = x} X_t^f Z_t^e G_{t r} : all",
    "experts, turned": "output y^{e f}_x = Σ_{t r, C_{t r} = x} N_r^f Z_t^e : all",
    "words": "output y_v^{f e} = Σ_{t, w_t = v, z_t ≤ 2} X_t^f Z_t^e : all",
    "rows beside": "output y_v^{f k} = Σ_{b t, w_t = v} Y_{b t}^f Y_{b t}^k : all",
    "folded before": "output y_v^{f e} = Σ_{b t, w_t = v, c_{b t} = 1} Y_{b t}^f Z_t^e : all",
    "for each batch": "output y_{b v}^{f e} = Σ_{t, c_{b t} = v} Y_{b t}^f Z_t^e : all",
    "two names": "output y_{v u}^{f e} = Σ_{t, w_t = v, z_t = u} X_t^f Z_t^e : all",
}
TEXTS = {**ROWS, **{f"products: {name}": text for name, text in PRODUCTS.items()}}


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def function(plan: Module, backend: str) -> Callable[..., Any]:
    source = front.emit(plan, backend)
    return tiled(source, plan.name) if backend == "triton" else load(source, plan.name)


def segments(plan: Module) -> list[SegmentSum]:
    return [step for step in leaves(plan.steps) if isinstance(step, SegmentSum)]


SMALL = {"T": 7, "B": 2, "V": 5, "U": 3, "D": 3, "E": 2, "X": 4, "R": 2, "H": 4, "G": 2, "M": 2}
RANGES = {"w": ("0", "4"), "z": ("0", "3"), "c": ("0", "4"), "C": ("0", "4")}


@pytest.mark.drawn(6)
@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("name", TEXTS)
def test_sums_over_rows_that_name_an_element(name: str, backend: str) -> None:
    program = typed(HEAD + TEXTS[name])
    plan = front.plan(program)
    (step,) = segments(plan)
    assert (len(step.operands) == 2) == name.startswith("products")
    run = function(plan, backend)
    for seed, change in enumerate([{}, {"T": 0}, {"T": 1}, {"T": 40, "V": 9},
                                   {"T": 13, "V": 1, "X": 1, "B": 1, "G": 1}]):
        sizes = {**SMALL, **change}
        if name == "read again" and sizes["V"] < 5:
            continue
        given_ = arrays(program, sizes, RANGES, seed)
        assert_close(called(run, program, tensors(given_), sizes), meaning(program, given_, sizes))


@given(st.lists(st.integers(-3, 9), max_size=40), st.integers(0, 7), st.sampled_from(["torch", "triton"]))
@settings(deadline=None, max_examples=40)
def test_what_names_nothing_is_left_out(names: list[int], extent: int, backend: str) -> None:
    """Also names far outside; an element that nobody names has the empty sum."""
    program = typed(HEAD + "output y_v^f = Σ_{t, w_t = v} X_t^f : all\noutput n_v = Σ_{t, w_t = v} 1 : all")
    x = torch.randn(len(names), 3, dtype=torch.float64)
    run = FUNCTIONS.setdefault(backend, function(front.plan(program), backend))
    got = called(run, program, {"X_in": x, "w": torch.tensor(names, dtype=torch.int64)}, {"V": extent})
    want = torch.stack([x[[n for n, w in enumerate(names) if w == v]].sum(0) for v in range(extent)]
                       or [torch.zeros(3).double()])
    assert torch.allclose(got["y"], want[:extent], atol=1e-12)
    assert got["n"].tolist() == [names.count(v) for v in range(extent)]


FUNCTIONS: dict[str, Callable[..., Any]] = {}


@pytest.mark.parametrize("name", [n for n in TEXTS if "folded before" not in n])
def test_nothing_has_rows_times_elements(name: str) -> None:
    """Work and traffic grow with one or the other."""
    plan = front.plan(typed(HEAD + TEXTS[name]))
    for step in leaves(plan.steps):
        for extent in (step.cost.flops, step.cost.written):
            assert all(not {"T", "V"} <= {n for n, _ in term} for term, _ in extent.terms)
    if "two names" in name:
        return
    local = [b for b in plan.buffers.values() if b.role == "local"]
    assert all(sum(s.cls in ("time", "vocab") for s in b.sets) < 2 for b in local)


def test_sums_are_the_same_in_every_run_and_keep_their_digits() -> None:
    """Of numbers in bfloat16 in float32, in the order of the rows."""
    program = typed(HEAD + ROWS["one"])
    x, w = torch.randn(4000, 8).bfloat16(), torch.randint(0, 3, (4000,))
    run = load(front.emit(front.plan(program)), "text")
    got = [called(run, program, {"X_in": x, "w": w}, {"V": 4})["y"] for _ in range(2)]
    want = torch.zeros(4, 8, dtype=torch.float64).index_add_(0, w, x.double())
    assert got[0].dtype == torch.bfloat16 and torch.equal(*got)
    assert distance(got[0].double().numpy(), want.numpy()) < 2**-8


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_gradients_of_words_and_of_experts(backend: str) -> None:
    """Against torch's own derivatives of a lookup and of a mixture, each written out densely."""
    text = (
        "input dU_{t r}^e\nweight W_{x f}^e\noutput dE_v^f = Σ_{t, w_t = v} X_t^f : all\n"
        "output dW_{x f}^e = Σ_{t r, C_{t r} = x} X_{t f} dU_{t r}^e : all\n"
        "output dX_{t f} = Σ_{r e} W_{C_{t r} f}^e dU_{t r e}"
    )
    program, sizes = typed(HEAD + text), {**SMALL, "T": 23}
    given_ = tensors(arrays(program, sizes, {**RANGES, "C": ("1", "X")}))
    table = torch.zeros(5, 3, dtype=torch.float64, requires_grad=True)
    x, weight = (given_[key].clone().requires_grad_() for key in ("X_in", "W"))
    (table[given_["w"]] * given_["X_in"]).sum().backward()  # type: ignore[no-untyped-call]
    chosen = torch.nn.functional.one_hot(given_["C"] - 1, 4).double()
    (torch.einsum("tf,xfe,trx->tre", x, weight, chosen) * given_["dU"]).sum().backward()  # type: ignore[no-untyped-call]
    got = called(function(front.plan(program), backend), program, given_, sizes)
    assert_close(got, {"dE": table.grad, "dW": weight.grad, "dX": x.grad})


LEFT = {  # what is done otherwise: pages are ranges, and two positions at once are never stored
    "pages": "index p : time(P)\noutput y_p^f = Σ_{t, floor((t - 1) / M) = p - 1} X_t^f : all",
    "documents": "output y_t^f = Σ_{s, w_s = w_t, s ≤ t} X_s^f",
    "pairs": "output y_v = Σ_{t s, w_t = w_s, w_{min(t, s)} = v} exp(X_t^k X_{s k}) : all",
    "no sum": "output y_v^f = max_{t, w_t = v} X_t^f : all",
    "distances": "index n : feature(D)\noutput y^n = Σ_{t s, min(abs(t - s), D) = n} exp(X_t^k X_{s k}) : all",
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_such_sum(name: str) -> None:
    program, sizes = typed(HEAD + LEFT[name]), {**SMALL, "P": 4}
    plan = front.plan(program)
    assert segments(plan) == []
    given_ = arrays(program, sizes, RANGES)
    assert_close(called(load(front.emit(plan), plan.name), program, tensors(given_), sizes),
                 meaning(program, given_, sizes), 1e-11)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.whole)])
def test_elements_that_are_chosen_are_counted_so(every: bool) -> None:
    """Whether a token is among those of an expert, and of a group: no longer a question for each pair of the two."""
    chosen = {"deepseek_moe", "expert_choice", "moe_balance"}
    some = [case for n, case in enumerate(FILES) if every or n % 9 == 0 or case.name in chosen]
    assert {case.name for case in some for step in leaves(plan_of(case).steps)
            if isinstance(step, SegmentSum)} == chosen


def test_heads_that_share_add_up_what_each_sends_back() -> None:
    """One pass for both gradients, of each head alone; what heads name is found once."""
    text = (
        "input K_{s g}^f, L_h\nmask A_{h t s} : s ≤ t\nA_{h t s} = exp(Q_h^k K_{s π(h) k} - L_h x_t)\ninput x_t\n"
        "output dK_{s g}^f = Σ_{h t, π(h) = g} A_{h t s} X_t^f : all\noutput dL_{s g} = Σ_{h t, π(h) = g} A_{h t s} "
        "x_t : all"
    )
    program = typed(HEAD + text)
    plan = front.plan(program)
    assert len(segments(plan)) == 2 and len({ids for step in segments(plan) for ids, _, _ in step.names}) == 1
    stores = [{store.buffer for store in step.stores} for step in leaves(plan.steps)
              if isinstance(step, Kernel) and step.grid]
    assert {name for step in segments(plan) for name, _ in step.operands} in stores
    assert not [b for b in plan.buffers.values() if sum(s.cls == "time" for s in b.sets) > 1]
    for sizes in (SMALL, {**SMALL, "H": 5}, {**SMALL, "T": 0}, {**SMALL, "H": 1}):
        given_ = arrays(program, sizes, RANGES)
        for backend in ("torch", "triton"):
            assert_close(called(function(plan, backend), program, tensors(given_), sizes),
                         meaning(program, given_, sizes), 1e-10)
