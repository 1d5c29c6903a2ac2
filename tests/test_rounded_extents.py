"""Extents that are rounded quotients of sizes: their values, what is proved of them, and every back end."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers import typed
from hypothesis import given, settings
from hypothesis import strategies as st
from test_triton import SMALL, choice
from triton_modes import interpreted, tiled

import einc
from einc.driver import front
from einc.driver.cli import main
from einc.ir.domains import proves
from einc.ir.indices import Extent, number, rounded, size
from einc.ir.terms import Apply, Const, Size
from einc.syntax.printing.show import show

BLOCKS = """dim B
index t, s : time(T)
index j : time({extent})
index d : feature(D)
input Q_t^d, K_s^d
C_j^d = 1/B Σ_{{s ∈ ((j-1) B, j B]}} K_s^d
mask L_{{t j}} : j B ≤ t
L_{{t j}} = Q_t^d C_{{j d}}
output Y_t^d = Σ_j softmax_j(L_{{t j}}) C_j^d
"""


def blocks(queries: torch.Tensor, keys: torch.Tensor, length: int) -> torch.Tensor:
    """Means of whole blocks of keys, and a softmax over the blocks that have ended, row by row."""
    whole = len(keys) // length
    means = keys[: whole * length].reshape(whole, length, keys.shape[1]).mean(1)
    rows = [means[: (t + 1) // length] for t in range(len(queries))]
    return torch.stack([torch.softmax(row @ q, 0) @ row if len(row) else torch.zeros_like(q)
                        for q, row in zip(queries, rows, strict=True)])


@pytest.mark.drawn(2)
@pytest.mark.parametrize("extent", ["⌈T/B⌉", "⌊T/B⌋", r"\lceil T/B \rceil", "ceil(T/B)", "floor(T / B)", "2 ⌈T/(2 B)⌉"])
@pytest.mark.parametrize("rows", [1, 4, 17])
def test_means_of_blocks(extent: str, rows: int) -> None:
    text, random = BLOCKS.format(extent=extent), np.random.default_rng(rows)
    given = {name: torch.from_numpy(random.normal(size=(rows, 3))) for name in "QK"}
    want = blocks(given["Q"], given["K"], 4)
    found = einc.interpret(text, {name: x.numpy() for name, x in given.items()}, sizes={"B": 4})["Y"]
    torch.testing.assert_close(torch.from_numpy(np.asarray(found)), want)
    torch.testing.assert_close(einc.compile(text, backend="torch")(**given, B=4), want)


@pytest.mark.parametrize("backend", ["cpp", "triton"])
def test_kernels_of_blocks(backend: str) -> None:
    text, random = BLOCKS.format(extent="⌈T/B⌉"), np.random.default_rng(0)
    given = {name: torch.from_numpy(random.normal(size=(37, 16)).astype(np.float32)) for name in "QK"}
    if backend == "cpp":
        function = einc.compile(text, backend="cpp")
        function.prepare()
        found = function(**given, B=5)
    else:
        plan = front.plan(typed(text))
        with interpreted():
            found = tiled(front.emit(plan, "triton"), plan.name, choice(SMALL))(**given, B=5)
    torch.testing.assert_close(found, blocks(given["Q"], given["K"], 5), atol=1e-5, rtol=1e-5)


def test_gradients_through_blocks() -> None:
    function = einc.compile(BLOCKS.format(extent="⌈T/B⌉"), backend="torch", grad=True)
    given = [torch.randn(11, 3, dtype=torch.float64, requires_grad=True) for _ in "QK"]
    torch.autograd.gradcheck(lambda q, k: function(Q=q, K=k, B=3), given)


@pytest.mark.parametrize("rows", [5, 6, 20])
def test_windows_that_overlap(rows: int) -> None:
    """As many windows of a length as there are room for, a step apart: every read is proved to be in range."""
    text = """index t, s : time(T)
dim l, m
index j : time(⌊(T - l)/m⌋ + 1)
index i : feature(l)
input x_t
weight w_i
output y_j = Σ_i w_i x_{(j-1) m + i} : all
"""
    x, w = torch.randn(rows, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    want = x.unfold(0, 5, 3) @ w
    torch.testing.assert_close(einc.compile(text, backend="torch")(x=x, w=w, m=3), want)
    found = einc.interpret(text, {"x": x.numpy(), "w": w.numpy()}, sizes={"m": 3})["y"]
    torch.testing.assert_close(torch.from_numpy(np.asarray(found)), want)


@pytest.mark.parametrize(("line", "code"), [
    ("output y_j = x_{2 j} : all", "E0601"), ("output y_j = x_{2 j - 1} : all", ""),
    ("output y_k = x_{2 k} : all", ""), ("output y_k = x_{2 k + 1} : all", "E0601"),
    ("output z_t = c_{⌈t/2⌉}", ""), ("output z_t = c_{⌈(t+1)/2⌉}", "E0601"), ("output z_t = e_{⌈t/2⌉}", "E0601"),
    ("output z_t = e_{max(⌊t/2⌋, 1)}", "E0601"), ("output z_t = 1[t > 1] e_{⌊t/2⌋}", ""),
])
def test_ranges_of_rounded_extents(line: str, code: str) -> None:
    """T may be odd: twice ⌈T/2⌉ may be more than T, and ⌊T/2⌋ may be 0."""
    text = f"""index t : time(T)
