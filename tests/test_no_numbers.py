"""What is no number stays none in rows that may be empty: no guard takes it for a row without a point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
import torch
from cpp_texts import COMPILER
from helpers import cut, meaning, typed
from test_triton import SMALL, choice
from triton_modes import interpreted, tiled

import einc
from einc.backends.torch.load import load
from einc.driver import front

HEAD = """
index t : time(T)
index s : time(S)
input q_t, k_s, v_s
mask L_{t s} : s ≤ 5 t
L_{t s} = q_t k_s
"""
BODIES = {
    "logsumexp": "output y_t = logsumexp_s(L_{t s})",
    "softmax": "output y_t = Σ_s softmax_s(L_{t s}) v_s",
    "both": "output y_t = Σ_s softmax_s(L_{t s}) v_s + logsumexp_s(L_{t s})",
    "square": "output y_t = Σ_s softmax_s(L_{t s})^2",
}
BACKS = ["torch", pytest.param("cpp", marks=pytest.mark.skipif(not COMPILER, reason="no C++ compiler is here"))]


def values(name: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What a body sums, where it does."""
    return {"v": torch.ones(4, dtype=dtype)} if "v_s" in BODIES[name] else {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("backend", BACKS)
@pytest.mark.parametrize("wrong", [(1,), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.usefixtures("kernel_cache")
def test_softmax_of_what_is_no_number(name: str, wrong: Sequence[int], backend: str, dtype: torch.dtype) -> None:
    keys = torch.zeros(4, dtype=dtype)
    keys[list(wrong)] = math.nan
    made = einc.compile(HEAD + BODIES[name], backend, own=True)
    assert made(q=torch.ones(1, dtype=dtype), k=keys, **values(name, dtype)).isnan().all()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", BACKS)
@pytest.mark.usefixtures("kernel_cache")
def test_a_loss_of_what_is_no_number(backend: str, grad: bool) -> None:
    """As torch's own cross entropy: NaN in its row, and numbers elsewhere."""
    words, weights = torch.tensor([1, 2, 3]), torch.randn(4, 5)
    inputs = torch.randn(3, 4)
    inputs[1, 0] = math.nan
    found = einc.compile("linear_cross_entropy", backend, grad=grad)(w=words, X=inputs, W=weights)
    assert found.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("backend", BACKS)
@pytest.mark.usefixtures("kernel_cache")
def test_rows_without_a_point_stay_what_they_were(backend: str) -> None:
    """The guard is still there: −∞ and 0 where nothing is summed."""
    for name, want in (("logsumexp", -math.inf), ("softmax", 0.0), ("square", 0.0)):
        text = (HEAD + BODIES[name]).replace("s ≤ 5 t", "s < t")
        got = einc.compile(text, backend, own=True)(q=torch.ones(3), k=torch.zeros(4), **values(name, torch.float32))
        assert got[0] == want
        assert got[1:].isfinite().all()


@pytest.mark.xfail(strict=True, reason="a pass asks whether its maximum is −∞, and not whether a row has a point; "
                                       "one of −∞ is taken for a row without one, where its set may be empty")
@pytest.mark.parametrize("name", ["logsumexp", "softmax"])
def test_a_row_of_points_that_are_all_nothing_is_no_number(name: str) -> None:
    """§6.4: what writes its maximum out is NaN in a row of −∞; the set of the positions up to t may be empty here."""
    text = (HEAD + BODIES[name]).replace("s ≤ 5 t", "s ≤ t")
    given = {"q": torch.ones(3), "k": torch.full((4,), -math.inf), **values(name, torch.float32)}
    assert einc.compile(text, "torch", own=True)(**given).isnan().all()


@pytest.mark.parametrize("tiles", [None, (2, 1), (3, 4)])
@pytest.mark.parametrize(("right", "own"), [
    ("(Σ_{s ≤ t} exp(b_s) x_s) / Σ_{s ≤ t} exp(b_s)", False), ("log(Σ_{s ≤ t} exp(b_s))", True),
    ("(Σ_{s ≤ t} exp(b_s) a_t x_s) / Σ_{s ≤ t} exp(b_s) a_t", False),
    ("(Σ_{s ≤ t} Σ_{u ≤ t} exp(b_s + b_u + a_s a_u) x_s) / Σ_{s ≤ t} Σ_{u ≤ t} exp(b_s + b_u + a_s a_u)", None)])
def test_what_is_relative_to_a_sum_of_nothing_is_nothing(right: str, own: bool | None,
                                                         tiles: tuple[int, int] | None) -> None:
    """Rows of which all exponentials are 0, as the text says 0 / 0 is 0 and log(0) is −∞; those after them in the same
    tile and in later ones have what their text says."""
    draw = torch.Generator().manual_seed(3)
    a, b, x = (torch.randn(7, generator=draw, dtype=torch.float64) for _ in range(3))
    a, b = a.abs(), torch.where(torch.arange(7) < 4, -math.inf, b)
    logits = b[:, None] + b + a[:, None] * a if own is None else b
    wanted = []
    for t in range(1, len(x) + 1):
        weights = logits[:t, :t].exp().sum(1) if own is None else logits[:t].exp()
        above, below = (weights * x[:t]).sum(), weights.sum()
        wanted.append(below.log() if own else above / below if below else torch.zeros(()))
    text = f"index t, s, u : time(T)\ninput a_t, b_t, x_t\noutput y_t = {right}\n"
    source = front.emit(front.plan(typed(text)))
    given = {key: value for key, value in (("a", a), ("b", b), ("x", x)) if f"{key}_" in right}
    found = load(cut(source, tiles) if tiles else source, "text")(**given)
    np.testing.assert_allclose(found.numpy(), torch.stack(wanted).double().numpy(), rtol=1e-9)


@pytest.mark.parametrize("backend", BACKS)
@pytest.mark.parametrize("right", [
    "(Σ_{s ≤ t} exp(b_s) x_s) / Σ_{s ≤ t} exp(b_s)", "exp(b_t) x_t / Σ_{s ≤ t} exp(b_s)", "log(Σ_{s ≤ t} exp(b_s))",
    "(Σ_{s ≤ t} exp(b_s) x_s a_s) / Σ_{s ≤ t} exp(b_s) a_s", "log((Σ_{s < t} exp(b_s)) / Σ_{s ≤ t} exp(b_s))"])
@pytest.mark.usefixtures("kernel_cache")
def test_a_row_of_nothing_by_nothing_is_flat(right: str, backend: str) -> None:
    """The rows of which all exponentials are 0 add nothing to a gradient: it is that of the text about the others."""
    draw = torch.Generator().manual_seed(4)
    given = {key: torch.randn(7, generator=draw, dtype=torch.float64) for key in "abx" if f"{key}_" in right}
    given |= {"a": given["a"].abs()} if "a" in given else {}
    text = f"index t, s : time(T)\ninput {', '.join(f'{key}_t' for key in given)}\noutput y_t = {right}\n"
    function = einc.compile(text, backend, grad=True)

    def slopes(first: int) -> dict[str, torch.Tensor]:
        asked = {key: x[first:].clone().requires_grad_() for key, x in given.items()}
        function(**asked).sum().backward()
        return {key: x.grad for key, x in asked.items() if x.grad is not None}

    want = slopes(3)
    given["b"][:3] = -math.inf
    for key, found in slopes(0).items():
        assert found[:3].tolist() == [0] * 3, key
        np.testing.assert_allclose(found[3:].numpy(), want[key].numpy(), rtol=1e-9)


SIDES: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "exp(b_t)": lambda b, x, z: b.exp(), "exp(2 b_t)": lambda b, x, z: (2 * b).exp(),
    "exp(z_t)": lambda b, x, z: z.exp(), "(exp(z_t) x_t^2)": lambda b, x, z: z.exp() * x**2,
    "(Σ_{s ≤ t} exp(b_s))": lambda b, x, z: b.exp().cumsum(0),
    "(Σ_{s < t} exp(b_s))": lambda b, x, z: b.exp().cumsum(0).roll(1) * (torch.arange(len(b)) > 0),
    "(Σ_{s ≤ t} exp(b_s) x_s^2)": lambda b, x, z: (b.exp() * x**2).cumsum(0),
    "(Σ_{s ≤ t} exp(b_s + z_t))": lambda b, x, z: b.exp().cumsum(0) * z.exp(),
    "(exp(b_t) + exp(z_t))": lambda b, x, z: b.exp() + z.exp(),
    "(exp(b_t) + exp(2 b_t))": lambda b, x, z: b.exp() + (2 * b).exp(),
}
AROUND: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"": lambda y: y, "log": torch.log, "sqrt": torch.sqrt}


def quotient(above: torch.Tensor, below: torch.Tensor, around: str) -> torch.Tensor:
    """What is made of a quotient: 0 / 0 is 0, and flat."""
    nothing = (above == 0) & (below == 0)
    found = AROUND[around](torch.where(nothing, 1.0, above) / torch.where(nothing, 1.0, below))
    return torch.where(nothing, -math.inf if around == "log" else 0.0, found)


@pytest.mark.drawn(12)
@pytest.mark.parametrize("seed", range(120))
@pytest.mark.usefixtures("kernel_cache")
def test_what_is_made_of_quotients_of_nothing_by_nothing(seed: int) -> None:
    """Drawn quotients of exponentials and their sums, of which some are 0: in the definition, in files at several
    tiles, in compiled and in Triton kernels, and their slopes, which are those of the rows that are something."""
    random, draw = Random(seed), torch.Generator().manual_seed(seed)
    above, below = random.sample(sorted(SIDES), 2)
    if {above, below} == {"exp(z_t)", "(exp(z_t) x_t^2)"}:
        return  # what both have is struck out
    around = random.choice(sorted(AROUND))
    data = {key: torch.randn(6, generator=draw, dtype=torch.float64) for key in "bxz"}
    data["b"][: random.choice((0, 2, 3, 6))] = -math.inf
    data["z"][random.choice((0, 1, 3, 5))] = -math.inf
    data["x"][random.choice((0, 1, 4))] = 0
    right = f"{around}({above} / {below})"
    given = {key: x for key, x in data.items() if f"{key}_" in right}
    text = f"index t, s : time(T)\ninput {', '.join(f'{key}_t' for key in given)}\noutput y_t = {right}\n"
    asked = {key: x.clone().requires_grad_() for key, x in data.items()}
    value = quotient(SIDES[above](*asked.values()), SIDES[below](*asked.values()), around)
    want = value.detach().numpy()
    if np.isnan(want).any():
        return
    (meant,) = meaning(typed(text), {key: x.numpy() for key, x in given.items()}, {"T": 6}).values()
    np.testing.assert_allclose(meant, want, rtol=1e-9, atol=1e-12, err_msg=text)
    source = front.emit(front.plan(typed(text)))
    ways = [load(cut(source, tiles) if tiles else source, "text") for tiles in (None, (2, 1), (3, 4))]
    if COMPILER and seed % 5 == 0:
        ways.append(einc.compile(text, "cpp"))
    for way in ways:
        np.testing.assert_allclose(way(**given).numpy(), want, rtol=1e-9, atol=1e-12, err_msg=text)
    if seed % 10 == 1:
        with interpreted():
            made = tiled(front.emit(front.plan(typed(text), front.choices(backend="triton")), "triton"), "text",
                         choice(SMALL))(**given)
        np.testing.assert_allclose(made.numpy(), want, rtol=1e-9, atol=1e-12, err_msg=text)
    finite = torch.from_numpy(np.isfinite(want))
    slopes = torch.autograd.grad(value[finite].sum(), list(asked.values()), allow_unused=True)
    mine = {key: x.clone().requires_grad_() for key, x in given.items()}
    einc.compile(text, "torch", grad=True)(**mine)[finite].sum().backward()
    for key, slope in zip(asked, slopes, strict=True):
        if key in given and slope is not None and slope.isfinite().all():
            found = mine[key].grad
            np.testing.assert_allclose(slope.numpy(), 0 if found is None else found.numpy(), rtol=1e-8, atol=1e-10,
                                       err_msg=text)


DATA: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "x_t": lambda x, z: x,
    "(x_t z_t)": lambda x, z: x * z,
    "(Σ_{s ≤ t} x_s z_t)": lambda x, z: x.cumsum(0) * z,
    "(Σ_{s ≤ t} x_s z_s)": lambda x, z: (x * z).cumsum(0),
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("above", "below"), list(itertools.permutations(DATA, 2)))
def test_quotients_of_data_that_are_0(above: str, below: str) -> None:
    """Weights of any sign that are given, all 0 in a row, as those of padding are: it adds nothing to a gradient."""
    x, z = torch.randn(2, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(len(above + below)))
    x[:2], z[0] = 0, 0
    asked = [[v.clone().requires_grad_() for v in (x, z)] for _ in range(2)]
    want = quotient(DATA[above](*asked[0]), DATA[below](*asked[0]), "")
    got = einc.compile(f"index t, s : time(T)\ninput x_t, z_t\noutput y_t = {above} / {below}\n", "torch", grad=True)(
        **{key: v for key, v in zip("xz", asked[1], strict=True) if f"{key}_" in above + below})
    torch.testing.assert_close(got, want)
    slopes = (torch.autograd.grad(y.sum(), some, materialize_grads=True)
              for y, some in ((got, asked[1]), (want, asked[0])))
    for mine, theirs in zip(*slopes, strict=True):
        torch.testing.assert_close(mine, theirs)


