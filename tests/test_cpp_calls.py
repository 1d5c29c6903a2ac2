"""What holds for every call of a compiled kernel: how far apart what it is given may lie, and who computes it."""

from __future__ import annotations

import mmap
from collections.abc import Callable

import pytest
import torch
from cpp_texts import (
    DERIVED,
    NAMES,
    NEEDED,
    NEVER,
    TYPES,
    WRITTEN,
    Run,
    cases,
    globals_of,
    loaded,
    module_of,
    possible,
    running,
    runs_by,
    trials,
)
from helpers import Function, Outputs, arrays, called, tensors, typed, typed_of
from programs import Case
from test_cpp import BOUNDS, cotangents, derived, worst
from test_cpp_driver import DERIVED as BACKWARD
from test_cpp_driver import FORWARD
from test_cpp_few import given, shared

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

BEYOND = 2**31  # elements: an offset that 32 bits do not hold
RESERVE_NONE = 0x4000  # MAP_NORESERVE of Linux, which Python names from 3.13 on
THREADS = (1, 2, 3, 7)


def sparse(count: int, dtype: torch.dtype) -> torch.Tensor:
    """So many zeros, of which only the pages that are written to take memory."""
    size = torch.empty(0, dtype=dtype).element_size()
    memory = mmap.mmap(-1, count * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | RESERVE_NONE)
    return torch.frombuffer(memory, dtype=dtype, count=count)


def far(x: torch.Tensor, axis: int) -> torch.Tensor:
    """The same numbers, whose last ones along an axis lie `BEYOND` elements behind the first; as many lie before those,
    so that an offset that was cut to 32 bits reads a zero.
    """
    if axis >= x.dim() or x.shape[axis] < 2 or not x.numel():
        return x
    strides = list(x.contiguous().stride())
    strides[axis] = max(-(-BEYOND // (x.shape[axis] - 1)), x.numel())
    reach = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, strides, strict=True))
    return torch.as_strided(sparse(BEYOND + reach, x.dtype), x.shape, strides, BEYOND).copy_(x)


def along(axis: int, function: Function, moved: set[str]) -> Callable[[str, Run, list[torch.Tensor]], bool]:
    """Runs the kernels of a function on tensors that reach far along an axis, which is counted from the first; adds the
    names of those that were given some. A scan is given numbers that lie side by side at each position.
    """
    def run(name: str, kernel: Run, given: list[torch.Tensor]) -> bool:
        scan = f"SCAN({name.partition('_')[0]})" in globals_of(function)["_CPP"]
        others = [x if scan and axis + 1 == x.dim() else far(x, axis) for x in given]
        done = kernel(others)
        for x, other in zip(given, others, strict=True):
            if other is not x and done:
                moved.add(name)
                x.copy_(other)
        return done

    return run


def close(found: Outputs, want: Outputs, bound: float) -> bool:
    """Whether results in other memory are near those in usual memory."""
    return worst(found, {key: y.detach().double().numpy() for key, y in want.items()}, 1e-2) <= bound


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FORWARD)
def test_offsets_have_64_bits(name: str, dtype: torch.dtype) -> None:
    """Everything that a kernel reads and writes, along each axis: many rows, and few."""
    case, function, moved = NAMES[name], module_of(NAMES[name]), set[str]()
    for T in (37, 3):
        sizes = {**case.sizes, **{one: T for one in ("T", "U", "S", "T_sum") if one in case.sizes}}
        if possible(function, sizes):
            data = tensors(arrays(typed_of(case), sizes, case.ranges), dtype)
            with running(function) as ran:
                want = called(function, typed_of(case), data, sizes)
            for axis in range(5):
                with runs_by(function, along(axis, function, moved)):
                    found = called(function, typed_of(case), data, sizes)
                assert close(found, want, BOUNDS[dtype]), (T, axis)
            assert {kernel for kernel, done in ran.items() if done} <= moved
    assert moved


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", [name for name in BACKWARD if name != "gated_deltanet"])
def test_offsets_of_gradients_have_64_bits(name: str, dtype: torch.dtype) -> None:
    """The gradient of `gated_deltanet` is left out: this test then takes all memory, and it is not known why."""
    case, function, moved = NAMES[name], derived(NAMES[name], "cpp"), set[str]()
    sizes = {**case.sizes, **{one: 37 for one in ("T", "U", "S", "T_sum") if one in case.sizes}}
    data = tensors(arrays(typed_of(case), sizes, case.ranges), dtype)
    with running(function) as ran:
        want = cotangents(function, case, data, dtype, sizes)
    for axis in range(5):
        with runs_by(function, along(axis, function, moved)):
            found = cotangents(function, case, data, dtype, sizes)
        assert close(found, want, BOUNDS[dtype]), axis
    assert moved >= {kernel for kernel, done in ran.items() if done}


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_offsets_of_few_rows_have_64_bits(dtype: torch.dtype) -> None:
    """Heads that share keys and values, which are read as they lie."""
    moved = set[str]()
    for each, D, S in ((1, 33, 40), (3, 16, 300), (8, 272, 17)):
        data = given(each, D, S, 1, dtype)
        want = shared()(**data)
        for axis in range(3):
            with runs_by(shared(), along(axis, shared(), moved)):
                assert close({"Y": shared()(**data)}, {"Y": want}, BOUNDS[dtype])
    assert moved


