"""Products between two positions: their values, slopes at factors of 0, digits, and how their work grows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import arrays, assert_close, called, meaning, tensors, typed
from hypothesis import given, settings
from hypothesis import strategies as st

import einc
from einc.driver import front, pipeline
from einc.driver.gradients import gradient
from einc.driver.reports.costing import account, modules

HEAD = ("index t, s, u : time(T)\nindex d : feature(D)\nindex e : feature(D)\ninput g_u^d, x_s^d, q_t^d, k_s^d\n"
        "input doc_u : int\n")
WITHIN = ["u ∈ (s, t]", "u ∈ [s, t]", "u ∈ (s, t)", "u ∈ [s, t)", "u ∈ (s, t], doc_u = 2",
          "u ∈ (min(s, t), max(s, t)]", "u, s < u < t or t < u < s"]
OF = ["g_u^d", "-g_u^d", "g_u^d x_u^d", "g_u^d^2", "sigmoid(g_u^d)", "exp(g_u^d)", "1 - sigmoid(g_u^d)", "|g_u^d|",
      "1[g_u^d < 0.5]", "1 - g_u^d x_u^d"]
OUTER = ["Σ_{s ≤ t} {0} x_s^d", "Σ_s {0} x_s^d", "Σ_{s ≤ t} exp(0.1 {0}) x_s^d", "max_{s ≤ t} ({0} + x_s^d)",
         "Σ_{s ≤ t} {0} (Σ_e q_t^e k_s^e) x_s^d"]
ONE_SIDED = ["∏_{u ≤ t} g_u^d", "∏_{u < t} (1 - g_u^d)", "∏_{u, u > t} g_u^d : all",
             "Σ_{s < t} x_s^d ∏_{u ∈ (s, t)} (g_u^d + q_t^d)",
             "Σ_{s ∈ (t - 3, t]} x_s^d ∏_{u ∈ (s, t]} g_u^d", "Σ_{s ≤ t, doc_s = doc_t} x_s^d ∏_{u ∈ (s, t]} g_u^d"]


def gates(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Gates of both signs, of which a fifth are 0 and a fifth 1."""
    drawn, which = random.normal(size=shape), random.random(shape)
    return np.where(which < 0.2, 0.0, np.where(which < 0.4, 1.0, drawn))


def compiled(text: str) -> None:
    """The compiled text and its normal form mean what the interpreter says of the text as it is written."""
    program, sizes = typed(text), {"T": 7, "D": 2}
    inputs = arrays(program, sizes, {"doc": ("1", "3")}, 0)
    inputs["g"] = gates(np.random.default_rng(1), inputs["g"].shape)
    want = meaning(program, inputs, sizes)
    normal = pipeline.normal(program)
    asked = {tensor.key for tensor in normal.inputs()}
    assert_close(meaning(normal, {key: x for key, x in inputs.items() if key in asked}, sizes), want, 1e-12, 1.0)
    function = einc.compile(text, backend="torch")
    assert_close(called(function, program, tensors(inputs), sizes), want, 1e-12, 1.0)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("within", WITHIN)
def test_a_product_over_an_interval(within: str, outer: str) -> None:
    compiled(f"{HEAD}output y_t^d = {outer.replace('{0}', f'(∏_{{{within}}} g_u^d)')} : all")


@settings(max_examples=12)
@given(within=st.sampled_from(WITHIN), of=st.sampled_from(OF), outer=st.sampled_from(OUTER))
def test_products_over_intervals(within: str, of: str, outer: str) -> None:
    compiled(f"{HEAD}output y_t^d = {outer.replace('{0}', f'(∏_{{{within}}} ({of}))')} : all")


def slopes(text: str, seed: int) -> None:
    """The gradient is that of a loop over triples, which autograd takes through the interpreter's own formula."""
    random = np.random.default_rng(seed)
    data = {"g": gates(random, (6, 2)), **{key: random.normal(size=(6, 2)) for key in "xqk"}}
    function = einc.compile(text, grad=True, backend="torch")
    given_ = {t.key: torch.from_numpy(data[t.key]).requires_grad_() for t in function.program.inputs() if t.key in data}
    names = list(given_)
    extra = {"doc": torch.tensor([1, 2, 2, 3, 2, 2])} if any(
        t.key == "doc" for t in function.program.inputs()) else {}
    assert torch.autograd.gradcheck(lambda *x: function(**dict(zip(names, x, strict=True)), **extra),
                                    tuple(given_.values()), atol=1e-6)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("outer", [OUTER[0], OUTER[4]])
@pytest.mark.parametrize("of", [x for x in OF if "1[" not in x and "|" not in x])
def test_the_gradient(of: str, outer: str) -> None:
    slopes(f"{HEAD}output y_t^d = {outer.replace('{0}', f'(∏_{{u ∈ (s, t]}} ({of}))')}", 0)


