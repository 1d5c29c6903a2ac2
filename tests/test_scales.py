"""The scale of a sum of exponentials is that of its largest addend: no weight of 0, and no other addend, may give it.

The truth is the same formula in numpy's longest floats, written out, and the slopes are those of autograd in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from cpp_texts import COMPILER
from triton_modes import interpreted

import einc
from einc.backends.triton.load import load

Values = Any  # arrays of numpy or of torch, with the functions of either
Formula = Callable[[Any, Values, Values, Values], Values]
T = 4


def sigmoid(k: Any, x: Values) -> Values:
    return 1 / (1 + k.exp(-x))


def pairs(value: Values) -> Values:
    """Σ_{s ≤ t} of values at s."""
    return value.cumsum(0)


FORMULAS: dict[str, Formula] = {
    "exp(x_t) / (exp(x_t) + w_t exp(v_t))": lambda k, x, v, w: k.exp(x) / (k.exp(x) + w * k.exp(v)),
    "exp(x_t) / (exp(x_t) + w_t^2 exp(v_t))": lambda k, x, v, w: k.exp(x) / (k.exp(x) + w**2 * k.exp(v)),
    "exp(x_t) / (exp(x_t) + w_t^2) + 0 v_t": lambda k, x, v, w: k.exp(x) / (k.exp(x) + w**2),
    "(exp(x_t) + w_t exp(v_t)) / (exp(x_t) + w_t exp(2 v_t))":
        lambda k, x, v, w: (k.exp(x) + w * k.exp(v)) / (k.exp(x) + w * k.exp(2 * v)),
    "exp(x_t) exp(v_t) / (1 + exp(x_t)) + 0 w_t": lambda k, x, v, w: k.exp(x) * k.exp(v) / (1 + k.exp(x)),
    "exp(x_t) (exp(v_t) + exp(x_t)) / (2 + exp(x_t)) + 0 w_t":
        lambda k, x, v, w: k.exp(x) * (k.exp(v) + k.exp(x)) / (2 + k.exp(x)),
    "exp(v_t) sigmoid(x_t) sigmoid(-x_t) + 0 w_t": lambda k, x, v, w: k.exp(v) * sigmoid(k, x) * sigmoid(k, -x),
    "(Σ_s w_s exp(x_s) v_s) / (Σ_s w_s exp(x_s)) + 0 v_t":
        lambda k, x, v, w: (w * k.exp(x) * v).sum() / (w * k.exp(x)).sum() + 0 * v,
    "(Σ_{s ≤ t} w_s exp(x_s) v_s) / (Σ_{s ≤ t} w_s exp(x_s))":
        lambda k, x, v, w: pairs(w * k.exp(x) * v) / pairs(w * k.exp(x)),
    "exp(v_t) (Σ_s w_s exp(x_s)) / (Σ_s exp(x_s))": lambda k, x, v, w: k.exp(v) * (w * k.exp(x)).sum() / k.exp(x).sum(),
    "log(Σ_s (w_s + 0.5 w_s^2) exp(x_s)) + 0 v_t": lambda k, x, v, w: k.log(((w + w**2 / 2) * k.exp(x)).sum()) + 0 * v,
    "log(exp(x_t) + Σ_{s ≤ t} w_s exp(v_s))": lambda k, x, v, w: k.log(k.exp(x) + pairs(w * k.exp(v))),
    "log1p(exp(x_t)) + 0 v_t + 0 w_t": lambda k, x, v, w: k.log1p(k.exp(x)),
    "log1p(w_t exp(x_t)) + 0 v_t": lambda k, x, v, w: k.log1p(w * k.exp(x)),
    "expm1(x_t) exp(v_t) / (expm1(x_t) + 2) + 0 w_t":
        lambda k, x, v, w: k.expm1(x) * k.exp(v) / (k.expm1(x) + 2),
    "abs(w_t^2 exp(x_t)) / (1 + exp(x_t)) + 0 v_t": lambda k, x, v, w: k.abs(w**2 * k.exp(x)) / (1 + k.exp(x)),
    "exp(v_t) ∏_s (2 exp(x_s)) + 0 w_t": lambda k, x, v, w: k.exp(v) * (2 * k.exp(x)).prod(),
    "log(∏_{s ≤ t} (1 / (1 + exp(-x_s)))) + 0 v_t + 0 w_t": lambda k, x, v, w: -pairs(k.log1p(k.exp(-x))),
}
WAYS = ["torch", pytest.param("cpp", marks=pytest.mark.skipif(not COMPILER, reason="no C++ compiler is here"))]


def drawn(seed: int, far: float) -> dict[str, np.ndarray]:
    """Exponents as far as that from 0, and weights of which some are 0 but not the first, so that no sum is nothing."""
    draw = np.random.default_rng(seed)
    x, v = np.rint(draw.uniform(-far, far, (2, T)))
    return {"x": x, "v": v, "w": np.array([0.5, *draw.choice([0.0, 0.0, 2.0], T - 1)])}


def text(formula: str) -> str:
    return f"index t, s : time(T)\ninput x_t, v_t, w_t\noutput y_t = {formula} : all\n"


def near(found: np.ndarray, want: np.ndarray, far: float, dtype: torch.dtype, said: str, least: float = 0) -> None:
    """As near as a rounded exponent lets them, where the type holds the value, and beside the `least` that counts."""
    eps, most = (1e-7, 1e37) if dtype == torch.float32 else (3e-16, 1e300)
    inside = np.abs(want) < most
    np.testing.assert_allclose(found[inside], want[inside].astype(float), rtol=8 * eps * (1 + far),
                               atol=max(1 / most, 8 * eps * (1 + far) * least), err_msg=said)


@cache
def compiled(formula: str, backend: str, grad: bool = False) -> Callable[..., torch.Tensor]:
    return einc.compile(text(formula), backend, grad=grad, own=True)


def held(formula: str, real: Formula, seed: int, backend: str, dtype: torch.dtype) -> None:
    """A formula whose exponentials leave the range of the type, against the truth."""
    far = 150.0 if dtype == torch.float32 else 1200.0
    given = drawn(seed, far)
    want = real(np, *(given[key].astype(np.longdouble) for key in "xvw"))
    found = compiled(formula, backend)(**{key: torch.tensor(x, dtype=dtype) for key, x in given.items()})
    near(found.double().numpy(), want, far, dtype, f"{formula} of {given}")


def sloped(formula: str, real: Formula, seed: int, backend: str, dtype: torch.dtype) -> None:
    """The slopes of a formula in all that it reads, also in weights that are 0."""
    far = 40.0
    given = drawn(seed, far)
    wanted = {key: torch.tensor(x, requires_grad=True) for key, x in given.items()}
    value = real(torch, *wanted.values())
    least = max(1.0, float(value.detach().abs().max()))  # slopes are differences of numbers as large
    value.sum().backward()
    mine = {key: torch.tensor(x, dtype=dtype, requires_grad=True) for key, x in given.items()}
    compiled(formula, backend, True)(**mine).sum().backward()
    for key, x in wanted.items():
        slope, got = x.grad, mine[key].grad
        want = np.zeros(T) if slope is None else slope.numpy()
        found = np.zeros(T) if got is None else got.double().numpy()
        near(found, want, far, dtype, f"d{key}: {formula} {given}", least)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("backend", WAYS)
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.usefixtures("kernel_cache")
def test_a_sum_has_the_scale_of_its_largest_addend(formula: str, backend: str) -> None:
    for seed in range(8):
        for dtype in (torch.float32, torch.float64):
            held(formula, FORMULAS[formula], seed, backend, dtype)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("formula", FORMULAS)
def test_kernels_have_that_scale(formula: str) -> None:
    source = einc.compile(text(formula), "triton").source
    with interpreted():
        function = load(source, "text")
        for seed in range(4):
            given = drawn(seed, 150.0)
            want = FORMULAS[formula](np, *(given[key].astype(np.longdouble) for key in "xvw"))
            found = function(**{key: torch.tensor(x, dtype=torch.float32) for key, x in given.items()})
            near(found.double().numpy(), want, 300.0, torch.float32, f"{formula} of {given}")


@pytest.mark.drawn(4)
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_weight_of_0_has_its_slope(formula: str) -> None:
    for seed in range(8):
        for dtype in (torch.float32, torch.float64):
            sloped(formula, FORMULAS[formula], seed, "torch", dtype)


SIDES: dict[str, Formula] = {
    "exp(x_t)": lambda k, x, v, w: k.exp(x), "exp(-v_t)": lambda k, x, v, w: k.exp(-v),
    "(1 + exp(x_t))": lambda k, x, v, w: 1 + k.exp(x), "(exp(v_t) + exp(x_t))": lambda k, x, v, w: k.exp(v) + k.exp(x),
    "(exp(x_t) + w_t exp(v_t))": lambda k, x, v, w: k.exp(x) + w * k.exp(v),
    "(2 + w_t^2 exp(v_t))": lambda k, x, v, w: 2 + w**2 * k.exp(v),
    "(Σ_{s ≤ t} w_s exp(x_s))": lambda k, x, v, w: pairs(w * k.exp(x)),
    "(Σ_{s ≤ t} exp(x_s))": lambda k, x, v, w: pairs(k.exp(x)),
    "(Σ_{s ≤ t} abs(v_s) w_s exp(x_s))": lambda k, x, v, w: pairs((k.abs(v)) * w * k.exp(x)),
    "(exp(v_t) + Σ_{s ≤ t} w_s exp(2 x_s))": lambda k, x, v, w: k.exp(v) + pairs(w * k.exp(2 * x)),
}


@pytest.mark.drawn(15)
@pytest.mark.parametrize("seed", range(60))
def test_drawn_quotients_are_what_they_are_written_as(seed: int) -> None:
    """Two factors over two, forward and in their slopes."""
    random = Random(seed)
    a, b, c, d = random.sample(sorted(SIDES), 4)  # a factor of both sides is struck out, and not in what autograd does
    formula = f"{a} {b} / ({c} {d}) + 0 x_t + 0 v_t + 0 w_t"

    def real(k: Any, x: Values, v: Values, w: Values) -> Values:
        above, below = SIDES[a](k, x, v, w) * SIDES[b](k, x, v, w), SIDES[c](k, x, v, w) * SIDES[d](k, x, v, w)
        return above / below

    for dtype in (torch.float32, torch.float64):
        held(formula, real, seed, "torch", dtype)
    sloped(formula, real, seed, "torch", torch.float64)


@pytest.mark.parametrize("backend", WAYS)
@pytest.mark.usefixtures("kernel_cache")
def test_a_difference_of_near_exponents_is_taken_first(backend: str) -> None:
    """It is exact in floats, and what each exponent is multiplied with is not."""
    x = torch.tensor([1e5, 99999, 99998, 99999.5])
    z = torch.tensor([0.5, -1, 0.25, 0])
    for formula, exponents in (("max_s exp(x_s) / exp(x_t) + 0 z_t", x - x[:, None]),
                               ("max_s exp(x_s - x_t + 0.5 z_s)", x - x[:, None] + 0.5 * z)):
        made = einc.compile(f"index t, s : time(T)\ninput x_t, z_t\noutput y_t = {formula} : all\n", backend, own=True)
        torch.testing.assert_close(made(x=x, z=z), exponents.double().exp().amax(1).float(), rtol=2e-6, atol=0)


# Sums all of whose weights are 0, beside scales that are not theirs, with what autograd is given.
EMPTY: dict[str, Formula] = {
    "(Σ_{s ≤ t} exp(x_s) v_s) / exp(w_t)": lambda k, x, v, w: pairs(k.exp(x) * v) / k.exp(w),
    "(Σ_{s ≤ t} exp(x_s) v_s) / (1 + Σ_{s ≤ t} exp(w_s))":
        lambda k, x, v, w: pairs(k.exp(x) * v) / (1 + pairs(k.exp(w))),
    "(Σ_{s ≤ t} exp(x_s) v_s) / √(Σ_{s ≤ t} exp(2 x_s)) + 0 w_t":
        lambda k, x, v, w: pairs(k.exp(x) * v) / k.sqrt(pairs(k.exp(2 * x))),
    "(exp(x_t) v_t + Σ_{s < t} exp(w_s) v_s) / (exp(x_t) + Σ_{s < t} exp(w_s))": lambda k, x, v, w: (
        k.exp(x) * v + pairs(k.exp(w) * v) - k.exp(w) * v) / (k.exp(x) + pairs(k.exp(w)) - k.exp(w)),
}


@pytest.mark.parametrize("formula", EMPTY)
@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]], ids=["some", "all"])
def test_weights_that_are_all_0_have_their_slopes(formula: str, values: list[float]) -> None:
    data = {"x": [0.1, 0.2, 0.3, -1.0], "v": values, "w": [0.3, 0.1, 0.2, 0.5]}
    leaves, others = ({key: torch.tensor(x, dtype=torch.float64, requires_grad=True) for key, x in data.items()}
                      for _ in range(2))
    text = f"index t, s : time(T)\ninput x_t, v_t, w_t\noutput y_t = {formula}"
    got, wanted = einc.compile(text, "torch", own=True, grad=True)(**leaves), EMPTY[formula](torch, **others)
    torch.testing.assert_close(got, wanted)
    got.sum().backward()
    wanted.sum().backward()
    for key in data:
        mine, other = (torch.zeros(T, dtype=torch.float64) if one[key].grad is None else one[key].grad
                       for one in (leaves, others))
        torch.testing.assert_close(mine, other)


# A formula beside its slope in x, both of which numpy's longest floats hold.
BESIDE_ONE: dict[str, tuple[Formula, Formula]] = {
    "log1p(w_t exp(x_t)) + 0 v_t": (lambda k, x, v, w: k.log1p(w * k.exp(x)),
                                    lambda k, x, v, w: w * k.exp(x) / (1 + w * k.exp(x))),
    "expm1(x_t) exp(v_t) / (expm1(x_t) + 2) + 0 w_t": (
        lambda k, x, v, w: k.expm1(x) * k.exp(v) / (k.expm1(x) + 2),
        lambda k, x, v, w: 2 * k.exp(x) * k.exp(v) / (k.expm1(x) + 2) ** 2),
}


@pytest.mark.always
@pytest.mark.parametrize("formula", BESIDE_ONE)
@pytest.mark.parametrize("far", [1.0, 100.0])
def test_sums_with_one_keep_their_digits(formula: str, far: float) -> None:
    data = {"x": [11.0 * far, -20.0, 1.0, 1e-9], "v": [25.0, 1.0, -1.0, 0.0], "w": [1.0, 1.0, -0.1, 0.0]}
    value, slope = (real(np, *(np.array(data[key], np.longdouble) for key in "xvw")) for real in BESIDE_ONE[formula])
    given = {key: torch.tensor(x, dtype=torch.float64, requires_grad=True) for key, x in data.items()}
    found = compiled(formula, "torch", True)(**given)
    found.sum().backward()
    np.testing.assert_allclose(found.detach().numpy(), value.astype(float), rtol=1e-12)
    np.testing.assert_allclose(given["x"].grad.numpy(), slope.astype(float), rtol=1e-12, atol=1e-280)


KIN = {"-1 + exp(x_t)": np.expm1, "exp(x_t) + (-1)": np.expm1, "1/exp(x_t) - 1": lambda x: np.expm1(-x),
       "√(exp(x_t)) - 1": lambda x: np.expm1(x / 2), "1 - exp(x_t)": lambda x: -np.expm1(x),
       "log1p(-exp(x_t))": lambda x: np.where(x < -1, np.log1p(-np.exp(x)), np.log(-np.expm1(x))),
       "log1p(exp(x_t) - 1)": lambda x: x,
       "log1p(expm1(x_t))": lambda x: x}


@pytest.mark.parametrize("formula", KIN)
def test_exponentials_less_one_keep_their_digits_however_they_are_written(formula: str) -> None:
    x = np.array([-1e-9, -0.001, -3.0, -60.0])
    found = einc.compile(f"index t : time(T)\ninput x_t\noutput y_t = {formula}", own=True)(x=torch.tensor(x).float())
    np.testing.assert_allclose(found.numpy(), KIN[formula](x.astype(np.float32).astype(float)), rtol=1e-6)


def test_a_weight_of_0_has_no_part_beside_a_divided_exponential() -> None:
    """w exp(-x), where exp(-x) is infinite and w is 0, of data and behind a gate."""
    x, w = torch.tensor([-138.0, -138.0, 3.0]), torch.tensor([0.0, 2.0, 0.0])
    for weight in ("w_t^2", "1[t ≠ 1] w_t^2"):
        found = einc.compile(f"index t : time(T)\ninput x_t, w_t\noutput y_t = exp(x_t) / (exp(x_t) + {weight})")(x, w)
        torch.testing.assert_close(found, torch.tensor([1.0, 0.0, 1.0]))
