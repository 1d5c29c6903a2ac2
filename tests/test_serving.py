"""A step after what was kept gives the whole computation's next positions, for every program that grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature, unwrap
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Arrays, arrays, called, each, meaning, tensors, typed_of
from programs import CASES, DRAWN, Case

from einc.driver import front
from einc.errors.report import EincError
from einc.ir.indices import IndexSet
from einc.ir.plan import Module
from einc.ir.programs import Slot, TypedProgram
from einc.transforms.serving.cached import Refused, append_stability, growing
from einc.transforms.slicing.lags import with_lags

# What reads later positions, or is a sum over all of them.
LATER = """
shift_indicator shift_gated shift_min row_and_product mask_all mask_future mask_prefix tiles_without_points exact_factor
one_value_in_two_kernels attention_weights one_term_two_domains difference positions_after waiting running_apart
two_loops attention_backward block_diagonal cosine expert_choice local_global neighbourhood prefix_lm relative_table
three_loops group_norm packed_shift requests_packed"""

SLOW = ("deepseek_attention deepseek_sparse llama_lm swiglu_block preblock_relu preblock_silu sparse_attention indexer "
        "call")


def grows(program: TypedProgram) -> bool:
    try:
        growing(with_lags(program))
    except Refused:
        return False
    return True


def kept(plan: Module) -> set[str]:
    return {t.key.removesuffix("_past") for t in plan.inputs if t.role == "cache"}


@cache
def served(case: Case, keep: tuple[str, ...] = ()) -> front.Compiled:
    return front.built(typed_of(case), plan="serve", keep=keep)


def stepwise(made: front.Compiled, given: Mapping[str, Any], sizes: dict[str, int], cuts: list[int],
             pool: Any = None, between: Callable[[Any], None] = id) -> Arrays:
    """The outputs of a prefill and of steps, side by side; `between` is done to the cache before each step."""
    program, along, at, state = made.program, growing(made.program), 0, None
    parameters, tensors = signature(unwrap(made.function)).parameters, {t.key for t in program.inputs()}
    asked = {p: v for n, v in sizes.items() for p in (n, f"{n}_size") if p in parameters and p not in tensors}
    found: dict[str, list[np.ndarray]] = {name: [] for name, _ in program.outputs}
    for count in cuts:
        here = {}
        for tensor in program.inputs():
            x = torch.as_tensor(given[tensor.key])
            grown = [n for n, slot in enumerate(tensor.slots) if slot.set == along and tensor.role == "input"]
            for n in grown:
                x = x.narrow(n, at, count) if n == grown[0] else x.narrow(n, 0, at + count)
            here[tensor.key] = x
        if state is None:
            assert made.prefill is not None
            out, state = made.prefill(**here, **asked, chunk=4, pool=pool)
        else:
            between(state)
            out = made(state, **here, **asked)
        for name, x in zip(found, [out] if len(found) == 1 else out, strict=True):
            slots = program.tensors[dict(program.outputs)[name]].slots
            found[name].append(padded(x.cpu().numpy(), slots, along, sum(cuts)))
        at += count
        assert state.length == at
    keys = dict(program.outputs)
    places = {name: next(n for n, s in enumerate(program.tensors[keys[name]].slots) if s.set == along)
              for name in found}
    return {name: np.concatenate(parts, places[name]) for name, parts in found.items()}


def padded(x: np.ndarray, slots: tuple[Slot, ...], along: IndexSet, length: int) -> np.ndarray:
    """Rows of pairs of positions as long as those of the last step: what is not there yet is no number."""
    later = [n for n, s in enumerate(slots) if s.set == along][1:]
    return (np.pad(x, [(0, length - x.shape[n] if n in later else 0) for n in range(x.ndim)], constant_values=np.nan)
            if later else x)


# What has an extent T and cannot be served step by step; named, so that nothing is checked before the first test runs.
STILL = """
of_an_empty_size alias loss no_mask scalar rounds_of_numbers kerple latest moe_balance mtp
clip_loss scaled_norm deltaformer path rope rope_half yarn yarn_dynamic
yarn_parts moba nsa fp8_step""".split()  # noqa: SIM905
WHOLE = ("fp8_ffn", "fp8_turned")  # they grow, and a scale of all positions is append-stable with none
GROWING = [case for case in CASES if "T" in case.sizes and case.name not in (*STILL, *WHOLE)]


@each([case for case in CASES if "T" in case.sizes], {}, few=DRAWN)
def test_which_programs_grow(case: Case) -> None:
    assert ("T" not in typed_of(case).sizes and grows(typed_of(case))) == (case in GROWING or case.name in WHOLE)


@pytest.mark.drawn(2)
@each(GROWING, {}, slow=SLOW, few=DRAWN)
def test_steps_are_the_whole(case: Case) -> None:
    if case.name in LATER.split():
        with pytest.raises(EincError, match="later positions"):
            served(case)
        return
    sizes = {**case.sizes, "T": 9}
    made = served(case)
    given = arrays(made.program, sizes, case.ranges, 1)
    cuts = [3, 1, 1, 4]
    want = expected(made.program, given, sizes, cuts)
    for name, x in stepwise(made, given, sizes, cuts).items():
        np.testing.assert_allclose(x, np.where(np.isnan(x), x, want[name]), rtol=1e-9, atol=1e-9)


def expected(program: TypedProgram, given: Arrays, sizes: dict[str, int], cuts: list[int]) -> Arrays:
    """What the program gives for all positions; where the number of positions has a part
    in it, what it gives after each step."""
    along = growing(program)
    lengths, keys = append_stability(program, along).lengths, dict(program.outputs)
    want = meaning(program, given, sizes)
    for name, key in program.outputs:
        if key in lengths:
            at = next(n for n, s in enumerate(program.tensors[key].slots) if s.set == along)
            parts, upto = [], 0
            for count in cuts:
                upto += count
                whole = meaning(program, first(program, given, upto), {**sizes, "T": upto})[name]
                parts.append(np.take(whole, range(upto - count, upto), at))
            want[name] = np.concatenate(parts, at)
    assert keys.keys() == want.keys()
    return want


def first(program: TypedProgram, given: Arrays, count: int) -> Arrays:
    """The inputs of the first positions alone."""
    along, out = growing(program), dict(given)
    for tensor in program.inputs():
        for n, slot in enumerate(tensor.slots):
            if slot.set == along and tensor.role == "input":
                out[tensor.key] = np.take(out[tensor.key], range(count), n)
    return out


def named(name: str) -> Case:
    return next(c for c in CASES if c.name == name)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["sliding_window", "mla_rope"])
def test_a_thousand_steps(name: str) -> None:
    case, count = named(name), 1000
    sizes = {**case.sizes, "T": count}
    made = served(case)
    given = arrays(made.program, sizes, case.ranges, 2)
    whole = called(front.built(made.program).function, made.program, tensors(given), sizes)
    for key, x in stepwise(made, given, sizes, [5, *[1] * (count - 5)]).items():
        np.testing.assert_allclose(x, whole[key], rtol=1e-9, atol=1e-9)


def test_what_no_step_reads_is_dropped() -> None:
    """A window keeps no more than twice its width, and a chunk; positions are counted on."""
    case = named("sliding_window")
    made, sizes = served(case), {**case.sizes, "W": 6}
    assert made.prefill is not None
    asked, held, dropped = {"W": 6}, [], []
    given = {k: torch.as_tensor(x) for k, x in arrays(made.program, {**sizes, "T": 40}, case.ranges).items()}
    state = None
    for at in range(40):
        here = {**given, "X": given["X"][at : at + 1]}
        if state is None:
            _, state = made.prefill(**here, **asked, chunk=4)
        else:
            made(state, **here, **asked)
        held.append(state.nbytes)
        dropped.append(state.dropped)
    assert max(held[20:]) <= max(held[:20]) and dropped[-1] > 20 and state is not None and state.length == 40


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("name", "keeps"), [
    ("attention", {"K_hat", "V"}), ("mla", {"L"}), ("mla_rope", {"c", "k_R"}), ("decoder_lm", {"K", "V"}),
    ("gqa", {"K_hat", "V"}),
])
def test_what_is_kept_is_the_cheapest(name: str, keeps: set[str]) -> None:
    assert kept(served(named(name)).plan) == keeps


LONGER = 'use "attention"\nuse "yarn_dynamic"'


def test_what_turns_with_the_length_is_kept_unturned() -> None:
    assert kept(front.compile(LONGER, plan="serve").plan) == {"K", "V"}
    with pytest.raises(EincError, match="`K_hat` cannot be kept: `alpha` depends on the number of positions"):
        front.compile(LONGER, plan="serve", keep=("K_hat", "V"))


@pytest.mark.parametrize(("keep", "said"), [
    (("V",), "`X` is needed of the past too"), (("Z",), "`Z` is no tensor"),
    (("W_Q",), "`W_Q` has no row for each position"),
    (("K_hat", "V", "Q"), "nothing reads the past of `Q`"),
    (("A",), "nothing reads the past of `A`|needed of the past too"),
])
def test_what_is_asked_to_be_kept_is_checked(keep: tuple[str, ...], said: str) -> None:
    with pytest.raises(EincError, match=said):
        front.compile("attention", plan="serve", keep=keep)


def test_a_step_that_fails_changes_nothing() -> None:
    made = served(named("attention"))
    sizes = {**named("attention").sizes, "T": 6}
    given = {k: torch.as_tensor(x) for k, x in arrays(made.program, sizes, {}).items()}
    assert made.prefill is not None
    _, state = made.prefill(**{**given, "X": given["X"][:4]})
    with pytest.raises(TypeError):
        made(state, **{**given, "X": given["X"][4:].float()})
    again = made(state, **{**given, "X": given["X"][4:]})
    whole, _ = made.prefill(**given)
    torch.testing.assert_close(again, whole[4:])


@pytest.mark.parametrize("name", ["retention", "linear", "gated"])
def test_a_sum_that_goes_on_reads_no_row_twice(name: str) -> None:
    """What a pass carried lasts: the rows of the past may be gone. A cache that was cut short goes over them again."""
    case = named(name)
    made, sizes = served(case), {**case.sizes, "T": 7}
    given = {k: torch.as_tensor(x) for k, x in arrays(made.program, sizes, case.ranges, 3).items()}
    along = growing(made.program)
    at = {t.key: [n for n, s in enumerate(t.slots) if s.set == along] for t in made.program.inputs()}

    def part(first: int, last: int) -> dict[str, torch.Tensor]:
        return {k: x.narrow(at[k][0], first, last - first) if at[k] else x for k, x in given.items()}

    assert made.prefill is not None
    want, _ = made.prefill(**part(0, 7))
    place = next(n for n, s in enumerate(made.program.tensors[made.program.outputs[0][1]].slots) if s.set == along)
    _, cache = made.prefill(**part(0, 5))
    made(cache, **part(5, 6))
    cache.length = 5
    torch.testing.assert_close(made(cache, **part(5, 6)), want.narrow(place, 5, 1))
    cache["V"].store.fill_(float("nan"))
    torch.testing.assert_close(made(cache, **part(6, 7)), want.narrow(place, 6, 1))


@pytest.mark.always
@pytest.mark.parametrize(("name", "product"), [("int8_cache", "_shares("), ("linear", 'torch.einsum("htd,hsd,ts->ht"')])
def test_a_step_multiplies_matrices_where_nothing_is_infinite(name: str, product: str) -> None:
    """No part of it is told that codes, or exponentials less their maximum, may be infinite."""
    assert product in served(named(name)).source
