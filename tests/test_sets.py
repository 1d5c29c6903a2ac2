"""Sets of the largest: ties, what is no candidate, fewer than are asked for; folds over
sets; what a plan computes and stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers import Arrays, arrays, assert_close, called, examples, meaning, plan_of, tensors, typed
from hypothesis import strategies as st
from programs import FILES
from triton_modes import interpreted, tiled

import einc
from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.errors.report import Report, Source, render
from einc.ir.plan import GroupedMatmul
from einc.planning.contractions.choose import taken
from einc.syntax.printing.show import show

Chosen = list[int]
HEAD = "index t, s, u : time(T)\nindex b : batch(B)\nindex x, y : expert(E)\ndim n, m\n"
CAUSAL = HEAD + "input I_{t s}, v_s\nset S_t = topk_{s ≤ t}(I_{t s}, n)\n"
OUTPUTS = ("output y_t = Σ_{s ∈ S_t} v_s\noutput z_t = Σ_s softmax_{s ∈ S_t}(I_{t s}) v_s\noutput w_t = max_{s ∈ S_t} "
           "v_s\n")


def largest(values: Any, count: int, candidates: Any = None) -> Chosen:
    """By sorting pairs: NaN stands above everything, −∞ and what is no candidate nowhere."""
    pairs = [(-np.inf if np.isnan(v) else -v, n) for n, v in enumerate(values)
             if v != -np.inf and (candidates is None or candidates[n])]
    return [n for _, n in sorted(pairs)[:count]]


def causal(given: Arrays, count: int) -> list[Chosen]:
    rows = given["I"]
    return [largest(row, count, np.arange(len(row)) <= t) for t, row in enumerate(rows)]


def run(text: str, given: Arrays, sizes: dict[str, int], dtype: torch.dtype = torch.float64,
        bound: float = 1e-9) -> Arrays:
    """The meaning, once both back ends are near it."""
    program = typed(text)
    want = meaning(program, given, sizes)
    plan = front.plan(program)
    with interpreted():
        made = [load(front.emit(plan), plan.name), tiled(front.emit(plan, "triton"), plan.name, None)]
        for function in made:
            got = called(function, program, tensors(given, dtype), sizes)
            assert_close({key: y.double().numpy() for key, y in got.items()}, want, bound)
    return want


def sized(steps: int, count: int) -> dict[str, int]:
    return {"T": steps, "n": count}


# what a set is


@pytest.mark.parametrize("count", [0, 1, 3, 9])
@pytest.mark.parametrize("steps", [1, 7])
def test_folds_over_a_set(steps: int, count: int) -> None:
    """Of numbers among which many are equal and some are no candidates."""
    random = np.random.default_rng(steps + count)
    given = {"I": random.integers(0, 3, (steps, steps)).astype(float), "v": random.standard_normal(steps)}
    given["I"][random.random((steps, steps)) < 0.2] = -np.inf
    sets, v = causal(given, count), given["v"]
    got = run(CAUSAL + OUTPUTS, given, sized(steps, count))
    weights = [np.exp(given["I"][t, own]) for t, own in enumerate(sets)]
    assert_close(got, {"y": np.array([v[own].sum() for own in sets]),
                       "z": np.array([w @ v[own] / w.sum() if own else 0.0
                                      for w, own in zip(weights, sets, strict=True)]),
                       "w": np.array([v[own].max(initial=-np.inf) for own in sets])})


def test_what_is_no_number_stands_first() -> None:
    scores = np.array([[np.nan, 0, 0], [np.inf, np.nan, 0], [-np.inf, 2, np.nan]])
    text = CAUSAL + "output y_t = Σ_{s ∈ S_t} v_s\n"
    got = run(text, {"I": scores, "v": np.array([1.0, 10, 100])}, sized(3, 1))
    assert got["y"].tolist() == [1, 1, 100]


def test_the_place_of_the_second() -> None:
    """The number before the first element where there is none."""
    text = HEAD + "input I_{t s}\noutput r_t = topk_{s ≤ t}(I_{t s}, 2)"
    scores = np.array([[5.0, 9, 9], [1, 1, 9], [-np.inf, 3, -np.inf]])
    assert meaning(typed(text), {"I": scores}, {"T": 3})["r"].tolist() == [0, 2, 0]


def test_folds_over_a_set_in_single_precision() -> None:
    given = {"I": np.arange(25.0).reshape(5, 5) % 7, "v": np.arange(5.0)}
    run(CAUSAL + OUTPUTS, given, sized(5, 2), torch.float32, 1e-5)


TWO = HEAD + """input I_{t s}, J_{t s}, v_s
set S_t = topk_{s ≤ t}(I_{t s}, n)
set R_t = topk_{s, s ∈ S_t}(J_{t s}, m)
output y_t = Σ_{s ∈ R_t} v_s
output z_t = (Σ_{s ∈ S_t} v_s) (Σ_{s ∈ R_t} v_s) + Σ_{s ∈ S_t} 𝟙[s ∈ R_t] v_s
"""


@pytest.mark.parametrize("steps", [1, 6])
def test_a_set_of_candidates_in_a_set(steps: int) -> None:
    random = np.random.default_rng(steps)
    given = {**{key: random.integers(0, 4, (steps, steps)).astype(float) for key in "IJ"},
             "v": random.standard_normal(steps)}
    sets = causal(given, 4)
    inner = [largest(given["J"][t], 2, np.isin(np.arange(steps), own)) for t, own in enumerate(sets)]
    v = given["v"]
    y = np.array([v[own].sum() for own in inner])
    got = run(TWO, given, {"T": steps, "n": 4, "m": 2})
    assert_close(got, {"y": y, "z": np.array([v[own].sum() for own in sets]) * y + y})


def test_sets_with_a_batch_and_after_a_shift() -> None:
    text = HEAD + """input I_{b t s}, v_{b s}
