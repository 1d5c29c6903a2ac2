"""Extents of 0 and 1, folds over several indices, masks of several spans, composites:
emitted files against the interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from helpers import arrays, assert_close, called, meaning, tensors, typed
from judged import agrees, verdict
from programs import Case
from random_programs import numbered
from random_shapes import RANGES, REACH, SPANS, shaped
from triton_modes import interpreted

from einc.backends.torch.load import load
from einc.driver import front

CASES = 50  # in every run; with `--whole` forty times as many
HEAD = "index t, s, u : time(T)\nindex h : head(H)\nindex d : feature(D)\nindex e : feature(D)\ninput x_t, q_{t d}\n"


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


ALL = ({"T": 5, "H": 2, "D": 3}, {"T": 0, "H": 2, "D": 1}, {"T": 3, "H": 0, "D": 2}, {"T": 2, "H": 2, "D": 0},
       {"T": 37, "H": 1, "D": 1})
TEXTS = {
    "extremes over letters of both sides": "input k_s^d\n"
        "output y_t = min_{s, d, h, s ≥ t} (q_{t d} + k_{s d}) : all\n"
        "output z_t = max_{s, d, s ≤ t} (q_{t d} + k_{s d}) : all",
    "a scan counts what no term has": "output y_t = Σ_{s, d, s ≤ t} (x_t + x_s)",
    "of two such": "output y_t = Σ_{s, d, h, s ≤ t} (x_t + x_s)",
    "in a product": "output y_t = Σ_{s, d, s < t} exp(x_s - x_t)",
    "a fold of pairs": "output y_t = logaddexp_{s, d, s ≤ t} (x_t + x_s)",
    "elements of an empty sequence": "dim W\nset S = topk_s(x_s, W)\noutput y = Σ_{s ∈ S} x_s : all",
    "weights of an empty set": "dim W\nset S_t = topk_{s ≤ t}(x_s x_t, W)\nmask L_{t s} : s ∈ S_t\nL_{t s} = q_{t d} "
                               "q_s^d\n"
                               "output y_t = Σ_s softmax_s(L_{t s}) x_s",
    "a softmax over nothing": "output y_{t d} = softmax_d(q_{t d} + d)",
    "a maximum over nothing": "output y_t = max_d q_{t d}\noutput z_t = logsumexp_d(q_{t d})",
    "weights over nothing": "output y_t = Σ_d softmax_d(q_{t d} + d)",
    "a state of values that are not stored":
        "index z : time(U)\nmask l_{u z t} : u = t - z\nl_{u z t} = 1\na_{t z} = logsumexp_u(l_{u z t})\nb_{t z} = "
        "a_{t z}\n"
        "mask m_{t s z} : s ≥ t\nm_{t s z} = b_{s z} + 0 t\ny_{t z} = Σ_s softmax_s(m_{t s z}) * 2\noutput y_{t z} : "
        "all",
    "a mask that does not move":
        "mask l_{u t d} : 2 u ≤ t + d\nl_{u t d} = 1\na_{t d} = Σ_u softmax_u(l_{u t d}) * 1\n"
        "y_t = Σ_s softmax_s(Σ_e softmax_{e, e ≤ t}(a_{s e}) * a_{t e}) * 1\noutput y_t : all",
    "nothing but a number": "y_t = Σ_u softmax_{u, u > t}(Σ_{h, (h ≤ t or h > u)} 3) * x_u\noutput y_t : all",
    "an argument that has its index twice": "output y_t = logsumexp_{s, s ≤ t}(x_s / (1 + abs(x_s)))",
    "an argument with a domain of its own": "output y_t = logsumexp_{s, s ≤ t}(Σ_d softmax_{d, d ≤ s}(q_{s d}) * x_t)",
    "rows of a composite": "index a : feature(2)\nindex x : feature(2 D) = (d a)\ninput X_t^x\ny_t^{(d a)} = X_t^{(d "
                           "a)} + 1\n"
                           "output Q_t^x = RMSNorm(y_t^x)",
    "matrices of a composite":
        "index l : head(J)\nindex r : head(2)\nindex g : head(G)\nindex y : feature(2 D) = (r d)\n"
        "map κ(r, l) = ceil(((r - 1) J + l) G / (2 J)) : g\ninput A_{t s}^{(l)}, V_{s g}^d\nv_{s l}^{(r d)} = V_{s, "
        "κ(r, l)}^d\n"
        "output O_{t l}^y = Σ_{s ≤ t} A_{t s}^{(l)} v_{s l}^y",
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", TEXTS)
def test_a_program_means_the_same_at_all_extents(name: str) -> None:
    agrees(typed(HEAD + TEXTS[name]), {}, [{"U": 4, "W": 2, "J": 2, "G": 3, **trial} for trial in ALL], [(3, 4)],
           triton=True)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("mask", [pytest.param(m, marks=[pytest.mark.whole] * (n % 5 > 0))
                                  for n, m in enumerate([*SPANS, *REACH])])
def test_masks_mean_the_same_where_tiles_cut_them(mask: str) -> None:
    """Also where a tile meets both ends of a span that is empty, which no small tile may be needed for."""
    program = typed("index t, s : time(T)\nindex d : feature(D)\ndim W\ninput q_t^d, k_s^d, v_s\ninput doc_t : int\n"
                    f"mask L_{{t s}} : {mask}\nL_{{t s}} = q_t^d k_{{s d}}\noutput y_t = Σ_s softmax_s(L_{{t s}}) v_s "
                    f": all")
    trials = [{"T": n, "D": 2, "W": w} for n, w in ((9, 4), (0, 2), (300, 200), (260, 2))]
    agrees(program, RANGES, trials, [(3, 4)], triton=True)


POSITIONS = ["(t * 1.5) * c + x_t", "t * 1.5 + c", "(i_t * 0.1) * c", "(i_t - 0.7) * (t + 0.3) * c", "(t + 0.5) c",
             "logsumexp_{s, s ≤ t}((t * 1.5) * c + x_s)", "Σ_{s ≤ t} (s * 0.1) * c", "mod(i_t, 3) 0.1 c", "i_t / 3 + c"]


@pytest.mark.parametrize("right", POSITIONS)
def test_positions_have_the_digits_of_the_data(right: str) -> None:
    """A whole number times a number of the text is no float32 where the data is not."""
    program = typed(f"index t, s : time(T)\ninput x_t, c\ninput i_t : int\noutput y_t = {right} : all")
    plan = front.plan(program)
    inputs = arrays(program, {"T": 2000}, {"i": ("1", "2000")})
    got = called(load(front.emit(plan), plan.name), program, tensors(inputs), {"T": 2000})
    assert_close(got, meaning(program, inputs, {"T": 2000}), 1e-13)


def drawn(seed: int) -> Case:
    random = Random(f"shapes {seed}")
    return shaped(lambda *options: random.choice(options))


def fails(seed: int) -> str:
    """What goes wrong with a program and its sizes; empty where nothing does."""
    case = drawn(seed)
    kind, what = verdict(case, [((3, 4), (2, 1))[seed % 2]], triton=seed % 10 == 0)
    return "" if kind == "sound" else f"{seed}: {kind}: {what}\n{case.text}"


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.whole) for n in range(1, 40))])
def test_random_shapes(part: int) -> None:
    found = [said for seed in range(part * CASES, (part + 1) * CASES) if (said := fails(seed))]
    assert not found, "\n\n".join(found[:5])


def test_the_generator_makes_what_it_is_for() -> None:
    cases = [drawn(seed) for seed in range(4 * CASES)]
    text = "\n".join(case.text.partition("weight c_h\n")[2] for case in cases)
    assert all(what in text for what in (" or ", "topk", "⊕", "RMSNorm", "s, d,", "s, u,", "logsumexp"))
    assert {n for case in cases for n in (case.sizes["T"], case.sizes["D"])} >= {0, 1}


def test_a_program_is_told_by_its_number() -> None:
    """That of `python -m bench fuzz`: the same text and sizes each time, of both generators."""
    cases = [numbered(3, n) for n in range(20)]
    assert [(c.text, c.sizes) for c in cases] == [(c.text, c.sizes) for c in (numbered(3, n) for n in range(20))]
    assert {c.name for c in cases} == {"cascade", "shaped"}
