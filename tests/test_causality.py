"""Causality, by laws and by measurement: where a text is accepted, no input after t changes an output at t.

`tests/causal_programs.py` draws the programs. Of the first 115 the checker accepts 39, none of which leaks;
56 are refused and leak at some of the sizes that are tried, and 15 are refused though no leak is seen.
`pytest --whole -s -k prints_what` counts 1000: 290 accepted, 541 refused that leak, 109 refused though no leak is seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
import torch
from causal_programs import SIZES, changed_after, checked, inputs, text
from cpp_texts import NEEDED
from helpers import Arrays, called, meaning, tensors
from texts import problems
from triton_modes import interpreted, tiled

import einc
from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.errors.report import Report, Source
from einc.ir.programs import TypedProgram

Run = Callable[[Arrays, dict[str, int]], Arrays]
NEAR = 1e-9

HEAD = """index t, s, u : time(T)
index j, k : time(J)
index i : feature(B)
dim W
input x_t, c^i, w_j, L_{t s}
input p_t : int
"""


def sizes(trial: int) -> dict[str, int]:
    """Sizes for a trial; W of 1 to 3, which is what a file asks for."""
    return {**SIZES, "W": 1 + trial % 3}


def leaks(program: TypedProgram, trial: int, run: Run, cuts: int = 3) -> bool:
    """Whether a change of the inputs after some position changes an output at it or before."""
    given = sizes(trial)
    one, other = inputs(program, trial, SIZES), inputs(program, trial + 1000, SIZES)
    found = run(one, given)
    for last in Random(trial).sample(range(1, SIZES["T"]), cuts):
        again = run(changed_after(program, one, other, last), given)
        for name, _ in program.outputs:
            if not np.allclose(found[name][:last], again[name][:last], rtol=NEAR, atol=NEAR, equal_nan=True):
                return True
    return False


def defined(program: TypedProgram) -> Run:
    """The program by its meaning, which knows sizes of 0."""
    return lambda given, at: meaning(program, given, {**at, "W": at["W"] - 1})


def emitted(program: TypedProgram, backend: str) -> Run:
    """The program as a back end writes it."""
    module = front.plan(program)
    source = front.emit(module, backend)
    function = tiled(source, module.name) if backend == "triton" else load(source, module.name)
    return lambda given, at: {name: found.numpy()
    for name, found in called(function, program, tensors(given), at).items()}


def accepted(seeds: range) -> list[tuple[int, TypedProgram]]:
    """The random programs that the checker accepts."""
    return [(seed, program) for seed in seeds if (program := checked(text(seed))[0]) is not None]


# by measurement


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.whole) for n in range(100, 1000, 100))])
def test_what_is_accepted_reads_no_later_position(first: int) -> None:
    found = accepted(range(first, first + (100 if first else 15)))
    assert len(found) >= 3
    for seed, program in found:
        assert not leaks(program, seed, defined(program)), text(seed)


@pytest.mark.parametrize("first", [2000, *(pytest.param(n, marks=pytest.mark.whole) for n in range(2100, 2500, 100))])
def test_no_torch_file_of_an_accepted_text_reads_later_positions(first: int) -> None:
    for seed, program in accepted(range(first, first + 10)):
        assert not leaks(program, seed, emitted(program, "torch"), 2), text(seed)


@pytest.mark.parametrize("first", [3000, *(pytest.param(n, marks=pytest.mark.whole) for n in range(3100, 3500, 100))])
def test_no_triton_file_of_an_accepted_text_reads_later_positions(first: int) -> None:
    with interpreted():
        for seed, program in accepted(range(first, first + 4)):
            assert not leaks(program, seed, emitted(program, "triton"), 1), text(seed)


@NEEDED
@pytest.mark.parametrize("first", [4000, *(pytest.param(n, marks=pytest.mark.whole) for n in range(4100, 4500, 100))])
def test_no_compiled_file_of_an_accepted_text_reads_later_positions(first: int) -> None:
    for seed, program in accepted(range(first, first + 5)):
        assert not leaks(program, seed, emitted(program, "cpp"), 2), text(seed)


def outcome(seed: int) -> str:
    """What becomes of a random program, and what a measurement at several sizes says of it."""
    program, found = checked(text(seed))
    if program is not None:
        return "accepted"
    if found != ["E0501"]:
        return ", ".join(found)
    program, _ = checked(text(seed, meant=True))
    assert program is not None
    return "refused" if any(leaks(program, trial, defined(program), 5)
    for trial in range(8)) else "refused, no leak seen"


def test_a_leak_is_seen_in_most_of_what_is_refused() -> None:
    """The measurement can tell: without the checker these programs do leak."""
    assert Counter(outcome(seed) for seed in range(8))["refused"] > 2


@pytest.mark.whole
def test_the_count_prints_what_proofs_cost() -> None:
    count = Counter(outcome(seed) for seed in range(1000))
    print(count)
    assert count["refused, no leak seen"] < 0.4 * (1000 - count["accepted"])


# by laws


def verdict(lines: str) -> list[str]:
    return checked(HEAD + lines)[1]


@pytest.mark.parametrize("lines", [
    "y_t = Σ_{s, floor((s-1)/B) < floor((t-1)/B)} x_s", "y_t = Σ_{s, ceil(s/16) < ceil(t/16)} x_s",
    "y_t = Σ_{s, ceil(s/W) W ≤ t} x_s",
    "y_t = x_{max(floor((t-1)/W) W + 1, 1)}", "y_t = Σ_{s, abs(t - s) ≤ t - s} x_s",
    "y_t = Σ_{s, s ≤ t - mod(t, W)} x_s",
    "z_t = x_{min(t+1, T)}\ny_t = 1[t > 1] z_{t-1}", "y_t = 1[p_t ≤ t] x_{p_t}", "z = Σ_s x_s\ny_t = 1[t ≥ T] z",
    "b_j = Σ_{s ∈ ((j-1) W, j W]} x_s\nmask M_{t j} : j W ≤ t\nM_{t j} = x_t b_j\ny_t = Σ_j softmax_j(M_{t j}) b_j",
    "b_j = Σ_{s ∈ ((j-1) 16, j 16]} x_s\nmask M_{t j} : 16 j ≤ t\nM_{t j} = x_t b_j\ny_t = Σ_j softmax_j(M_{t j}) b_j",
    "b_j = Σ_{s ∈ ((j-1) W, j W]} x_s\ny_t = Σ_{j, j ≤ floor(t / W)} b_j",
    "b_j = Σ_{s ∈ ((j-1) 16, 16 j]} x_s\ny_t = Σ_{j, j < ceil(t / 16)} b_j",
    "b_j = Σ_{s ∈ ((j-1) 16, 16 j]} x_s\nset S_t = topk_{16 j ≤ t}(b_j x_t, 2)\ny_t = Σ_{j ∈ S_t} b_j",
    "b_j = Σ_{s ∈ ((j-1) W, j W]} x_s\nd_k = Σ_{j ≤ k} b_j\ny_t = Σ_{k, k W ≤ t} d_k",
    "y_j = Σ_{s, s ≤ j W} w_{min(floor((s-1)/W) + 1, J)} x_s", "y_t = Σ_{s ≤ t} Σ_{u, u ≤ s} x_u",
    "y_t = Σ_i c^i x_{max(t - i, 1)}", "y_t = x_{min(t + W, t)}", "y_t = Σ_i 1[t + i ≤ T] c^i x_{max(t - i, 1)}",
    "z_{t s} = x_t x_s, s ≤ t\ny_t = Σ_i c^i (1[t + i ≤ T] z_{t, t + i})",
    "z_{t s} = 1[s ≤ t] x_t x_s\nv_{s t} = 1[s ≥ 1] z_{t s}\ny_t = Σ_s v_{s, max(t - 1, 1)}",
])
def test_what_follows_from_the_conditions_is_proved(lines: str) -> None:
    head, _, last = lines.rpartition("\n")
    assert verdict(f"{head}\noutput {last}") == []


@pytest.mark.parametrize("lines", [
    "y_t = Σ_{i ≤ B} x_{min(t + i, T)}", "y_t = Σ_i x_{min(t + i, T)}", "y_t = Σ_{i ≥ 1} c^i x_{min(t + i, T)}",
    "y_t = Σ_{i ∈ [1, B]} c^i x_{min(t + i, T)}", "y_t = Σ_{i ≤ B} 1[t + i ≤ T] c^i x_{t + i}",
    "y_t = max_{i ≤ B} x_{min(t + i, T)}",
    "y_t = x_t Σ_{s ≤ T} x_s", "y_t = x_t Σ_{s ≥ 1} x_s", "y_t = x_t + max_{s ≤ T} x_s", "y_t = Σ_{s ≤ t + 1 - W} x_s",
    "y_t = Σ_{s ≤ t + 1 - B} x_s", "y_t = x_{p_t}", "y_t = x_{min(t, p_t + t)} + x_{p_1}",
    "y_t = Σ_{s, floor((s-1)/B) = floor((t-1)/B)} x_s",
    "y_t = Σ_{s, ceil(s/16) ≤ ceil(t/16)} x_s", "z_t = x_{min(t+2, T)}\ny_t = 1[t > 1] z_{t-1}",
    "b_j = Σ_{s ∈ ((j-1) 16, 16 j]} x_s\ny_t = Σ_{j, j ≤ ceil(t / 16)} b_j",
    "b_j = Σ_{s ∈ ((j-1) W, j W]} x_s\ny_t = Σ_{j, (j - 1) W < t} b_j",
    "z = Σ_{s ≤ T} x_s\ny_t = x_t z", "z_t = x_t Σ_{s ∈ 1..T} x_s\ny_t = x_t Σ_s x_s + z_t",
    "b_j = Σ_{s ∈ ((j-1) W, j W]} x_s\ny_t = x_t Σ_{j ∈ 1..J} b_j",
    "mask M_{t j} : all\nM_{t j} = w_j x_t\ny_t = Σ_j M_{t j} x_{min(t + j, T)}",
    "z_{t s} = x_t + x_s, s ≤ T\ny_t = z_{t, min(t + 1, T)}", "z_{t s} = x_t x_s, s ≤ t\ny_t = z_{min(t + 1, T), t}",
    "z_{t s} = 1[s ≤ t] x_s + x_t\nv_{t s} = 1[t ≤ s] x_s + z_{t s}\ny_t = v_{t, min(t + 1, T)}",
    "z_{t s} = Σ_{u ∈ 1..T} 1[s ≤ t] x_u x_s\ny_t = z_{t, min(t + 1, T)}",
])
def test_what_does_not_follow_is_refused(lines: str) -> None:
    """A domain that holds everywhere says nothing; nor does one over other indices than those of the position."""
    head, _, last = lines.rpartition("\n")
    assert verdict(f"{head}\noutput {last}") == ["E0501"]
    assert verdict(f"{head}\noutput {last} : all") == []


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", range(3))
def test_a_condition_that_holds_everywhere_changes_no_verdict(seed: int) -> None:
    """Random programs, each with and without such a condition under one of its sums."""
    random = Random(seed)
    for source in (text(n) for n in range(10 * seed, 10 * seed + 4)):
        plain = source.replace("Σ_{i ≤ B}", "Σ_{i}").replace("Σ_{i ≥ 1}", "Σ_{i}").replace(", s ≤ T",
        "").replace(", s ≥ 1", "")
        said = plain.replace("Σ_{i}", random.choice(["Σ_{i ≤ B}", "Σ_{i ≥ 1}"])).replace("Σ_{s,", "Σ_{s, s ≤ T,")
        assert checked(plain)[1] == checked(said)[1], source


def test_a_position_made_of_data_is_told_as_such() -> None:
    (problem,) = problems("input x_t\ninput p_t : int\noutput y_t = x_{p_t}")
    assert problem.code == "E0501"
    assert any("made of data" in note for note in problem.notes)
    assert any(": all" in help_.text for help_ in problem.helps)


def test_no_edit_that_says_nothing_is_offered() -> None:
    """`i ≤ B` is no mend of a sum over i that reads at t + i."""
    source, report = Source("a.ein", HEAD + "output y_t = Σ_i c^i x_{min(t + i, T)}\n"), Report()
    pipeline.check(source, report)
    pipeline.advise(source, report)
    (problem,) = report.errors
    assert not any("i ≤ B" in (help_.new or "") for help_ in problem.helps)


CONVOLVED = """
index t, s : time(T)
index a, b : feature(3), feature(5)
index d    : feature(D)
input Q_t^d, K_t^d, V_t^d
weight θ_{a b}
mask S_{t s} : s ≤ t
S_{t s} = Σ_d Q_t^d K_s^d / √D
mask C_{t s} : s ≤ t
C_{t s} = Σ_{a b} θ_{a b} (1[a ≤ t and 1 ≤ s - b + 3 and s - b + 3 ≤ T] S_{t-a+1, s-b+3})
output Y_t^d = Σ_s softmax_s(C_{t s}) V_s^d
"""


@pytest.mark.parametrize("backend", ["torch", pytest.param("cpp", marks=NEEDED)])
def test_scores_are_convolved_over_queries_and_keys(backend: str) -> None:
    """Multi-token attention (arXiv 2504.00927, §3): scores around s are later than s, but none is later than t."""
    draw = torch.Generator().manual_seed(3)
    q, k, v = torch.randn(3, 13, 4, generator=draw, dtype=torch.float64)
    kernel = torch.randn(3, 5, generator=draw, dtype=torch.float64)
    scores = torch.nn.functional.pad((q @ k.T / 2).tril(), (2, 2, 2, 0))
    around = torch.nn.functional.conv2d(scores[None, None], kernel.flip(0, 1)[None, None])[0, 0]
    cut = around.masked_fill(torch.ones(13, 13).triu(1).bool(), -torch.inf)
    found = einc.compile(CONVOLVED, backend=backend)(q, k, v, kernel)
    torch.testing.assert_close(found, cut.softmax(1) @ v)
