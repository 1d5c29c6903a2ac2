"""Sums over intervals of what knows one of the two ends: their values and slopes, and that both cost pairs of
positions, where the slope is written as a sum over triples of them.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import typed
from test_sequences import SMALL
from triton_modes import interpreted, tiled

import einc
from einc.driver import front
from einc.driver.gradients import gradient
from einc.driver.reports.costing import account, modules
from einc.planning.row_blocks import pairs

HEAD = "index t, s, u : time(T)\nindex d, e : feature(D), feature(D)\n"
DOCUMENTS = "input g_u, x_s^e\ninput doc_u : int\n"
PAIRED = "input x_s^e, q_t^d, k_s^d\n"
OF = "output y_t^e = Σ_{{s ≤ t}} exp(0.1 {}) x_s^e\n"
TEXTS = {
    "a window of each position": f"dim W\ninput g_u, x_s^e\n{OF.format('Σ_{u ∈ (s, t], u > t - W} g_u')}",
    "documents of the later end": DOCUMENTS + OF.format("Σ_{u ∈ (s, t], doc_u = doc_t} g_u"),
    "documents of the earlier end": DOCUMENTS + OF.format("Σ_{u ∈ (s, t], doc_u = doc_s} g_u"),
    "pairs with the later end": PAIRED + OF.format("Σ_{u ∈ (s, t]} (Σ_d q_t^d k_u^d)"),
    "pairs with the earlier end": PAIRED + OF.format("Σ_{u ∈ (s, t]} (Σ_d q_u^d k_s^d)"),
    "ends in either order": "input g_u, x_s^e\n" + (
        "output y_t^e = Σ_s exp(0.1 Σ_{u ∈ (min(s, t), max(s, t)]} g_u) x_s^e : all"),
    "either of two intervals": "input g_u, x_s^e\n" + (
        "output y_t^e = Σ_s exp(0.1 Σ_{u, s < u ≤ t or t ≤ u < s} g_u) x_s^e : all"),
    "a product between ends in either order": "input g_u, x_s^e\n" + (
        "output y_t^e = Σ_s (∏_{u ∈ (min(s, t), max(s, t)]} g_u) x_s^e : all"),
    "what later positions took": PAIRED + (
        "R_{t s} = relu(Σ_d q_t^d k_s^d), s < t\nF_{t s} = Σ_{u ∈ [s, t)} R_{u s}, s ≤ t\n"
        "L_{t s} = Σ_d q_t^d k_s^d - F_{t s}, s ≤ t\noutput y_t^e = Σ_s softmax_s(L_{t s}) x_s^e\n"),
}
each = pytest.mark.parametrize("text", [HEAD + text for text in TEXTS.values()], ids=TEXTS)


def drawn(text: str, T: int) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    """Data for the inputs of a text, and the sizes that it asks for."""
    random = np.random.default_rng(T)
    shapes = {"g": (T,), "x": (T, 2), "q": (T, 2), "k": (T, 2)}
    made = {key: torch.from_numpy(random.normal(size=shape)) for key, shape in shapes.items()}
    made["doc"] = torch.from_numpy(random.integers(1, 3, T))
    return {t.key: made[t.key] for t in typed(text).inputs()}, {"W": 2} if "dim W" in text else {}


@each
def test_values_and_slopes(text: str) -> None:
    """Against the interpreter, and against differences of what was computed."""
    given, sizes = drawn(text, 6)
    made = einc.compile(text, backend="torch", grad=True)
    want = einc.interpret(text, {key: x.numpy() for key, x in given.items()}, sizes)["y"]
    np.testing.assert_allclose(made(**given, **sizes).numpy(), want, rtol=1e-12, atol=1e-12)
    real = {key: x.requires_grad_() for key, x in given.items() if x.is_floating_point()}
    rest = {key: x for key, x in given.items() if key not in real}
    assert torch.autograd.gradcheck(
        lambda *values: made(**dict(zip(real, values, strict=True)), **rest, **sizes), tuple(real.values()))


@each
@pytest.mark.parametrize("grad", [False, True])
def test_the_work_grows_as_the_pairs_do(text: str, grad: bool) -> None:
    found = []
    for T in (2048, 4096):
        plans = modules(gradient(typed(text)) if grad else front.plan(typed(text)))
        ways = [account(title, module, count, {"T": T, "D": 8, "W": 64}, 4).ways[0] for title, module, count in plans]
        found.append(sum(float(part.cost.flops.at(part.known)) for way in ways for part in way.parts))
    assert found[1] <= 4.1 * found[0]


def test_pairs_are_kept_for_some_rows_alone() -> None:
    """Blocks of rows that each add to all pairs would keep these all the same."""
    text = HEAD + TEXTS["documents of the later end"]
    for _, module, _ in modules(gradient(typed(text))):
        assert not pairs(module)


RAGGED = ("index r : request(R)\nindex t, s, u : time(T_r)\nindex e : feature(D)\ninput g_{r u}, x_{r s}^e\n"
          "output y_{r t}^e = Σ_{s ≤ t} exp(Σ_{u ∈ (s, t]} g_{r u}) x_{r s}^e\n")
LENGTHS = [3, 0, 1, 8]


def in_turn(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The states of one request after another, each from 0, with gates exp(g)."""
    made = []
    for own, added in zip(g.split(LENGTHS), x.split(LENGTHS), strict=True):
        state = torch.zeros_like(x[0])
        for gate, more in zip(own, added, strict=True):
            state = torch.exp(gate) * state + more
            made.append(state)
    return torch.stack(made)


