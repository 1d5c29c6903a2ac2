"""Emitted modules against the interpreter, at any sizes, tiles and strides; what they
refuse; what they hold in memory."""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import (
    EXACT,
    Arrays,
    arrays,
    assert_close,
    called,
    cut,
    distance,
    each,
    each_in_turn,
    examples,
    inputs_at,
    meaning,
    module_of,
    pairs_in_turn,
    plan_of,
    source_of,
    tensors,
    turn,
    typed,
    typed_of,
    wanted,
)
from hypothesis import Phase, note
from programs import CASES, DRAWN, FILES, Case
from random_programs import cascades, contractions
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import einc
from einc.backends.host.naming import OWN
from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.errors.report import Report, Source
from einc.ir.choices import Choices
from einc.transforms.laws.simplify import picked

TILES = [None, (3, 5), (5, 2), (1, 1)]
BROKEN = {
}


def case(name: str) -> Case:
    return next(c for c in CASES if c.name == name)


# the same as the interpreter


def possible(case: Case, sizes: dict[str, int]) -> bool:
    """Whether no size is 0 that the caller gives: only what is read from tensors may be empty."""
    return all(sizes[name] > 0 for name in inspect.signature(module_of(case)).parameters if name in sizes)


def means(case: Case, every: bool) -> None:
    """The module against the interpreter in all tiles at the case's own sizes; at others
    in one of them, or in `every` one."""
    for trial, sizes in enumerate(case.trials()):
        if possible(case, sizes):
            for tiles in TILES if every or not trial else [TILES[(trial + turn(case, len(TILES))) % len(TILES)]]:
                got = called(module_of(case, tiles), typed_of(case), tensors(inputs_at(case, trial)), sizes)
                assert_close(got, wanted(case, trial))


@each(CASES, BROKEN, few=DRAWN)
def test_modules_mean_what_the_interpreter_says(case: Case) -> None:
    """One function for all sizes, whatever the tiles."""
    means(case, every=False)


@pytest.mark.whole
@each(CASES, BROKEN)
def test_modules_mean_it_in_all_tiles_at_all_sizes(case: Case) -> None:
    means(case, every=True)


def strided(x: torch.Tensor) -> torch.Tensor:
    """Every second element of a larger array along each axis."""
    larger = torch.full([2 * n + 1 for n in x.shape], -7, dtype=x.dtype)
    return larger[tuple(slice(1, None, 2) for _ in x.shape)].copy_(x)


def transposed(x: torch.Tensor) -> torch.Tensor:
    """The same elements with the first axis varying fastest."""
    order = tuple(reversed(range(x.ndim)))
    return x.permute(order).contiguous().permute(order)


def expanded(x: torch.Tensor) -> torch.Tensor:
    """The first element of the first axis everywhere along it, at one place in memory,
    where there are two axes or more."""
    return x[:1].expand(x.shape) if x.ndim > 1 else x


def expanded_rows(x: torch.Tensor) -> torch.Tensor:
    """The same along the last axis: positions differ, so that none of those that a program chooses tie."""
    return x[..., :1].expand(x.shape) if x.ndim > 1 else x


@each_in_turn(CASES, "laid", {"strided": strided, "transposed": transposed, "expanded": expanded}, few=DRAWN)
def test_any_strides_will_do_and_inputs_stay(case: Case, laid: Callable[[torch.Tensor], torch.Tensor]) -> None:
    program = typed_of(case)
    plain = tensors(inputs_at(case))
    keys = [tensor.key for tensor in program.inputs() if tensor.role == "input" or laid is not expanded]
    chooses = laid is expanded and any(picked(e) for e in pipeline.normal(program).equations)
    inputs = {**plain, **{key: (expanded_rows if chooses else laid)(plain[key]) for key in keys}}
    before = {key: x.clone() for key, x in inputs.items()}
    want = meaning(program, {key: x.numpy() for key, x in inputs.items()}, case.sizes)
    assert_close(called(module_of(case, (4, 4)), program, inputs, case.sizes), want)
    assert all(torch.equal(inputs[key], before[key]) for key in inputs)


