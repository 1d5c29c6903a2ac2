"""Rounding to types of few bits: the same numbers by the interpreter, by every back end, and by torch's own types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import Array, called, typed
from rows import applied, computed
from triton_modes import interpreted

import einc
from einc.driver import front
from einc.driver.cli import main
from einc.errors.report import EincError
from einc.ir.narrow import NARROW, Narrow
from einc.ir.primitives import PRIMITIVES

HEAD = "index t : time(T)\ninput x_t\n"
ROWS = pytest.mark.parametrize("row", NARROW.values(), ids=list(NARROW))
# OCP Microscaling Formats 1.0 and OFP8: the largest number, the smallest one above 0 and the smallest normal one.
KNOWN = {"e4m3": (448, 2**-9, 2**-6), "e5m2": (57344, 2**-16, 2**-14), "e2m1": (6, 0.5, 1), "int8": (127, 1, 1),
         "int4": (7, 1, 1)}


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def codes(row: Narrow) -> Array:
    """Every number that a type holds, by its definition."""
    if row.whole:
        return np.arange(row.low, row.high + 1, dtype=np.float64)
    found, step = [0.0], 2.0 ** (row.least - row.bits)
    while found[-1] < row.high:
        found.append(found[-1] + step)
        if found[-1] >= 2.0 ** (row.bits + 1) * step:
            step *= 2
    return np.unique([*found, *(-x for x in found)])


def hard(row: Narrow) -> Array:
    """Every number of the type, every one between two neighbours, these ± one last digit of float32, and the ends."""
    held = codes(row)
    between = (held[1:] + held[:-1]) / 2
    beyond = np.asarray([row.low * 1.5, row.high * 1.5, row.high + 0.5, row.low - 0.5, 1e30, -1e30, 1e-30, -1e-30, 0.0,
                         -0.0, math.inf, -math.inf, math.nan])
    some = np.concatenate([held, between, beyond]).astype(np.float32)
    near = [np.nextafter(some, np.float32(way)) for way in (-math.inf, math.inf)]
    return np.concatenate([some, *near]).astype(np.float64)


def nearest(row: Narrow, x: Array) -> Array:
    """By search among all numbers of the type: the nearest, of two the one whose place counted from 0 is even."""
    held = codes(row)
    inside = np.clip(x, row.low, row.high)
    above = np.clip(np.searchsorted(held, inside), 1, len(held) - 1)
    low, high = held[above - 1], held[above]
    even = (np.arange(len(held)) - int(np.flatnonzero(held == 0)[0])) % 2 == 0
    up = (high - inside < inside - low) | ((high - inside == inside - low) & even[above])
    return np.where(np.isnan(x), math.nan, np.where(up, high, low))


def same(got: Array, want: Array) -> bool:
    return np.array_equal(got, want, equal_nan=True)


@ROWS
def test_the_table_is_that_of_the_standards(row: Narrow) -> None:
    held = codes(row)
    largest, least, normal = KNOWN[row.name]
    assert (held[-1], held[held > 0][0], 2.0**row.least if not row.whole else 1) == (largest, least, normal)
    for name, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
        if row.name == name:
            every = torch.arange(256, dtype=torch.uint8).view(dtype).double().numpy()
            assert same(np.unique(every[np.isfinite(every)]), held)


@ROWS
def test_the_meaning_is_the_nearest_number(row: Narrow) -> None:
    random = np.random.default_rng(3)
    drawn = np.exp(random.uniform(-14, 14, 4000)) * random.choice([-1.0, 1.0], 4000)
    for x in (hard(row), drawn):
        assert same(applied(row.name, x), nearest(row, x))
        expansion = PRIMITIVES[row.name].expansion
        assert expansion is not None and same(computed(expansion, {"x": x}), nearest(row, x))


@ROWS
def test_rounding_twice_is_rounding_once(row: Narrow) -> None:
    once = applied(row.name, hard(row))
    assert same(applied(row.name, once), once)


@ROWS
@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_every_back_end_gives_these_bits(row: Narrow, backend: str, dtype: str) -> None:
    if backend == "triton" and dtype == "bfloat16":
        pytest.skip("Triton's interpreter computes wrongly in bfloat16")
    program = typed(f"{HEAD}output y_t = {row.name}(x_t)")
    some = hard(row)
    near = [some * (1 + side) for side in (-1e-13, 1e-13)] if dtype == "float64" else []  # the same number in float32
    x = torch.tensor(np.concatenate([some, *near])).to(getattr(torch, dtype))
    got = called(front.built(program, backend=backend), program, {"x": x}, {"T": len(x)})["y"]
    want = torch.tensor(nearest(row, x.double().numpy())).to(x.dtype)  # some are no numbers of bfloat16
    assert got.dtype == x.dtype and same(got.double().numpy(), want.double().numpy())


@pytest.mark.parametrize(("name", "dtype"), [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)])
def test_torch_casts_what_is_inside_to_the_same(name: str, dtype: torch.dtype) -> None:
    row = NARROW[name]
    x = torch.tensor(hard(row)).float().clamp(row.low, row.high)
    assert same(applied(name, x.double().numpy()), x.to(dtype).double().numpy())


@ROWS
def test_the_slope_is_one_up_to_half_a_step_beyond_the_ends(row: Narrow) -> None:
    program = typed(f"{HEAD}output y_t = {row.name}(x_t)")
    half = float(np.diff(codes(row))[-1]) / 2  # of the step of the last binade
    x = torch.tensor([row.low - half - 0.01, row.low - half, row.low, -0.3, 0.0, 0.7, row.high, row.high + half,
                      row.high + half + 0.01], dtype=torch.float64)
    x.requires_grad_()
    called(front.built(program, grad=True), program, {"x": x}, {"T": len(x)})["y"].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 1, 1, 1, 1, 1, 1, 1, 0]


def test_the_last_digit_of_a_quotient_by_a_scale_moves_no_slope() -> None:
    """A scale takes the largest value to an end of the type, and a rounded quotient may lie a digit beyond it."""
    program = typed(f"{HEAD}input c\noutput y_t = e4m3(x_t / c)")
    x = torch.linspace(0.1, 30, 5000, dtype=torch.float32).requires_grad_()
    for digit in (-1, 0, 1):
        scale = torch.tensor(30 / 448 * (1 + digit * 2.0**-22))
        (slope,) = torch.autograd.grad(called(front.built(program, grad=True), program, {"x": x, "c": scale},
                                              {"T": 5000})["y"].sum(), x)
        assert (slope * scale - 1).abs().max() < 1e-5


@pytest.mark.parametrize("backend", ["torch", "triton", "cpp"])
def test_a_zero_has_the_sign_of_what_it_is_of(backend: str) -> None:
    program = typed(f"{HEAD}output y_t = 1 / int4(x_t) + exp(tanh(x_t)) + exp(x_t / 3)")
    x = torch.tensor([-0.25, 0.25, -0.0])
    got = called(front.built(program, backend=backend), program, {"x": x}, {"T": 3})["y"]
    assert got[:2].tolist() == [-math.inf, math.inf]


def test_a_gradient_passes_a_rounding_of_a_fold() -> None:
    program = typed("index t, s : time(T)\ninput x_s\noutput y_t = e4m3(Σ_{s ≤ t} exp(x_s))")
    x = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    called(front.built(program, grad=True), program, {"x": x}, {"T": 5})["y"].sum().backward()
    assert x.grad is not None and torch.allclose(x.grad, x.detach().exp() * torch.arange(5, 0, -1))


SMALL = f"{HEAD}y_t = e4m3(x_t)\noutput z_t = y_t x_t\n"


def test_a_file_says_where_its_gradient_is_declared() -> None:
    assert "The slope of e4m3 is declared" in einc.compile(SMALL, grad=True).source
    assert "declared" not in einc.compile(f"{HEAD}output z_t = exp(x_t)", grad=True).source
    assert "is declared" not in einc.compile(SMALL).source


def test_an_exact_gradient_passes_no_declared_slope() -> None:
    with pytest.raises(EincError, match="passes `e4m3`, whose slope is declared"):
        einc.compile(SMALL, grad="exact")
    einc.compile(f"{HEAD}output z_t = exp(x_t)", grad="exact")
    with pytest.raises(EincError, match="`exat` is no kind of gradient"):
        einc.compile(SMALL, grad="exat")  # type: ignore[arg-type]


def test_the_command_takes_the_word_after_grad_where_it_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(SMALL)
    file, out = str(tmp_path / "a.ein"), str(tmp_path / "a.py")
    runner = CliRunner()
    assert runner.invoke(main, ["compile", "--grad", file, "-o", out]).exit_code == 0
    assert "backward" in Path(out).read_text()
    refused = runner.invoke(main, ["compile", "--grad", "exact", file])
    assert refused.exit_code == 1 and "slope is declared" in refused.output