@pytest.mark.parametrize("term", ONE_SIDED)
def test_the_gradient_of_products_with_one_end(term: str) -> None:
    compiled(f"{HEAD}output y_t^d = {term}")
    slopes(f"{HEAD}output y_t^d = {term}", 1)


@pytest.mark.parametrize("zeros", [(), (3,), (3, 5), (0,), (9,), tuple(range(10))])
def test_against_a_loop(zeros: tuple[int, ...]) -> None:
    """A recurrence h ← g h + x in plain torch, its gradient too: one gate of an interval that is 0 has a slope."""
    text = "index t, s, u : time(T)\ninput g_u, x_s\noutput h_t = Σ_{s ≤ t} (∏_{u ∈ (s, t]} g_u) x_s"
    random = torch.Generator().manual_seed(4)
    g, x, dy = (torch.randn(10, generator=random, dtype=torch.float64) for _ in range(3))
    g[list(zeros)] = 0
    found = []
    for way in ("loop", "torch", "cpp"):
        mine = [v.clone().requires_grad_() for v in (g, x)]
        if way == "loop":
            state, steps = torch.zeros((), dtype=torch.float64), []
            for gate, added in zip(*mine, strict=True):
                state = gate * state + added
                steps.append(state)
            h = torch.stack(steps)
        else:
            h = einc.compile(text, grad=True, backend=way)(g=mine[0], x=mine[1])
        found.append([h.detach(), *torch.autograd.grad((h * dy).sum(), mine)])
    for got in found[1:]:
        for one, other in zip(got, found[0], strict=True):
            assert (one - other).abs().max() <= 1e-12 * (1 + other.abs().max())


def account_of(text: str, T: int, grad: bool) -> tuple[float, float]:
    """The work, and the bytes that all steps write."""
    program, work, written = typed(text), 0.0, 0.0
    for title, module, count in modules(gradient(program) if grad else front.plan(program)):
        for part in account(title, module, count, {"T": T, "D": 8, "N": 2}, 4).ways[0].parts:
            work += float(part.cost.flops.at(part.known))
            written += float(part.cost.written.at(part.known))
    return work, written


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("of", ["g_u^d", "sigmoid(g_u^d)"])
def test_the_work_grows_as_the_pairs_do(of: str, grad: bool) -> None:
    """Σ over s of a product over (s, t] is no sum over triples, and no pairs are stored."""
    one_gate = of.replace("g_u^d", "doc_u / 3") if grad else of
    text = f"{HEAD}output y_t^d = Σ_{{s ≤ t}} (∏_{{u ∈ (s, t]}} ({one_gate})) (Σ_e q_t^e k_s^e) x_s^d"
    (small, near), (large, far) = (account_of(text, T, grad) for T in (2048, 4096))
    assert large <= 4.5 * small and far <= 2.1 * near


@pytest.mark.parametrize("of", ["g_u^d", "1 - g_u^d x_u^d", "tanh(g_u^d)"])
def test_the_work_of_the_gradient_of_any_gates_grows_as_the_pairs_do(of: str) -> None:
    """What is summed before a gate is one running value, and no sum over triples; so it is for gates of pairs."""
    paired = of.replace("g_u^d", "(g_u^d q_t^d)")
    for text in (f"{HEAD}output y_t^d = Σ_{{s ≤ t}} (∏_{{u ∈ (s, t]}} ({of})) (Σ_e q_t^e k_s^e) x_s^d",
                 f"{HEAD}output y_t^d = Σ_{{s ≤ t}} (∏_{{u ∈ (s, t]}} ({paired})) x_s^d"):
        (small, _), (large, _) = (account_of(text, T, True) for T in (2048, 4096))
        assert large <= 4.5 * small


@pytest.mark.parametrize("grad", [False, True])
def test_a_stick_costs_as_many_pairs(grad: bool) -> None:
    """∏_{u ∈ (s, t)} w_{t u} of a stick runs over u once for each t, in its gradient too."""
    text = (f"{HEAD}w_{{t u}} = sigmoid(Σ_d q_t^d k_u^d)\n"
            "output y_t^d = Σ_{s < t} w_{t s} (∏_{u ∈ (s, t)} (1 - w_{t u})) x_s^d")
    (small, near), (large, far) = (account_of(text, T, grad) for T in (1024, 2048))
    assert large <= 4.5 * small and far <= 4.5 * near