index j : time(⌈T/2⌉)
index k : time(⌊T/2⌋)
index p : latent(⌈T/2⌉)
index q : latent(⌊T/2⌋)
input x_t, c_p, e_q
{line}
"""
    found = [p.code for p in einc.check(text) if p.code.startswith("E")]
    assert found == [code] * bool(code)


def test_a_program_is_printed_as_it_is_read() -> None:
    program = typed(BLOCKS.format(extent="3 ⌈(T + 1)/(2 B)⌉ - 1"))
    again = typed(show(program))
    assert "⌈" in show(program)
    assert {s.set for t in again.tensors.values() for s in t.slots} == {
        s.set for t in program.tensors.values() for s in t.slots}


def test_a_divisor_is_no_less_than_1() -> None:
    function = einc.compile(BLOCKS.format(extent="⌈T/B⌉"), backend="torch")
    x = torch.zeros(3, 2)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="B"):
            function(Q=x, K=x, B=wrong)
    with pytest.raises(Exception, match="B"):
        einc.interpret(BLOCKS.format(extent="⌈T/B⌉"), {"Q": x.numpy(), "K": x.numpy()}, sizes={"B": 0})


def test_an_array_of_such_an_extent_is_checked_and_tells_no_size() -> None:
    text = """dim B
index t : time(T)
index j : time(⌈T/B⌉)
input x_t, c_j
output y = Σ_t x_t + Σ_j c_j
"""
    function = einc.compile(text, backend="torch")
    assert float(function(x=torch.ones(5), c=torch.ones(3), B=2)) == 8
    with pytest.raises(ValueError, match="c has shape"):
        function(x=torch.ones(5), c=torch.ones(2), B=2)


def test_a_size_that_no_shape_tells_is_asked_for() -> None:
    """T of an array over ⌈T/B⌉ alone, and B, which then is the name of no array."""
    text = "dim B\nindex j : time(⌈T/B⌉)\ninput {name}_j\noutput y_j = 2 {name}_j\n"
    made = einc.compile(text.format(name="x"), backend="torch")(x=torch.ones(3), T=5, B=2)
    assert made.tolist() == [2, 2, 2]
    assert [p.code for p in einc.check(text.format(name="B"))] == ["E0214"]


def test_run_draws_such_arrays() -> None:
    found = CliRunner().invoke(main, ["run", "-", "--verify", "--backend", "torch", "--sizes", "T=7,B=3"], input=(
        "dim B\nindex t : time(T)\nindex j : time(⌈T/B⌉)\ninput x_t, m_j\noutput y_t = x_t m_{⌈t/B⌉}\n"))
    assert found.exit_code == 0 and "ok" in found.output, found.output


# the algebra

SIZES = ["T", "B", "W"]


@st.composite
def quotients(draw: st.DrawFn) -> Extent:
    """A rounded quotient of two small extents of whole coefficients."""
    above = number(0)
    for name in SIZES:
        above = above + size(name) * number(draw(st.integers(-2, 3)))
    below = draw(st.sampled_from([number(2), number(3), size("B"), size("B") * number(2), size("B") * size("W")]))
    found = (above + number(draw(st.integers(-2, 2)))).over(below)
    assert found is not None
    return rounded(found, draw(st.booleans()))


def values() -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({name: st.integers(1, 9) for name in SIZES})


@given(quotients(), quotients(), st.integers(-3, 3), st.integers(-2, 2), values())
def test_what_is_proved_of_sizes_is_true(one: Extent, two: Extent, times: int, more: int,
                                         sizes: dict[str, int]) -> None:
    """Whatever is proved of all sizes from 1 holds at some."""
    for left, right in ((one, two * number(times) + number(more)), (one * size("B"), size("T") + number(more))):
        for op in ("le", "lt"):
            if proves(Const(Fraction(1)), Apply(op, (Size(left), Size(right)))):
                a, b = left.at(sizes), right.at(sizes)
                assert a < b or (op == "le" and a == b)


@given(quotients(), values(), st.integers(1, 9))
@settings(max_examples=200)
def test_extents_are_put_and_fixed(found: Extent, sizes: dict[str, int], other: int) -> None:
    value = found.at(sizes)
    assert value.denominator == 1
    for bounds, is_up in ((x.bounds, x.up) for x in found.roundings):
        low, high = (bound.at(sizes) for bound in bounds)
        assert low <= next(iter(found.roundings)).at(sizes) <= high, is_up
    assert found.fixed({"B": sizes["B"]}).at(sizes) == value
    assert found.put({"T": size("S")}).at({**sizes, "S": sizes["T"]}) == value
    assert found.put({"T": size("T") + size("P")}).at({**sizes, "T": sizes["T"] - 1, "P": 1}) == value
    assert (found + number(other)).at(sizes) == value + other
