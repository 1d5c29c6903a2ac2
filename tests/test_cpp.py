"""Kernels in C++ against the interpreter and torch's statements: any sizes, types, strides, processors, threads."""

from __future__ import annotations

import ctypes
import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import pytest
import torch
from cpp_texts import (
    COMPILER,
    DERIVED,
    GUARDED,
    NAMES,
    NEEDED,
    NEVER,
    TYPES,
    WRITTEN,
    cases,
    emitted,
    kernels,
    loaded,
    module_of,
    possible,
    quick,
    replaced,
    running,
    some,
    torch_computes,
    trials,
)
from helpers import (
    Array,
    Arrays,
    Function,
    Outputs,
    arrays,
    called,
    distance,
    each_in_turn,
    inputs_at,
    meaning,
    tensors,
    typed,
    typed_of,
)
from programs import Case
from test_backends import expanded, strided, transposed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import einc
from einc.driver import front, gradients
from einc.ir.plan import Gradient, SegmentedModule
from einc.ir.programs import TypedProgram

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

BOUNDS = {torch.float32: 2e-4, torch.bfloat16: 6e-2, torch.float16: 6e-2}
Tensors = dict[str, torch.Tensor]


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    """A test that sets the number of threads sets it for itself."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def said(program: TypedProgram, given: Tensors, sizes: dict[str, int]) -> Arrays:
    """What the interpreter says of tensors of any type."""
    return meaning(
        program, {key: (x.double() if x.is_floating_point() else x).numpy() for key, x in given.items()}, sizes
    )


def worst(got: Outputs, want: Arrays, least: float = 0.0) -> float:
    """The distance of the worst output."""
    return max((distance(y.detach().double().numpy(), want[key], least) for key, y in got.items()), default=0.0)


def near(
    function: Function, program: TypedProgram, given: Tensors, sizes: dict[str, int], bound: float, least: float = 0.0
) -> dict[str, bool]:
    """What ran; the results are near the interpreter's, or no further from them than those of torch's statements."""
    want = said(program, given, sizes)
    with running(function) as ran:
        got = called(function, program, given, sizes)
    tried = dict(ran)
    if worst(got, want, least) > bound:
        with torch_computes(function):
            bound = max(bound, 1.5 * worst(called(function, program, given, sizes), want, least))
        assert worst(got, want, least) <= bound, f"torch's statements are nearer; {tried} ran"
    return tried


# the same as the interpreter


@pytest.mark.drawn(2)
@some(cases(WRITTEN), "dtype", TYPES, every=20)
def test_kernels_mean_what_the_interpreter_says(case: Case, dtype: torch.dtype) -> None:
    """At all sizes of a case. A kernel is written, and each one that is tried runs; at one trial, one is tried. One
    that looks values up along an axis without elements leaves the call to torch.
    """
    program, function, found = typed_of(case), module_of(case), set[str]()
    text = emitted(program)
    assert kernels(text), "no kernel is written any more"
    for trial, sizes in enumerate(trials(case)):
        if possible(function, sizes):
            given = tensors(arrays(program, sizes, case.ranges, trial), dtype)
            ran = near(function, program, given, sizes, BOUNDS[dtype])
            found |= ran.keys()
            nothing = 0 in sizes.values() and " == 0) return -1;" in text
            assert all(ran.values()) or nothing or case.name in NEVER, f"did not run at {sizes}: {ran}"
    assert found


@cache
def derived(case: Case, backend: str) -> Function:
    """The function of a case with its gradient."""
    plan: Gradient | SegmentedModule = gradients.gradient(typed_of(case), front.choices(own=True, backend=backend))
    text = front.emit(plan, backend)
    function: Function = front.load(quick(text) if backend == "cpp" else text, plan.name, backend)
    return function


def cotangents(function: Function, case: Case, given: Tensors, dtype: torch.dtype, sizes: dict[str, int]) -> Outputs:
    """The gradient of a sum of the results in which each has a factor that is drawn."""
    real = {key: x.to(dtype).requires_grad_() for key, x in given.items() if x.is_floating_point()}
    results = called(function, typed_of(case), {**given, **real}, sizes)
    torch.manual_seed(0)
    shares = [
        (y * torch.randn(y.shape, dtype=torch.float64).to(y.dtype)).sum().double()
        for y in results.values()
        if y.requires_grad
    ]
    found = torch.autograd.grad(
        torch.stack(shares).sum(), list(real.values()), allow_unused=True, materialize_grads=True
    )
    return dict(zip(real, found, strict=True))


@pytest.mark.drawn(2)
@some(cases(DERIVED), "dtype", {name: TYPES[name] for name in ("float32", "bfloat16")}, every=48)
def test_gradients_are_those_of_torch_in_full_precision(case: Case, dtype: torch.dtype) -> None:
    """Near them, or not much further from them than torch's own in the same type: for these inputs, or on average over
    others and never further than torch's worst. Errors of one draw differ by a factor of 5 either way where a gradient
    is badly conditioned, as that of three blocks in turn is."""
    function, reference, found = derived(case, "cpp"), derived(case, "torch"), set[str]()
    bound = 3e-4 if dtype == torch.float32 else 1e-1
    for trial, sizes in enumerate(trials(case)):
        if all(sizes.values()):
            given = tensors(arrays(typed_of(case), sizes, case.ranges, trial), dtype)
            want = {k: x.numpy() for k, x in cotangents(reference, case, given, torch.float64, sizes).items()}
            with running(function) as ran:
                far = furthest(cotangents(function, case, given, dtype, sizes), want)
            found |= ran.keys()
            assert all(ran.values()) or case.name in NEVER, f"did not run at {sizes}: {ran}"
            if far > bound and far > 1.5 * furthest(cotangents(reference, case, given, dtype, sizes), want):
                ours, theirs = (errors(each, reference, case, dtype, sizes) for each in (function, reference))
                assert geometric_mean(ours) <= 1.5 * geometric_mean(theirs) and far <= 1.5 * max(theirs), f"at {sizes}"
    assert found


def furthest(got: Outputs, want: Arrays) -> float:
    """The distance of the worst gradient. One that is zero in exact arithmetic, as those of queries and keys are where
    a softmax has one position, is found as the rounding of a cancellation: its unit is the largest gradient, for the
    terms that cancel are of that size."""
    largest = max((float(abs(x).max()) for x in want.values() if x.size), default=0.0)
    zero = {key for key, x in want.items() if x.size and float(abs(x).max()) <= 1e-12 * largest}
    return max(worst({key: y for key, y in got.items() if key not in zero}, want, 1e-2),
               worst({key: y for key, y in got.items() if key in zero}, want, max(1e-2, largest)))


def errors(function: Function, reference: Function, case: Case, dtype: torch.dtype,
           sizes: dict[str, int]) -> list[float]:
    """How far the gradients are for each of 32 draws; none is said to be nearer than a rounding in float64."""
    found = []
    for draw in range(32):
        given = tensors(arrays(typed_of(case), sizes, case.ranges, draw), dtype)
        want = {k: x.numpy() for k, x in cotangents(reference, case, given, torch.float64, sizes).items()}
        found.append(max(furthest(cotangents(function, case, given, dtype, sizes), want), 1e-16))
    return found


def test_kernels_run_ahead_of_those_of_a_library() -> None:
    """As a user compiles it, in float32 and bfloat16; float64 is left to torch."""
    compiled = einc.compile("sdpa", backend="cpp")
    function, program = load_again(compiled.source, "sdpa"), typed_of(NAMES["sdpa"])
    sizes = {"B": 2, "H": 3, "T": 19, "d_k": 6}
    given = {
        key: torch.randn(2, 3, 19, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) for key in "QKV"
    }
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 2e-4), (torch.bfloat16, 6e-2)):
        narrow = {key: x.to(dtype) for key, x in given.items()}
        ran = near(function, program, narrow, sizes, bound)
        assert list(ran.values()) == [dtype != torch.float64]


def load_again(source: str, name: str) -> Function:
    """The function of a file's text, compiled fast."""
    function: Function = front.load(quick(source), name, "cpp")
    return function


