"""Random programs through all three back ends: torch's loops, C++, and Triton's kernels in its interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import test_backends
import test_triton
import torch
from cpp_texts import NEEDED, emitted, kernels, loaded, possible
from helpers import arrays, tensors, typed
from programs import Case
from random_programs import numbered
from test_cpp import BOUNDS, near
from triton_modes import interpreted

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

COUNT, BLOCK, USUAL = 2000, 10, 10
NEAR = test_triton.NEAR


@pytest.fixture(scope="module", autouse=True)
def _interpreter() -> Iterator[None]:
    """Triton's kernels run without a GPU."""
    with interpreted():
        yield


def drawn(number: int) -> Case:
    """The program of a number, each second one with more positions than one vector has lanes."""
    case = numbered(20, number)
    return replace(case, sizes={**case.sizes, "T": 19}) if number % 2 and "T" in case.sizes else case


def compared(case: Case) -> int:
    """How many kernels ran as C++; all back ends are near the interpreter, or in float32 no further than torch's."""
    program = typed(case.text)
    test_backends.attempt(case, NEAR)
    test_triton.attempt(case, NEAR)
    if not kernels(emitted(program)):
        return 0
    compiled = loaded(program)
    if not possible(compiled, case.sizes):
        return 0
    inputs = arrays(program, case.sizes, case.ranges)
    given = tensors(inputs, torch.float32)
    return sum(near(compiled, program, given, case.sizes, BOUNDS[torch.float32], least=1.0).values())


@pytest.mark.parametrize(
    "start", [pytest.param(n, marks=[pytest.mark.whole] * (n >= USUAL)) for n in range(0, COUNT, BLOCK)]
)
def test_three_back_ends_agree(start: int) -> None:
    """A program that fails is printed with its sizes; of each block several have kernels in C++."""
    ran = 0
    for number in range(start, start + BLOCK):
        case = drawn(number)
        try:
            ran += compared(case)
        except Exception as error:
            raise AssertionError(f"number {number}, {case.sizes}:\n{case.text}") from error
    assert ran >= 1
