"""Serving with the Triton back end, in its interpreter: steps are the whole, in any
tiles, and the past shared among programs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from inspect import unwrap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers import arrays, assert_close, called, each, examples, meaning, tensors, typed, typed_of
from hypothesis import strategies as st
from programs import DRAWN, Case
from test_backends import QUICK
from test_serving import GROWING, LATER, SLOW, expected, stepwise
from triton_modes import interpreted, space, tiled

from einc.backends.triton.runtime.tiles import _parts
from einc.driver import front
from einc.driver.front import Compiled
from einc.ir.plan import Contract, Module, PerRequest, leaves
from einc.ir.programs import TypedProgram

NEAR = 1e-9
SMALL = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (4, 4, 4, 1), "_POINTS": (32, 1, 4, 1)}
STEPPING = [case for case in GROWING if case.name not in LATER.split()]


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


@cache
def planned(case: Case) -> tuple[Any, str]:
    plan = front.generation(typed_of(case), front.choices(own=True, backend="triton"))
    return plan, front.emit(plan, "triton")


def served(case: Case, tiles: dict[str, tuple[int, int, int, int]] | None) -> Compiled:
    plan, source = planned(case)
    function = tiled(source, "step", None if tiles is None else lambda kind, rows, columns: tiles[kind])
    return Compiled(typed_of(case), plan, source, function, first_call=space(unwrap(function))["prefill"])


@pytest.mark.drawn(2)
@each(STEPPING, {}, every=2, slow=SLOW, few=DRAWN)
def test_steps_are_the_whole(case: Case) -> None:
    """In small tiles, the pass of each shared by three programs; slow ones in the tiles of the file."""
    sizes = {**case.sizes, "T": 9}
    made = served(case, SMALL)
    inputs = arrays(made.program, sizes, case.ranges, 1)
    cuts = [3, 1, 1, 4]
    want = expected(made.program, inputs, sizes, cuts)
    for name, x in stepwise(made, inputs, sizes, cuts).items():
        np.testing.assert_allclose(x, np.where(np.isnan(x), x, want[name]), rtol=1e-9, atol=1e-9)


# a pass that several programs share


ROWS = """
index t : time(T)
index s : time(S)
index d : feature(D)
input q_t^d, k_s^d, v_s^d, l_t, b_s
input lo_t, hi_t, of_s : int
mask L_{t s} : DOMAIN
L_{t s} = q_t^d k_{s d} + b_s
"""
OUTPUTS = [
    "output y_t^d = Σ_s softmax_s(L_{t s}) v_s^d : all\noutput z_t = logsumexp_s(L_{t s}) : all",
    "output m_t = max_s L_{t s} : all\noutput n_t^d = Σ_s tanh(L_{t s}) v_s^d : all",
    "n_t = Σ_s exp(L_{t s})\noutput y_t^d = Σ_s (exp(L_{t s}) / (exp(l_t) + n_t)) v_s^d : all",
    "A_{t s} = softmax_s(L_{t s})\noutput e_t = Σ_s A_{t s} log(A_{t s}) : all",
    "m_t = max_s L_{t s}\nn_t = min_s (b_s + 0 L_{t s})\noutput e_t = Σ_s exp(L_{t s} - m_t) (b_s - n_t) : all\n"
    "output z_t = logsumexp_s(L_{t s}) : all",
    "output y_t^d = Σ_s sigmoid(L_{t s}) v_s^d : all\noutput n_t = min_s L_{t s} : all",
]
DOMAINS = ["s ∈ (lo_t, hi_t]", "of_s = lo_t", "s ≤ hi_t and of_s < lo_t", "s > lo_t", "s ≤ lo_t or s > hi_t",
           "s ≤ t - 3",
           "s ≤ t + S - T"]


@cache
def shared_pass(domain: str, outputs: str) -> tuple[TypedProgram, str]:
    program = typed(ROWS.replace("DOMAIN", domain) + outputs)
    source = front.emit(front.plan(program), "triton")
    assert "_parts(" in source
    return program, source


def joined(domain: str, outputs: str, rows: int, length: int, parts: int, seed: int) -> None:
    """Compares so many parts of a pass with the whole, and both with the interpreter."""
    program, source = shared_pass(domain, outputs)
    sizes, random = {"T": rows, "S": length, "D": 3}, np.random.default_rng(seed)
    most = {"lo": length, "hi": length, "of": 6}
    inputs = arrays(program, sizes, dict.fromkeys(most, ("0", "1")), seed)
    inputs |= {name: random.integers(0, most[name] + 1, inputs[name].shape) for name in most if name in inputs}
    found, asked = [], list[int]()
    for many in (1, parts):  # each a file of its own: a file asks once for a call of the same sizes
        function = tiled(source, "text", lambda kind, rows, columns: SMALL[kind])
        space(function)["_parts"] = lambda *_, many=many: asked.append(many) or many
        found.append(called(function, program, tensors(inputs), sizes))
    assert asked == [1, parts]
    assert_close(found[1], {name: x.numpy() for name, x in found[0].items()}, NEAR)
    assert_close(found[1], meaning(program, inputs, sizes), NEAR)


@examples(16, 40, st.sampled_from(DOMAINS), st.sampled_from(OUTPUTS), st.integers(1, 5), st.integers(0, 70),
          st.integers(2, 9), st.integers(0, 99), phases=QUICK)
def test_parts_of_a_pass_are_joined_to_the_whole(domain: str, outputs: str, rows: int, length: int, parts: int,
                                                 seed: int) -> None:
    """Any number of parts, for any number of points: parts without a point are neutral, of which all may be."""
    joined(domain, outputs, rows, length, parts, seed)


@pytest.mark.always
def test_parts_with_maxima_of_their_own_are_joined() -> None:
    joined("s ≤ t + S - T", OUTPUTS[4], 3, 40, 3, 0)


@pytest.mark.parametrize("processors", [1, 8, 108, 132])
def test_how_many_share_a_pass_depends_on_its_length(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short passes are not shared, nor those of programs that keep the device at work; of
    long ones no processor is idle."""
    monkeypatch.setattr(torch.cuda, "get_device_properties",
                        lambda _: SimpleNamespace(multi_processor_count=processors))
    _parts.cache_clear()
    device = torch.device("cuda", 0)
    for programs, tiles, uneven in itertools.product([1, 2, 8, 60, 140, 5000], [0, 1, 2, 4, 16, 300, 5000],
                                                     [False, True]):
        parts = _parts(programs, tiles, device, uneven)
        assert 1 <= parts <= max(1, min(tiles, 64)) and (tiles > 4 or parts == 1)
        assert parts == 1 or programs < 8 * processors
        if tiles == 5000 and programs < processors:
            assert programs * parts >= 0.8 * processors or parts == 64