# sizes and layouts


ATTENTION = """
index t, s : time(T)
index h : head(H)
index d : feature(D)
input q_{t h}^d, k_{s h}^d, v_{s h}^d
L_{t s}^{(h)} = 1/√D q_{t h}^d k_{s h d}
y_{t h}^d = Σ_s softmax_{s ≤ t}(L_{t s}^{(h)}) v_{s h}^d
output y_{t h}^d
"""
LENGTHS = (0, 1, 7, 8, 33, 64, 65, 300)
WIDTHS = (1, 3, 5, 16, 17, 33)


@cache
def attention(processor: str = "native", tile: int = 16) -> Function:
    return loaded(typed(ATTENTION), tile, processor)


def drawn(sizes: dict[str, int], dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensors:
    """Inputs of the attention above."""
    given: Tensors = tensors(arrays(typed(ATTENTION), sizes, {}, seed), dtype)
    return given


@pytest.mark.parametrize(
    "dtype", [pytest.param(dtype, marks=[pytest.mark.whole] * (name == "float16")) for name, dtype in TYPES.items()]
)
def test_any_length_and_any_width(dtype: torch.dtype) -> None:
    """Tiles of rows and of the stream that are full, or end early, or are the only one."""
    program = typed(ATTENTION)
    for n, T in enumerate(LENGTHS):
        for D in WIDTHS if T in (33, 65) else (WIDTHS[n % len(WIDTHS)],):
            sizes = {"T": T, "H": 2, "D": D}
            ran = near(attention(), program, drawn(sizes, dtype), sizes, BOUNDS[dtype])
            assert all(ran.values()) and (ran or T < 8)


def test_nothing_but_the_time_grows_with_the_tile() -> None:
    """With the tile of the stream that users have, over its end."""
    sizes = {"T": 300, "H": 1, "D": 4}
    function = attention(tile=256)
    assert near(function, typed(ATTENTION), drawn(sizes), sizes, BOUNDS[torch.float32]) == {"k0": True}


LAYOUTS = {"strided": strided, "transposed": transposed, "expanded": expanded}
LAID = "sdpa gqa alibi relative_table documents mask_causal cross_attention logsumexp t5_bias mask_by_data moments"


@pytest.mark.drawn(6)
@each_in_turn(cases(LAID), "laid", LAYOUTS)
def test_any_strides_will_do_and_inputs_stay(case: Case, laid: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """In the type of float, whose numbers are read where they lie; at the sizes with the most rows."""
    program, function = typed_of(case), module_of(case)
    trial = max(
        (n for n, s in enumerate(case.trials()) if possible(function, s)), key=lambda n: sum(case.trials()[n].values())
    )
    plain = tensors(inputs_at(case, trial), torch.float32)
    keys = [tensor.key for tensor in program.inputs() if tensor.role == "input" or laid is not expanded]
    given = {**plain, **{key: laid(plain[key]) for key in keys}}
    before = {key: x.clone() for key, x in given.items()}
    ran = near(function, program, given, case.trials()[trial], BOUNDS[torch.float32])
    assert ran and all(ran.values())
    assert all(torch.equal(given[key], before[key]) for key in given)


# numbers that are none, and large ones


@pytest.mark.drawn(3)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("key", ["q", "k"])
def test_what_is_no_number_reaches_what_it_should(key: str, value: float) -> None:
    """One element of q reaches one row; one of k, the rows that see it. The last row of a tile sees it alone, too."""
    program = typed(ATTENTION)
    sizes = {"T": 70, "H": 2, "D": 5}
    for row in (0, 15, 31, 33, 69):
        for dtype in (torch.float32, torch.bfloat16):
            given = drawn(sizes, dtype)
            given[key][row, 1, 2] = value
            want = said(program, given, sizes)["y"]
            with running(attention()) as ran:
                got = called(attention(), program, given, sizes)["y"].double().numpy()
            assert ran == {"k0": True}
            assert distance(got, want) <= BOUNDS[dtype]
            touched = np.asarray(~np.isfinite(want).all(axis=(1, 2)))
            assert key == "k" or np.flatnonzero(touched).tolist() in ([row], [])
            assert np.isnan(got).sum() == np.isnan(want).sum()


def test_what_is_no_number_in_the_values() -> None:
    """Rows that see it get it; torch's statements, and these, may give it to rows that do not, with a weight of 0."""
    program, sizes = typed(ATTENTION), {"T": 70, "H": 2, "D": 5}
    for value in (float("nan"), float("inf")):
        given = drawn(sizes)
        given["v"][40, 1, 2] = value
        want = said(program, given, sizes)["y"]
        got = called(attention(), program, given, sizes)["y"].double().numpy()
        sees = np.isfinite(want)
        assert not np.isfinite(got[40:, 1, 2]).any()
        others = sees.copy()
        others[:, 1, 2] = False
        assert distance(got[others], want[others]) <= BOUNDS[torch.float32]


BIASED = """
index t, s : time(T)
input q_t, k_s, v_s, b_{t s}
output y_t = Σ_s softmax_{s ≤ t}(q_t k_s + b_{t s}) v_s
"""


def test_a_bias_that_hides_points() -> None:
    """-inf hides one point, or all of a row, which then gives what the interpreter says."""
    program, sizes = typed(BIASED), {"T": 45}
    function = loaded(program)
    given = tensors(arrays(program, sizes, {}), torch.float32)
    hidden = torch.from_numpy(np.random.default_rng(1).random((45, 45)) < 0.5)
    hidden[torch.arange(45), torch.arange(45)] = False
    given["b"][hidden] = -torch.inf
    given["b"][20:, :20] = -torch.inf  # whole tiles of the stream
    assert near(function, program, given, sizes, BOUNDS[torch.float32]) == {"k0": True}
    given["b"][33] = given["b"][3] = -torch.inf
    want = said(program, given, sizes)["y"]
    got = called(function, program, given, sizes)["y"].double().numpy()
    assert distance(got, want) <= BOUNDS[torch.float32]


EMPTY = """
index t, s : time(T)
input q_t, k_s, v_s
input a_t : int
output y_t = Σ_s softmax_{s < t, a_s = a_t}(q_t k_s) v_s
output z_t = Σ_{s < t, a_s = a_t} exp(q_t k_s) v_s
"""


def test_rows_without_a_point_give_0() -> None:
    program, sizes = typed(EMPTY), {"T": 67}
    given = tensors(arrays(program, sizes, {"a": ("0", "20")}), torch.float32)
    function = loaded(program)
    ran = near(function, program, given, sizes, BOUNDS[torch.float32])
    assert ran and all(ran.values())
    y = called(function, program, given, sizes)["y"]
    a = given["a"].tolist()
    first = [n for n, one in enumerate(a) if one not in a[:n]]
    assert len(first) > 5 and y[first].eq(0).all() and y.isfinite().all()


def test_a_size_of_0_that_divides_leaves_the_call_to_torch() -> None:
    """0 / 0 is 0; of every other size the inverse is formed once."""
    program = typed("""index t, s : time(T)
index f : feature(D)
input q_t^f, k_s^f
input v_s
output y_t = Σ_{s ≤ t} tanh(Σ_f q_t^f k_s^f/D) v_s
""")
    function = loaded(program)
    for D in (3, 0):
        sizes = {"T": 37, "D": D}
        given = tensors(arrays(program, sizes, {}), torch.float32)
        ran = near(function, program, given, sizes, BOUNDS[torch.float32])
        assert ran and all(x == (D > 0) for x in ran.values())


def test_large_magnitudes() -> None:
    """Logits of 2^23 that are exact, numbers near the largest, and a row whose logits are all far below 0."""
    program, sizes = typed(ATTENTION), {"T": 50, "H": 2, "D": 4}
    random = np.random.default_rng(0)
    given = {key: torch.from_numpy(random.integers(-3, 4, (50, 2, 4))).float() for key in "qkv"}
    given["q"] *= 2.0**10
    given["k"] *= 2.0**10
    given["v"] *= 1e30
    given["k"][0, :, :] = -3 * 2.0**10
    given["q"][10, :, :] = 3 * 2.0**10
    assert near(attention(), program, given, sizes, BOUNDS[torch.float32]) == {"k0": True}


WHOLE = replaced(replaced(ATTENTION, "input q", "input a_t, b_s : int\ninput q"), "s ≤ t", "s ≤ t, a_t = b_s")


@pytest.mark.parametrize("key", ["a", "b", "ab"])
def test_whole_numbers_of_64_bits(key: str) -> None:
    """Numbers that differ in their upper half alone are different, in lanes and along the stream."""
    program, sizes = typed(WHOLE), {"T": 40, "H": 2, "D": 3}
    given = tensors(arrays(program, sizes, {"a": ("0", "1"), "b": ("0", "1")}), torch.float32)
    for one in key:
        given[one] = given[one] + 2**32 * (torch.arange(40) % 2)
    near(whole_numbers(), program, given, sizes, BOUNDS[torch.float32])


@cache
def whole_numbers() -> Function:
    return loaded(typed(WHOLE))


# processors


FLAGS = Path("/proc/cpuinfo").read_text(errors="replace") if Path("/proc/cpuinfo").exists() else ""
PROCESSORS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name != "native" and any(not re.search(rf"\b{one}\b", FLAGS) for one in needed.split()),
            reason=f"this machine does not run what is compiled for {name}",
        ),
    )
    for name, needed in (("native", ""), ("x86-64-v3", "avx2 fma bmi2"), ("x86-64", "sse2"))
]

