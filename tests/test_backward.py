"""Derived gradients as kernels: each back end against the interpreter, and the text of a derived program checked again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from helpers import Arrays, arrays, assert_close, called, each, meaning, tensors, typed, typed_of
from programs import CASES, Case
from test_gradients import BROKEN, WITHOUT_ROUNDS, derived_of
from triton_modes import interpreted, tiled

from einc import front
from einc.plan import Module
from einc.show import show


@cache
def plan_of(case: Case) -> Module:
    return front.gradient(typed_of(case)).backward


def given(case: Case, sizes: dict[str, int], seed: int = 0) -> Arrays:
    """Inputs, what the forward program saves for them, and cotangents."""
    derived = derived_of(case)
    inputs = arrays(derived.forward, sizes, case.ranges, seed)
    values, names = meaning(derived.forward, inputs, sizes), {key: name for name, key in derived.forward.outputs}
    random = np.random.default_rng(seed + 1)
    inputs |= {key: values[names[there]] for there, key in derived.saved}
    inputs |= {d: random.standard_normal(values[names[key]].shape) for key, d in derived.cotangents}
    return {t.key: inputs[t.key] for t in derived.backward.inputs()}


@each(WITHOUT_ROUNDS, BROKEN)
def test_the_gradient_is_what_the_interpreter_says(case: Case) -> None:
    derived = derived_of(case)
    if not derived.gradients:
        pytest.skip("nothing moves an output")
    module = front.load(front.emit(plan_of(case)), derived.backward.name)
    for sizes in case.trials():
        x = given(case, sizes)
        assert_close(called(module, derived.backward, tensors(x), sizes), meaning(derived.backward, x, sizes), 1e-9, 1.0)


@each(WITHOUT_ROUNDS, {})
def test_a_derived_program_passes_the_checker(case: Case) -> None:
    derived = derived_of(case)
    if not derived.gradients:
        pytest.skip("nothing moves an output")
    again = typed(show(derived.backward))
    x = given(case, dict(case.sizes))
    assert_close(meaning(again, x, case.sizes), meaning(derived.backward, x, case.sizes), 1e-9, 1.0)


KERNELS = """sdpa alibi gqa sliding_window documents relative_table t5_bias differential softcap softmax1 linear mla_rope moe fire
linear_cross_entropy top_keys deepseek_moe"""


@pytest.fixture
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@pytest.mark.usefixtures("interpreter")
@each([c for c in WITHOUT_ROUNDS if c.name in KERNELS.split()],
      {"deepseek_moe": "a sum over sorted experts in a tile of one row"})
def test_kernels_of_the_gradient(case: Case) -> None:
    plan, x = front.gradient(typed_of(case), front.choices(backend="triton")).backward, given(case, dict(case.sizes))
    kernels, backward = tiled(front.emit(plan, "triton"), plan.name, lambda *_: (16, 16, 4, 1)), derived_of(case).backward
    assert_close(called(kernels, backward, tensors(x), case.sizes), meaning(backward, x, case.sizes), 1e-9, 1.0)


def test_products_of_pairs_meet_their_positions_first() -> None:
    """Σ_{t s} g_{t s} X_t Z_s is Σ_t X_t (Σ_s g_{t s} Z_s): what is stored has the letters of one position."""
    plan = front.gradient(typed_of(next(c for c in CASES if c.name == "one_projection"))).backward
    widest = {frozenset({"T", "H", "D"}), frozenset({"T", "H", "d_k"})}
    for buffer in plan.buffers.values():
        names = frozenset(n for s in buffer.sets for n in s.extent.sizes)
        assert "T" not in names or len(names) < 3 or names in widest, buffer.name
