"""Moments about a result of the same pass: carried about a mean that moves, and as exact as two passes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from cpp_texts import NEEDED
from guarded_programs import Guarded
from helpers import Array, arrays, assert_close, called, cut, distance, examples, meaning, tensors, typed
from hypothesis import strategies as st
from judged import verdict
from programs import SPECS, Case
from triton_modes import interpreted

from einc.backends.torch.load import load
from einc.driver import front
from einc.driver.cli import main
from einc.ir.plan import Kernel, Module

HEAD = """
index b    : batch(B)
index t, s : time(T)
index c    : time(S)
index d    : feature(D)
input x_s, w_s, y_{b c}, v_{b c}, z_{b c}^d
"""
ROWS = "μ_b = (sum_{c ∈ 1..S} y_{b c}) / S\n"
PAST = "n_t = sum_{s ≤ t} 1\nμ_t = (sum_{s ≤ t} x_s) / n_t\n"
MOMENTS = {  # texts, and how many values are carried
    "variance": (PAST + "output Y_t = (sum_{s ≤ t} (x_s - μ_t)^2) / n_t", 3),
    "the other way round": (PAST + "output Y_t = sum_{s ≤ t} (μ_t - x_s)^2", 3),
    "skewness": (PAST + "output Y_t = sum_{s ≤ t} (μ_t - x_s)^3", 4),
    "fourth": (PAST + "output Y_t = sum_{s ≤ t} (x_s - μ_t)^4", 5),
    "two powers": (PAST + "output Y_t = (sum_{s ≤ t} (x_s - μ_t)^3) / (sum_{s ≤ t} (x_s - μ_t)^2 + 1)", 4),
    "first": (PAST + "output Y_t = sum_{s ≤ t} (x_s - 2 μ_t)", 2),
    "of something made": (
        "n_t = sum_{s < t} 1\nμ_t = (sum_{s < t} x_s w_s) / n_t\noutput Y_t = sum_{s < t} (x_s w_s - μ_t)^2",
        3,
    ),
    "about another centre": (PAST + "output Y_t = sum_{s ≤ t} (x_s - 3 μ_t + n_t)^2", 3),
    "with weights": (
        "n_t = sum_{s ≤ t} w_s^2\nμ_t = (sum_{s ≤ t} w_s^2 x_s) / n_t\noutput Y_t = (sum_{s ≤ t} w_s^2 (x_s - μ_t)^2) "
        "/ n_t",
        6,
    ),
    "signed weights": (PAST + "output Y_t = sum_{s ≤ t} w_s (x_s - μ_t)^2", 5),
    "with a factor": (PAST + "output Y_t = sum_{s ≤ t} μ_t (x_s - μ_t)^2 / n_t", 4),
    "whole rows": (ROWS + "output Y_b = (sum_{c ∈ 1..S} (y_{b c} - μ_b)^2)", 3),
}


def carried(plan: Module) -> list[int]:
    kernels = [s for s in plan.steps if isinstance(s, Kernel) and s.stream is not None]
    return [sum(let.carry is not None for let in k.lets) for k in kernels]


def check(text: str, sizes: dict[str, int], tiles: tuple[int, int] | None, offset: float = 0.0) -> Module:
    program = typed(HEAD + text)
    plan = front.plan(program)
    source = front.emit(plan)
    given_ = {k: a + offset for k, a in arrays(program, sizes, {}, seed=sizes["T"]).items()}
    got = called(load(cut(source, tiles) if tiles else source, plan.name), program, tensors(given_), sizes)
    assert_close({k: v.numpy() for k, v in got.items()}, meaning(program, given_, sizes), 1e-9 if offset else 1e-11,
                 least=1.0)
    return plan


@pytest.mark.drawn(6)
@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("tiles", [None, (3, 2), (2, 5), (1, 1)])
def test_moments_are_carried(name: str, tiles: tuple[int, int] | None) -> None:
    text, count = MOMENTS[name]
    for extent in (0, 1, 2, 7):
        assert carried(check(text, {"B": 2, "T": extent, "S": extent, "D": 3}, tiles)) == [count]


@examples(20, 100, st.integers(1, 3), st.integers(1, 3), st.sampled_from([None, (3, 2), (2, 1)]), st.floats(-50, 50))
def test_powers_about_any_centre(power: int, times: int, tiles: tuple[int, int] | None, offset: float) -> None:
    text = f"{PAST}output Y_t = sum_{{s ≤ t}} (x_s - {times} μ_t)^{power}"
    assert len(carried(check(text, {"B": 1, "T": 6, "S": 1, "D": 1}, tiles, offset))) == 1


@pytest.mark.parametrize(
    "text",
    [
        PAST + "output Y_t = sum_{s ≤ t} tanh(x_s - μ_t)",
        PAST + "output Y_t = sum_{s ≤ t} (x_s - μ_t) (w_s - μ_t)",
        PAST + "output Y_t = sum_{s ≤ t} abs(x_s - μ_t)",
        PAST + "output Y_t = sum_{s ≤ t} 1 / (1 + (x_s - μ_t)^2)",
    ],
)
def test_what_is_no_moment_is_done_in_two_passes(text: str) -> None:
    check(text, {"B": 2, "T": 7, "S": 3, "D": 3}, (3, 2))


def exact(x: Array) -> tuple[Array, Array]:
    x = x.astype(np.float64)
    rows = [x[: n + 1] for n in range(len(x))]
    return np.array([r.mean() for r in rows]), np.array([r.var() for r in rows])


@pytest.mark.parametrize("columns", [1, 7, 128, 5000])
def test_a_variance_far_from_zero_keeps_its_digits(columns: int) -> None:
    """float32 at a mean of 10^4: the sum of squares would give 8 for 0.95."""
    x = (np.random.default_rng(0).standard_normal(600) + 1e4).astype(np.float32)
    program = typed((SPECS / "not_attention/variance.ein").read_text(encoding="utf-8"))
    plan = front.plan(program)
    assert carried(plan) == [3] and len(plan.steps) == 1
    got = called(load(cut(front.emit(plan), (64, columns)), plan.name), program, {"x": torch.from_numpy(x)}, {})
    mean, variance = exact(x)
    assert np.abs(got["sigma"].numpy() - variance).max() < (1e-2 if columns == 1 else 1e-3)
    assert distance(got["mu"].numpy(), mean) < 1e-6


@pytest.mark.parametrize("tex", [False, True])
def test_derive_tells_the_update(tex: bool) -> None:
    """Chan's: the mean moves, and what was about the old one is moved with it."""
    done = CliRunner().invoke(main, ["derive", "not_attention/variance", *(["--tex"] if tex else [])])
    assert done.exit_code == 0
    said = (
        (r"r' &= r + \frac{", r"M &\leftarrow M + \sum_{s \in B}", r"\left(r - r'\right)^{2} \, w", r"\frac{M}{w}")
        if tex
        else ("r' = r + (Σ_{s ∈ B} (x_{s} - r)) / w'", "M ← M + Σ_{s ∈ B} (x_{s} - r')^{2} + (r - r')^{2} w", "= M / w")
    )
    assert all(text in done.output for text in said), done.output