def test_intervals_of_requests() -> None:
    """Against a loop, with its slopes; and nothing of one request, such as NaN, is in what another has."""
    random = torch.Generator().manual_seed(0)
    g, x = (torch.randn(12, *more, generator=random, dtype=torch.float64).requires_grad_() for more in ((), (2,)))
    lengths, weights = torch.tensor(LENGTHS), torch.linspace(-1, 1, 24, dtype=torch.float64).view(12, 2)
    want = in_turn(g, x)
    for backend in ("torch", "cpp"):
        got = einc.compile(RAGGED, backend=backend, grad=True)(g=g, x=x, T=lengths)
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
        for one, other in zip(*(torch.autograd.grad((y * weights).sum(), (g, x), retain_graph=True)
                                for y in (got, want)), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
        broken = g.detach().index_fill(0, torch.tensor([1]), torch.nan)
        left = einc.compile(RAGGED, backend=backend)(g=broken, x=x.detach(), T=lengths)
        torch.testing.assert_close(left[3:], want[3:].detach(), rtol=1e-12, atol=1e-12)


PRODUCTS = RAGGED.replace("exp(Σ_{u ∈ (s, t]} g_{r u})", "(∏_{u ∈ (s, t]} g_{r u})")


def by_pairs(g: torch.Tensor, x: torch.Tensor, window: int) -> torch.Tensor:
    """Sums of products over intervals of each request, term by term."""
    made = []
    for own, added in zip(g.split(LENGTHS), x.split(LENGTHS), strict=True):
        made += [torch.stack([own[s + 1:t + 1].prod() * added[s] for s in range(max(0, t + 1 - window), t + 1)]).sum(0)
                 for t in range(len(own))]
    return torch.stack(made)


@pytest.mark.parametrize("window", [12, 3])
def test_products_over_intervals_of_requests(window: int) -> None:
    """Gates of both signs, of which some are 0, with their slopes; and no request has NaN of another."""
    text = PRODUCTS if window == 12 else PRODUCTS.replace("s ≤ t", f"s ∈ (t - {window}, t]")
    random = torch.Generator().manual_seed(window)
    g, x = (torch.randn(12, *more, generator=random, dtype=torch.float64) for more in ((), (2,)))
    g[[2, 6, 7]] = 0
    g.requires_grad_(), x.requires_grad_()
    lengths, weights = torch.tensor(LENGTHS), torch.linspace(-1, 1, 24, dtype=torch.float64).view(12, 2)
    made, want = einc.compile(text, backend="torch", grad=True), by_pairs(g, x, window)
    got = made(g=g, x=x, T=lengths)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad((y * weights).sum(), (g, x), retain_graph=True)
                            for y in (got, want)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    broken = g.detach().index_fill(0, torch.tensor([1]), torch.nan).requires_grad_()
    (slope,) = torch.autograd.grad((made(g=broken, x=x, T=lengths) * weights).sum(), broken)
    (whole,) = torch.autograd.grad((want * weights).sum(), g)
    torch.testing.assert_close(slope[3:], whole[3:], rtol=1e-10, atol=1e-10)


EITHER = RAGGED.replace("s ≤ t", "s").replace("u ∈ (s, t]", "u ∈ (min(s, t), max(s, t)]").strip() + " : all"


@pytest.mark.parametrize("text", [PRODUCTS, EITHER])
def test_the_slopes_of_intervals_of_requests_cost_pairs(text: str) -> None:
    found = []
    for T in (2048, 4096):
        ways = [account(title, module, count, {"T_sum": T, "D": 8, "R": 4}, 4).ways[0]
                for title, module, count in modules(gradient(typed(text)))]
        found.append(sum(float(part.cost.flops.at(part.known)) for way in ways for part in way.parts))
    assert found[1] <= 4.1 * found[0]


def test_ends_in_either_order_are_of_one_request() -> None:
    random = torch.Generator().manual_seed(2)
    g, x = (torch.randn(12, *more, generator=random, dtype=torch.float64) for more in ((), (2,)))
    got = einc.compile(EITHER, backend="torch")(g=g, x=x, T=torch.tensor(LENGTHS))
    want = einc.interpret(EITHER, {"g": g.numpy(), "x": x.numpy(), "T": np.array(LENGTHS)})["y"]
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.whole
def test_intervals_of_requests_in_triton() -> None:
    random, program = torch.Generator().manual_seed(0), typed(RAGGED)
    g, x = (torch.randn(12, *more, generator=random, dtype=torch.float64) for more in ((), (2,)))
    plan = front.plan(program)
    with interpreted():
        run = tiled(front.emit(plan, "triton"), plan.name, lambda kind, *_: SMALL[kind])
        got = run(g=g, x=x, T=torch.tensor(LENGTHS))
    torch.testing.assert_close(got, in_turn(g, x), rtol=1e-12, atol=1e-12)


def test_intervals_of_requests_keep_their_digits() -> None:
    """Sums up to a position are exact where differences of them are taken."""
    random = torch.Generator().manual_seed(1)
    g, x = torch.randn(12, generator=random) * 1e-3 - 300, torch.randn(12, 2, generator=random)
    g[5:] = torch.randn(7, generator=random)
    got = einc.compile(RAGGED, backend="torch")(g=g, x=x, T=torch.tensor(LENGTHS))
    torch.testing.assert_close(got.double(), in_turn(g.double(), x.double()), rtol=2e-6, atol=2e-6)


def test_intervals_of_requests_store_no_pairs() -> None:
    for plans in (modules(front.plan(typed(RAGGED))), modules(gradient(typed(RAGGED)))):
        for _, module, _ in plans:
            assert not pairs(module)


def test_products_within_requests_of_values_at_computed_places() -> None:
    text = """index r : request(R)
index t, s, u : time(T_r)
input x_{r t}, z_{r t}
output y_{r t} = Σ_{s ≤ t} (∏_{u ∈ (s, t]} x_{r u}) z_{r, T_r + 1 - s} : all
"""
    random, lengths, want = np.random.default_rng(0), [3, 1, 4], []
    x, z = random.normal(size=(2, sum(lengths)))
    for length, end in zip(lengths, np.cumsum(lengths), strict=True):
        mine, theirs = x[end - length : end], z[end - length : end][::-1]
        want += [sum(mine[s + 1 : t + 1].prod() * theirs[s] for s in range(t + 1)) for t in range(length)]
    found = einc.compile(text)(x=torch.tensor(x), z=torch.tensor(z), T=torch.tensor(lengths))
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