def overlapping(given: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Real inputs as views of the same memory, one within the other."""
    numbers = torch.randn(max((x.numel() for x in given.values()), default=0), dtype=torch.float64)
    return {key: numbers[: x.numel()].view(x.shape) if x.is_floating_point() else x for key, x in given.items()}


@each(CASES, BROKEN, few=DRAWN)
def test_no_result_shares_memory(case: Case) -> None:
    """Inputs may be views of each other; a result is a view of none of them, of no other
    result, and never of itself."""
    program = typed_of(case)
    inputs = overlapping(tensors(inputs_at(case)))
    want = meaning(program, {key: x.numpy() for key, x in inputs.items()}, case.sizes)
    got = called(module_of(case), program, inputs, case.sizes)
    assert_close(got, want, 1e-9)
    given = {x.untyped_storage().data_ptr() for x in inputs.values()}
    own = [y.untyped_storage().data_ptr() for y in got.values() if y.numel()]
    assert len(set(own)) == len(own) and not set(own) & given
    assert all(step or n < 2 for y in got.values() for step, n in zip(y.stride(), y.shape, strict=True))


TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@each_in_turn(CASES, "dtype", TYPES, always=["float32"], few=DRAWN)
def test_a_narrower_type_says_nearly_the_same(case: Case, dtype: torch.dtype) -> None:
    """In float32 to a few digits; in half precision it runs, and what it gives has the type of the data."""
    program = typed_of(case)
    inputs = tensors(inputs_at(case), dtype)
    want = meaning(program, {key: (x.double() if x.is_floating_point() else x).numpy() for key, x in inputs.items()},
                   case.sizes)
    floats = any(x.is_floating_point() for x in inputs.values())
    for tiles in (None, (3, 5)):
        given = {key: x.requires_grad_(x.is_floating_point()) for key, x in inputs.items()}
        got = called(module_of(case, tiles), program, given, case.sizes)
        assert all(y.requires_grad == (floats and y.is_floating_point())
                   for y in got.values()), "differentiating it says why not"
        assert all(y.dtype in (dtype, torch.int64) or not floats for y in got.values())
        if dtype == torch.float32:
            assert_close({name: y.detach().double() for name, y in got.items()}, want, 1e-3)


@each(FILES, {}, few=DRAWN)
def test_narrow_products_are_for_half_precision(case: Case) -> None:
    """In full precision not a bit changes; in half precision the result is about as near as without."""
    program, module = typed_of(case), front.plan(typed_of(case), Choices(narrow=True))
    narrow, wide = load(front.emit(module), module.name), module_of(case)
    given = inputs_at(case)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        inputs = tensors(given, dtype)
        want = meaning(program, {k: (x.double() if x.is_floating_point() else x).numpy() for k, x in inputs.items()},
                       case.sizes)
        one, other = (called(f, program, inputs, case.sizes) for f in (narrow, wide))
        for key, y in one.items():
            if dtype == torch.bfloat16:
                far = distance(other[key].double().numpy(), want[key], 1e-3)
                assert distance(y.double().numpy(), want[key], 1e-3) <= max(3 * far, 0.02)
            else:
                assert torch.equal(torch.nan_to_num(y), torch.nan_to_num(other[key]))


def test_tiles_are_really_cut() -> None:
    """The helper that cuts them is no test if it cuts nothing."""
    usual = source_of(case("attention"))
    assert cut(usual, (3, 5)) != usual
    assert cut(usual, (3, 5)) == cut(cut(usual, (7, 7)), (3, 5))


# every operation on every kind of operand


KINDS = ["x_t", "i_t", "t", "3", "0.5", "T", "c", "n"]
OPERATIONS = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "({0}) * ({1})", "div": "({0}) / ({1})",
              "mod": "mod({0}, {1})",
              "pow": "(abs({0}) + 1)^{{{1}}}", "max": "max({0}, {1})", "min": "min({0}, {1})", "le": "1[{0} ≤ {1}] x_t",
              "eq": "1[{0} = {1}] 2", "not": "1[not ({0} < {1}) or {0} ≠ 2] {1}"}
FUNCTIONS = {name: f"{name}({{0}})" for name in ("exp", "sin", "cos", "tanh", "erf", "abs", "floor", "ceil")}
FUNCTIONS |= {"log": "log(abs({0}) + 1)", "sqrt": "sqrt(abs({0}))", "neg": "(-({0}))", "reciprocal": "1 / ({0})",
              "nothing": "0 / ({0})"}
OPERANDS = """index t, s : time(T)
input x_t, z_t, c
input i_t, n : int
"""


def failure(bodies: list[str]) -> str:
    """What goes wrong with a program of these right sides; empty where nothing does."""
    lines = [f"y{chr(97 + n)}_t = x_t + {body}\noutput y{chr(97 + n)}_t : all" for n, body in enumerate(bodies)]
    text = "\n".join([OPERANDS, *lines])
    if pipeline.check(Source("<text>", text), Report()) is None:
        return "refused"
    try:
        attempt(Case("operation", text, {"T": 5}, {"i": ("1", "4"), "n": ("2", "3")}), 1e-9)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    return ""


WRONG: dict[str, str] = {}
OPERATORS = [Case(name, form, {}) for name, form in {**OPERATIONS, **FUNCTIONS}.items()]


@pytest.mark.drawn(6)
@each(OPERATORS, WRONG)
def test_every_operation_on_every_kind_of_operand(case: Case) -> None:
    """On its own, and along an index that is folded: reals, whole numbers, positions,
    numbers, sizes and single elements."""
    found: dict[str, str] = {}
    for pair in itertools.product(KINDS, KINDS if case.name in OPERATIONS else [""]):
        inner = case.text.format(*(kind.replace("t", "s") for kind in pair)).replace("x_t", "x_s")
        bodies = [case.text.format(*pair), f"Σ_{{s ≤ t}} z_s ({inner})"]
        if "1[" not in case.text:  # an indicator under a maximum is refused
            bodies.append(f"max_{{s ≤ t}} (({inner}) z_t)")
        found |= {body: failure([body]) for body in bodies} if failure(bodies) else {}
    wrong = [f"{body}: {said}" for body, said in found.items() if said]
    assert not wrong, "\n".join(wrong)


# random programs


def ignoring(got: dict[str, torch.Tensor], want: Arrays) -> tuple[Arrays, Arrays]:
    """Both with 0 wherever the meaning is no number: a point that no one should ask for."""
    def kept(arrays: Mapping[str, Any]) -> Arrays:
        return {name: np.where(np.isnan(want[name]), 0, np.asarray(array)) for name, array in arrays.items()}

    return kept(got), kept(want)


def attempt(case: Case, bound: float) -> None:
    program = typed(case.text)
    source = front.emit(front.plan(program))
    want = meaning(program, inputs := arrays(program, case.sizes, case.ranges), case.sizes)
    for tiles in (None, (3, 4), (2, 1)):
        function = load(cut(source, tiles) if tiles else source, "text")
        got, expected = ignoring(called(function, program, tensors(inputs), case.sizes), want)
        assert_close(got, expected, bound, least=1.0)


# With Phase.shrink a failure takes minutes and comes out small.
QUICK = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]


@examples(30, 100, cascades(), phases=QUICK)
def test_random_cascades(case: Case) -> None:
    note(f"{case.text}\n{case.sizes}")
    attempt(case, 1e-9)


@examples(20, 60, contractions(), phases=QUICK)
def test_random_contractions(case: Case) -> None:
    note(f"{case.text}\n{case.sizes}")
    attempt(case, EXACT)


# half and single precision: not worse than the equations written out in torch, in the same element type


def rotated(x: torch.Tensor, halves: bool) -> torch.Tensor:
    """x of shape (…, T, d) turned by its position, as the papers write it."""
    steps, width = x.shape[-2:]
    angle = torch.arange(steps)[:, None] * 10000 ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = (x[..., : width // 2], x[..., width // 2 :]) if halves else (x[..., ::2], x[..., 1::2])
    turned = a * cos - b * sin, b * cos + a * sin
    return torch.cat(turned, -1) if halves else torch.stack(turned, -1).flatten(-2)


def logits(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """For tensors of shape (…, time, width)."""
    return q @ k.mT / math.sqrt(q.shape[-1])


def weighed(scores: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), -1) @ v


def distances(steps: int, keys: int | None = None) -> torch.Tensor:
    """t - s."""
    return torch.arange(steps)[:, None] - torch.arange(keys or steps)


Tensors = dict[str, torch.Tensor]


def projected(x: Tensors, turn: bool, bias: torch.Tensor | float = 0.0, window: int = 0,
              halves: bool = False) -> torch.Tensor:
    """A whole layer from X and its weights; fewer heads of keys than of queries are repeated."""
    q, k, v = (torch.einsum("...tf,hfd->...htd", x["X"], x[name]) for name in ("W_Q", "W_K", "W_V"))
    if turn:
        q, k = rotated(q, halves), rotated(k, halves)
    k, v = (torch.repeat_interleave(y, q.shape[-3] // y.shape[-3], -3) for y in (k, v))
    away = distances(q.shape[-2])
    allowed = (away >= 0) & (away < window) if window else away >= 0
    return torch.einsum("...htd,hdf->...tf", weighed(logits(q, k) + bias, v, allowed), x["W_O"])


def biased(x: Tensors, n: dict[str, int]) -> torch.Tensor:
    slopes = 2.0 ** (-8 * torch.arange(1, n["H"] + 1) / n["H"])
    return projected(x, turn=False, bias=(-slopes[:, None, None] * distances(n["T"])).to(x["X"].dtype))


def crossed(x: Tensors, n: dict[str, int]) -> torch.Tensor:
    q = torch.einsum("tf,hfd->htd", x["H_tilde"], x["W_Q_x"])
    k, v = (torch.einsum("uf,hfd->hud", x["E"], x[name]) for name in ("W_K_x", "W_V_x"))
    return torch.einsum("htd,hdf->tf", weighed(logits(q, k), v, torch.ones(n["T"], n["U"], dtype=torch.bool)),
                        x["W_O_x"])


def plain(x: Tensors, allowed: torch.Tensor, cap: float = 0.0) -> torch.Tensor:
    scores = logits(x["Q"], x["K"])
    return weighed(cap * torch.tanh(scores / cap) if cap else scores, x["V"], allowed)


LARGE = {"T": 150, "d_model": 40, "H": 4, "d_k": 16}
QKV = {"B": 2, "H": 3, "T": 150, "d_k": 16}
EAGER: dict[str, tuple[Callable[[Tensors, dict[str, int]], torch.Tensor], dict[str, int]]] = {
    "attention": (lambda x, n: projected(x, turn=True), LARGE),
    "alibi": (biased, LARGE),
    "gqa": (lambda x, n: projected(x, turn=True), {**LARGE, "G": 2}),
    "sliding_window": (lambda x, n: projected(x, turn=True, window=n["W"]), {**LARGE, "W": 20}),
    "llama_attention": (lambda x, n: projected(x, turn=True, halves=True), {**LARGE, "B": 2, "G": 2}),
    "cross_attention": (crossed, {**LARGE, "U": 90}),
    "sdpa": (lambda x, n: plain(x, distances(n["T"]) >= 0), QKV),
    "softcap": (lambda x, n: plain(x, distances(n["T"]) >= 0, cap=50), QKV),
    "prefix_lm": (lambda x, n: plain(x, (distances(n["T"]) >= 0) | (torch.arange(n["T"]) < n["P"])), {**QKV, "P": 30}),
    "decode": (lambda x, n: plain(x, distances(n["T"], n["S"]) + n["S"] - n["T"] >= 0), {**QKV, "T": 40, "S": 150}),
    "documents": (lambda x, n: plain(x, (distances(n["T"]) >= 0) & (x["doc"][:, None] == x["doc"])), QKV),
}


def inputs_of(case: Case, sizes: dict[str, int], dtype: torch.dtype) -> Tensors:
    """Random inputs, the weights so that logits have a spread near 2."""
    program = typed_of(case)
    out = tensors(arrays(program, sizes, case.ranges, seed=1))
    for tensor in program.inputs():
        if tensor.role == "weight":
            out[tensor.key] *= 1.4 / out[tensor.key].shape[1] ** 0.5
    return {key: x.to(dtype) if x.is_floating_point() else x for key, x in out.items()}


def test_the_equations_written_out_are_the_same() -> None:
    """In float64 both agree, so that the rounding of one can be measured by that of the other."""
    for name, (eager, sizes) in EAGER.items():
        inputs = inputs_of(case(name), sizes, torch.float64)
        (got,) = called(module_of(case(name)), typed_of(case(name)), inputs, sizes).values()
        assert distance(got.numpy(), eager(inputs, sizes).numpy()) <= EXACT, name


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("dtype", "fudge"), [(torch.float32, 10), (torch.bfloat16, 1.3), (torch.float16, 1.3)],
                         ids=str)
@pytest.mark.parametrize("name", EAGER)
def test_rounding_is_no_worse_than_written_out(name: str, dtype: torch.dtype, fudge: float) -> None:
    eager, sizes = EAGER[name]
    inputs = inputs_of(case(name), sizes, dtype)
    gold = eager({key: x.double() if x.is_floating_point() else x for key, x in inputs.items()}, sizes)
    (got,) = called(module_of(case(name), (32, 48)), typed_of(case(name)), inputs, sizes).values()
    assert got.dtype == dtype
    error, allowed = ((y.double() - gold).abs().mean() for y in (got, eager(inputs, sizes)))
    assert error <= fudge * allowed + 1e-9


def test_large_logits_do_not_overflow() -> None:
    """Exponents are taken relative to the largest, also where tiles come in the worst order."""
    n = {"B": 1, "H": 1, "T": 40, "d_k": 2}
    for ramp in (torch.linspace(-1e3, 1e3, 40), torch.linspace(1e3, -1e3, 40)):
        inputs = {"Q": torch.ones(1, 1, 40, 2), "K": ramp[:, None].expand(1, 1, 40, 2).clone(),
                  "V": torch.randn(1, 1, 40, 2)}
        for tiles in TILES:
            (got,) = called(module_of(case("sdpa"), tiles), typed_of(case("sdpa")), inputs, n).values()
            assert torch.allclose(got, plain(inputs, distances(40) >= 0), atol=1e-6)


# what is refused


SPEC = case("attention")
SIZES = {"T": 5, "d_model": 4, "H": 3, "d_k": 2}
NAMES = ("X", "W_Q", "W_K", "W_V", "W_O")


def refusal(name: str, kinds: tuple[type[Exception], ...], **change: Any) -> str:
    """The message of the error for the inputs with a change; None takes one away."""
    case_ = case(name)
    sizes = {**SIZES, "V": 4, "D": 3, "W": 2}
    inputs: dict[str, Any] = {**tensors(arrays(typed_of(case_), sizes, case_.ranges))}
    inputs |= {key: sizes[key] for key in ("W",) if key in inspect.signature(module_of(case_)).parameters}
    inputs = {key: value for key, value in {**inputs, **change}.items() if value is not None}
    with pytest.raises(kinds) as raised:
        module_of(case_)(**inputs)
    return str(raised.value)


def good(name: str) -> torch.Tensor:
    return tensors(arrays(typed_of(SPEC), SIZES, {}))[name]


@pytest.mark.parametrize("name", NAMES)
def test_tensors_that_do_not_fit(name: str) -> None:
    x = good(name)
    assert name in refusal("attention", (TypeError,), **{name: None})
    assert f"{name} " in refusal("attention", (TypeError,), **{name: x.tolist()})
    assert f"{name} " in refusal("attention", (TypeError,), **{name: x.numpy()})
    for ranked in (x[None], x[0]):
        assert f"{name} has shape {tuple(ranked.shape)}, " in refusal("attention", (ValueError,), **{name: ranked})
    for wrong in (x.to(torch.int64), x.to(torch.bool), x.to(torch.complex128)):
        assert str(wrong.dtype) in refusal("attention", (TypeError,), **{name: wrong})
    assert "float64" in (said := refusal("attention", (TypeError,), **{name: x.float()})) and "float32" in said
    assert "meta" in refusal("attention", (ValueError,), **{name: x.to("meta")})


AXES = [("X", 1), *((name, axis) for name in NAMES[1:] for axis in range(3))]


@pytest.mark.parametrize(("name", "axis"), AXES)
@pytest.mark.parametrize("extent", [1, 6, 0])
def test_extents_are_equal_and_none_is_stretched(name: str, axis: int, extent: int) -> None:
    x = good(name)
    wrong = torch.zeros([extent if n == axis else m for n, m in enumerate(x.shape)], dtype=x.dtype)
    said = refusal("attention", (ValueError,), **{name: wrong})
    assert "expected" in said or "multiple" in said


def test_what_is_not_asked_for_is_refused() -> None:
    assert "Z" in refusal("attention", (TypeError,), Z=torch.zeros(1))
    with pytest.raises(TypeError, match="positional"):
        module_of(SPEC)(good("X"))


def test_a_width_that_has_no_pairs() -> None:
    odd = {"W_Q": torch.zeros(3, 4, 3), "W_K": torch.zeros(3, 4, 3), "W_V": torch.zeros(3, 4, 3),
           "W_O": torch.zeros(3, 3, 4)}
    assert "d_k = 3 is not a multiple of 2" in refusal("attention", (ValueError,), X=torch.zeros(5, 4), **odd)


@pytest.mark.parametrize("name", ["gather", "gather_sum", "cross_entropy"])
@pytest.mark.parametrize("wrong", [-1, 5, 2**40])
def test_ids_out_of_range(name: str, wrong: int) -> None:
    said = refusal(name, (IndexError,), w=torch.tensor([1, 1, wrong, 1, 1]))
    assert said.startswith("w ") and str(wrong) in said


def test_ids_are_whole_numbers() -> None:
    for wrong in (torch.zeros(5), torch.zeros(5, dtype=torch.bool)):
        assert str(wrong.dtype) in refusal("gather", (TypeError,), w=wrong)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("name", ["gather", "gather_sum", "gather_pages", "cross_entropy", "mask_documents",
                                  "mask_by_data"])
def test_whole_numbers_of_any_width(name: str, kind: torch.dtype) -> None:
    one = case(name)
    inputs = arrays(typed_of(one), one.sizes, one.ranges)
    narrow = {key: x if x.is_floating_point() else x.to(kind) for key, x in tensors(inputs).items()}
    assert_close(called(module_of(one), typed_of(one), narrow, one.sizes), meaning(typed_of(one), inputs, one.sizes))


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "2", True])
def test_sizes_are_whole_numbers_from_one(wrong: object) -> None:
    said = refusal("sliding_window", (ValueError, TypeError), W=wrong)
    assert "W" in said and repr(wrong) in said


# what a file is


@each(FILES, {}, few=DRAWN)
def test_a_module_imports_torch_alone(case: Case) -> None:
    tree = ast.parse(source_of(case))
    found = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "torch" in found <= {"bisect", "functools", "math", "typing", "torch"}


ALONE = """
import importlib.util, sys
sys.modules["einc"] = None
sys.path.append(sys.argv[1])
import torch
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
for path in sys.argv[2:]:
    spec = importlib.util.spec_from_file_location("made", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data = torch.load(path + ".pt")
    result = getattr(module, data["entry"])(**data["inputs"])
    for got, want in zip((result,) if isinstance(result, torch.Tensor) else result, data["outputs"], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    print(path)
"""


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.whole)])
def test_modules_run_where_einc_is_not(every: bool, tmp_path: Path) -> None:
    """With no site, no user folder and no variables of the environment: torch's own folder is all there is."""
    paths = []
    for one in (one for one in FILES if every or one.name in DRAWN):
        program = typed_of(one)
        inputs: dict[str, Any] = {**tensors(arrays(program, one.sizes, one.ranges))}
        outputs = called(module_of(one), program, inputs, one.sizes)
        # a tensor and a size may share a name
        asked = inspect.signature(module_of(one)).parameters.keys() - inputs.keys()
        inputs |= {name: n for name, n in one.sizes.items() if name in asked}
        paths.append(tmp_path / f"{one.name}.py")
        paths[-1].write_text(source_of(one), encoding="utf-8")
        torch.save({"entry": plan_of(one).name, "inputs": inputs, "outputs": list(outputs.values())}, f"{paths[-1]}.pt")
    command = [sys.executable, "-I", "-S", "-c", ALONE, str(Path(torch.__file__).parent.parent), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == list(map(str, paths))


def test_the_front_door() -> None:
    """`einc.compile` gives the function that all of this is about, under its own name."""
    module = einc.compile("sdpa", "torch")
    assert (module.__name__, module.source, module.plan.name) == ("sdpa", front.emit(module.plan), "sdpa")
    x = torch.randn(1, 2, 5, 4)
    assert torch.equal(module(Q=x, K=x, V=x), load(module.source, "sdpa")(Q=x, K=x, V=x))


# names


WORDS = ["torch", "math", "device", "dtype", "wide", "narrow", "rows", "columns", "range", "int", "tuple",
         "NamedTuple", "lambda",
         "None", "T", "t", "TextOutput", "helper", "ValueError"]
PLACES_OF_NAMES = {
    "input": "input {0}_t, b_s\noutput y_t = Σ_{{s ≤ t}} {0}_s b_t exp({0}_t b_s)",
    "scalar": "input {0}, b_s\noutput y_t = Σ_{{s ≤ t}} {0} exp(b_s b_t)",
    "whole": "input {0}_t : int\ninput b_s\noutput y_t = Σ_{{s ≤ t, {0}_s = {0}_t}} exp(b_s b_t)",
    "local": "input b_s\n{0}_t = abs(b_t)\noutput y_t = Σ_s softmax_{{s ≤ t}}({0}_t b_s) {0}_s\noutput z_t = 2 y_t + "
             "{0}_t",
    "output": "input b_s\noutput {0}_t = Σ_{{s ≤ t}} b_s exp(b_t b_s)\noutput z_t = 2 {0}_t",
    "size": "index p, q : time({0})\ninput b_p\noutput y_p = Σ_{{q ≤ p}} exp(b_q b_p) / {0}",
    "asked": "dim {0}\ninput b_s\noutput y_t = Σ_{{s > t - {0}, s ≤ t}} exp(b_s b_t) / {0}",
    "letter": "index {0} : time(T)\ninput b_s\noutput y_{{{0}}} = Σ_{{s ≤ {0}}} exp(b_s b_{{{0}}}) / 2 + Σ_{{s ≤ {0}}} "
              "{0} s",
}


@pytest.mark.drawn(4)
@pairs_in_turn("word, place", WORDS, PLACES_OF_NAMES, every=3)
def test_a_name_hides_nothing_that_the_module_needs(word: str, place: str) -> None:
    """Words of Python and of the emitted text, as the name of anything a spec declares."""
    text = "index t, s : time(T)\n" + PLACES_OF_NAMES[place].format(word)
    if pipeline.check(Source("<text>", text), Report()) is None:
        assert word in ("T", "t"), "only a name that another set or size has is refused"
        return
    program = typed(text)
    for steps in (1, 7):
        sizes = {**({word: 3} if place == "asked" else {word: steps}), "T": steps}
        inputs = arrays(program, sizes, {key.key: ("1", "2") for key in program.inputs()})
        source = front.emit(front.plan(program))
        for tiles in (None, (3, 2)):
            function = load(cut(source, tiles) if tiles else source, "text")
            assert_close(called(function, program, tensors(inputs), sizes), meaning(program, inputs, sizes))


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.whole)])
def test_a_module_needs_no_other_word(every: bool) -> None:
    """The words that the texts use are those that the back end keeps free."""
    made: set[str] = set()
    for one in (one for one in CASES if every or one.name in DRAWN):
        tree = ast.parse(source_of(one))
        entry = next(x for x in tree.body if isinstance(x, ast.FunctionDef) and not x.name.startswith("_"))
        found = {(x.id, isinstance(x.ctx, ast.Store)) for x in ast.walk(entry) if isinstance(x, ast.Name)}
        made |= {name for name, _ in found if hasattr(builtins, name) or name in ("torch", "math")}
        made -= {name for name, stored in found if stored}
    assert {"torch", "math", "range", "min", "max"} <= made <= OWN


WEIGHTED = "index t, s : time(T)\ninput x_t\noutput y_t = Σ_s softmax_{s ≤ t}(x_s) x_s\noutput z_t = abs(y_t)"
FILE_NAMES = ["torch", "math", "range", "lambda", "lambda_", "_sdpa_", "map", "3d", "a b", "é", "tuple", "shape",
              '"""', r"a\N{b"]


@pytest.mark.parametrize("name", FILE_NAMES)
def test_a_file_of_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.ein"
    path.write_text(WEIGHTED, encoding="utf-8")
    module = einc.compile(path)
    assert module.plan.name == module.program.name
    x = torch.randn(7, dtype=torch.float64)
    torch.testing.assert_close(module(x=x).y,
                               torch.stack([torch.softmax(x[: n + 1], 0) @ x[: n + 1] for n in range(7)]))


INNER = ["z", "N", "S", "E", "mu", "M", "n", "r", "ell", "u"]
CASCADES = ["output y_t = Σ_s softmax_{{s ≤ t}}({0}_s {1}_t) {2}_s {3}_t",
            "m_t = (Σ_{{s ≤ t}} {0}_s) / t\noutput y_t = Σ_{{s ≤ t}} exp({1}_s m_t) ({2}_s - m_t)^2 {3}_t"]


@pytest.mark.parametrize("cascade", CASCADES, ids=["weights", "moments"])
@pytest.mark.parametrize("first", range(len(INNER)))
def test_a_name_that_a_pass_would_make(first: int, cascade: str) -> None:
    """Inputs called as the parts of a pass are called."""
    names = [INNER[(first + n) % len(INNER)] for n in range(4)]
    text = f"index t, s : time(T)\ninput {', '.join(f'{name}_t' for name in names)}\n{cascade.format(*names)}"
    attempt(Case("names", text, {"T": 5}), 1e-9)


# memory


class Memory(TorchDispatchMode):
    """What is allocated while it is on: the bytes of the largest storage, and the most that live at one time."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[StorageWeakRef, int] = {}
        self.largest = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for one in result if isinstance(result, tuple | list) else (result,):
            if isinstance(one, torch.Tensor):
                storage = one.untyped_storage()
                self.live[StorageWeakRef(storage)] = storage.nbytes()
        self.live = {storage: n for storage, n in self.live.items() if not storage.expired()}
        self.largest = max(self.largest, *self.live.values(), 0)
        self.peak = max(self.peak, sum(self.live.values()))
        return result


def memory(case: Case, sizes: dict[str, int]) -> Memory:
    """Of one run in float32; on tensors without elements, where no input holds whole
    numbers, so that length costs nothing."""
    program = typed_of(case)
    used = {name: sizes.get(name, n) for name, n in case.sizes.items()}
    if any(tensor.integer for tensor in program.inputs()):
        inputs = tensors(arrays(program, used, case.ranges), torch.float32)
    else:
        inputs = {t.key: torch.empty([int(s.set.extent.at(used)) for s in t.slots], device="meta")
                  for t in program.inputs()}
    with Memory() as found:
        called(module_of(case), program, inputs, used)
    return found


STEPS = 4096
QUADRATIC: dict[str, str] = {}
LINEAR = """attention alibi gqa sliding_window llama_attention cross_attention sdpa linear_cross_entropy
    attention_backward decode documents prefix_lm softcap argmax_payload min_plus two_domains variance prefix mask_sinks
    mask_strided mask_pages sink logsumexp softmax_of_softmax prefix_sum linear_attention distances count folds
    gather_sum"""


@pytest.mark.drawn(2)
@each([case(name) for name in LINEAR.split()], QUADRATIC)
def test_nothing_grows_with_the_square_of_the_length(case: Case) -> None:
    """Neither logits nor masks nor biases are ever whole."""
    found = memory(case, {**dict.fromkeys(("T", "U", "S", "V"), STEPS), "H": 2, "G": 1, "B": 1})
    assert found.largest < STEPS * STEPS
    assert found.peak < 4 * STEPS * STEPS


def test_memory_is_counted() -> None:
    with Memory() as found:
        x = torch.zeros(1000, device="meta")
        y = (x + 1) * 2
        del x
        y.add_(y[:10].sum())
    assert (found.largest, found.peak) == (4000, 12000)


@pytest.mark.whole
def test_a_bias_at_length_in_less_than_a_gigabyte() -> None:
    assert memory(case("alibi"), {"T": 16384, "H": 8, "d_k": 16, "d_model": 128}).peak < 1e9


PEAK = """
import torch
from made import alibi
torch.set_num_threads(1)
shapes = dict(X=(4096, 32), W_Q=(8, 32, 16), W_K=(8, 32, 16), W_V=(8, 32, 16), W_O=(8, 16, 32))
x = {name: torch.randn(shape) / 4 for name, shape in shapes.items()}
alibi(**{**x, "X": x["X"][:64]})
def peak(what):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(what))
open("/proc/self/clear_refs", "w").write("5")
before = peak("VmRSS")
y = alibi(**x)
assert y.shape == (4096, 32) and y.isfinite().all()
print(peak("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_the_process_grows_by_less_than_the_logits(tmp_path: Path) -> None:
    """Of 4096 positions and 8 heads the logits alone are 512 MB."""
    (tmp_path / "made.py").write_text(source_of(case("alibi")), encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200_000


def test_the_place_of_an_operator_is_found_without_a_look_through_all_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for the file of a text among its modules once, however many operators the text registers."""
    text = next(case.text for case in FILES if case.name == "sdpa")
    looks: list[object] = []
    is_module = inspect.ismodule
    monkeypatch.setattr(inspect, "ismodule", lambda one: looks.append(one) or is_module(one))
    made = front.compile(text, "torch", grad=True)
    assert "register_fake" in made.source and len(looks) < 2 * len(sys.modules)
    assert not [name for name in sys.modules if name.startswith("<einc")]