SPELLED = {1: ("X / (W)", "X (W)^{-1}", "X (1/(W))", "(1/(W)) X", "2 (W)^{-1} X / 2", "\\frac{1}{W} X"),
           2: ("X / (W)^2", "X (W)^{-2}", "(W)^{-1} X (W)^{-1}", "X (1/((W)^2))", "X (W)^{-1} / (W)"),
           0.5: ("X / √(W)", "X (W)^{-1/2}", "(1/√(W)) X", "(W)^{-1/4} X (W)^{-1/4}")}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("kernel_cache")
def test_a_factor_that_divides_is_spelled_in_several_ways(seed: int) -> None:
    """Drawn quotients of data that are 0 in some rows, below the stroke, above it, and both; with their slopes."""
    random, draw = Random(seed), torch.Generator().manual_seed(seed)
    power = random.choice(sorted(SPELLED))
    above, below = random.choice(["x_t", "x_t z_t", "(Σ_{s ≤ t} x_s z_s)"]), random.choice(["z_t", "z_t^2 + abs(x_t)"])
    x, z = torch.rand(2, 7, dtype=torch.float64, generator=draw) + 0.1
    x[:3], z[1:5] = 0, 0
    asked = [[v.clone().requires_grad_() for v in (x, z)] for _ in range(2)]
    mine, theirs = asked
    over = {"x": theirs[0], "(": (theirs[0] * theirs[1]).cumsum(0)}[above[0]] * (theirs[1] if "x_t z" in above else 1)
    under = theirs[1] if below == "z_t" else theirs[1] ** 2 + theirs[0].abs()
    nothing = under == 0
    want = torch.where(nothing, over.detach() / 0, over) / torch.where(nothing, 1.0, under) ** power
    want = torch.where((over == 0) & nothing, 0.0, want)
    for right in random.sample(SPELLED[power], 3):
        body = right.replace("X", above).replace("W", below)
        text = f"index t, s : time(T)\ninput x_t, z_t\noutput y_t = {body}\n"
        (meant,) = meaning(typed(text), {"x": x.numpy(), "z": z.numpy()}, {"T": 7}).values()
        np.testing.assert_allclose(meant, want.detach().numpy(), err_msg=text)
        for backend in ("torch", "cpp") if COMPILER else ("torch",):
            np.testing.assert_allclose(einc.compile(text, backend)(x=x, z=z), want.detach().numpy(), err_msg=text)
        got = einc.compile(text, "torch", grad=True)(x=mine[0], z=mine[1])
        rows = ~nothing
        for one, other in zip(*(torch.autograd.grad(y[rows].sum(), some, retain_graph=True, materialize_grads=True)
                                for y, some in ((got, mine), (want, theirs))), strict=True):
            torch.testing.assert_close(one, other, msg=text)


