"""Numbers of 4 bits, two in a byte, in kernels: each is taken out of its byte where a tile is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from cpp_driver import checked, recorded
from cpp_texts import COMPILER, NEEDED
from helpers import Function, called, meaning, pairs_in_turn, typed
from test_cpp_driver import ARM, EMULATOR, SANITIZERS, by_library, sanitized
from triton_modes import interpreted

import einc
from einc.driver import compiling, front
from einc.driver.commands import data
from einc.driver.options import Options
from einc.ir.plan import Kernel, Module
from einc.ir.programs import Program

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

HEAD = "index t, s : time(T)\nindex d, e : feature(D)\nindex v : vocab(1..V)\ninput x_t^d\n"
SCORES = "mask L_{t s} : s ≤ t\noutput Y_t^d = Σ_s softmax_s(L_{t s}) "
USES = {
    "attention": f"input k_s^d : int4\ninput w_s^d : int4\ninput σ_s\n{SCORES}w_s^d\n"
                 "L_{t s} = 1/√D x_t^d σ_s k_{s d}",
    "both few": f"input q_t^d : int4\ninput k_s^d : int4\ninput σ_s\n{SCORES}x_s^d\nL_{{t s}} = 1/(8 √D) "
                "q_t^d σ_s k_{s d}",
    "one of eight bits": f"input q_t^d : int8\ninput k_s^d : int4\ninput σ_s\n{SCORES}x_s^d\nL_{{t s}} = "
                         "1/(128 √D) q_t^d σ_s k_{s d}",
    "positions side by side": f"input k^{{d s}} : int4\n{SCORES}k^{{d s}}\nL_{{t s}} = 1/(4 √D) x_t^d k_{{d s}}",
    "parts of rows": f"index u : feature(U)\nindex f : feature(D U) = (d u)\ninput k_s^f : int4\ninput q_t^f\n{SCORES}"
                     "x_s^d\nL_{t s}^d = 1/√U q_t^{(d u)} k_s^{(d u)}".replace("L_{t s})", "L_{t s}^d)").replace(
                         "mask L_{t s}", "mask L_{t s}^d"),
    "distances": f"input k_s^d : int4\n{SCORES}x_s^d\nL_{{t s}} = Σ_d tanh(k_s^d / 4 + x_t^d)",
    "rows": "input n_t : int\nweight E_v^d : int4\n"
            "output Y_t^d = tanh(E_{n_t}^d / 8 + x_t^d) exp(x_t^d) + x_t^d E_{n_t}^d",
    "columns": "input n_t : int\nweight E^{d v} : int4\n"
               "output Y_t^d = tanh(E^{d n_t} / 8 + x_t^d) exp(x_t^d) + x_t^d E^{d n_t}",
    "the first and the last": "input k_t^d : int4\noutput Y_t^d = tanh(k_t^1 / 8 + x_t^d) exp(x_t^d) + k_t^{D} x_t^d",
    "a norm": "input k_t^d : int4\noutput Y_t^d = (k_t^d + x_t^d) / √(1/D Σ_e (k_t^e + x_t^e)^2 + 1)",
}
BACKENDS = ("torch", "triton", "cpp")
SIZES = ({"T": 37, "D": 40, "V": 9, "U": 2}, {"T": 1, "D": 3, "V": 4, "U": 19}, {"T": 5, "D": 7, "V": 5, "U": 35},
         {"T": 40, "D": 33, "V": 3, "U": 1})


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@cache
def program(use: str) -> Program:
    return typed(HEAD + USES[use])


@cache
def built(use: str, backend: str) -> Function:
    function: Function = front.built(program(use), backend=backend)
    return function


def given(use: str, sizes: dict[str, int]) -> dict[str, torch.Tensor]:
    """Data; of an odd number of numbers the last byte has another one behind them, which nothing may count."""
    out = data.randoms(program(use), sizes, "float32", 3)
    for tensor in program(use).inputs():
        if tensor.element.shared and int(tensor.slots[-1].set.extent.at(sizes)) % 2:
            out[tensor.key][..., -1] |= 0x50
    return out


def distance(use: str, sizes: dict[str, int], got: torch.Tensor, drawn: dict[str, torch.Tensor]) -> float:
    """How far a result is from the definition, in units of the largest value or of 1."""
    want = meaning(program(use), {key: data.exact(x) for key, x in drawn.items()}, sizes)["Y"]
    return float(np.abs(got.double().numpy() - want).max() / max(1, np.abs(want).max()))


@pairs_in_turn("use, backend", USES, BACKENDS, every=3)
def test_kernels_read_what_lies_two_in_a_byte(use: str, backend: str) -> None:
    run = built(use, backend)
    for sizes in SIZES:
        drawn = given(use, sizes)
        got = called(run, program(use), drawn, sizes)["Y"]
        assert distance(use, sizes, got, drawn) <= 2e-6, sizes
    if backend == "cpp":
        assert getattr(run, "ran", {}) == {"k0": True}


@pytest.mark.parametrize("use", USES)
def test_nothing_is_taken_apart_before_a_kernel(use: str) -> None:
    plan = compiling.planned(program(use), Options())
    assert isinstance(plan, Module) and all(isinstance(step, Kernel) for step in plan.steps)
    source = front.emit(plan, "triton")
    assert ("_of_bytes(" in source or "_both(" in source) and "_from_bytes" not in source


@pytest.mark.parametrize("backend", BACKENDS)
def test_bytes_that_do_not_lie_one_after_the_other(backend: str) -> None:
    """Rows of a larger tensor, every second byte of them, in the reverse order of its axes."""
    sizes = SIZES[0]
    drawn = given("attention", sizes)
    k = drawn["k"].new_zeros(3, 2 * drawn["k"].shape[1], sizes["T"])
    k[1, ::2] = drawn["k"].T
    laid = {**drawn, "k": k[1, ::2].T}
    assert not laid["k"].is_contiguous()
    got = called(built("attention", backend), program("attention"), laid, sizes)["Y"]
    assert distance("attention", sizes, got, drawn) <= 2e-6


EVERY = """index t : time(T)
index d : feature(3)
input x_t^d : int4
input y_t
output z_t^d = max(x_t^d y_t, x_t^d + 3 y_t) - min(2 x_t^d, y_t - x_t^d)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_number_comes_out_of_every_byte(backend: str) -> None:
    """Bit for bit: all that is computed is a whole number. The third number of a row has no other beside it."""
    codes = torch.cartesian_prod(torch.arange(-8, 8), torch.arange(-8, 8), torch.tensor([-8, -1, 0, 7]))
    y = torch.arange(len(codes)).remainder(13) - 6.0
    x = codes.double().numpy()
    want = meaning(typed(EVERY), {"x": data.exact(einc.in_bytes(codes)), "y": y.double().numpy()}, {"T": len(x)})["z"]
    got = einc.compile(EVERY, backend=backend)(x=einc.in_bytes(codes), y=y)
    plain = np.maximum(x * y.numpy()[:, None], x + 3 * y.numpy()[:, None])
    assert np.array_equal(want, plain - np.minimum(2 * x, y.numpy()[:, None] - x))
    assert torch.equal(got.double(), torch.from_numpy(want))


