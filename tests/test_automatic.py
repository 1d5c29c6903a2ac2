"""The back end `auto` on a CPU: the formula by which it starts a compiler, and what `einc show` says of it."""

from __future__ import annotations

import re
from inspect import unwrap
from math import ceil
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from cpp_texts import NAMES
from helpers import arrays, called, tensors, typed_of

import einc
from einc.driver import automatic
from einc.driver.cli import main
from einc.driver.reports.native import native

SPECS = ["gqa", "gallery/documents", "decoder_lm", "swiglu_block", "gallery/three_loops"]


def shown(*args: str) -> str:
    """What `einc show --stage plan` prints."""
    result = CliRunner().invoke(main, ["show", *args, "--stage", "plan"])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_compiler_starts_at_the_call_that_the_formula_names(spec: str, threads: int,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Its limit is lowered to a few calls; the operations are those of the plan's formula, at the sizes of a call."""
    case = NAMES[spec.rpartition("/")[2]]
    program, sizes = typed_of(case), {**case.sizes, **({"T": 19} if "T" in case.sizes else {})}
    compiled = einc.compile(spec)
    names: dict[str, Any] = unwrap(compiled.function).__globals__
    numbers: list[float] = []
    told = native(compiled.plan, {**compiled.plan.fixed, **sizes},  # type: ignore[union-attr, arg-type]
                  lambda work, room, unit: numbers.append(float(work.at(sizes))) or "")
    (work,) = numbers
    limit = 3.4 * work
    assert names["_NATIVE_PATIENCE"] == [automatic.OPERATIONS] and len(told) == 2
    asked = []
    monkeypatch.setitem(names, "_native_library", lambda *_: asked.append(1))
    names["_NATIVE_PATIENCE"][0] = limit
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        given, calls = tensors(arrays(program, sizes, case.ranges), torch.float32), 0
        while not asked:
            called(compiled.function, program, given, sizes)
            calls += 1
    finally:
        torch.set_num_threads(before)
    assert calls == ceil(3.4 * threads)


def test_the_formula_is_printed() -> None:
    """With the operations of a call, and with sizes the call at which kernels are compiled."""
    plain = shown("gqa")
    told = "auto: on a CPU, C++ for step 11 once calls have had 2e+11 flops of them a thread (2 s over 1e-11 s)"
    assert told in plain
    assert re.search(r"auto: a call has 2·H·T²·d_k \+ ", plain) and "⌈" not in plain
    sized = shown("gqa", "--sizes", "T=2048,H=32,G=8,d_k=128,d_model=4096")
    (ratio,) = re.findall(r"a call has \S+ G: compiled at call ⌈(\S+) n⌉ with n threads", sized)
    (row,) = (line for line in sized.split("\n") if line.startswith("11 "))
    assert float(ratio) == pytest.approx(2e11 / (float(row.split()[6]) * 1e9), rel=0.01), row


def test_nothing_is_printed_where_torch_computes_all() -> None:
    assert "auto:" not in shown("gallery/linear")


def test_steps_of_requests_in_rounds_are_of_their_own_module() -> None:
    """A model that serves has its requests inside its layers: what a step reads is what its own function is given."""
    assert "auto: on a CPU, C++ for steps" in shown("decoder_lm", "--plan", "serve")