def test_bits_of_float32() -> None:
    """Gates of 0, of 1 and of e^-100 among others, over many positions."""
    text = "index t, s, u : time(T)\ninput g_u, x_s\noutput h_t = Σ_{s ≤ t} (∏_{u ∈ (s, t]} g_u) x_s"
    random = np.random.default_rng(0)
    g = random.choice([0.0, 1.0, np.exp(-100.0), 0.9, 0.999, -0.5], p=[0.01, 0.1, 0.02, 0.3, 0.5, 0.07], size=1500)
    g, x = g.astype(np.float32), random.normal(size=1500).astype(np.float32)
    state, want = 0.0, []
    for gate, added in zip(g.astype(np.float64), x.astype(np.float64), strict=True):
        state = gate * state + added
        want.append(state)
    got = einc.compile(text, backend="torch")(g=torch.from_numpy(g), x=torch.from_numpy(x)).double().numpy()
    assert np.abs(got - np.array(want)).max() <= 4e-6 * np.abs(want).max()


@pytest.mark.parametrize("size", [1.0, 0.01, 1e-12])
def test_digits_of_the_gradient(size: float) -> None:
    """Small gates and gates of 0 have the slopes that a loop in float64 has."""
    text = "index t, s, u : time(T)\ninput g_u, x_s\noutput h_t = Σ_{s ≤ t} (∏_{u ∈ (s, t]} g_u) x_s"
    random = torch.Generator().manual_seed(0)
    g, x, dy = (torch.randn(60, generator=random) for _ in range(3))
    g = torch.where(torch.rand(60, generator=random) < 0.5, g * size, g).index_fill(0, torch.tensor([3, 9]), 0.0)
    made, found = einc.compile(text, grad=True, backend="torch"), []
    for dtype in (torch.float64, torch.float32):
        mine = [v.to(dtype).requires_grad_() for v in (g, x)]
        state, steps = torch.zeros((), dtype=dtype), []
        for gate, added in zip(*mine, strict=True):
            state = gate * state + added
            steps.append(state)
        h = torch.stack(steps) if dtype == torch.float64 else made(g=mine[0], x=mine[1])
        found.append(torch.autograd.grad((h * dy.to(dtype)).sum(), mine))
    for want, got in zip(*found, strict=True):
        assert (got - want).abs().max() <= 2e-6 * want.abs().max()


def test_whole_numbers_stay_exact() -> None:
    text = "index t, s, u : time(T)\ninput a_u : int\noutput y_{t s} = ∏_{u ∈ (s, t]} a_u : all"
    a = torch.tensor([3, -7, 5, 11, 2])
    got = einc.compile(text, backend="torch")(a=a)
    want = [[int(np.prod([int(a[u]) for u in range(s + 1, t + 1)])) for s in range(5)] for t in range(5)]
    assert got.tolist() == want


LAYERS = """index t, s, u : time(T)
index d, f : feature(D), feature(D)
input x_t^d
X_t^d = x_t^d
for ℓ in 1..N:
    weight V^{d f}, w^f
    g_t = tanh(Σ_f w^f X_t^f)
    y_t^d = Σ_{s ≤ t} (∏_{u ∈ (s, t]} g_u) exp(Σ_{u ∈ (s, t]} g_u) X_s^d
    X_t^d ← X_t^d + Σ_f V^{d f} y_{t f}
output z_t^d = X_t^d
"""


def test_in_each_of_many_layers() -> None:
    """Rounds have the same laws: a loop in plain torch, and its gradient."""
    made = einc.compile(LAYERS, grad=True, backend="torch")
    random = torch.Generator().manual_seed(0)
    x, V, w = (torch.randn(*shape, generator=random, dtype=torch.float64).mul_(0.4).requires_grad_()
               for shape in ((9, 2), (3, 2, 2), (3, 2)))
    X = x
    for layer in range(3):
        g, state, steps = torch.tanh(X @ w[layer]), torch.zeros(2, dtype=torch.float64), []
        for t in range(9):
            state = g[t] * torch.exp(g[t]) * state + X[t]
            steps.append(state)
        X = X + torch.stack(steps) @ V[layer].T
    got = made(x=x, V=V, w=w)
    dy = torch.randn(9, 2, generator=random, dtype=torch.float64)
    for one, other in zip([got, *torch.autograd.grad((got * dy).sum(), [x, V, w])],
                          [X, *torch.autograd.grad((X * dy).sum(), [x, V, w])], strict=True):
        assert (one - other).abs().max() <= 1e-11 * (1 + other.abs().max())


@pytest.mark.parametrize("grad", [False, True])
def test_layers_cost_as_many_pairs(grad: bool) -> None:
    text = LAYERS.replace("tanh", "sigmoid")
    (small, near), (large, far) = (account_of(text, T, grad) for T in (2048, 4096))
    assert large <= 4.5 * small and far <= 2.1 * near