set S_{b t} = topk_{s ≤ t}(I_{b t s}, n)
output y_{b t} = Σ_{s ∈ S_{b t}} v_{b s}
output z_{b t} = Σ_{s, s ∈ S_{b, max(t - 1, 1)}} v_{b s}
output w_{b t} = 𝟙[t ∈ S_{b t}]
"""
    random = np.random.default_rng(0)
    given = {"I": random.integers(0, 3, (2, 5, 5)).astype(float), "v": random.standard_normal((2, 5))}
    sets = [causal({"I": rows}, 2) for rows in given["I"]]
    y = np.array([[given["v"][b, own].sum() for own in rows] for b, rows in enumerate(sets)])
    w = np.array([[float(t in own) for t, own in enumerate(rows)] for rows in sets])
    assert_close(run(text, given, {"n": 2}), {"y": y, "z": y[:, [0, 0, 1, 2, 3]], "w": w})


def test_a_block_gives_a_set_its_index() -> None:
    """What is defined under `for t` carries t, sets too."""
    block = (HEAD + "input I_{t s}, v_s\nfor t:\n    set S = topk_{s ≤ t}(I_{t s}, n)\n    y = Σ_{s ∈ S} v_s\noutput "
                    "y_t\n")
    random = np.random.default_rng(0)
    given = {"I": random.standard_normal((5, 5)), "v": random.standard_normal(5)}
    plain = CAUSAL + "output y_t = Σ_{s ∈ S_t} v_s\n"
    assert_close(run(block, given, sized(5, 2)), run(plain, given, sized(5, 2)))


@examples(15, 40, st.integers(1, 5), st.integers(0, 4),
       st.sampled_from(["s ≤ t", "s < t", "s ≤ t, s > t - 3", "s ≤ t, mod(s, 2) = 0"]),
       st.data())
def test_random_domains(steps: int, count: int, domain: str, data: st.DataObject) -> None:
    """Small whole numbers in small domains, against sorting."""
    rows = data.draw(st.lists(st.lists(st.sampled_from([-np.inf, 0.0, 1.0, 2.0]), min_size=steps, max_size=steps),
                              min_size=steps, max_size=steps))
    inside: dict[str, Callable[[int, int], bool]] = {
        "s ≤ t": lambda s, t: s <= t, "s < t": lambda s, t: s < t, "s ≤ t, s > t - 3": lambda s, t: t - 3 < s <= t,
        "s ≤ t, mod(s, 2) = 0": lambda s, t: s <= t and s % 2 == 0}
    program = typed(HEAD + f"input I_{{t s}}, v_s\nset S_t = topk_{{{domain}}}(I_{{t s}}, n)\noutput y_t = Σ_{{s ∈ "
                           f"S_t}} v_s")
    given = {"I": np.array(rows), "v": 2.0 ** np.arange(steps)}
    want = [sum(2.0**n for n in largest(row, count, [inside[domain](s, t) for s in range(1, steps + 1)]))
            for t, row in enumerate(rows, 1)]
    plan = front.plan(program)
    got = called(load(front.emit(plan), plan.name), program, tensors(given), sized(steps, count))
    assert meaning(program, given, sized(steps, count))["y"].tolist() == want
    assert got["y"].tolist() == want


# what is computed and stored


MIXTURES = [case for case in FILES if case.name in ("moe", "moe_swiglu", "moe_shared", "deepseek_moe")]


@pytest.mark.parametrize("case", MIXTURES, ids=lambda case: case.name)
def test_experts_that_are_not_chosen_cost_nothing(case: Any) -> None:
    """Operations grow with n, not with E but for the router; no matrix is copied for a position."""
    plan, usual = plan_of(case), {**dict.fromkeys(case.sizes, 2), "T": 4096, "d_model": 512, "d_ff": 1024, "E": 64,
                                  "N": 8, "n": 2}

    def flops(**sizes: int) -> float:
        return float(sum(step.cost.flops.at({**usual, **sizes}) for step in taken(plan, {**usual, **sizes})))

    assert flops(E=128) < 1.05 * flops()
    assert 1.8 < (flops(n=8) - flops(n=4)) / (flops(n=4) - flops()) < 2.2
    matrices = [step for step in taken(plan, usual) if isinstance(step, GroupedMatmul)]
    assert len(matrices) >= 2
    for buffer in plan.buffers.values():
        if buffer.role == "local":
            names = {name for set_ in buffer.sets for name in set_.extent.sizes}
            assert not {"T", "d_model", "d_ff"} <= names, buffer.name


def test_only_what_is_chosen_is_weighed() -> None:
    """Keys and values are read by rank, so the pass over them grows with n alone."""
    plan = plan_of(next(case for case in FILES if case.name == "sparse_attention"))
    sizes = {"T": 4096, "d_model": 64, "H": 8, "d_k": 64, "H_I": 2, "d_I": 8}
    (pass_,) = (step for step in taken(plan, {**sizes, "n": 8}) if getattr(step, "name", "") == "Y")
    assert pass_.cost.flops.at({**sizes, "n": 16}) < 2.01 * pass_.cost.flops.at({**sizes, "n": 8})
    assert pass_.cost.flops.at({**sizes, "n": 8}) < 10 * 4096 * 8 * 8 * 64


# text


@pytest.mark.parametrize("text", [CAUSAL + OUTPUTS, TWO], ids=["folds", "in a set"])
def test_sets_parse_back(text: str) -> None:
    program = typed(text)
    sizes = {"T": 5, "n": 2, "m": 2}
    given = arrays(program, sizes, {})
    for made in (program, pipeline.normal(program)):
        for explicit in (False, True):
            again = typed(show(made, explicit))
            used = {key: given[key] for key in (t.key for t in again.inputs())}
            assert_close(meaning(again, used, sizes), meaning(program, given, sizes))


@pytest.mark.parametrize(("lines", "code", "said"), [
    ("input I_{t s}\nset S_t = topk_s(I_{t s}, n)\noutput y_t = Σ_{s ∈ S_t} 1", "E0701", "topk_{s ≤ t}(…)"),
    ("input I_{t s}\nset S_t = topk_{s ≤ t}(I_{t s})\noutput y_t = Σ_{s ∈ S_t} 1", "E", "a set is written"),
    ("input I_{t s}\nset S_t = max_{s ≤ t}(I_{t s}, n)\noutput y_t = Σ_{s ∈ S_t} 1", "E", "is no set"),
    ("input I_s\nset S_t = topk_{s ≤ T}(I_s, n)\noutput y_t = Σ_{s ∈ S_t} 1", "E", "`t`"),
    ("input p_{t u s}\nset S_t = topk_{s ≤ t}(p_{t u s}, n)\noutput y_t = Σ_{s ∈ S_t} 1", "E",
     "give the set the index"),
    ("input I_{t s}\nset S_t = topk_{s ≤ t}(I_{t s}, n)\noutput y_t = S_t", "E", "is a set, not a number"),
    ("input I_{t s}, p_x\nset S_t = topk_{s ≤ t}(I_{t s}, n)\noutput y_t = Σ_{x ∈ S_t} p_x", "E",
     "the elements of `S_t` are of"),
    ("input I_{t s}, r_t\nset S_t = topk_{s ≤ t}(I_{t s}, n)\noutput y_t = 𝟙[r_t ∈ S_t]", "E", "is no whole number"),
    ("input I_{t s}\nset S_t = topk_{s ≤ t}(I_{t s}, n)\nset S_t = topk_{s ≤ t}(I_{t s}, m)\noutput y_t = Σ_{s ∈ S_t} "
     "1", "E",
     "defined twice"),
    ("input I_{t s}\noverride set S_t = topk_{s ≤ t}(I_{t s}, n)\noutput y_t = Σ_{s ∈ S_t} 1", "E", "to override"),
    ("input I_{t s}\noutput y_t = topk_{s ≤ t}(I_{t s}, 1/2)", "E0404", "whole number"),
], ids=lambda x: x if isinstance(x, str) and x.isascii() else "")
def test_errors(lines: str, code: str, said: str) -> None:
    report = Report()
    pipeline.check(Source("<text>", HEAD + lines), report)
    text = "\n".join(map(render, report.sorted()))
    assert f"error[{code}" in text, text
    assert said in text


LAYERS = """index t, s : time(T)
index d, e, g : feature(D)
dim n
input X_t^d
H_t^d = X_t^d
for ℓ in 1..N:
    weight W_{Q e}^d
    Q_t^d = H_t^e W_{Q e}^d
    L_{t s} = Q_t^g H_{s g}
    set S_t = topk_{s ≤ t}(L_{t s}, n)
    H_t^d ← H_t^d + Σ_{s ∈ S_t} softmax_{s ∈ S_t}(L_{t s}) H_s^d