DRIVER = """
extern "C" int width() { return W; }
#define EACH(f) extern "C" void run_##f(const float* x, float* y, L n) { \\
  for (L i = 0; i < n; i += W) stu(y + i, f(ldu(x + i))); }
EACH(exp2_)
EACH(exp_)
EACH(tanh_)
"""


def driver(folder: Path, processor: str) -> Any:
    """The functions of lanes.h over arrays."""
    text = (resources.files("einc.backends.cpp.runtime") / "lanes.h").read_text(encoding="utf-8") + DRIVER
    flags = [
        "-std=gnu++17",
        "-O3",
        f"-march={processor}",
        "-fno-math-errno",
        "-fopenmp",
        "-shared",
        "-fPIC",
        "-w",
        "-DDATA=float",
        "-DHALF=0",
        "-DBF16=0",
        "-DQV=2",
        "-x",
        "c++",
        "-",
        "-lm",
        "-o",
        str(folder / "driver.so"),
    ]
    subprocess.run([COMPILER, *flags], input=text.encode(), check=True)
    return ctypes.CDLL(str(folder / "driver.so"))


def over(library: Any, name: str, x: Array) -> Array:
    """A function at numbers; their count is a multiple of any width."""
    y, pointer = np.empty_like(x), ctypes.POINTER(ctypes.c_float)
    assert x.dtype == np.float32 and len(x) % 16 == 0
    getattr(library, f"run_{name}")(x.ctypes.data_as(pointer), y.ctypes.data_as(pointer), ctypes.c_longlong(len(x)))
    return y


