"""The layers of specs/recurrent against the implementations in `recurrent`, in float64: a value for each position, from
the interpreter and from the emitted module, and gradients."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from helpers import Function, called, distance, meaning, module_of, typed_of
from programs import FILES, SPEC_TEXTS, Case
from recurrent import LAYERS, Tensors, gated_in_chunks
from test_oracles import doubled

from einc.driver import front

CASES = [case for case in FILES if case.name in LAYERS]
BOUND = 1e-10
STEEP = {"rg_lru"}  # sqrt(1 - a²) has no slope where a is 1; that of the other implementation is bounded by hand
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_layer_and_kind = pytest.mark.parametrize(("case", "extreme"), [
    pytest.param(case, extreme, id=f"{case.name}-{'extreme' if extreme else 'drawn'}")
    for case in CASES for extreme in (False, True) if not (extreme and case.name in STEEP)])


def wanted(case: Case, inputs: Tensors) -> torch.Tensor:
    with doubled():
        return LAYERS[case.name].result(**inputs)


def made(case: Case, inputs: Tensors) -> torch.Tensor:
    return called(module_of(case), typed_of(case), inputs, {})[LAYERS[case.name].output]


def meant(case: Case, inputs: Tensors) -> torch.Tensor:
    given = {key: x.numpy() for key, x in inputs.items()}
    return torch.from_numpy(meaning(typed_of(case), given, {})[LAYERS[case.name].output])


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    return distance(got.detach().double().numpy(), want.detach().numpy())


def test_every_layer_has_another_implementation() -> None:
    assert {name.removeprefix("recurrent/") for name in SPEC_TEXTS if name.startswith("recurrent/")} == set(LAYERS)


@pytest.mark.parametrize("extreme", [False, True], ids=["drawn", "extreme"])
@pytest.mark.parametrize("steps", [1, 5, 37, pytest.param(333, marks=pytest.mark.whole)])
@each
def test_a_layer_is_what_others_compute(case: Case, steps: int, extreme: bool) -> None:
    """With `extreme`, gates that are 0 and 1 to the last bit stand among the others."""
    inputs = LAYERS[case.name].inputs(steps, extreme)
    want = wanted(case, inputs)
    assert want.isfinite().all() and want.abs().max() > 0
    assert error(made(case, inputs), want) <= BOUND, "module"
    assert error(meant(case, inputs), want) <= BOUND, "interpreter"


@cache
def trained(case: Case) -> Function:
    """The function that brings its own derivative."""
    return front.compile(case.text, grad=True)


def slopes(result: torch.Tensor, inputs: Tensors) -> Tensors:
    """The gradient with respect to each input of the sum of the result, weighed anew at each element."""
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return dict(zip(inputs, torch.autograd.grad((result * weights).sum(), list(inputs.values())), strict=True))


@pytest.mark.drawn(6)
@pytest.mark.parametrize("steps", [6, *(pytest.param(n, marks=pytest.mark.whole) for n in (37, 333))])
@each_layer_and_kind
def test_a_gradient_is_that_of_autograd(case: Case, steps: int, extreme: bool) -> None:
    """Autograd goes through the other implementation."""
    inputs = {name: x.requires_grad_() for name, x in LAYERS[case.name].inputs(steps, extreme).items()}
    want = slopes(wanted(case, inputs), inputs)
    got = slopes(called(trained(case), typed_of(case), inputs, {})[LAYERS[case.name].output], inputs)
    for name, slope in want.items():
        assert slope.isfinite().all()
        assert error(got[name], slope) <= BOUND, name


@pytest.mark.parametrize("steps", [5, 37])
def test_gated_delta_rules_by_chunks(steps: int) -> None:
    """The other form of the layer in transformers, which solves for the positions of a chunk at once."""
    case = next(case for case in CASES if case.name == "gated_deltanet")
    inputs = LAYERS[case.name].inputs(steps)
    with doubled():
        want = gated_in_chunks(**inputs)
    assert error(made(case, inputs), want) <= BOUND


@pytest.mark.whole
@pytest.mark.parametrize("steps", [37, 333])
@each
def test_a_layer_in_single_precision(case: Case, steps: int) -> None:
    inputs = LAYERS[case.name].inputs(steps)
    got = made(case, {name: x.float() for name, x in inputs.items()})
    assert got.dtype == torch.float32
    assert error(got, wanted(case, inputs)) <= 2e-5


STEEP = {"kda": ("g", -100.0), "gated_deltanet": ("g", -100.0), "ssd": ("Delta", 100.0), "ssd_sum": ("Delta", 100.0),
         "mamba1": ("b", 100.0), "rwkv6": ("x", math.log(100)), "gla": ("x", -1600.0), "mlstm": ("f", -100.0),
         "rg_lru": ("Lambda", -25.0)}


@pytest.mark.whole
@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", [case for case in CASES if case.name in STEEP], ids=lambda case: case.name)
def test_a_decay_that_leaves_nothing_of_a_state(case: Case, kind: torch.dtype) -> None:
    """A factor of about e^-100 at each step for some features or heads: after three no float holds what is left."""
    name, value = STEEP[case.name]
    inputs = LAYERS[case.name].inputs(37)
    inputs[name][..., 0] = value
    inputs |= {"A": -torch.ones_like(inputs["A"])} if case.name in ("ssd", "ssd_sum", "mamba1") else {}
    want = wanted(case, inputs)
    got = made(case, {name: x.to(kind) for name, x in inputs.items()})
    assert error(got, want) <= (BOUND if kind == torch.float64 else 2e-5)
