"""What is told where Triton refuses a kernel, whichever half of a file it is of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from helpers import typed_of
from test_backends import case
from triton_modes import interpreted

from einc.backends.triton.load import load
from einc.driver import front

HALVES = {"forward": "_ell_kernel", "backward": "_dK_kernel"}


@pytest.fixture(autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@pytest.mark.parametrize("half", HALVES)
def test_a_kernel_that_fails_is_told_with_its_equations_and_lines(half: str) -> None:
    plan = front.gradient(typed_of(case("sdpa")), front.choices(own=True, backend="triton"))
    before, kernel, after = front.emit(plan, "triton").partition(f"def {HALVES[half]}(")
    function = load(before + kernel + after.replace("tl.exp2(", "tl.no_such(", 1), "sdpa")
    given = [torch.randn(1, 1, 3, 2, requires_grad=True) for _ in range(3)]
    with pytest.raises(RuntimeError, match=rf"the kernel {HALVES[half]} failed: .*no_such") as caught:
        torch.autograd.backward(function(**dict(zip("QKV", given, strict=True))).sum())
    said = str(caught.value)
    assert "it computes:\n" in said and "exp(" in said
    assert any(line.startswith("> ") and "tl.no_such(" in line for line in said.splitlines())


def test_what_is_not_tritons_is_left_as_it_is() -> None:
    plan = front.plan(typed_of(case("sdpa")))
    function = load(front.emit(plan, "triton"), plan.name)
    with pytest.raises(ValueError, match="V has shape"):
        function(Q=torch.ones(1, 1, 3, 2), K=torch.ones(1, 1, 3, 2), V=torch.ones(1, 1, 4, 2))
