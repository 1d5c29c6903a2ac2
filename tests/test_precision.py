"""The specs of `specs/precision` against plain torch with torch's own casts: the interpreter and every back end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import torch
from cpp_texts import NEEDED
from helpers import EXACT, Arrays, Function, called, distance, each, each_in_turn, meaning, typed, typed_of
from programs import FILES, MODELS, SPEC_TEXTS, Case
from triton_modes import interpreted

from bench.rounded import ROWS, Sizes, Tensors
from einc.driver import front

CASES = [case for case in FILES if case.name in ROWS]
QUICK = {case.name for case in CASES} - {"fp8_lm"}
EACH = each(CASES, {}, few=QUICK)
BACKENDS = {name: name for name in ("torch", "triton", "cpp")}
CLEAR = 2e-4  # of the distance of two numbers: what float32 leaves of the numbers before they are rounded is below it
SINGLE = 2e-6

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def trials(name: str) -> list[Sizes]:
    """The usual sizes; one of everything; more of what has no other name than T, N or P."""
    usual = ROWS[name].sizes
    if name in MODELS:
        return [usual]
    larger = {key: {"T": 37, "N": 5, "P": 7, "d_k": 8}.get(key, size) for key, size in usual.items()}
    return [usual, dict.fromkeys(usual, 1), larger]


def said(case: Case, given: Tensors, sizes: Sizes) -> Arrays:
    """What the interpreter says."""
    return meaning(typed_of(case), {key: x.numpy() for key, x in given.items()}, sizes)


def far(got: torch.Tensor, want: torch.Tensor) -> float:
    """In units of the largest value, or of 1: what is added up is of that size."""
    return distance(got.double().numpy(), want.numpy(), 1.0)


def test_every_spec_has_another_implementation() -> None:
    names = {name.removeprefix("precision/") for name in SPEC_TEXTS if name.startswith("precision/")}
    assert names == set(ROWS) == {case.name for case in CASES}


@EACH
def test_a_spec_means_what_its_paper_says(case: Case) -> None:
    row = ROWS[case.name]
    for trial, sizes in enumerate(trials(case.name)):
        given, want = row.clear(sizes, trial, 1e-9)
        assert want.abs().max() > 0
        got = said(case, given, sizes)[row.output]
        assert far(torch.from_numpy(got), want) <= EXACT, f"at {sizes}"


@cache
def built(case: Case, backend: str) -> Function:
    function: Function = front.built(typed_of(case), backend=backend)
    return function


@each_in_turn(CASES, "backend", BACKENDS, few=QUICK)
def test_every_back_end_rounds_the_same(case: Case, backend: str) -> None:
    """In float64, and in float32 for values none of which lies near the middle of two numbers."""
    row, function = ROWS[case.name], built(case, backend)
    for dtype, bound in ((torch.float64, EXACT), (torch.float32, SINGLE)):
        for trial, sizes in enumerate(trials(case.name)):
            given, want = row.clear(sizes, trial, CLEAR if dtype == torch.float32 else 1e-9)
            typed = {key: x.to(dtype) if x.is_floating_point() else x for key, x in given.items()}
            got = called(function, typed_of(case), typed, sizes)[row.output]
            assert got.dtype == dtype
            assert far(got, want) <= bound, f"{dtype} at {sizes}"


@each_in_turn(CASES, "backend", {"interpreter": "interpreter", **BACKENDS}, always=["interpreter"], few=QUICK)
def test_what_is_zero_throughout_stays_zero(case: Case, backend: str) -> None:
    """A scale of 0 divides nothing but zeros, and 0 / 0 is 0."""
    row = ROWS[case.name]
    given = {key: torch.zeros_like(x) for key, x in row.draw(row.sizes, 0).items()}
    if backend == "interpreter":
        got = torch.from_numpy(said(case, given, row.sizes)[row.output])
    else:
        got = called(built(case, backend), typed_of(case), given, row.sizes)[row.output]
    assert (got == 0).all()


@cache
def trained(case: Case, backend: str) -> Function:
    """The function that brings its own derivative."""
    function: Function = front.built(typed_of(case), grad=True, backend=backend)
    return function


def slopes(result: torch.Tensor, given: Tensors) -> Tensors:
    """The gradient with respect to each input of the sum of the result, weighed anew at each element."""
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return dict(zip(given, torch.autograd.grad((result * weights).sum(), list(given.values()),
                                               materialize_grads=True), strict=True))


@pytest.mark.parametrize("backend", ["torch", pytest.param("cpp", marks=pytest.mark.whole)])
@EACH
def test_a_gradient_goes_straight_through(case: Case, backend: str) -> None:
    """Autograd goes through the other implementation, past each rounding as past what does nothing, and through the
    scales: where a scale is the largest value itself, both branches of the end of the range give the same."""
    row = ROWS[case.name]
    for trial, sizes in enumerate(trials(case.name)):
        given = row.clear(sizes, trial, 1e-9)[0]
        real = {key: x.requires_grad_() for key, x in given.items() if x.is_floating_point()}
        want = slopes(row.of(given, sizes), real)
        got = slopes(called(trained(case, backend), typed_of(case), given, sizes)[row.output], real)
        unit = max(float(x.abs().max()) for x in want.values())
        for name, slope in want.items():
            assert float((got[name] - slope).abs().max()) <= 1e-10 * unit, f"{name} at {sizes}"


BLOCKS = """index b : time(N)
index u : time(P)
index t, s : time(N P) = (b u)
map β(t) = ceil(t / P) : b
input Q_t, K_s, V_s, ρ_b
mask L_{t s} : s ≤ t
L_{t s} = ρ_{β(s)} Q_t K_s
output Y_t = Σ_s softmax_s(L_{t s}) V_s : all
"""


@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
def test_a_number_of_a_block_is_read_where_positions_are_passed_over(backend: str) -> None:
    """The positions stay one axis in the kernel: it is passed over in tiles, and cannot be a pair of axes."""
    program, sizes = typed(BLOCKS), {"N": 3, "P": 5}
    random = torch.Generator().manual_seed(1)
    given = {key: torch.randn(3 if key == "rho" else 15, generator=random, dtype=torch.float64)
             for key in ("Q", "K", "V", "rho")}
    want = meaning(program, {key: x.numpy() for key, x in given.items()}, sizes)["Y"]
    for grad in (False, True):
        got = called(front.built(program, backend=backend, grad=grad), program, given, sizes)["Y"]
        assert far(got, torch.from_numpy(want)) <= EXACT
