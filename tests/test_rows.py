"""Rows that are needed again after a fold along them: one kernel, what it stores, and how near it is far from zero."""

from __future__ import annotations

import pytest
import torch
from helpers import module_of, plan_of
from programs import CASES, Case
from torch.nn import functional

from einc.ir.plan import Contract, Kernel, Load

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
