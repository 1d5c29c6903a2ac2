"""Variants of attention against the implementations in `variants`, in float64: a value for each position, from the
interpreter and from the emitted module, and gradients."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from helpers import Function, called, distance, meaning, module_of, typed_of
from programs import FILES, Case
from recurrent import Tensors
from test_recurrent import slopes
from variants import VARIANTS

from einc.driver import front

CASES = [case for case in FILES if case.name in VARIANTS]
BOUND = 1e-10
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_kind = pytest.mark.parametrize("extreme", [False, True], ids=["drawn", "extreme"])


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    return distance(got.detach().double().numpy(), want.detach().numpy())


def made(function: Function, case: Case, inputs: Tensors, steps: int) -> torch.Tensor:
    variant = VARIANTS[case.name]
    return called(function, typed_of(case), inputs, variant.sizes(steps))[variant.output]


@cache
def trained(case: Case) -> Function:
    """The function that brings its own derivative."""
    return front.compile(case.text, grad=True)


@pytest.mark.parametrize("steps", [1, 5, 37])
@each_kind
@each
def test_a_variant_is_what_its_formula_says(case: Case, steps: int, extreme: bool) -> None:
    """With `extreme`, gates that are 0 and 1 to the last bit stand among the others."""
    variant = VARIANTS[case.name]
    inputs = variant.inputs(steps, extreme)
    want = variant.result(**inputs)
    assert want.isfinite().all()
    given = {key: x.numpy() for key, x in inputs.items()}
    meant = meaning(typed_of(case), given, variant.sizes(steps))[variant.output]
    assert error(made(module_of(case), case, inputs, steps), want) <= BOUND, "module"
    assert error(torch.from_numpy(meant), want) <= BOUND, "interpreter"


@pytest.mark.drawn(10)
@pytest.mark.parametrize("steps", [6, pytest.param(37, marks=pytest.mark.whole)])
@each_kind
@each
def test_a_gradient_is_that_of_autograd(case: Case, steps: int, extreme: bool) -> None:
    """Autograd goes through the other implementation."""
    inputs = {name: x.requires_grad_() for name, x in VARIANTS[case.name].inputs(steps, extreme).items()}
    want = slopes(VARIANTS[case.name].result(**inputs), inputs)
    got = slopes(made(trained(case), case, inputs, steps), inputs)
    for name, slope in want.items():
        assert slope.isfinite().all()
        assert error(got[name], slope) <= BOUND, name


@pytest.mark.whole
@each
def test_a_variant_in_single_precision(case: Case) -> None:
    inputs = VARIANTS[case.name].inputs(37)
    got = made(module_of(case), case, {name: x.float() for name, x in inputs.items()}, 37)
    assert got.dtype == torch.float32
    assert error(got, VARIANTS[case.name].result(**inputs)) <= 2e-5
