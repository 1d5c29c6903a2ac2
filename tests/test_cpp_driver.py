"""Kernels in C++ around a driver: under sanitizers, and on a processor that is not here."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
import torch
from cpp_driver import Call, checked, recorded
from cpp_texts import COMPILER, NAMES, NEEDED, module_of, possible
from helpers import arrays, called, tensors, typed_of
from test_cpp import cotangents, derived
from test_cpp_few import FEATURES, given, shared

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g", "-march=native")
FORWARD = """
sdpa gqa documents t5_bias relative_table mask_pages softcap moments distances cross_entropy layer_norm swiglu mla_rope
mask_by_data gated_deltanet mamba1 sliding_window log_n requests_packed group_norm
""".split()  # noqa: SIM905 - as a list it has forty quotes
DERIVED = ["sdpa", "documents", "softcap", "gqa", "relative_table", "layer_norm", "gated_deltanet", "distances"]
LENGTHS = (37, 64, 5)
ARM, EMULATOR = shutil.which("aarch64-linux-gnu-g++") or "", shutil.which("qemu-aarch64") or ""


@cache
def sanitized() -> bool:
    """Whether the compiler has the sanitizers, and what it makes with them runs."""
    if not COMPILER:
        return False
    made = subprocess.run([COMPILER, *SANITIZERS, "-x", "c++", "-", "-o", "/dev/null"], input=b"int main() {}",
                          capture_output=True, check=False)
    return made.returncode == 0


def forward(name: str, dtype: torch.dtype) -> list[Call]:
    """The calls of a case's kernels at several lengths."""
    case, program, function = NAMES[name], typed_of(NAMES[name]), module_of(NAMES[name])
    with recorded(function) as calls:
        for T in LENGTHS:
            sizes = {**case.sizes, **{one: T for one in ("T", "U", "S", "T_sum") if one in case.sizes}}
            if possible(function, sizes):
                called(function, program, tensors(arrays(program, sizes, case.ranges), dtype), sizes)
    return calls


def backward(name: str, dtype: torch.dtype) -> list[Call]:
    """Those of its gradient."""
    case, function = NAMES[name], derived(NAMES[name], "cpp")
    with recorded(function) as calls:
        for T in LENGTHS:
            sizes = {**case.sizes, **{one: T for one in ("T", "U", "S", "T_sum") if one in case.sizes}}
            cotangents(function, case, tensors(arrays(typed_of(case), sizes, case.ranges), dtype), dtype, sizes)
    return calls


def by_library(calls: list[Call]) -> list[list[Call]]:
    """Calls of one type and number of vectors together."""
    def of(call: Call) -> tuple[str, int]:
        return str(call.dtype), call.vectors
    return [list(some) for _, some in groupby(sorted(calls, key=of), of)]


@pytest.mark.whole
@pytest.mark.skipif(not sanitized(), reason="the C++ compiler has no address and undefined-behaviour sanitizers")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FORWARD)
def test_sanitizers_find_nothing(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    """No read or write outside of a tensor or of the memory of a thread, nothing that the language leaves open."""
    found = by_library(forward(name, dtype))
    assert found
    for calls in found:
        checked(tmp_path, module_of(NAMES[name]), calls, [COMPILER, *SANITIZERS],
                bound=1e-4 if dtype == torch.float32 else 2e-2)


@pytest.mark.whole
@pytest.mark.skipif(not sanitized(), reason="the C++ compiler has no address and undefined-behaviour sanitizers")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", DERIVED)
def test_sanitizers_find_nothing_in_gradients(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    found = by_library(backward(name, dtype))
    assert found
    for calls in found:
        checked(tmp_path, derived(NAMES[name], "cpp"), calls, [COMPILER, *SANITIZERS],
                bound=1e-3 if dtype == torch.float32 else 5e-2)


def few(dtype: torch.dtype) -> list[Call]:
    """The calls of a kernel of few rows at any width and length, for any number of heads that share."""
    with recorded(shared()) as calls:
        for each in (1, 2, 3, 4, 7, 8):
            for n, D in enumerate(FEATURES):
                shared()(**given(each, D, (1, 15, 16, 17, 40, 300)[(n + each) % 6], 1 + 2 * (n % 2), dtype))
    return calls


@pytest.mark.whole
@pytest.mark.skipif(not sanitized(), reason="the C++ compiler has no address and undefined-behaviour sanitizers")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_sanitizers_find_nothing_in_kernels_of_few_rows(tmp_path: Path, dtype: torch.dtype) -> None:
    """Rows, features and positions that fill vectors, and what is left over."""
    calls = few(dtype)
    assert len(calls) == 6 * len(FEATURES) and {call.vectors for call in calls} == {1}
    checked(tmp_path, shared(), calls, [COMPILER, *SANITIZERS], bound=1e-4 if dtype == torch.float32 else 2e-2)


@pytest.mark.whole
@pytest.mark.skipif(not (ARM and EMULATOR), reason="no compiler and emulator of aarch64 is found: install "
                                                   "g++-aarch64-linux-gnu and qemu-user")
def test_kernels_of_few_rows_on_aarch64(tmp_path: Path) -> None:
    """Vectors of four lanes have at most two rows beside each other."""
    checked(tmp_path, shared(), few(torch.float32), [ARM, "-O2", "-static", "-march=armv8-a"], [EMULATOR])


@pytest.mark.whole
@pytest.mark.skipif(not (ARM and EMULATOR), reason="no compiler and emulator of aarch64 is found: install "
                                                   "g++-aarch64-linux-gnu and qemu-user")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FORWARD)
def test_aarch64(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    """Vectors of four lanes on another machine, emulated: what this machine has computed."""
    for calls in by_library(forward(name, dtype)):
        checked(tmp_path, module_of(NAMES[name]), calls, [ARM, "-O2", "-static", "-march=armv8-a"], [EMULATOR],
                bound=1e-4 if dtype == torch.float32 else 2e-2)


@pytest.mark.whole
@pytest.mark.skipif(not (ARM and EMULATOR), reason="no compiler and emulator of aarch64 is found: install "
                                                   "g++-aarch64-linux-gnu and qemu-user")
@pytest.mark.parametrize("name", DERIVED)
def test_gradients_on_aarch64(tmp_path: Path, name: str) -> None:
    for calls in by_library(backward(name, torch.float32)):
        checked(tmp_path, derived(NAMES[name], "cpp"), calls, [ARM, "-O2", "-static", "-march=armv8-a"], [EMULATOR],
                bound=1e-3)


def test_the_driver_sees_a_difference(tmp_path: Path) -> None:
    """A number of a result that another call would leave."""
    calls = forward("sdpa", torch.float32)[:1]
    assert "1 calls, 0 wrong" in checked(tmp_path, module_of(NAMES["sdpa"]), calls, [COMPILER, "-O1", "-march=native"])
    one = calls[0]
    spoiled = tuple((kind, old, new if old == new else new[:-4] + b"\0\0\0\x40") for kind, old, new in one.tensors)
    assert spoiled != one.tensors
    wrong = Call(one.kernel, one.dtype, one.vectors, spoiled, one.whole, one.numbers)
    with pytest.raises(AssertionError, match="2 wrong"):
        checked(tmp_path, module_of(NAMES["sdpa"]), [wrong], [COMPILER, "-O1", "-march=native"])