def units(got: Array, want: Array) -> float:
    """The largest difference in units of the last place of the right number."""
    return float(
        (np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)).max()
    )


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30, 1e-45, 200, -200, 128, -150, 89, -104, 88.73],
    dtype=np.float32,
)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_functions_of_lanes(tmp_path: Path, processor: str) -> None:
    """Within 2 units of the last place everywhere; 0 and infinity where they belong; no number where none is."""
    library = driver(tmp_path, processor)
    assert processor == "native" or library.width() == {"x86-64-v3": 8, "x86-64": 4}[processor]
    random = np.random.default_rng(0)

    def line(low: float, high: float) -> Array:
        made = np.concatenate(
            [np.linspace(low, high, 2**18 - 32), random.normal(size=16), random.normal(size=16) * 1e-3]
        )
        clipped: Array = np.clip(made, low, high).astype(np.float32)
        return clipped

    for name, low, high, exact in (
        ("exp2_", -125.49, 127.99, np.exp2),
        ("exp_", -86.98, 88.72, np.exp),
        ("tanh_", -12.0, 12.0, np.tanh),
    ):
        x = line(low, high)
        assert units(over(library, name, x), exact(x.astype(np.float64))) <= 2.0, name
    small = (2.0 ** -random.uniform(0, 120, 2**12)).astype(np.float32)
    for sign in (1, -1):
        assert units(over(library, "tanh_", sign * small), np.tanh(sign * small.astype(np.float64))) <= 2.0
        assert units(over(library, "exp_", sign * small), np.exp(sign * small.astype(np.float64))) <= 2.0
    with np.errstate(over="ignore"):
        for name, exact in (("exp2_", np.exp2), ("exp_", np.exp), ("tanh_", np.tanh)):
            got, want = over(library, name, SPECIAL), exact(SPECIAL.astype(np.float64)).astype(np.float32)
            assert np.array_equal(np.isnan(got), np.isnan(want)), name
            assert np.array_equal(np.isinf(got), np.isinf(want)), (name, got, want)
            assert np.allclose(got[~np.isnan(want)], want[~np.isnan(want)], rtol=1e-6, atol=1e-37), name
    grid = line(-130.0, -120.0)
    assert ((over(library, "exp2_", grid) >= 0) & (over(library, "exp2_", grid) < 2.0**-119)).all()