@pytest.mark.parametrize("mask", ["s ≤ t", "s < t"])
def test_powers_and_roots_of_sums_of_exponentials_keep_their_scale(mask: str) -> None:
    """Σ e^{2x} / (Σ e^x)² lies between 0 and 1, however large x is; a row of nothing gives 0."""
    text = (f"index t, s : time(T)\ninput x_{{t s}}\nmask L_{{t s}} : {mask}\nL_{{t s}} = x_{{t s}}\nz_t = Σ_s "
            f"exp(L_{{t s}})\n"
            "p_t = Σ_s exp(2 L_{t s})\noutput q_t = p_t / z_t^2\noutput r_t = sqrt(p_t) / z_t\noutput c_t = p_t^3 / "
            "z_t^6")
    x = np.random.default_rng(0).normal(size=(9, 9)) * 40 + 300
    seen = np.tril(np.ones((9, 9), bool), -(mask == "s < t"))
    shifted = np.exp(np.where(seen, x - np.where(seen, x, -np.inf).max(1, keepdims=True, initial=-1e9), -np.inf))
    share = shifted / np.maximum(shifted.sum(1, keepdims=True), 1e-300)
    want = (share**2).sum(1)
    plan = front.plan(typed(text))
    module = load(front.emit(plan), plan.name)
    got = module(x=torch.tensor(x))
    for value, wanted in zip(got, (want, want**0.5, want**3), strict=True):
        assert np.allclose(value.numpy(), wanted, rtol=1e-9, atol=0)


def test_moments_that_nothing_reads_are_gone() -> None:
    """A variance that cancels leaves no mean behind it, and the value beside it stays."""
    check("""index e : feature(E)
dim W
input q_t^e, k_s^e, z_s
n_t = Σ_{s ≤ min(t, W), s ≠ t} 1
μ_t = (Σ_{s ≤ min(t, W), s ≠ t} ((z_s - q_t^e k_{s e}) / (1 + abs(x_t)))) / n_t
σ_t = (Σ_{s ≤ min(t, W), s ≠ t} (((z_s - q_t^e k_{s e}) / (1 + abs(x_t))) - μ_t)^2) / n_t
ν_t = max(x_t * μ_t, σ_t - σ_t)
output Y_t = max_{s, s + 1 ≤ t, s ≤ min(t, W)} (1.5 / (1 + abs(ν_s))) : all
""", {"T": 7, "E": 2, "W": 3}, None)


# differences from a running maximum, weighed by exponentials

LOGITS = ("x_s", "(x_s + x_t)", "x_s z_s", "q_t^d q_{s d}", "(2 x_s)")
VALUES = ("z_s", "(z_s - x_t)", "(x_s z_s)", "-x_s")
DIFFERENCES = ("(a_{t s} - m_t)", "(b_{t s} - n_t)", "(a_{t s} - m_t - log(e_t))", "(a_{t s} - m_t - (b_{t s} - n_t))",
               "(m_t - a_{t s} + n_t)", "(b_{t s} - 2 n_t)", "(a_{t s} - m_t + b_{t s} / 2 - n_t / 2)")