LONG = """
index n : batch(B)
index f : feature(F)
input x_n^f
output y_n = Σ_f 1/(1 + (x_n^f)^2 + abs(x_n^f)^3)
"""


@pytest.mark.whole
def test_a_row_of_more_than_32_bits_of_numbers() -> None:
    """A pass over one row: every number counts, and one number in memory stands for them all."""
    function, count = loaded(typed(LONG)), BEYOND + BEYOND // 16
    with running(function) as ran:
        y = function(x=torch.tensor([[1.0]]).expand(1, count))
    assert ran == {"k0": True} and abs(float(y) / count - 1 / 3) < 1e-6


def every(names: str, *few: str) -> pytest.MarkDecorator:
    """A test for each of these cases in two types; without `--whole` in float32 alone for a few."""
    return pytest.mark.parametrize(("case", "dtype"), [
        pytest.param(case, TYPES[kind], id=f"{case.name}-{kind}",
                     marks=[pytest.mark.whole] * (kind != "float32" or case.name not in few))
        for case in cases(names) for kind in ("float32", "bfloat16")])


def repeated(name: str, kernel: Run, given: list[torch.Tensor]) -> bool:
    """Runs a kernel with several numbers of threads: it leaves the same bits."""
    results = list[list[torch.Tensor]]()
    for threads in THREADS:
        others = [x.clone(memory_format=torch.preserve_format) for x in given]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            if not kernel(others):
                return False
        plain = [x.clone(memory_format=torch.contiguous_format).reshape(-1) for x in others]
        results.append([x.view(torch.uint8) if x.numel() else x for x in plain])
    for threads, found in zip(THREADS[1:], results[1:], strict=True):
        assert all(map(torch.equal, results[0], found)), f"{name} has other bits with {threads} threads"
    return kernel(given)


@every(WRITTEN, "mask_causal", "gqa")
def test_the_same_bits_for_any_number_of_threads(case: Case, dtype: torch.dtype) -> None:
    """A piece of work is the same whoever does it, at all sizes of a case."""
    function, tried = module_of(case), 0
    for trial, sizes in enumerate(trials(case)):
        if possible(function, sizes):
            data = tensors(arrays(typed_of(case), sizes, case.ranges, trial), dtype)
            with runs_by(function, repeated), running(function) as ran:
                called(function, typed_of(case), data, sizes)
            tried += any(ran.values())
    assert tried or case.name in NEVER


@every(DERIVED, "mask_causal")
def test_gradients_have_the_same_bits_for_any_number_of_threads(case: Case, dtype: torch.dtype) -> None:
    """Sums over rows are added by one thread for each unit, in one order."""
    function, tried = derived(case, "cpp"), 0
    for trial, sizes in enumerate(trials(case)):
        if all(sizes.values()):
            data = tensors(arrays(typed_of(case), sizes, case.ranges, trial), dtype)
            with runs_by(function, repeated), running(function) as ran:
                cotangents(function, case, data, dtype, sizes)
            tried += any(ran.values())
    assert tried or case.name in NEVER


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.whole)], ids=str)
def test_few_rows_have_the_same_bits_for_any_number_of_threads(dtype: torch.dtype) -> None:
    for each, D, S in ((1, 33, 40), (3, 16, 300), (4, 64, 5000)):
        with runs_by(shared(), repeated), running(shared()) as ran:
            shared()(**given(each, D, S, 1, dtype))
        assert any(ran.values())