# pages


PAGED = "gqa mla_rope sliding_window turned"  # at once; the others with `--whole`
TURNED = Case("turned", """
index n : batch(B)
index t, s : time(T)
index h : head(H)
index g : head(G)
index d, k : feature(D)
map π(h) = ceil(h G / H) : g
input Q_{n h t}^k, K_{n g s}^k, V_{n g s}^d
mask L_{n t s}^{(h)} : s ≤ t
L_{n t s}^{(h)} = Q_{n h t}^k K_{n, π(h), s k}
output Y_{n h t}^d = Σ_s softmax_s(L_{n t s}^{(h)}) V_{n, π(h), s}^d
""", {"B": 2, "H": 4, "G": 2, "D": 3, "T": 4})


def scattered(made: Compiled, page: int, length: int, ordered: bool = False) -> Compiled:
    """The same with its past in pages, here and there in a pool whose memory is no number to begin with; `ordered`: one
    page after the other."""
    names = space(made.function)
    entries = -(-length // page)
    pool = names["Pool"](2 * entries + 1, page)
    usual = pool.store

    def store(name: str, *rest: Any) -> Any:
        new = name not in pool.stores
        kept = usual(name, *rest)
        if new:
            real = kept.memory.is_floating_point()
            kept.memory.fill_(float("nan") if real else min(2**30, torch.iinfo(kept.memory.dtype).max))
        return kept

    pool.store = store
    drawn = np.random.default_rng(page).permutation(2 * entries + 1)[:entries].tolist()
    cache = names["Cache"](4, pool, [*(range(entries) if ordered else drawn), 2147480000, -7])
    return replace(made, first_call=lambda *, chunk, pool, **given: (made.function(cache, **given), cache))


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("case", "page"), [
    pytest.param(case, page, id=f"{case.name}-{page}",
                 marks=[pytest.mark.whole] * (case.name not in PAGED.split() or page != 3) )
    for case in (*STEPPING, TURNED) for page in (1, 3, 16)
])
def test_kernels_read_what_lies_in_pages(case: Case, page: int) -> None:
    """In a pool without a number elsewhere they give the same bits as in a row. The same but for the order of sums:
    a product of torch, which chooses its kernel by the places of rows in memory, and what forgets positions, for pages
    leave whole, so that tiles begin elsewhere than in rows; what forgets has the bits that pages in order give."""
    # heads that share rows: else each has a copy, which lies in a row
    whole = {"H": 4, "G": 2} if "G" in case.sizes else {}
    sizes, cuts = {**case.sizes, **whole, "T": 8}, [5, 1, 2]
    made = served(case, SMALL)
    assert case.name not in PAGED.split() or "_moved(" in made.source
    inputs = arrays(made.program, sizes, case.ranges, 1)
    want = stepwise(made, inputs, sizes, cuts)
    assert isinstance(made.plan, Module) and made.plan.generation is not None
    states = dict(made.plan.generation.states)
    if states and all(t.key in states for t in made.plan.inputs if t.role == "cache"):
        with pytest.raises(ValueError, match="lie in no pages"):
            stepwise(scattered(made, page, 8), inputs, sizes, cuts)
        return
    pieces = [made.plan.steps, *(step.body.steps for step in made.plan.steps if isinstance(step, PerRequest))]
    products = {step.out for steps in pieces for step in leaves(steps) if isinstance(step, Contract)}
    forgets = "one.forget(" in made.source
    exact = stepwise(scattered(made, page, 8, ordered=True), inputs, sizes, cuts) if forgets else want
    for name, x in stepwise(scattered(made, page, 8), inputs, sizes, cuts).items():
        np.testing.assert_allclose(x, want[name], rtol=1e-13, atol=1e-13)
        if dict(made.program.outputs)[name] not in products:
            np.testing.assert_array_equal(x, exact[name])


