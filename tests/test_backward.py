"""Derived gradients as kernels: each back end against the interpreter, and the text of a
derived program checked again."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Arrays, arrays, assert_close, called, each, meaning, tensors, turn, typed, typed_of
from programs import CASES, DRAWN, Case
from test_gradients import WITHOUT_ROUNDS, derived_of
from test_triton import SMALL, UNEVEN, choice
from triton_modes import Tiling, interpreted, tiled

from einc.driver import front
from einc.ir.plan import Module
from einc.syntax.printing.show import show


@cache
def plan_of(case: Case) -> Module:
    return front.gradient(typed_of(case)).backward


@cache
def given(case: Case, trial: int = 0) -> Arrays:
    """Inputs at the sizes of one of the trials, what the forward program saves for them, and cotangents."""
    derived, sizes = derived_of(case), case.trials()[trial]
    inputs = arrays(derived.forward, sizes, case.ranges)
    values, names = meaning(derived.forward, inputs, sizes), {key: name for name, key in derived.forward.outputs}
    random = np.random.default_rng(1)
    inputs |= {key: values[names[there]] for there, key in derived.saved}
    inputs |= {d: random.standard_normal(values[names[key]].shape) for key, d in derived.cotangents}
    return {t.key: inputs[t.key] for t in derived.backward.inputs()}


@cache
def wanted_backward(case: Case, trial: int = 0) -> Arrays:
    """What the interpreter says of the derived program at one of the trials."""
    return meaning(derived_of(case).backward, given(case, trial), case.trials()[trial])


class Poison:
    """torch, but memory that nobody has written yet holds no numbers."""

    def __getattr__(self, name: str) -> Any:
        return self.empty if name == "empty" else getattr(torch, name)

    def empty(self, *shape: Any, **how: Any) -> torch.Tensor:
        made = torch.empty(*shape, **how)
        return made.fill_(math.nan if made.is_floating_point() else -(2**30))


def poisoned(function: Callable[..., Any]) -> Callable[..., Any]:
    inspect.unwrap(function).__globals__["torch"] = Poison()
    return function


def modules_agree(case: Case, every: bool) -> None:
    """The module of a gradient against the interpreter, at the case's own sizes and one
    of its other trials, or at `every` one."""
    derived, trials = derived_of(case), case.trials()
    if not derived.gradients:
        pytest.skip("nothing moves an output")
    module = poisoned(front.load(front.emit(plan_of(case)), derived.backward.name))
    for n in range(len(trials)) if every else {0, turn(case, len(trials))}:
        found = called(module, derived.backward, tensors(given(case, n)), trials[n])
        assert_close(found, wanted_backward(case, n), 1e-9, 1.0)


@each(WITHOUT_ROUNDS, {}, few=DRAWN)
def test_the_gradient_is_what_the_interpreter_says(case: Case) -> None:
    modules_agree(case, every=False)


@pytest.mark.whole
@each(WITHOUT_ROUNDS, {})
def test_the_gradient_is_it_at_all_sizes(case: Case) -> None:
    modules_agree(case, every=True)


@each(WITHOUT_ROUNDS, {}, few=DRAWN)
def test_a_derived_program_passes_the_checker(case: Case) -> None:
    derived = derived_of(case)
    if not derived.gradients:
        pytest.skip("nothing moves an output")
    again = typed(show(derived.backward))
    assert_close(meaning(again, given(case), case.sizes), wanted_backward(case), 1e-9, 1.0)


# Slow in the interpreter: with `--whole`, as are more sizes and more tiles of all.
SLOW = """attention_dropout call cosine deepseek_attention deepseek_sparse documents dropped entropy_penalty gpt2_block
llama_attention local_global moe_shared moe_swiglu neighbourhood one_value_in_two_kernels preblock preblock_relu
preblock_silu qk_norm requests running_apart sparse_attention swiglu_block top_keys two_runs fire alibi_any_heads
attention_backward perceiver mask_of_parts block_diagonal mask_documents dilated cross_attention_rope kerple
head_windows mask_pages blocks_before sinks_window nsa"""
# A tile holds all positions (test_offline_backward has them too): so many are refused where the file chooses its tiles.
REFUSED = {"selective_attention": 37}
FEW = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (8, 8, 4, 1), "_POINTS": (256, 1, 4, 1)}


@pytest.fixture
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def kernels_agree(case: Case, tilings: Sequence[Mapping[str, Tiling] | None], trials: Iterable[int]) -> None:
    """The kernels of a gradient against the interpreter, in each of the tiles and at the sizes of each of the trials;
    what no tile of the file's own can hold is refused by name."""
    backward = derived_of(case).backward
    if not derived_of(case).gradients:
        pytest.skip("nothing moves an output")
    plan = front.gradient(typed_of(case), front.choices(backend="triton")).backward
    source = front.emit(plan, "triton")
    for tiles in tilings:
        kernels = tiled(source, plan.name, choice(tiles))
        for n in trials:
            if tiles is None and case.trials()[n].get("T", 0) >= REFUSED.get(case.name, 2**62):
                with pytest.raises(ValueError, match="no tile of dK fits"):
                    called(kernels, backward, tensors(given(case, n)), case.trials()[n])
                continue
            found = called(kernels, backward, tensors(given(case, n)), case.trials()[n])
            assert_close(found, wanted_backward(case, n), 1e-9, 1.0)