@pytest.mark.parametrize("processor", PROCESSORS[1:])
def test_kernels_for_other_processors(processor: str) -> None:
    """Vectors of 8 and of 4 lanes: forward in all types, over the ends of tiles."""
    program, sizes = typed(ATTENTION), {"T": 37, "H": 2, "D": 11}
    for dtype in TYPES.values():
        assert near(attention(processor), program, drawn(sizes, dtype), sizes, BOUNDS[dtype]) == {"k0": True}


@pytest.mark.whole
@pytest.mark.parametrize("processor", PROCESSORS[1:])
@pytest.mark.parametrize(
    "name", ["documents", "t5_bias", "relative_table", "gqa", "tanh_gate", "mask_pages", "softcap", "moments"]
)
def test_other_kernels_for_other_processors(name: str, processor: str) -> None:
    case = NAMES[name]
    function = loaded(typed_of(case), processor=processor)
    for trial, sizes in enumerate(case.trials()):
        if possible(function, sizes):
            near(function, typed_of(case), tensors(inputs_at(case, trial), torch.float32), sizes, BOUNDS[torch.float32])


# memory


PAGES = (
    GUARDED
    + """
import sys
torch.set_num_threads(2)
made = torch.load(sys.argv[1], weights_only=False)
for source, name, inputs, sizes, wants in made:
    space = {}
    exec(compile(source, name, "exec"), space)
    given = {key: guarded(x.shape, x.dtype).copy_(x) if isinstance(x, torch.Tensor) else x for key, x in inputs.items()}
    def behind(*shape, dtype=None, device=None, **rest):
        shape = shape[0] if shape and not isinstance(shape[0], int) else shape
        return guarded(shape, dtype or torch.get_default_dtype())
    torch.empty = behind
    try:
        got = space[name](**given)
    finally:
        torch.empty = real_empty
    assert space["_RAN"] and all(space["_RAN"].values()), (name, space["_RAN"])
    for y, want in zip((got,) if isinstance(got, torch.Tensor) else got, wants, strict=True):
        assert torch.equal(torch.nan_to_num(y), torch.nan_to_num(want)), name
    print(name)
"""
)
BEHIND = ["sdpa", "gqa", "gated_deltanet", "t5_bias", "documents", "sliding_window", "relative_table", "mamba1"]


