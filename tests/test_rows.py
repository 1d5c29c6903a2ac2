"""Rows that are needed again after a fold along them: one kernel, what it stores, and how near it is far from zero."""

from __future__ import annotations

import pytest
import torch
from helpers import module_of, plan_of, typed
from programs import CASES, Case
from torch.nn import functional

import einc
from einc.driver import front, gradients
from einc.ir.plan import Contract, Gradient, Kernel, Load

STEPS = {"layer_norm": 1, "rms_norm": 1, "qk_norm": 3, "preblock": 16, "gpt2_block": 14, "swiglu_block": 19,
         "deepseek_attention": 20, "geglu": 4, "row_weights": 2, "row_twice": 2, "row_and_product": 4}


def case(name: str) -> Case:
    return next(c for c in CASES if c.name == name)


@pytest.mark.parametrize(("name", "steps"), STEPS.items())
def test_a_row_is_read_once(name: str, steps: int) -> None:
    """As many steps, and no step whose result only one other reads point by point along a row."""
    assert len(plan_of(case(name)).steps) == steps


def test_the_operand_of_a_product_is_formed_once() -> None:
    """Latents are normalised before they are expanded three ways: no product takes a row and its scale apart."""
    products = [step for step in plan_of(case("deepseek_attention")).steps if isinstance(step, Contract)]
    assert {len(step.operands) for step in products} == {2}
    assert sum(step.operands[0][0] == "c" for step in products) == 2


def test_a_kernel_of_rows_stores_what_others_read() -> None:
    """The sum that a product reads, too, and the row made of it; the squares between them are nobody's."""
    kernel = plan_of(case("row_twice")).steps[0]
    assert isinstance(kernel, Kernel)
    assert {s.buffer for s in kernel.stores} == {"h", "y"}
    assert {let.op.buffer for let in kernel.lets if isinstance(let.op, Load)} == {"x", "r", "g"}
    assert set(plan_of(case("row_twice")).buffers) == {"x", "r", "g", "h", "y", "c"}


def test_a_product_between_two_rows_stands_between_two_kernels() -> None:
    """y needs c, which needs s of all rows: no kernel waits for its own results."""
    made = [step.name if isinstance(step, Kernel) else step.out for step in plan_of(case("row_and_product")).steps]
    assert made.index("s") < made.index("c") < made.index("y")


@pytest.mark.parametrize("tiles", [None, (3, 5)])
def test_a_row_far_from_zero_keeps_its_digits(tiles: tuple[int, int] | None) -> None:
    """A mean of 10⁴ beside a spread of 1: squares of single precision summed as they are would leave nothing."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(5, 333, generator=draw) + 1e4
    g, b = torch.randn(333, generator=draw), torch.randn(333, generator=draw)
    want = functional.layer_norm(x.double(), (333,), g.double(), b.double())
    assert (module_of(case("layer_norm"), tiles)(x=x, g=g, b=b) - want).abs().max() < 1e-2
    assert (module_of(case("layer_norm"), tiles)(x=x - 1e4, g=g, b=b)
            - functional.layer_norm((x - 1e4).double(), (333,),
            g.double(), b.double())).abs().max() < 1e-5


NORM = """index t : time(T)
index f : feature(F)
index g : feature(G)
input X_t^f, γ^f, β^f, W_g^f
μ_t = Σ_f X_t^f / F
σ_t = sqrt(Σ_f (X_t^f - μ_t)^2 / F + 1/10^5)
H_t^f = γ^f (X_t^f - μ_t) / σ_t + β^f
output Y_t^g = Σ_f H_t^f W_g^f
"""


def test_the_gradient_of_a_row_is_one_kernel() -> None:
    """Both sums along the row, the one of which is a product of a matrix and a vector, and what is made of them. Beside
    it stand one pass for both sums over rows, and the products of matrices.
    """
    found = gradients.gradient(typed(NORM), front.choices(own=True, backend="cpp"))
    assert isinstance(found, Gradient)
    steps = found.backward.steps
    made = [set(step.writes) for step in steps if isinstance(step, Kernel)]
    assert sum("dX" in one for one in made) == 1 and len(made) == 2
    assert {"dgamma", "dbeta"} in made
    assert [step.writes for step in steps if isinstance(step, Contract)] == [("dH",), ("dW",)]
    sizes = {"T": 1000, "F": 100, "G": 1}  # X and the slope are read twice each, and two matrices of rows written
    moved = sum(float((step.cost.read + step.cost.written).at(sizes)) for step in steps if isinstance(step, Kernel))
    assert moved < 4 * 6.1 * 1000 * 100


@pytest.mark.parametrize("name", ["torch", "cpp"])
def test_the_gradient_of_a_row_is_that_of_torch(name: str) -> None:
    """Of a norm with weights before a product, in double, at a width that no vector divides."""
    draw = torch.Generator().manual_seed(0)
    kind = torch.float64 if name == "torch" else torch.float32
    shapes = {"X": (13, 37), "gamma": (37,), "beta": (37,), "W": (5, 37)}
    given = {key: torch.randn(shape, generator=draw, dtype=torch.float64) for key, shape in shapes.items()}
    mine = {key: x.to(kind, copy=True).requires_grad_() for key, x in given.items()}
    theirs = {key: x.clone().requires_grad_() for key, x in given.items()}
    function = einc.compile(NORM, backend=name, grad=True)
    slope = torch.randn(13, 5, generator=draw, dtype=torch.float64)
    function(**mine).backward(slope.to(kind))
    rows = functional.layer_norm(theirs["X"], (37,), theirs["gamma"], theirs["beta"], 1e-5)
    (rows @ theirs["W"].mT).backward(slope)
    for key, x in mine.items():
        assert x.grad is not None and theirs[key].grad is not None
        assert (x.grad - theirs[key].grad).abs().max() < (1e-12 if name == "torch" else 1e-4), key


COLUMNS = """index t : time(T)
index f : feature(F)
index g : feature(G)
input X_t^f, Z_t^f, V_t^g, w_t, U_g^f
"""


@pytest.mark.parametrize(("outputs", "steps"), [
    ("output a^f = Σ_t tanh(X_t^f)\noutput b^f = Σ_t w_t X_t^f\noutput c^g = Σ_t V_t^g", [["a", "b"], ["c"]]),
    ("output a^f = Σ_t tanh(X_t^f)\noutput b^f = max_t X_t^f Z_t^f\noutput c^f = Σ_t Z_t^f", [["a", "b", "c"]]),
    ("output a^f = Σ_t w_t X_t^f\noutput b^f = Σ_t X_t^f", [["a"], ["b"]]),  # a library does both
    ("output a^f = Σ_t tanh(X_t^f)\nd^g = Σ_f a^f U_g^f\ne^f = Σ_g d^g U_g^f\noutput b^f = Σ_t tanh(e^f X_t^f)",
     [["a"], ["b"], ["d"], ["e"]]),
    ("output a^f = Σ_t tanh(X_t^f)\noutput b^f_g = Σ_t X_t^f V_{t g}", [["a"], ["b"]]),
])
def test_folds_of_the_same_columns_are_one_pass(outputs: str, steps: list[list[str]]) -> None:
    """What reads one matrix at the same place; not what a library does, what needs the other, or a product of two."""
    made = front.plan(typed(COLUMNS + outputs), front.choices(own=True, backend="cpp")).steps
    assert sorted(sorted(step.writes) for step in made) == steps