output Y_t^d = H_t^d
"""


def test_a_set_of_weights_that_each_round_has_of_its_own() -> None:
    """What a round makes has the letter that counts the rounds only where it is read: a set as an equation."""
    text = """index t : time(T)
index f : feature(D)
index x : expert(E)
dim k
input X_t^f
H_t^f = X_t^f
for ℓ in 1..N:
    weight W_f^x, A_x^f
    set C_t = topk_x(H_t^f W_f^x, k)
    H_t^f ← H_t^f + Σ_{x ∈ C_t} A_x^f
output O_t^f = H_t^f
"""
    draw = np.random.default_rng(4)
    given = {"X": draw.standard_normal((4, 3)), "W": draw.standard_normal((2, 3, 5)),
             "A": draw.standard_normal((2, 5, 3))}
    want = given["X"]
    for weight, added in zip(given["W"], given["A"], strict=True):
        chosen = np.argsort(-(want @ weight), axis=1)[:, :2]
        want = want + added[chosen].sum(1)
    np.testing.assert_allclose(meaning(typed(text), given, {"k": 2})["O"], want)
    made = einc.compile(text, "torch")(**{key: torch.from_numpy(x) for key, x in given.items()}, k=2)
    np.testing.assert_allclose(made.numpy(), want)


def test_a_layer_chooses_anew() -> None:
    """Layer by layer in plain numpy."""
    random = np.random.default_rng(2)
    given = {"X": random.normal(size=(6, 3)), "W_Q": random.normal(size=(2, 3, 3))}
    want = given["X"]
    for weight in given["W_Q"]:
        scores, before = want @ weight @ want.T, want
        want = before.copy()
        for t, row in enumerate(scores):
            kept = largest(row[: t + 1], 2)
            shares = np.exp(row[kept] - row[kept].max())
            want[t] += shares / shares.sum() @ before[kept]
    np.testing.assert_allclose(run(LAYERS, given, {"n": 2})["Y"], want, rtol=1e-9)


# what is no set, though it looks like one

MEMBERS = HEAD + """index r : expert(n)
input I_{t s}, v_s
S_{t r} = topk_{s ≤ %s}(I_{t s}, r)
M_{t s} = Σ_{%s} 1[S_{t r} = s] %s
output y_t = Σ_{1 = M_{t s}} v_s : all
output z_t = Σ_s M_{t s} v_s : all
"""


@pytest.mark.parametrize(("most", "ranks", "then"), [("min(t, r)", "r", ""), ("t", "r", "2"), ("t", "r > 1", "")],
                         ids=["candidates by rank", "twice", "without the first"])
def test_membership_that_is_no_set(most: str, ranks: str, then: str) -> None:
    """What counts chosen elements otherwise than once each, over all ranks, is summed as it is written."""
    rng = np.random.default_rng(5)
    run(MEMBERS % (most, ranks, then), {"I": rng.normal(size=(6, 6)), "v": rng.normal(size=6)}, sized(6, 3))