@pytest.mark.parametrize("names", [BEHIND[:1], pytest.param(BEHIND[1:], marks=pytest.mark.whole)], ids=" ".join)
def test_nothing_behind_an_input_or_a_result_is_touched(tmp_path: Path, names: list[str]) -> None:
    """Inputs, results and the memory of threads end where a page ends, and the next page kills who touches it.

    The same bits come out as in usual memory. One length fills its tiles, one does not.
    """
    made = []
    for name in names:
        case, program, function = NAMES[name], typed_of(NAMES[name]), module_of(NAMES[name])
        for T, dtype in ((37, torch.float32), (64, torch.float32), (45, torch.bfloat16)):
            sizes = {**case.sizes, **{one: T for one in ("T", "U", "S", "T_sum") if one in case.sizes}}
            inputs: dict[str, Any] = {**tensors(arrays(program, sizes, case.ranges), dtype)}
            with running(function) as ran:
                outputs = called(function, program, inputs, sizes)
            assert ran and all(ran.values()), (name, ran)
            asked = inspect.signature(function).parameters
            inputs |= {key: n for key, n in sizes.items() if key in asked and key not in inputs}
            made.append((quick(emitted(program)), program.name, inputs, sizes, list(outputs.values())))
    torch.save(made, tmp_path / "made.pt")
    (tmp_path / "pages.py").write_text(PAGES, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "pages.py"), str(tmp_path / "made.pt")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == len(made)


# transformations, threads, processes


def both(given: Tensors) -> torch.Tensor:
    """What torch's statements say."""
    with torch_computes(attention()):
        result: torch.Tensor = attention()(**given)
    return result


USUAL = {"T": 40, "H": 2, "D": 5}


def test_under_torch_compile() -> None:
    given, function = drawn(USUAL), attention()
    compiled = torch.compile(lambda q, k, v: function(q=q, k=k, v=v) * 2, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(**given), both(given) * 2)


