"""Random texts against an evaluation one number at a time (`hostile_programs`), and their gradients against differences
of that: in the interpreter, in emitted files at several tiles, in compiled and in Triton kernels."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from cpp_texts import COMPILER
from helpers import Function, cut, meaning, typed
from hostile_further import Further
from hostile_programs import Hostile
from test_triton import SMALL, choice
from triton_modes import interpreted, tiled

import einc
from einc.backends.torch.load import load
from einc.driver import front
from einc.errors.report import EincError

Values = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    """Where a program gets no numbers it is in float64."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(usual)


def near(found: Values, want: Values, told: str) -> None:
    for name, value in want.items():
        np.testing.assert_allclose(found[name], value, 1e-8, 1e-8 * max(1, np.abs(value).max(initial=0)), err_msg=told)


def run(function: Function, case: Hostile, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    asked = inspect.signature(function).parameters
    made = function(**{key: x for key, x in {**given, **case.sizes}.items() if key in asked})
    return {name: getattr(made, name) if isinstance(made, tuple) else made for name, _, _ in case.outputs}


def tensors(case: Hostile) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(x.copy()) for key, x in case.data.items()}


def values_agree(case: Hostile, seed: int, want: Values) -> None:
    program = typed(case.text)
    keys = {t.key for t in program.inputs()}
    found = meaning(program, {key: x for key, x in case.data.items() if key in keys}, case.sizes)
    near({key: np.asarray(x) for key, x in found.items()}, want, "the interpreter")
    source = front.emit(front.plan(program))
    files: dict[str, Function] = {
        f"tiles {t}": load(cut(source, t) if t else source, "text") for t in (None, (2, 1), (3, 4))}
    if COMPILER and seed % 12 == 0:
        files["cpp"] = einc.compile(case.text, backend="cpp")
    for told, function in files.items():
        near({key: x.numpy() for key, x in run(function, case, tensors(case)).items()}, want, told)
    if seed % 8 == 0:
        with interpreted():
            kernels = front.emit(front.plan(program, front.choices(backend="triton")), "triton")
            made = run(tiled(kernels, "text", choice(SMALL)), case, tensors(case))
        near({key: x.numpy() for key, x in made.items()}, want, "triton")


def moved(case: Hostile, by: dict[str, np.ndarray[Any, Any]], cotangents: Values) -> float:
    """Σ cotangent · output, where the data is moved by so much."""
    kept = case.data
    case.data = {key: x + by.get(key, 0) for key, x in kept.items()}
    total = sum(float(np.sum(x * cotangents[name])) for name, x in case.values().items())
    case.data = kept
    return total


def gradients_agree(case: Hostile, seed: int, want: Values) -> None:
    draw = np.random.default_rng(seed)
    cotangents: Values = {name: np.asarray(draw.standard_normal(x.shape)) for name, x in want.items()}
    try:
        function = einc.compile(case.text, grad=True, backend="torch")
    except EincError as error:
        assert "has no gradient" in str(error)
        return
    if "\ndef _round" not in function.source:
        function = load(cut(function.source, (2, 1)), "text")
    given = {key: x.requires_grad_(x.is_floating_point()) for key, x in tensors(case).items()}
    made = run(function, case, given)
    near({key: x.detach().numpy() for key, x in made.items()}, want, "with a gradient")
    total = torch.stack([(x * torch.from_numpy(cotangents[name])).sum() for name, x in made.items()]).sum()
    asked = [key for key, x in given.items() if x.requires_grad and key in inspect.signature(function).parameters]
    if not total.requires_grad or not asked:
        return
    slopes = torch.autograd.grad(total, [given[key] for key in asked], allow_unused=True)
    toward = {key: np.asarray(draw.standard_normal(case.data[key].shape)) for key in asked}
    derived = sum(float((d.numpy() * toward[key]).sum()) for key, d in zip(asked, slopes, strict=True) if d is not None)
    first, second = ((moved(case, {k: h * d for k, d in toward.items()}, cotangents)
                      - moved(case, {k: -h * d for k, d in toward.items()}, cotangents)) / (2 * h)
                     for h in (1e-5, 3e-6))
    size = max(1, abs(derived), abs(first), abs(total.item()))
    if abs(first - second) < 1e-5 * size:  # else a corner is as near as that
        assert abs(derived - second) <= 1e-4 * size, (derived, second)


@pytest.mark.drawn(16)
@pytest.mark.parametrize("seed", [*range(48), *(pytest.param(n, marks=pytest.mark.whole) for n in range(48, 1000))])
def test_a_text_means_what_it_says(seed: int) -> None:
    means_what_it_says(Hostile(seed), seed)


@pytest.mark.drawn(10)
@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(n, marks=pytest.mark.whole) for n in range(40, 600))])
def test_a_text_of_rarer_constructs_means_what_it_says(seed: int) -> None:
    means_what_it_says(Further(seed), seed)


def means_what_it_says(case: Hostile, seed: int) -> None:
    want = case.values()
    try:
        typed(case.text)
    except AssertionError as refused:  # an indicator in a maximum, a pair of letters, a domain without a point
        assert any(code in str(refused) for code in ("E0505", "E0305", "E0504")), case.text
        return
    if all(np.isfinite(x).all() and np.abs(x).max(initial=0) < 1e8 for x in want.values()):
        values_agree(case, seed, want)
        gradients_agree(case, seed, want)
