"""Programs of the second generator (`programs_apart`), whose values torch has beside their texts; and texts by hand of
what it found."""

from __future__ import annotations

import judged_apart
import numpy as np
import pytest
import torch
from helpers import cut, typed

import einc
from einc.backends.torch.load import load
from einc.driver import front

TIME = "index t, s, u : time(T)\ninput x_t, z_t\n"
REQUESTS = "index r : request(R)\nindex t, s : time(T_r)\ndim W\ninput x_{r t}, z_{r t}\n"


@pytest.mark.drawn(20)
@pytest.mark.parametrize("seed", [*range(60), *(pytest.param(n, marks=pytest.mark.whole) for n in range(60, 1000))])
def test_a_program_is_what_torch_says(seed: int) -> None:
    with judged_apart.doubles():
        judged_apart.agrees(seed, compiled=seed % 20 == 0, triton=seed % 25 == 0)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def shares(x: torch.Tensor, back: int) -> torch.Tensor:
    """Softmax of x_s over s ≤ t - back, a row for each t; 0 over nothing."""
    inside = torch.ones(len(x), len(x)).tril(-back) > 0
    weights = torch.where(inside, x.exp(), 0.0)
    return weights / weights.sum(1, keepdim=True).clamp(min=1e-300)


@pytest.mark.parametrize("line", [
    "(Σ_s softmax_{s, s + 2 ≤ t}(x_s)) + Σ_{s < t} z_s y_s",
    "(Σ_s softmax_{s, s + 2 ≤ t}(x_s)) (1 + Σ_{s < t} z_s y_s)",
    "z_t + (Σ_s softmax_{s, s + 2 ≤ t}(x_s) z_s) (Σ_{s < t} z_s y_s)",
    "z_t + mean_{s, s + 2 ≤ t}(x_s) * (Σ_{s < t} z_s y_s)"])
def test_what_has_no_point_is_nothing_in_an_equation_that_reads_itself(line: str) -> None:
    """0 / 0 is 0, and 0 times 1 / 0 is not: a quotient is one factor where its divisor may be 0."""
    x, z = numbers(6), numbers(6)
    weights, count = shares(x, 2), torch.arange(6).sub(1).clamp(min=0)
    mean = torch.stack([x[:n].sum() / n if n else x.new_zeros(()) for n in count])
    found: list[torch.Tensor] = []
    for t in range(6):
        past = sum((z[s] * y for s, y in enumerate(found)), x.new_zeros(()))
        one = weights[t].sum()
        found.append(one + past if ") + " in line else one * (1 + past) if "(1 + " in line
                     else z[t] + (mean[t] if "mean" in line else weights[t] @ z) * past)
    want, text = torch.stack(found), f"{TIME}y_t = {line}\noutput y_t\n"
    torch.testing.assert_close(einc.compile(text, backend="torch")(x=x, z=z), want)
    np.testing.assert_allclose(einc.interpret(text, {"x": x.numpy(), "z": z.numpy()})["y"], want.numpy())


def test_points_of_pairs_are_counted_over_both() -> None:
    """What is known before a tile asks whether a pair is in it, where data choose one position by the other."""
    body = "Σ_{s u} softmax_{s, u, s ≤ t and doc_s < doc_u}(x_s x_u) silu(z_u)"
    text = f"{TIME}input doc_t : int\noutput y_t = {body} : all\n"
    x, z, doc = numbers(7), numbers(7), torch.tensor([3, 3, 2, 5, 1, 4, 0])
    inside = torch.ones(7, 7).tril()[:, :, None] * (doc[:, None] < doc) > 0
    weights = torch.where(inside, (x[:, None] * x).exp(), 0.0)
    weights = weights / weights.sum((1, 2), keepdim=True).clamp(min=1e-300)
    source = front.emit(front.plan(typed(text)))
    for tiles in (None, (2, 1), (3, 4)):
        found = load(cut(source, tiles) if tiles else source, "text")(x=x, z=z, doc=doc)
        torch.testing.assert_close(found, weights.sum(1) @ torch.nn.functional.silu(z))


def test_what_scales_a_sum_reads_where_its_condition_holds() -> None:
    """A factor of a quotient that has values for some positions alone is read where they are, in one order at least."""
    text = ("index t, s : time(T)\nindex h : head(H)\ndim W\ninput q_{t h}, b_h\ninput ptr_t : int\n"
            "mask L_{t s h} : s > W and s < t + W\nL_{t s h} = b_h / (1 + |b_h|) + (t - s) / 8\n"
            "output y_{t h} = ((Σ_s exp(L_{t s h}) q_{ptr_s, h}) / (Σ_s exp(L_{t s h}))) tanh(Σ_s L_{s t h}) : all\n")
    q, b, ptr = numbers(6, 2), numbers(2), torch.tensor([3, 1, 6, 2, 5, 4])
    t, s = torch.arange(1, 7)[:, None], torch.arange(1, 7)
    inside = ((s > 2) & (s < t + 2))[:, :, None]
    logits = torch.where(inside, b / (1 + b.abs()) + ((t - s) / 8)[:, :, None], 0.0)
    weights = torch.where(inside, logits.exp(), 0.0)
    want = quotient(torch.einsum("tsh,sh->th", weights, q[ptr - 1]), weights.sum(1)) * logits.sum(0).tanh()
    torch.testing.assert_close(einc.compile(text, backend="torch")(q=q, b=b, ptr=ptr, W=2), want)