@pytest.mark.parametrize("keys", ["k", "qkv"])
def test_under_vmap(keys: str) -> None:
    """Over one input, and over all: the right results, or the refusal of torch's statements."""
    given, others = drawn(USUAL), [drawn(USUAL, seed=seed) for seed in (1, 2, 3)]
    stacked = [torch.stack([one[key] for one in others]) for key in keys]

    def mapped(*some: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = attention()(**{**given, **dict(zip(keys, some, strict=True))})
        return result

    try:
        got = torch.func.vmap(mapped)(*stacked)
    except RuntimeError as refusal:
        with torch_computes(attention()), pytest.raises(RuntimeError, match=re.escape(str(refusal)[:40])):
            torch.func.vmap(mapped)(*stacked)
    else:
        torch.testing.assert_close(
            got, torch.stack([both({**given, **{key: one[key] for key in keys}}) for one in others])
        )


def test_on_tensors_without_memory() -> None:
    """Meta tensors and fake ones have results of the right shape."""
    assert attention()(**{key: x.to("meta") for key, x in drawn(USUAL).items()}).shape == (40, 2, 5)
    with FakeTensorMode() as mode:
        fake = {key: mode.from_tensor(x) for key, x in drawn(USUAL).items()}
        assert attention()(**fake).shape == (40, 2, 5)


NOWHERE = """
import sys
import torch
space = {}
exec(open(sys.argv[1]).read(), space)
given = {key: torch.randn(40, 2, 5) for key in "qkv"}
want = space["text"](**given)
for device in ("meta", "cpu"):
    with torch.device(device):
        got = space["text"](**given)
    assert torch.equal(got, want)
want = space["text"](**{**given, "v": torch.zeros(40, 2, 5)})
got = space["text"](**{**given, "v": torch._efficientzerotensor((40, 2, 5))})
assert torch.equal(got, want)
"""


def test_tensors_and_devices_that_are_nowhere(tmp_path: Path) -> None:
    """Whatever the usual device is, the memory of the threads is memory; autograd's zeros have none.

    In a process of its own, which a wrong address ends.
    """
    ends_well(tmp_path, NOWHERE)


def ends_well(folder: Path, program: str) -> None:
    """Runs a program on the file of the attention above."""
    (folder / "made.py").write_text(quick(emitted(typed(ATTENTION))), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "made.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"


def test_what_is_traced_holds_no_kernel_that_nobody_sees() -> None:
    """A graph made by running, with other inputs than it was made of."""
    given, others = drawn(USUAL), drawn(USUAL, seed=1)
    graph = make_fx(lambda q, k, v: attention()(q=q, k=k, v=v))(*given.values())
    torch.testing.assert_close(graph(*others.values()), both(others))


@pytest.mark.filterwarnings("ignore")
def test_a_trace_of_torch_script() -> None:
    given, others = drawn(USUAL), drawn(USUAL, seed=1)
    trace = torch.jit.trace(  # type: ignore[no-untyped-call]
        lambda q, k, v: attention()(q=q, k=k, v=v), tuple(given.values()), check_trace=False
    )
    torch.testing.assert_close(trace(*others.values()), both(others))


def test_a_tangent_is_not_lost_without_a_word() -> None:
    """Forward differentiation: torch's statements refuse it, or have a tangent."""
    given = drawn(USUAL)
    with forward_ad.dual_level():
        given["q"] = forward_ad.make_dual(given["q"], torch.ones_like(given["q"]))  # type: ignore[no-untyped-call]
        try:
            y = attention()(**given)
        except (NotImplementedError, RuntimeError):
            return
        assert forward_ad.unpack_dual(y).tangent is not None  # type: ignore[no-untyped-call]


FORK = """
import os, signal, sys
import torch
torch.set_num_threads(2)
space = {}
exec(open(sys.argv[1]).read(), space)
given = {key: torch.randn(200, 2, 5) for key in "qkv"}
want = space["text"](**given)
for _ in range(2):
    child = os.fork()
    if not child:
        signal.alarm(60)
        same = torch.equal(space["text"](**given), want)
        os._exit(0 if same and all(space["_RAN"].values()) else 1)
    assert os.waitpid(child, 0)[1] == 0, 'the child waits for ever'
    assert torch.equal(space["text"](**given), want)
"""


def test_after_a_fork(tmp_path: Path) -> None:
    """A child has one thread, and gets the same bits."""
    ends_well(tmp_path, FORK)


def test_from_several_threads_at_once() -> None:
    """Each thread has its own numbers; the first call compiles."""
    function = loaded(typed(ATTENTION + "\n# of several threads\n"), tile=32)
    given = [drawn({"T": 90, "H": 3, "D": 7}, seed=seed) for seed in range(4)]
    wants, found, wrong = [both(one) for one in given], [0] * 4, list[int]()
    torch.set_num_threads(2)

    def run(n: int) -> None:
        for _ in range(20):
            if distance(function(**given[n]).numpy(), wants[n].numpy()) > 1e-5:
                wrong.append(n)
            found[n] += 1

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [20] * 4 and not wrong


@pytest.mark.whole
def test_a_child_may_compile_while_a_thread_of_its_parent_does(tmp_path: Path) -> None:
    """A fork in the middle of a compilation: the child waits for nobody who is not there."""
    compiler = tmp_path / "slow"
    compiler.write_text(f'#!/bin/sh\ncase "$1" in --version) ;; *) sleep 2 ;; esac\nexec {COMPILER} "$@"\n')
    compiler.chmod(0o700)
    program = f"""
import os, signal, sys, threading, time
os.environ["EINC_CXX"] = {str(compiler)!r}
os.environ["EINC_CACHE_DIR"] = {str(tmp_path / "cache")!r}
import torch
space = {{}}
exec(open(sys.argv[1]).read(), space)
given = {{key: torch.randn(40, 2, 5) for key in "qkv"}}
thread = threading.Thread(target=lambda: space["text"](**given))
thread.start()
time.sleep(1)
child = os.fork()
if not child:
    signal.alarm(30)
    space["text"](**given)
    os._exit(0)
thread.join()
assert os.waitpid(child, 0)[1] == 0, "the child waits for ever"
"""
    ends_well(tmp_path, program)


def test_strides_have_names_of_their_own(tmp_path: Path) -> None:
    """The strides of `y` stand beside a tensor that the text calls `y_1`: the kernel compiles, and runs."""
    text = """
index t, s : time(T)
index d    : feature(D)
input q_t^d, y_{1 t}^d
mask L_{t s} : s ≤ t
L_{t s} = q_t^d q_{s d}
output y_t^d = Σ_s softmax_s(L_{t s}) y_{1 s}^d
"""
    function, program = load_again(einc.compile(text, backend="cpp").source, "text"), typed(text)
    given = {t.key: torch.randn(19, 5) for t in program.inputs()}
    ran = near(function, program, given, {"T": 19, "D": 5}, 2e-4)
    assert ran and all(ran.values())


PLACES = """
index t, s : time(T)
index d, e : feature(D)
index v    : feature(N)
input q_t^d, w_s^d, b_v
input n_t : int
output y_t^d = Σ_s softmax_{s ≤ t}(q_t^e w_{s e} + b_{n_t + n_s}) w_s^d
"""


@pytest.mark.parametrize("rows", [37, 5])
def test_places_that_have_to_be_there(rows: int) -> None:
    """Looked up in lanes: where all are there the kernel runs; one that is not leaves the call to torch, which names
    the read. What a tile has no rows for is no place.
    """
    program, sizes = typed(PLACES), {"T": rows, "D": 3, "N": 9}
    function = loaded(program)
    given = tensors(arrays(program, sizes, {"n": ("1", "4")}), torch.float32)
    ran = near(function, program, given, sizes, BOUNDS[torch.float32])
    assert ran and all(ran.values())
    for row in (0, rows - 1):
        for value in (-3, 7, 12):
            wrong = {**given, "n": given["n"].clone()}
            wrong["n"][row] = value
            with running(function) as ran, pytest.raises(IndexError, match=r"b_\{n_\{t\} \+ n_\{s\}\}"):
                function(**wrong)
            assert not any(ran.values())


def test_a_maximum_that_is_a_result_shows_what_is_no_number() -> None:
    """Where others are relative to it, what is no number shows in these, and not in a result that is the maximum."""
    program = typed("""index t, s : time(T)
input X_{t s}
mask a_{t s} : s ≤ t
a_{t s} = tanh(X_{t s})
m_t = max_s a_{t s}
output Y_t = Σ_s exp(a_{t s} - m_t)
output Z_t = m_t
""")
    x = torch.randn(20, 20)
    x[3, 1], x[11] = float("nan"), float("nan")
    function = loaded(program)
    with running(function) as ran:
        y, z = function(X=x)
    assert all(ran.values()) and ran
    want = torch.tanh(x).masked_fill(torch.ones(20, 20).triu(1).bool(), -torch.inf).amax(1)
    torch.testing.assert_close(z, want, equal_nan=True)
    assert torch.equal(y.isnan(), want.isnan())
