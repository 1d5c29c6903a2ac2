"""What the tests of compiled kernels share: texts that compile fast, which kernels ran, inputs with nothing behind them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from compilers import found
from helpers import Function, Outputs, turn, typed_of
from programs import CASES, Case

from einc.driver import front
from einc.ir.plan import Module
from einc.ir.programs import TypedProgram

COMPILER = found()
NEEDED = pytest.mark.skipif(not COMPILER, reason="no C++ compiler is found: install g++ or clang++, or set EINC_CXX")
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NAMES = {case.name: case for case in CASES}

# Programs for which at least one kernel is written in C++, and runs at one of their trials: no fewer from now on.
WRITTEN = """
row_weights row_twice mask_causal mask_strict mask_all mask_future mask_window mask_window_behind mask_prefix mask_and_not
mask_parity mask_documents mask_pages mask_sinks mask_strided mask_not_one mask_by_data mask_two capped sink bias
bias_of_positions logsumexp moments moments_of_weights one_value_in_two_kernels softmax_of_softmax attention_weights
gates_in_gates positions_behind one_projection one_term_two_domains cross_entropy loss activations primitives folds count
exact_factor value_twice constant_max constant_prod value_in_weights positions_after infinite_within waiting
added_to_a_number packs_on_both_sides beyond_32_bits over_a_negative mask_of_parts packed_sums packed_shift call
rounds alibi alibi_any_heads attention attention_backward cross_attention cross_attention_rope decoder_lm deepseek_attention
deepseek_moe deepseek_sparse block_diagonal blocks_before cosine decode differential dilated documents entropy_penalty
expert_choice gated head_windows kerple local_global log_n memory_layer mla_decode neighbourhood perceiver prefix_lm qk_norm
relative_table relu_squared shared_logits sigmoid sinks_window softcap softmax1 t5_bias tanh_gate three_loops two_loops
gpt2_block gqa causal full latest linear_cross_entropy llama_attention llama_lm mla mla_rope moe moe_balance moe_shared
moe_swiglu mtp clip_loss collision distillation entropy focal geglu group_norm kl layer_norm min_plus rms_norm scaled_norm
swiglu two_domains variance z_loss online_softmax paged_window partial_rotary preblock preblock_relu preblock_silu requests
requests_packed sdpa sliding_window swiglu_block yarn yarn_parts cope deltaformer forgetting_transformer moba nsa path
performer stick_breaking distances shaw
"""
# Those of which a kernel of the gradient's file runs.
DERIVED = """
convolution row_weights row_twice row_and_product row_elsewhere mask_causal mask_strict mask_all mask_future mask_window
mask_window_behind mask_prefix mask_and_not mask_parity mask_documents mask_pages mask_sinks mask_strided mask_not_one
mask_empty mask_by_data mask_two capped sink bias bias_of_positions logsumexp moments moments_of_weights tiles_without_points
one_value_in_two_kernels least_of_a_sum softmax_of_softmax attention_weights gates_in_gates positions_behind one_projection
one_term_two_domains cross_entropy loss activations primitives folds fold_features no_mask count power_of_nothing exact_factor
carried_twice reciprocal difference value_twice constant_max constant_prod constant_of_weights value_in_weights
empty_reference positions_after infinite_within two_runs waiting added_to_a_number nothing_below running_apart beyond_32_bits
over_a_negative mask_of_parts packed_sums packed_shift distances call rounds alibi alibi_any_heads attention
attention_backward attention_dropout cross_attention cross_attention_rope decoder_lm deepseek_attention deepseek_moe
deepseek_sparse block_diagonal blocks_before cosine decode differential dilated documents entropy_penalty expert_choice fire
gated head_windows kerple linear local_global log_n memory_layer mla_decode neighbourhood perceiver prefix_lm qk_norm
relative_table relu_squared retention shared_logits sigmoid sinks_window softcap softmax1 t5_bias tanh_gate three_loops
top_keys two_loops gpt2_block gqa causal full latest linear_cross_entropy llama_attention llama_lm mla mla_rope moe
moe_balance moe_shared moe_swiglu mtp argmax_payload clip_loss collision distillation entropy focal geglu group_norm kl
layer_norm min_plus norm_projection rms_norm scaled_norm swiglu two_domains variance z_loss online_softmax paged_window
partial_rotary preblock preblock_relu preblock_silu requests requests_packed sdpa sliding_window sparse_attention swiglu_block
yarn yarn_parts based cope deltaformer forgetting_transformer moba nsa path performer softpick stick_breaking
packs_on_both_sides shaw
"""

NEVER = ("beyond_32_bits",)  # whose whole numbers need more than lanes have: torch computes them
LARGER = {
    **{name: {"B": 9, "V": 40} for name in ("collision", "distillation", "entropy", "kl")},
    "decoder_lm": {"T": 9},
    "llama_lm": {"T": 9},
    "perceiver": {"M": 9},
    "packed_sums": {"R": 9, "T_sum": 40},
}  # whose trials have few rows


def cases(names: str) -> list[Case]:
    """The cases of these names."""
    return [NAMES[name] for name in names.split()]


def some(of: Sequence[Case], name: str, ways: Mapping[str, Any], every: int) -> pytest.MarkDecorator:
    """A test for each case and way, the argument `name`; without `--whole` for one of `every` so many cases in one way."""

    def late(n: int, one: Case, way: str) -> bool:
        return n % every > 0 or way != list(ways)[turn(one, len(ways))]

    return pytest.mark.parametrize(
        ("case", name),
        [
            pytest.param(one, value, id=f"{one.name}-{way}", marks=[pytest.mark.whole] * late(n, one, way))
            for n, one in enumerate(of)
            for way, value in ways.items()
        ],
    )


def trials(case: Case) -> list[dict[str, int]]:
    """The trials of a case; where those have too few rows for any kernel, one with more."""
    return case.trials() + [{**case.sizes, **LARGER.get(case.name, {})}] * (case.name in LARGER)


# texts


def quick(text: str, tile: int = 16, processor: str = "native") -> str:
    """An emitted file whose kernels compile fast, and whose tiles of the stream, and parts of it, end within
    small sizes.
    """
    for old, new in (
        ('"-O3"', '"-O1"'),
        ("#define TILE 256", f"#define TILE {tile}"),
        ("#define PART 2048", f"#define PART {tile}"),
        ("-march=native", f"-march={processor}"),
    ):
        assert "_CPP" not in text or old in text, f"`{old}` is not in the text"
        text = text.replace(old, new)
    return text


def kernels(text: str) -> list[str]:
    """The kernels of a text that are written in C++."""
    return re.findall(r'_native\(_CPP, "(k\d+)"', text)


def planned(program: TypedProgram) -> Module:
    """The plan of a program for this back end, with no kernel of a library."""
    plan: Module = front.plan(program, front.choices(own=True, backend="cpp"))
    return plan


def emitted(program: TypedProgram) -> str:
    """The file of a program as it is given out."""
    text: str = front.emit(planned(program), "cpp")
    return text


def loaded(program: TypedProgram, tile: int = 16, processor: str = "native") -> Function:
    """The function of a program, its kernels compiled fast."""
    function: Function = front.load(quick(emitted(program), tile, processor), program.name, "cpp")
    return function


@cache
def module_of(case: Case) -> Function:
    """The function of a case; the tests share it."""
    return loaded(typed_of(case))


# what ran


def globals_of(function: Function) -> dict[str, Any]:
    """The names of the file that a function is in."""
    names: dict[str, Any] = inspect.unwrap(function).__globals__
    return names


@contextmanager
def running(function: Function) -> Iterator[dict[str, bool]]:
    """By the name of a kernel whether it ran compiled in the calls within, for those that were tried."""
    ran: dict[str, bool] = globals_of(function)["_RAN"]
    ran.clear()
    yield ran


Run = Callable[[list[torch.Tensor]], bool]


@contextmanager
def runs_by(function: Function, way: Callable[[str, Run, list[torch.Tensor]], bool]) -> Iterator[None]:
    """Within, calls of compiled kernels go through `way`: it is given the name of a kernel, a function that runs it on
    tensors like those of the call, and these.
    """
    names = globals_of(function)
    kept = names["_native"]

    def run(text: str, name: str, tensors: list[torch.Tensor], *rest: Any) -> bool:
        return way(name, lambda others: bool(kept(text, name, others, *rest)), tensors)

    names["_native"] = run
    try:
        yield
    finally:
        names["_native"] = kept


@contextmanager
def torch_computes(function: Function) -> Iterator[None]:
    """Within, no kernel of the file runs compiled."""
    names = globals_of(function)
    kept: dict[str, Any] = {name: names[name] for name in ("_native", "_native_ready") if name in names}
    names.update(dict.fromkeys(kept, lambda *_: False))
    try:
        yield
    finally:
        names.update(kept)


def possible(function: Function, sizes: Mapping[str, int]) -> bool:
    """Whether no size is 0 that the caller gives."""
    return all(sizes[name] > 0 for name in inspect.signature(function).parameters if name in sizes)


def wide(found: Outputs) -> dict[str, torch.Tensor]:
    """Outputs as float64."""
    return {key: y.detach().double() for key, y in found.items()}


# inputs with nothing behind them

GUARDED = """
import ctypes, mmap
import torch
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
real_empty, kept = torch.empty, []
def guarded(shape, dtype):
    "A tensor that ends where a page ends; nobody may read or write the next one."
    shape = tuple(shape)
    count = 1
    for n in shape:
        count *= n
    size = real_empty(0, dtype=dtype).element_size() * count
    if not size:
        return real_empty(shape, dtype=dtype)
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert libc.mprotect(start + pages, mmap.PAGESIZE, 0) == 0
    kept.append(memory)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=pages - size).view(shape)
"""


def replaced(text: str, old: str, new: str) -> str:
    """A text with one thing replaced, which must be there."""
    assert old in text
    return text.replace(old, new)