FEATURES = """
index t, s : time(T)
index d, e : feature(D), feature(E)
input Q_t^d, K_s^d, V_s^e
q_t^d = PHI(Q_t^d)
k_s^d = PHI(K_s^d)
mask A_{t s} : s ≤ t
A_{t s} = q_t^d k_{s d}
output Y_t^e = (Σ_s A_{t s} V_s^e) / Σ_s A_{t s}
"""


@pytest.mark.parametrize(("features", "D"), [("max(0, ARG)", 3), ("exp(ARG)", 3), ("exp(ARG)", 0)])
def test_states_that_are_divided_by_a_sum_that_may_be_0(features: str, D: int) -> None:
    """Features of a query that are all 0, and none at all: its row is 0 / 0, and adds nothing to a gradient."""
    text = FEATURES.replace("PHI(Q_t^d)", features.replace("ARG", "Q_t^d")).replace(
        "PHI(K_s^d)", features.replace("ARG", "K_s^d"))
    function = einc.compile(text, "torch", grad=True)
    draw, T = torch.Generator().manual_seed(1), 300  # positions of several tiles
    Q, K, V = (torch.rand(T, n, dtype=torch.float64, generator=draw) for n in (D, D, 2))
    if "max" in features:
        Q[[2, 290]] = -1.0
    made, plain = ([x.clone().requires_grad_() for x in (Q, K, V)] for _ in range(2))
    got = function(Q=made[0], K=made[1], V=made[2])
    q, k = (x.clamp(min=0) if "max" in features else x.exp() for x in plain[:2])
    scores = (q @ k.T).tril()
    empty = scores.sum(1, keepdim=True) == 0
    want = torch.where(empty, 0, scores @ plain[2] / torch.where(empty, 1, scores.sum(1, keepdim=True)))
    assert_close = torch.testing.assert_close
    assert_close(got, want)
    weights = torch.rand(T, 2, dtype=torch.float64, generator=draw)
    for x, y in zip(torch.autograd.grad(got, made, weights), torch.autograd.grad(want, plain, weights), strict=True):
        assert_close(x, y)
