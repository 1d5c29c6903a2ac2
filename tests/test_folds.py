"""Every row of the table of folds is true, and is enough for a gradient and for both back ends."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
import torch
from helpers import Array, typed
from rows import agrees, applied, computed, has_gradient
from triton_modes import interpreted

from einc.backends.host import folding
from einc.driver import front
from einc.ir.folds import FOLDS, FoldRow
from einc.ir.primitives import PRIMITIVES, REST
from einc.ir.terms import ONE
from einc.meaning.functions import folded
from einc.transforms.gradients.backward import derive

MONOIDS = [row for row in FOLDS.values() if not row.ordered]
HEAD = "index t, s : time(T)\nindex i : feature(D)\ninput x_t^i\n"
EVERY_FORM = HEAD + """
output A^i = {0}_{{t}} x_t^i : all
output B_t = {0}_{{i}} x_t^i
output C = {0}_{{t i}} x_t^i : all
output E_t^i = {0}_{{s ≤ t}} x_s^i
output F_t^i = {0}_{{s ≥ t}} x_s^i : all
output G_t^i = {0}_{{s < t - 1}} (x_s^i + 1/2 x_t^i)
output H_{{t s}} = {0}_{{i}} (x_t^i + x_s^i) : all
output J_t = {0}_{{s, s ≠ t}} {0}_{{i}} (x_t^i x_s^i) : all
"""


def by_name(rows: list[FoldRow]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def values(*shape: int) -> Array:
    return np.asarray(np.random.default_rng(3).uniform(-3, 3, shape))


@by_name(MONOIDS)
def test_a_step_merges(row: FoldRow) -> None:
    """Associative, commutative, with the start as neutral element, also among infinite values."""
    a, b, c = values(3, 200)
    a[:3], b[1:5] = (math.inf, -math.inf, 0.0), row.start
    with np.errstate(all="ignore"):
        left, right = applied(row.step, applied(row.step, a, b), c), applied(row.step, a, applied(row.step, b, c))
        assert np.allclose(left, right, rtol=1e-13, atol=1e-13, equal_nan=True)
        assert np.array_equal(applied(row.step, a, b), applied(row.step, b, a), equal_nan=True)
    assert np.array_equal(applied(row.step, a, np.full(200, row.start)), a)


@by_name(MONOIDS)
def test_a_fold_is_its_steps(row: FoldRow) -> None:
    x = values(4, 5, 7)
    one = reduce(lambda a, b: applied(row.step, a, b), [x[m, :, n] for m in range(4) for n in range(7)])
    assert np.allclose(folded(row.name, x, (0, 2)), one, rtol=1e-13, atol=1e-13)
    parts = applied(row.step, folded(row.name, x[:1], (0, 2)), folded(row.name, x[1:], (0, 2)))
    assert np.allclose(parts, one, rtol=1e-13, atol=1e-13)
    assert np.array_equal(folded(row.name, x[:, :0], (1,)), np.full((4, 7), row.start))


@by_name(MONOIDS)
def test_the_laws_of_the_row_hold(row: FoldRow) -> None:
    x = values(6, 50)
    whole = folded(row.name, x, (0,))
    assert np.allclose(folded(row.name, x + 2.5, (0,)), whole + 2.5, rtol=1e-12) == row.shifts
    assert np.allclose(folded(row.name, 2.5 * x, (0,)), 2.5 * whole, rtol=1e-12) == row.scales
    assert np.allclose(folded(row.name, -2.5 * x, (0,)), -2.5 * whole, rtol=1e-12) == row.linear


def test_the_adjoint_is_the_slope_of_the_step() -> None:
    said = {row.name: row.adjoint for row in FOLDS.values()}
    assert said["sum"] == ONE and said["prod"] == REST and (said["max"], said["min"]) == ("attained", "attained")
    assert said["topk"] is None


@by_name([row for row in MONOIDS if row.adjoint is not None and row.adjoint != "attained"])
def test_the_adjoint_is_that_of_differences(row: FoldRow) -> None:
    assert row.adjoint is not None and not isinstance(row.adjoint, str)
    x, step = values(5), 1e-6
    for n in range(5):
        rest = folded(row.name, np.delete(x, n), (0,))
        found = computed(row.adjoint, {"x": x[n], "value": folded(row.name, x, (0,)), "rest": rest})
        ends = [folded(row.name, x + sign * step * (np.arange(5) == n), (0,)) for sign in (1, -1)]
        assert abs(found - (ends[0] - ends[1]) / (2 * step)) < 1e-6 * (1 + abs(found))


@pytest.mark.drawn(2)
@by_name(MONOIDS)
@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_every_back_end_has_every_form(row: FoldRow, backend: str) -> None:
    """Whole, over two axes, running on and back, over what each row has, over nothing, and in tiles that merge."""
    program = typed(EVERY_FORM.format(row.name))
    for sizes in ({"T": 5, "D": 3}, {"T": 1, "D": 2}):
        agrees(program, sizes, 1e-12, backend)


@by_name(MONOIDS)
def test_every_form_has_a_gradient(row: FoldRow) -> None:
    # some are over nothing
    lines = [line for line in EVERY_FORM.format(row.name).split("\n") if not line.startswith("output G")]
    has_gradient("\n".join(lines), 4, 2)


def test_a_fold_is_one_row() -> None:
    """Of a step that is a primitive already; no table of a back end knows it, and torch has no function for it."""
    sizes, known = {"T": 5, "D": 3}, FOLDS["logaddexp"]
    assert "logaddexp" not in folding.STEPS and known.meaning == "" and known.adjoint is not None
    text = agrees(typed(EVERY_FORM.format("logaddexp")), sizes)
    assert "_logaddexp_step" in text and "_running(" in text and "_folded(" in text


def test_a_fold_without_an_adjoint_has_no_gradient_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRIMITIVES, "max", replace(PRIMITIVES["max"], slope=None))
    with pytest.raises(TypeError, match="the fold `max` has no adjoint"):
        derive(typed(HEAD + "output A^i = max_{t} x_t^i : all"))


def test_a_logarithm_of_a_sum_of_exponentials_does_not_overflow() -> None:
    run = front.compile(HEAD + "output A^i = logaddexp_{t} x_t^i : all", grad=True)
    x = torch.tensor([[1000.0, -math.inf], [1000.0, -math.inf], [-2000.0, 3.0]], dtype=torch.float64,
                     requires_grad=True)
    found = run(x=x)
    assert torch.allclose(found, torch.logsumexp(x, 0))
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None and torch.allclose(x.grad, torch.softmax(x.detach(), 0))


@pytest.mark.parametrize("backend", ["torch", "cpp"])
@pytest.mark.parametrize("fold", ["Σ", "∏", "max"])
def test_a_fold_of_halves_is_carried_in_float32(fold: str, backend: str) -> None:
    """The result is as near as the type of the data allows, however many numbers are folded."""
    run = front.compile(f"index t : time(T)\nindex f : feature(F)\ninput x_t^f\noutput y_t = {fold}_f x_t^f", backend)
    x = (1 + 1e-3 * torch.randn(3, 20_000, generator=torch.Generator().manual_seed(3))).bfloat16()
    exact = {"Σ": x.double().sum(1), "∏": x.double().prod(1), "max": x.double().amax(1)}[fold]
    torch.testing.assert_close(run(x=x).double(), exact, rtol=2.0**-8, atol=0.0)