def weighed(seed: int) -> Case:
    """Σ e^(a − m) (b − n) w: m is the maximum of a, and n of b, over rows of which some have no point."""
    random = Random(seed)
    rows, a = Guarded(seed).rows("s", "t"), random.choice(LOGITS)
    over, w = f"{{s, {rows}}}", random.choice(("", "", " q_s^d", " z_s", " / (1 + x_s^2)"))
    below, up = random.choice(("e_t", "1", "(1 + e_t)")), "^d" if "q" in w else ""
    lines = ["index t, s : time(T)", "index d : feature(D)", "dim W", "input x_t, z_t, q_t^d", "input doc_t : int",
             f"a_{{t s}} = {a} + 0 x_t x_s", f"b_{{t s}} = {random.choice((a, a, *VALUES))} + 0 x_t x_s",
             f"m_t = max_{over} a_{{t s}}", f"n_t = {random.choice(('max', 'min'))}_{over} b_{{t s}}",
             f"e_t = Σ_{over} exp(a_{{t s}} - m_t)",
             f"output y_t{up} = (Σ_{over} exp(a_{{t s}} - m_t) {random.choice(DIFFERENCES)}{w}) / {below} : all",
             *(["output e_t : all"] if random.random() < 0.4 else [])]
    sizes = {"T": random.choice((5, 1, 9, 2)), "D": 2, "W": random.choice((1, 2, 3))}
    return Case("weighed", "\n".join(lines), sizes, {"doc": ("1", "3")})


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", [*range(24), *(pytest.param(n, marks=pytest.mark.whole) for n in range(24, 400))])
def test_a_difference_from_a_running_maximum(seed: int) -> None:
    with interpreted():
        assert verdict(weighed(seed), ((3, 4), (2, 1)), triton=seed % 6 == 0) == ("sound", "")


def test_such_differences_take_one_pass() -> None:
    found = [front.emit(front.plan(typed(weighed(seed).text))) for seed in range(24)]
    assert sum("_before" in source for source in found) > 18


@pytest.mark.drawn(3)
@pytest.mark.parametrize("backend", ["torch", pytest.param("cpp", marks=NEEDED)])
@pytest.mark.parametrize("magnitude, level", [(1e-3, 0), (1.0, 0), (100.0, 0), (1e4, 0), (1.0, 5000)])
def test_what_is_near_the_maximum_keeps_its_digits(magnitude: float, level: int, backend: str) -> None:
    """Powers of e are of x − max x, and so is what they weigh: both are exact where the powers are not 0."""
    draw = torch.Generator().manual_seed(int(magnitude))
    x, y = torch.randn(2, 4, 300, generator=draw)
    x, y = (magnitude * x).round(decimals=3) + level, y.double().float()
    p, q = x.double().log_softmax(1), y.double().log_softmax(1)
    wanted = {"not_attention/entropy": -(p.exp() * p).sum(1), "not_attention/kl": (p.exp() * (p - q)).sum(1),
              "gallery/two_loops": p[0].exp()}
    far = dict.fromkeys(wanted, 1e-5) | {"gallery/two_loops": 1e-6}
    given = {"not_attention/entropy": {"x": x}, "not_attention/kl": {"x": x, "y": y}, "gallery/two_loops": {"x": x[0]}}
    for name, want in wanted.items():
        source = front.compile(name, backend).source
        for tiles in (None, (2, 64)) if backend == "torch" else (None,):
            made = load(cut(source, tiles) if tiles else source, name.split("/")[1])
            found = made(**given[name]).double()
            assert ((found - want).abs() / want.abs().clamp(min=1e-3)).max() < far[name], name


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["torch", pytest.param("cpp", marks=NEEDED)])
@pytest.mark.parametrize("size", [1, 64, 2048])
def test_a_maximum_less_another_sum_keeps_its_digits(size: int, backend: str) -> None:
    """logsumexp(x) − Σ softmax(x) x is 0 where one logit leads, whatever its size: these are exact in float32."""
    draw = torch.Generator().manual_seed(size)
    q, k, v = (torch.randint(-9, 10, (1, 2, 70, 4), generator=draw).float() for _ in range(3))
    logits = (size * q.double() @ k.double().mT / 2).masked_fill(torch.ones(70, 70).triu(1) > 0, -torch.inf)
    shares = logits.softmax(-1)
    want = -torch.special.xlogy(shares, shares).sum(-1)
    sharp = want < 1e-9
    assert sharp.sum() > 10
    source = front.compile("gallery/entropy_penalty", backend).source
    for tiles in (None, (2, 64)) if backend == "torch" else (None,):
        made = load(cut(source, tiles) if tiles else source, "entropy_penalty")
        found = made(Q=size * q, K=k, V=v).E.double()
        torch.testing.assert_close(found[sharp], want[sharp], rtol=0, atol=1e-6)
        torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5 * (1 + size))