WAYS = {
    "sanitizers": (COMPILER, *SANITIZERS),
    "eight lanes": (COMPILER, "-O2", "-march=x86-64-v3"),
    "four lanes": (ARM, "-O2", "-static", "-march=armv8-a"),
}


@pytest.mark.whole
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", USES)
def test_other_machines_read_the_same(use: str, way: str, tmp_path: Path) -> None:
    """No read outside of the bytes of a tensor, whatever an address of half a byte is."""
    arm = way == "four lanes"
    if (way == "sanitizers" and not sanitized()) or (arm and not (ARM and EMULATOR)):
        pytest.skip("there is no such compiler here")
    with recorded(built(use, "cpp")) as calls:
        for sizes in SIZES:
            called(built(use, "cpp"), program(use), given(use, sizes), sizes)
    assert calls
    for some in by_library(calls):
        checked(tmp_path, built(use, "cpp"), some, list(WAYS[way]), [EMULATOR] if arm else [])


@pytest.mark.parametrize(("use", "backend"), [("both few", "triton"), ("parts of rows", "cpp")])
def test_what_shares_a_byte_with_others_counts_for_nothing(use: str, backend: str) -> None:
    """What is behind the last number of a row, and rows that begin in the upper half of a byte."""
    for sizes in SIZES[1:3]:
        drawn = given(use, sizes)
        assert distance(use, sizes, called(built(use, backend), program(use), drawn, sizes)["Y"], drawn) <= 2e-6
