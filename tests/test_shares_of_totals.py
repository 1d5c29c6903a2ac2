"""Rounds in which a state is weighted by shares of a total that may be 0, against plain loops."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import torch
from helpers import typed

import einc
from einc.driver import front
from einc.driver.reports.growth import growth

pytestmark = pytest.mark.usefixtures("doubles")
HEAD = "index n, m, l : time(T)\nindex p : feature(P)\nindex q : feature(Q)\ninput a_{n m}, b_n, c_n, x_n^q, k_n^p\n"
WITHIN: dict[str, Callable[[int, int], bool]] = {
    "m < n": lambda n, m: m < n, "n - 3 ≤ m < n": lambda n, m: n - 3 <= m < n, "m ≤ n - 2": lambda n, m: m <= n - 2}
WEIGHT: dict[str, Callable[[torch.Tensor, torch.Tensor, int, int], torch.Tensor]] = {
    "exp(a_{n m})": lambda a, b, n, m: a[n, m].exp(), "|b_m|": lambda a, b, n, m: b[m].abs(),
    "b_m^2 exp(a_{n m})": lambda a, b, n, m: b[m] ** 2 * a[n, m].exp()}


def in_order(text: str) -> bool:
    return any("one after the other" in line for line in growth(front.plan(typed(HEAD + text))))


def given(T: int, seed: int, real: bool = True) -> dict[str, torch.Tensor]:
    """Random inputs; where not `real`, whole numbers of which many are 0."""
    torch.manual_seed(seed)
    shapes = {"a": (T, T), "b": (T,), "c": (T,), "x": (T, 2), "k": (T, 3)}
    return {key: torch.randn(shape) if real else torch.randint(-1, 2, shape).double() for key, shape in shapes.items()}


def shares(weight: str, within: str, a: torch.Tensor, b: torch.Tensor, n: int) -> dict[int, torch.Tensor]:
    """The share of each earlier position, 0 where all weights are."""
    found = {m: WEIGHT[weight](a, b, n, m) for m in range(n) if WITHIN[within](n, m)}
    total = sum(found.values(), torch.zeros(()))
    return {m: w / total if total else torch.zeros(()) for m, w in found.items()}


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("weight", WEIGHT)
def test_shares_of_earlier_results_are_a_triangular_system(weight: str, within: str) -> None:
    """Written in one line they cost what they cost with a name, also where the weights of a row are all 0."""
    sums = (f"(Σ_{{m, {within}}} {weight} U_m^q)", f"Σ_{{l, {within.replace('m', 'l')}}} {weight.replace('m', 'l')}")
    text = f"output U_n^q = x_n^q - c_n {sums[0]} / {sums[1]}"
    assert not in_order(text)
    inputs = given(Random(weight + within).randrange(5, 40), 1, real="exp" in weight and "b" not in weight)
    rows = list[torch.Tensor]()
    for n in range(len(inputs["c"])):
        parts = shares(weight, within, inputs["a"], inputs["b"], n)
        rows.append(inputs["x"][n] - inputs["c"][n] * sum((w * rows[m] for m, w in parts.items()), torch.zeros(2)))
    asked = {t.key for t in typed(HEAD + text).inputs()}
    for backend in ("torch", "cpp"):
        got = einc.compile(HEAD + text, backend=backend)(**{k: x for k, x in inputs.items() if k in asked})
        torch.testing.assert_close(got, torch.stack(rows), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("weight", "total", "share"), [
    ("w_m", "Σ_{l < n} w_l", True), ("w_m w_m", "Σ_{l < n} w_l", True), ("w_m", "Σ_{l < n - 1} w_l", False),
    ("w_m", "Σ_{l < n} w_l w_l", False), ("b_m", "Σ_{l < n} b_l", False), ("w_m", "Σ_{l < n} w_n", False)])
def test_a_quotient_by_another_total_stays_one(weight: str, total: str, share: bool) -> None:
    """What is 0 there need not be 0 above, and 0 / 0 is 0, where 0 times ∞ is no number."""
    text = f"w_n = |b_n|\noutput U_n^q = x_n^q + (Σ_{{m < n}} {weight} U_m^q) / {total}"
    assert in_order(text) is not share


DELTA = """M^{p q} = 0
for n in 1..T:
    z^q = Σ_p softmax_p(k_n^p) M^{p q}
    output y_n^q = z^q
    M^{p q} ← c_n M^{p q} + softmax_p(b_n k_n^p) (x_n^q - z^q)
"""


@pytest.mark.parametrize("grad", [False, True])
def test_shares_that_a_state_is_read_and_written_by(grad: bool) -> None:
    assert not in_order(DELTA)
    inputs = given(7 if grad else 37, 2)
    inputs.pop("a")
    made = einc.compile(HEAD + DELTA, backend="torch", grad=grad)
    if grad:
        keys = list(inputs)
        assert torch.autograd.gradcheck(lambda *x: made(**dict(zip(keys, x, strict=True))),
                                        [x.requires_grad_() for x in inputs.values()])
        return
    M, rows = torch.zeros(3, 2), list[torch.Tensor]()
    for b, c, x, k in zip(*inputs.values(), strict=True):
        rows.append(k.softmax(0) @ M)
        M = c * M + torch.outer((b * k).softmax(0), x - rows[-1])
    torch.testing.assert_close(made(**inputs), torch.stack(rows), rtol=1e-9, atol=1e-9)