def test_equal_arguments_of_a_maximum_have_the_slope_of_one() -> None:
    """The second argument is never larger, but where it is equal a rounding makes it so: what is known of the
    comparison of the two in one direction holds in the other."""
    text = f"{TIME}input w_t\noutput y_t = max(max(0.5 + x_t, w_t + 2 z_t) + x_t, (x_t + w_t) + 2 z_t)\n"
    x, z, w = (numbers(2000).roll(n).requires_grad_() for n in (0, 1, 2))
    want = torch.autograd.grad((torch.maximum(0.5 + x, w + 2 * z) + x).sum(), [x, z, w])
    found = torch.autograd.grad(einc.compile(text, grad=True, backend="torch")(x=x, z=z, w=w).sum(), [x, z, w])
    for mine, theirs in zip(found, want, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("lines", [
    "set M_{r t} = topk_{s ≤ t}(x_{r s}, W)\noutput y_{r t} = Σ_{s ∈ M_{r t}} z_{r s}\n",
    "set M_{r t} = topk_{s ≤ t}(x_{r s} + 0 z_{r t}, W)\noutput y_{r t} = Σ_{s ∈ M_{r t}} z_{r s}\n",
    "set M_{r t} = topk_{s ≤ t}(x_{r s}, W)\noutput y_{r t} = Σ_{s ≤ t} 1[s ∈ M_{r t}] z_{r s}\n",
    "p_{r t} = topk_{s ≤ t}(x_{r s}, 1)\nq_{r t} = topk_{s ≤ t}(x_{r s}, 2)\n"
    "output y_{r t} = 1[1 ≤ p_{r t}, p_{r t} ≤ t] z_{r, p_{r t}} + 1[1 ≤ q_{r t}, q_{r t} ≤ t] z_{r, q_{r t}} : all\n",
    "for r, t:\n    set M = topk_{s ≤ t}(x_{r s}, W)\n    y = Σ_{s ∈ M} z_{r s}\noutput y_{r t}\n"])
def test_a_set_of_a_request_holds_positions_of_that_request(lines: str) -> None:
    lengths = [4, 1, 3]
    x, z = numbers(8), numbers(8, 1)[:, 0]
    asked = {"W": 2} if "W)" in lines else {}
    found = einc.compile(REQUESTS + lines, backend="torch")(x=x, z=z, T=torch.tensor(lengths), **asked)
    want = [b[:n][a[:n].topk(min(n, 2)).indices].sum() for a, b in zip(x.split(lengths), z.split(lengths), strict=True)
            for n in range(1, len(a) + 1)]
    torch.testing.assert_close(found, torch.stack(want))
    given = {"x": x.numpy(), "z": z.numpy(), "T": np.array(lengths)}
    np.testing.assert_allclose(judged_apart.meaning(typed(REQUESTS + lines), given, {"W": 2})["y"], torch.stack(want))


def quotient(above: torch.Tensor, below: torch.Tensor) -> torch.Tensor:
    """Where both are 0 it is 0."""
    nothing = (above == 0) & (below == 0)
    return torch.where(nothing, 0.0, above / torch.where(nothing, 1.0, below))


@pytest.mark.parametrize("tiles", [None, (2, 1), (3, 4)])
@pytest.mark.parametrize(("below", "right"), [("w_s", "{} * k_s^f"), ("w_t", "{} * k_s^f"), ("w_s", "{}"),
                                              ("w_t w_s", "{}")])
def test_what_nothing_divides_is_not_carried(below: str, right: str, tiles: tuple[int, int] | None) -> None:
    """Keys of padding are 0 and so are their norms: tiles carry sums of quotients, and none of reciprocals times 0."""
    text = (f"{TIME}index d, f : feature(2)\ninput k_t^d, w_t\n"
            f"output y_t{'^f' * ('f' in right)} = Σ_{{s ≤ t}} {right.format(f'((k_t^d k_{{s d}}) / ({below}))')}\n")
    k = torch.stack([numbers(7), numbers(7).flip(0)], 1)
    k[[0, 2, 5]] = 0
    w = k.norm(dim=1)
    divisor = {"w_s": w[None], "w_t": w[:, None], "w_t w_s": w[None] * w[:, None]}[below].expand(7, 7)
    pairs = quotient(k @ k.T, divisor).tril()
    want = pairs @ k if "f" in right else pairs.sum(1)
    source = front.emit(front.plan(typed(text)))
    found = load(cut(source, tiles) if tiles else source, "text")(k=k, w=w)
    torch.testing.assert_close(found, want)


@pytest.mark.parametrize("right", ["m_t^f * tanh(n_t^f)", "m_t^f * n_t^f", "m_t^f * tanh(n_t^f / g_t)",
                                   "n_t^f * m_t^f / g_t"])
def test_a_definition_stands_in_the_place_of_its_name_beside_what_it_is_made_of(right: str) -> None:
    """m is taken in, and n, of which it is made, was read already."""
    text = (f"{TIME}index d, f : feature(D)\ninput y_t^d, w_d^f, g_t\n"
            f"n_t^f = Σ_d y_t^d w_d^f\nm_t^f = n_t^f / g_t\noutput z_t^f = {right}\n").replace("input x_t, z_t\n", "")
    y, w, g = numbers(5, 3), numbers(3, 3), numbers(5)
    n = y @ w
    m = n / g[:, None]
    want = {"m_t^f * tanh(n_t^f)": m * n.tanh(), "m_t^f * n_t^f": m * n, "m_t^f * tanh(n_t^f / g_t)": m * m.tanh(),
            "n_t^f * m_t^f / g_t": n * m / g[:, None]}[right]
    torch.testing.assert_close(einc.compile(text, backend="torch")(y=y, w=w, g=g), want)


@pytest.mark.parametrize("factor", ["abs(t - t)", "(t - t + W)", "1 / (1 + exp(-abs(t - t) / W))"])
def test_a_number_that_each_round_of_a_request_has_a_part_of(factor: str) -> None:
    """What follows from no data has a slot that counts the rounds, though it is the same in each."""
    text = f"{REQUESTS}a_{{r t}} = {factor}\noutput y_{{r t}} = 1[t > 1] a_{{r t}} y_{{r, t - 1}} + x_{{r t}}\n"
    lengths, x, found = [3, 2], numbers(5), list[torch.Tensor]()
    number = {"a": 0.0, "(": 2.0, "1": 0.5}[factor[0]]
    for at in (0, 1, 2, 0, 1):
        found.append(x[len(found)] + (number * found[-1] if at else 0))
    given = {key: n for key, n in (("W", 2),) if key in factor}
    made = einc.compile(text.replace("dim W\n", "dim W\n" if given else ""), backend="torch")
    torch.testing.assert_close(made(x=x, T=torch.tensor(lengths), **given), torch.stack(found))


@pytest.mark.parametrize("fold", [
    "prod_s {}", "prod_{{s, s ≠ t}} tanh({})", "Σ_s {} x_s", "max_s {}", "Σ_{{s ≤ t}} (softmax_{{s ≤ t}}({}))^2"])
def test_factors_below_a_stroke_that_data_make_0(fold: str) -> None:
    """Each factor of a divisor is held against 0: a part of the slope with the letters of one alone is named, and was
    infinite there, which a product of matrices times 0 made NaN.
    """
    w = torch.tensor([0.0, 2.0, 0.0, 3.0], dtype=torch.float64)
    x, z = numbers(4), numbers(5)[:4]
    asked = [[v.clone().requires_grad_() for v in (x, z, w)] for _ in range(2)]

    def evaluated(x: torch.Tensor, z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        below = w[:, None] * w
        a = torch.where(below == 0, 0.0, z * below / torch.where(below == 0, 1.0, below))
        if fold.startswith("prod_s"):
            return a.prod(1)
        if fold.startswith("prod"):
            return torch.where(torch.eye(4) > 0, 1.0, a.tanh()).prod(1)
        if fold.startswith("max"):
            return a.amax(1)
        past = torch.ones(4, 4).tril() > 0
        return (a @ x) if "softmax" not in fold else (torch.where(past, a, -torch.inf).softmax(1) ** 2).sum(1)

    body = fold.format("((z_s w_t w_s) / (w_t w_s))")
    text = f"index t, s : time(T)\ninput x_t, z_t, w_t\noutput y_t = {body} : all\n"
    given = {key: v for key, v in zip("xzw", asked[0], strict=True) if key != "x" or " x_s" in fold}
    got, want = einc.compile(text, "torch", grad=True)(**given), evaluated(*asked[1])
    torch.testing.assert_close(got, want)
    for mine, theirs in zip(*(torch.autograd.grad(y.sum(), some, materialize_grads=True, allow_unused=True)
                              for y, some in ((got, asked[0]), (want, asked[1]))), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=1e-9)


def test_what_is_far_from_1_in_one_round_is_that_rounds_own() -> None:
    """The interpreter keeps such numbers in two parts, which were those of the last round for all of them."""
    x = np.array([[0.001, 23.6], [0.001, 47.2], [31.7, 38.3], [63.4, 76.6]])
    text = "index t, s : time(T)\nindex h : head(H)\ninput x_{t h}\n" \
           "output y_{t h} = exp(-(x_{t h})^2) + Σ_{s < t} (1 / 5) y_{s h}\n"
    found: list[np.ndarray] = []
    for row in np.exp(-x**2):
        found.append(row + sum(found) / 5)
    np.testing.assert_allclose(einc.interpret(text, {"x": x})["y"], np.array(found), rtol=1e-12)