@pytest.mark.parametrize("name", ["gqa", "mla_rope", "sliding_window"])
def test_texts_side_by_side_are_each_by_itself(name: str) -> None:
    """In one step, of any lengths; the past of one lies in pages, that of another in a row."""
    case = next(c for c in STEPPING if c.name == name)
    made, sizes = served(case, SMALL), {**case.sizes, **({"H": 4, "G": 2} if "G" in case.sizes else {})}
    asked = {"W": sizes["W"]} if "W" in sizes else {}
    inputs = tensors(arrays(made.program, {**sizes, "T": 12}, case.ranges, 2))
    names, weights = space(made.function), {k: x for k, x in inputs.items() if k != "X"}
    pool = names["Pool"](9, 3)

    def caches() -> list[Any]:
        return [names["Cache"](4, pool, [7, 1, 4, 0]), names["Cache"](4), names["Cache"](4, pool, [6, 3, 8, 5])]

    together, alone, counts = caches(), [names["Cache"](4) for _ in range(3)], [(5, 2, 4), (1, 0, 3), (2, 1, 1)]
    for lengths in counts:
        parts = inputs["X"].roll(sum(lengths), 0)[: sum(lengths)].split(lengths)
        got = made.function(together, X=torch.cat(parts), lengths=list(lengths), **weights, **asked)
        want = [made.function(one, X=x, **weights, **asked) for one, x in zip(alone, parts, strict=True) if len(x)]
        torch.testing.assert_close(got, torch.cat(want), rtol=NEAR, atol=NEAR)
