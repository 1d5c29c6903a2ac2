"""Sums between two positions: their values, gradients, digits, and how their work grows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import arrays, assert_close, called, meaning, tensors, typed
from hypothesis import given, settings
from hypothesis import strategies as st

import einc
from einc.driver import front, pipeline
from einc.driver.reports.costing import account, modules

HEAD = "index t, s, u : time(T)\nindex d : feature(D)\ninput g_u^d, x_s^d\ninput doc_u : int\n"
WITHIN = ["u ∈ (s, t]", "u ∈ [s, t]", "u ∈ (s, t)", "u ∈ [s, t)", "s < u, u ≤ t", "u ≤ t, u > s", "s ≤ u - 1, u ≤ t",
          "u ∈ (s, t], doc_u = 2", "u ∈ (min(s, t), max(s, t)]", "u ∈ [min(s, t), t]", "u ∈ [s, max(s, t))",
          "u, s < u ≤ t or t < u ≤ s", "u, doc_u = 2, t ≤ u < s or s ≤ u < t",
          "u, s < u ≤ t or t ≤ u ≤ s + 1"]
OF = ["g_u^d", "(-g_u^d)", "tanh(g_u^d)", "log(sigmoid(g_u^d))", "g_u^d x_u^d", "exp(g_u^d)", "1"]
OUTER = ["Σ_{s ≤ t} exp(0.1 {0}) x_s^d", "Σ_{s ≤ t} {0} x_s^d", "max_{s ≤ t} ({0} + x_s^d)",
         "Σ_s exp(0.1 {0}) x_s^d"]


def compiled(text: str) -> None:
    """The compiled text and its normal form mean what the interpreter says of the text as it is written."""
    program = typed(text)
    sizes = {"T": 7, "D": 2}
    inputs = arrays(program, sizes, {"doc": ("1", "3")}, 0)
    want = meaning(program, inputs, sizes)
    normal = pipeline.normal(program)
    asked = {tensor.key for tensor in normal.inputs()}
    assert_close(meaning(normal, {key: x for key, x in inputs.items() if key in asked}, sizes), want, 1e-12, 1.0)
    function = einc.compile(text, backend="torch")
    assert_close(called(function, program, tensors(inputs), sizes), want, 1e-12, 1.0)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("within", WITHIN)
def test_a_sum_over_an_interval(within: str, outer: str) -> None:
    compiled(f"{HEAD}output y_t^d = {outer.replace('{0}', f'(Σ_{{{within}}} g_u^d)')} : all")


@pytest.mark.parametrize("within", ["[s/2, t/2)", "[s/2, t]", "(s/2, t/2)", "[g_s, g_t]", "[g_s, g_t)", "(g_s, g_t)"])
def test_ends_that_are_no_whole_numbers(within: str) -> None:
    text = f"index t, s, u : time(T)\ninput x_t, g_t\noutput y_{{t s}} = g_t + Σ_{{u ∈ {within}}} x_u : all"
    random = np.random.default_rng(0)
    inputs = {"x": random.normal(size=7), "g": random.uniform(-1, 9, 7)}
    want = einc.interpret(text, inputs)["y"]
    for backend in ("torch", "cpp"):
        got = einc.compile(text, backend=backend)(**{key: torch.from_numpy(x) for key, x in inputs.items()})
        np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_a_gate_of_0_reaches_no_interval_without_it(backend: str) -> None:
    """Its logarithm is −∞, and infinity times the 0 of a mask is no number: no earlier output, and no later interval,
    has it."""
    text = "index t, s, u : time(T)\ninput g_u, x_s\noutput y_t = Σ_{s ≤ t} exp(Σ_{u ∈ (s, t]} log(g_u)) x_s"
    given = {"g": np.array([0.9, 0.8, 0.0, 0.7, 0.9]), "x": np.arange(5) + 1.0}
    got = einc.compile(text, backend=backend)(**{key: torch.from_numpy(x) for key, x in given.items()})
    np.testing.assert_allclose(got.numpy(), einc.interpret(text, given)["y"], rtol=1e-12)
    lost = text.replace("log(g_u)", "log1p(-g_u)")  # the logarithm of what is left is −∞ where the gate is 1
    given["g"] = 1 - given["g"]
    got = einc.compile(lost, backend=backend)(**{key: torch.from_numpy(x) for key, x in given.items()})
    np.testing.assert_allclose(got.numpy(), einc.interpret(lost, given)["y"], rtol=1e-12)


@settings(max_examples=15)
@given(within=st.sampled_from(WITHIN), of=st.sampled_from(OF), outer=st.sampled_from(OUTER))
def test_sums_over_intervals(within: str, of: str, outer: str) -> None:
    compiled(f"{HEAD}output y_t^d = {outer.replace('{0}', f'(Σ_{{{within}}} {of})')} : all")


@pytest.mark.parametrize("of", OF[:5])
def test_the_gradient(of: str) -> None:
    text = f"{HEAD}output y_t^d = Σ_{{s ≤ t}} exp(Σ_{{u ∈ (s, t]}} {of}) x_s^d"
    function = einc.compile(text, grad=True, backend="torch")
    random = np.random.default_rng(0)
    g, x = (torch.from_numpy(random.normal(size=(5, 2)) * 0.3).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(lambda g, x: function(g=g, x=x), (g, x))


def test_the_work_grows_as_the_pairs_do() -> None:
    """Σ over s of a sum over (s, t] is no sum over triples."""
    program = typed(f"{HEAD}output y_t^d = Σ_{{s ≤ t}} exp(Σ_{{u ∈ (s, t]}} log(sigmoid(g_u^d))) x_s^d")
    plan = front.plan(program)

    def flops(T: int) -> float:
        ((title, module, count),) = modules(plan)
        (way,) = account(title, module, count, {"T": T, "D": 4}, 4).ways
        return sum(part.cost.flops.at(part.known) for part in way.parts)

    assert flops(4096) <= 4.5 * flops(2048)


@pytest.mark.parametrize(("within", "domain"), [("(s, t]", "s ≤ t"), ("(s, t)", "s < t")])
def test_digits_of_long_texts(within: str, domain: str) -> None:
    """The sums up to a position grow; their differences lose no digit of float32."""
    text = f"{HEAD}output y_t^d = Σ_{{{domain}}} exp(Σ_{{u ∈ {within}}} log(sigmoid(g_u^d))) x_s^d"
    random = np.random.default_rng(0)
    g, x = (random.normal(size=(1500, 1)) - 2 * n for n in (1, 0))
    state, want = np.zeros(1), []
    gates = 1 / (1 + np.exp(-g.astype(np.float32).astype(np.float64)))
    for gate, added in zip(gates, x.astype(np.float32), strict=True):
        before, state = state, gate * state + added
        want.append(before if domain == "s < t" else state)
    got = einc.compile(text, backend="torch")(g=torch.from_numpy(g).float(), x=torch.from_numpy(x).float())
    assert np.abs(got.double().numpy() - np.array(want)).max() <= 4e-6 * np.abs(want).max()


@pytest.mark.parametrize("name", ["forgetting_transformer", "recurrent/ssd_sum"])
def test_a_gradient_keeps_running_sums_exact(name: str) -> None:
    """What the second half is given of the first is no less exact than what one call has: gates of −1000 stand among
    others, and differences of their sums are small."""
    made, sizes = einc.compile(name, grad=True), {"T": 150, "B": 1, "H": 2, "d_k": 4, "N": 3, "P": 3}
    torch.manual_seed(3)
    given = {t.key: torch.randn([int(s.set.extent.at(sizes)) for s in t.slots]) for t in made.program.inputs()}
    gate = "x" if name == "forgetting_transformer" else "A"
    given[gate] = torch.where(torch.rand_like(given[gate]) < 0.05, -1000.0, given[gate]) if gate == "x" else (
        -given[gate].abs())
    given |= {"Delta": given["Delta"].abs()} if "Delta" in given else {}
    found = []
    for dtype in (torch.float64, torch.float32):
        real = {key: x.to(dtype).requires_grad_() for key, x in given.items()}
        y = made(**real)
        weights = torch.linspace(-1, 1, y.numel(), dtype=dtype).view(y.shape)
        found.append([y, *torch.autograd.grad((y * weights).sum(), list(real.values()))])
    for want, got in zip(*found, strict=True):
        assert (got - want).abs().max() <= 2e-5 * want.abs().max()
