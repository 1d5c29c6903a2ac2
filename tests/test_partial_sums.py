"""Sums over intervals of what knows one of the two ends: their values and slopes, and that both cost pairs of
positions, where the slope is written as a sum over triples of them.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import typed

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