@pytest.mark.usefixtures("interpreter")
@each(WITHOUT_ROUNDS, {}, every=2, slow=SLOW, few=DRAWN)
def test_kernels_of_the_gradient(case: Case) -> None:
    kernels_agree(case, [FEW], [0])


@pytest.mark.whole
@pytest.mark.usefixtures("interpreter")
@each(WITHOUT_ROUNDS, {})
def test_kernels_of_the_gradient_at_every_size(case: Case) -> None:
    kernels_agree(case, [SMALL, UNEVEN, None], range(len(case.trials())))


def test_products_of_pairs_meet_their_positions_first() -> None:
    """Σ_{t s} g_{t s} X_t Z_s is Σ_t X_t (Σ_s g_{t s} Z_s): what is stored has the letters of one position."""
    plan = front.gradient(typed_of(next(c for c in CASES if c.name == "one_projection"))).backward
    widest = {frozenset({"T", "H", "D"}), frozenset({"T", "H", "d_k"})}
    for buffer in plan.buffers.values():
        names = frozenset(n for s in buffer.sets for n in s.extent.sizes)
        assert "T" not in names or len(names) < 3 or names in widest, buffer.name


@pytest.mark.parametrize("name", ["moe", "moe_swiglu", "deepseek_moe"])
def test_no_matrix_is_stored_for_each_row(name: str) -> None:
    """Rows meet the matrices of their elements group by group, in both halves; so do the
    gradients of these matrices."""
    plan = front.gradient(typed_of(next(c for c in CASES if c.name == name)))
    for half in (plan.forward, plan.backward):
        for buffer in half.buffers.values():
            names = {n for s in buffer.sets for n in s.extent.sizes}
            assert not {"T", "d_model", "d_ff"} <= names, buffer.name


@pytest.mark.parametrize("name", ["forgetting_transformer"])
def test_a_half_takes_what_the_other_saves_in_the_type_that_it_has(name: str) -> None:
    """A running sum is saved in float64, whatever the type of the data."""
    case = next(c for c in CASES if c.name == name)
    kept = {key: buffer.element.storage for key, buffer in plan_of(case).buffers.items()}
    assert "float64" in kept.values()
    kinds = {"float64": torch.float64, "int64": torch.int64}
    module = front.load(front.emit(plan_of(case)), derived_of(case).backward.name)
    typed_given = {key: x.to(kinds.get(kept[key], torch.float32)) for key, x in tensors(given(case)).items()}
    found = called(module, derived_of(case).backward, typed_given, case.trials()[0])
    assert all(x.dtype == torch.float32 for x in found.values())
    assert_close(found, wanted_backward(case), 1e-4, 1.0)
