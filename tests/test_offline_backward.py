"""Kernels of derived gradients compiled without a device: products run from registers and
shared memory that are there."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from helpers import extent, typed_of
from programs import FILES, MODELS, WITH_ROUNDS, Case
from test_backends import case
from test_gradients import derived_of
from test_offline import TARGET, WHOLE, binary, extents, multiplies, suits

from einc.backends.triton.offline import Launch, launches
from einc.driver import front
from einc.ir.plan import Contract, Kernel, leaves

QUICK = "sdpa alibi documents mla_rope retention linear_cross_entropy moe linear"  # the others run with `--whole`
KINDS = {"int64": torch.int64, "wide": torch.float32, "float64": torch.float64}
SPILLS = "registers found no place: what a tile carries is as wide as the model, or a state for each of two results"
LOADS = "what the pass reads is not copied ahead of it: its loads stand where a tile is asked whether it is cut"
BROKEN = dict.fromkeys(["gated", "moba", "mtp", "nsa", "retention", "shared_logits"], SPILLS)
BROKEN |= dict.fromkeys(["ssd_sum", "fp8_attention", "two_domains"], SPILLS)
BROKEN |= dict.fromkeys(["cope", "selective_attention", "simplicial"], WHOLE)
BROKEN |= dict.fromkeys(["based", "fire", "int4_linear", "kerple", "online_softmax", "relative_table", "shaw",
                         "t5_bias"],
                         LOADS)


@cache
def started(one: Case, width: int) -> list[Launch]:
    """What the gradient of a spec starts, at sizes of the kind that the spec is for."""
    plan = front.gradient(typed_of(one), front.choices(backend="triton")).backward
    sizes = extents(one, width)
    inputs = {
        tensor.key: torch.empty([extent(slot.set.extent, sizes) for slot in tensor.slots], device="meta",
                                dtype=KINDS.get(plan.buffers[tensor.key].element.storage, torch.bfloat16))
        for tensor in plan.inputs
    }
    return launches(front.emit(plan, "triton"), plan.name, inputs, sizes, TARGET)


def specs() -> list[pytest.param]:
    moving = (one for one in FILES if one.name not in MODELS and one.name not in WITH_ROUNDS)
    marks = {one.name: [pytest.mark.whole] if one.name not in QUICK.split() else [] for one in FILES}
    for name, why in BROKEN.items():
        marks[name].append(pytest.mark.xfail(strict=True, reason=why))
    return [pytest.param(one, id=one.name, marks=marks[one.name]) for one in moving]


@pytest.mark.drawn(8)
@pytest.mark.parametrize("one", specs())
def test_every_product_of_a_gradient_suits_the_device(one: Case) -> None:
    """A tile is found for every kernel; those with products compile to what the device has."""
    if not derived_of(one).gradients:
        pytest.skip("nothing moves an output")
    for launch in started(one, 64):
        if multiplies(launch):
            suits(launch, binary(launch))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["sdpa", "gqa", "sliding_window"])
def test_gradients_of_wider_heads_suit_the_device(name: str) -> None:
    for launch in started(case(name), 128):
        if multiplies(launch):
            suits(launch, binary(launch))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["gqa", "preblock", "differential"])
def test_every_kernel_of_a_gradient_compiles(name: str) -> None:
    for launch in started(case(name), 64):
        assert binary(launch).registers <= 255


def test_heads_that_share_their_rows_are_programs_of_products() -> None:
    """What several heads share lacks their axis: beside rows and a pass it would be a third dimension of the tile."""
    products = [launch for launch in started(case("gqa"), 64) if multiplies(launch)]
    assert len(products) == 2 and all(min(launch.tile.values()) >= 64 for launch in products)


def test_matrices_that_are_sums_over_time_are_plain_products() -> None:
    """What they are made of is stored, so no tile has to hold a matrix whole."""
    plan = front.gradient(typed_of(case("preblock")), front.choices(backend="triton")).backward
    made = {step.out for step in leaves(plan.steps) if isinstance(step, Contract)}
    assert {"dW_Q", "dW_K", "dW_V", "dW_O", "dW_1", "dW_2"} <= made


def test_a_sum_that_keeps_no_place_is_no_part_of_a_kernel_in_tiles() -> None:
    plan = front.gradient(typed_of(case("log_n")), front.choices(backend="triton")).backward
    apart = [step for step in leaves(plan.steps)
             if isinstance(step, Kernel) and "dc" in {s.buffer for s in step.stores}]
    assert [len(kernel.stores) for kernel in apart] == [1]
