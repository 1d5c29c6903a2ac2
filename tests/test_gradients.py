"""Derived gradients against differences of the interpreter, for every spec and every small program without rounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from helpers import Array, Arrays, arrays, each, meaning, typed, typed_of
from programs import CASES, DRAWN, WITH_ROUNDS, Case

from einc.ir.primitives import PRIMITIVES
from einc.ir.programs import Program
from einc.transforms.gradients.backward import Derived, derive

# Values that jump, or have a corner, where the random data put a point.
BROKEN: dict[str, str] = {"infinite_within": "an infinite value times a cotangent of 0 is no number"}
STEP = 1e-5


@cache
def derived_of(case: Case) -> Derived:
    return derive(typed_of(case))


def gradients(derived: Derived, given: Arrays, cotangents: Arrays, sizes: dict[str, int]) -> Arrays:
    """The gradient of Σ cotangent · output with respect to each input, by the two programs."""
    asked = {t.key for t in derived.forward.inputs()}
    values = meaning(derived.forward, {k: v for k, v in given.items() if k in asked}, sizes)
    saved = {key: values[there] for there, key in _public(derived.forward, derived.saved)}
    cots = {d: cotangents[key] for key, d in derived.cotangents}
    asked = {t.key for t in derived.backward.inputs()}
    found = meaning(derived.backward, {k: v for k, v in {**given, **saved, **cots}.items() if k in asked}, sizes)
    return {key: found[d] for key, d in derived.gradients}


def _public(program: Program, pairs: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    names = {key: name for name, key in program.outputs}
    return [(names[key], other) for key, other in pairs]


def compared(case: Case, sizes: dict[str, int], seed: int = 0) -> None:
    program, derived = typed_of(case), derived_of(case)
    given = arrays(program, sizes, case.ranges, seed)
    random = np.random.default_rng(seed + 1)
    first = meaning(program, given, sizes)
    keys = dict(program.outputs)
    cots: Arrays = {keys[name]: np.where(np.isfinite(x), random.standard_normal(np.shape(x)), 0.0)
                    for name, x in first.items()}
    found = gradients(derived, given, cots, sizes)

    def total(at: Arrays) -> float:
        values = meaning(program, at, sizes)
        return float(sum(np.sum(np.where(np.isfinite(values[n]), values[n], 0.0) * cots[k]) for n, k in program.outputs
                         if not program.tensors[k].integer))

    for key in (t.key for t in program.inputs()):
        if program.tensors[key].integer:
            continue
        toward: Array = random.standard_normal(np.shape(given[key]))
        ends = [total({**given, key: given[key] + sign * STEP * toward}) for sign in (1, -1)]
        want = (ends[0] - ends[1]) / (2 * STEP)
        got = float(np.sum(found[key] * toward)) if key in found else 0.0
        scale = max(1.0, abs(want), abs(ends[0]) * 1e-3)
        assert abs(got - want) <= 1e-5 * scale, f"d{key}: {got} is derived, {want} is measured"


WITHOUT_ROUNDS = [c for c in CASES if c.name not in WITH_ROUNDS]
# Differences tell nothing of a slope that is declared: `test_precision` holds these against autograd.
DECLARED = re.compile(rf"\b({'|'.join(name for name, row in PRIMITIVES.items() if row.declared)})\(")


@each([c for c in WITHOUT_ROUNDS if not DECLARED.search(c.text)], BROKEN, few=DRAWN)
def test_gradients_are_those_of_differences(case: Case) -> None:
    compared(case, dict(case.sizes))


@pytest.mark.parametrize("name", ["attention"])
def test_the_saved_values_are_few(name: str) -> None:
    case = next(c for c in CASES if c.name == name)
    assert {there for there, _ in derived_of(case).saved} == {"Y", "ell", "K_hat", "Q_hat", "V"}


@pytest.mark.parametrize("text", ["silu(x_t)", "sigmoid(x_t)", "sigmoid(x_t)^2", "1 / (2 + 3 e^{x_t})",
                                  "log(2 + e^{-x_t} 5)"])
def test_slopes_are_finite_where_exponentials_are_not(text: str) -> None:
    program = typed(f"index t : time(T)\ninput x_t\noutput y_t = {text}")
    x = np.array([-800.0, -720.0, -3.0, 0.0, 2.0, 720.0, 800.0])
    found = gradients(derive(program), {"x": x}, {"y": np.ones(7)}, {"T": 7})["x"]
    assert np.isfinite(found).all()
    inner = slice(2, 5)
    ends = [meaning(program, {"x": x + sign * STEP}, {"T": 7})["y"] for sign in (1, -1)]
    np.testing.assert_allclose(found[inner], ((ends[0] - ends[1]) / (2 * STEP))[inner], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("fold", "there"), [("max", torch.amax), ("min", torch.amin)])
def test_equal_extremes_share_what_torch_shares_among_them(fold: str, there: Callable[..., torch.Tensor]) -> None:
    """Differences do not see it: there is a corner where several are greatest."""
    derived = derive(typed(f"index t : time(T)\nindex d : feature(D)\ninput x_t^d\noutput y_t = {fold}_d x_t^d\n"))
    rows = np.array([[1.0, 3, 3, -2, -2, -2], [0, 0, 0, 0, 0, 0], [-1, 2, 0, 3, 4, 5]])
    change = np.array([0.7, -1.2, 2.0])
    found = gradients(derived, {"x": rows}, {"y": change}, {"T": 3, "D": 6})
    given = torch.tensor(rows, requires_grad=True)
    there(given, -1).backward(torch.tensor(change))
    assert given.grad is not None
    np.testing.assert_allclose(found["x"], given.grad.numpy(), rtol=1e-12)


def test_the_largest_of_a_direct_sum_sends_its_slope_to_the_part_that_has_it() -> None:
    program = typed("index t : time(T)\nindex d : feature(D)\nindex p : feature(P)\nindex y : feature = d ⊕ p\n"
                    "input k_t^d, r_t^p\nv_t^y = k_t^d ⊕ r_t^p\noutput z_t = max_y v_t^y")
    given = {"k": np.array([[1.0, 4], [2, 0]]), "r": np.array([[3.0], [5]])}
    found = gradients(derive(program), given, {"z": np.array([0.5, -2])}, {"T": 2, "D": 2, "P": 1})
    leaves = {key: torch.tensor(x, requires_grad=True) for key, x in given.items()}
    torch.cat([leaves["k"], leaves["r"]], 1).amax(1).backward(torch.tensor([0.5, -2], dtype=torch.float64))
    for key, leaf in leaves.items():
        assert leaf.grad is not None
        np.testing.assert_array_equal(found[key], leaf.grad.numpy())
