"""Sums over pairs of positions whose terms come apart: in pairs or with states, by what each costs at the call."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import typed

import einc
from einc.driver import front
from einc.driver.gradients import gradient
from einc.driver.reports.costing import modules
from einc.ir.choices import Choices
from einc.ir.plan import Choose
from einc.planning.contractions.choose import reckoned

HEAD = """index t, s : time(T)
index d : feature(D)
index e : feature(E)
input q_t^d, k_s^d, v_s^e
x_{t s} = Σ_d q_t^d k_s^d
"""
WEIGHTS = {"x_{t s}": lambda x: x, "x_{t s}^2": lambda x: x**2, "1 + x_{t s} + x_{t s}^2/2": lambda x: 1 + x + x**2 / 2,
           "x_{t s}^3 + x_{t s}": lambda x: x**3 + x}
SIZES = [(1, 3, 2), (2, 1, 1), (17, 4, 3), (130, 2, 3), (300, 2, 5), (300, 9, 2)]


def text(weight: str) -> str:
    return f"{HEAD}output y_t^e = (Σ_{{s ≤ t}} ({weight}) v_s^e) / (9 + Σ_{{s ≤ t}} ({weight})^2)"


def plainly(weight: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The same over all pairs, in plain torch."""
    w = torch.tril(WEIGHTS[weight](q @ k.T))
    return w @ v / (9 + (w**2).sum(1, keepdim=True))


@pytest.mark.parametrize("weight", WEIGHTS)
def test_both_ways_are_the_sum_and_its_gradient(weight: str) -> None:
    """The sizes make a call take the one way or the other."""
    made = einc.compile(text(weight), backend="torch", grad=True)
    for n, (T, D, E) in enumerate(SIZES):
        random = torch.Generator().manual_seed(n)
        given = [torch.randn(T, m, generator=random, dtype=torch.float64).mul_(0.7).requires_grad_() for m in (D, D, E)]
        dy = torch.randn(T, E, generator=random, dtype=torch.float64)
        found = []
        for way in (lambda q, k, v: plainly(weight, q, k, v), lambda q, k, v: made(q=q, k=k, v=v)):
            y = way(*given)
            found.append([y.detach(), *torch.autograd.grad((y * dy).sum(), given)])
        for one, other in zip(*found, strict=True):
            assert (one - other).abs().max() <= 1e-9 * (1 + one.abs().max()), (T, D, E)


LETTERS = {
    "x_{t s} x_{t s} k_s^d": lambda x, u, k, z: (x * x) @ k,
    "2 x_{t s} (u_{t s} + x_{t s} z_t^d) k_s^d": lambda x, u, k, z: 2 * (x * u) @ k + 2 * ((x * x) @ k) * z,
    "x_{t s}^3 z_t^d": lambda x, u, k, z: (x**3).sum(1, keepdim=True) * z,
    "x_{t s}^2 / (1 + (z_t^d)^2)": lambda x, u, k, z: (x**2).sum(1, keepdim=True) / (1 + z**2),
    "(x_{t s}^2 / (1 + (z_t^d)^2)) k_s^d": lambda x, u, k, z: (x**2) @ k / (1 + z**2),
    "x_{t s} u_{t s} x_{t s} k_s^d / 7": lambda x, u, k, z: (x * u * x) @ k / 7,
}


@pytest.mark.parametrize("body", LETTERS)
def test_what_a_copy_sums_over_has_letters_of_its_own(body: str) -> None:
    """A power of a sum is one sum over several letters, none of which is another letter of the term."""
    spec = (f"{HEAD}input z_t^d\nu_{{t s}} = Σ_e v_t^e v_s^e\noutput y_t^d = Σ_{{s ≤ t}} {body}").replace(
        "feature(D)", "feature(3)")
    random = torch.Generator().manual_seed(3)
    q, k, v, z = (torch.randn(150, 3, generator=random, dtype=torch.float64) for _ in range(4))
    made = einc.compile(spec, backend="torch")
    given = {"q": q, "k": k, "v": v, "z": z}
    got = made(**{t.key: given[t.key] for t in made.program.inputs()})
    want = LETTERS[body](torch.tril(q @ k.T), torch.tril(v @ v.T), k, z)
    assert (got - want).abs().max() <= 1e-10 * want.abs().max()


def taken(plan: object, sizes: dict[str, int]) -> float:
    """What a call costs at given sizes."""
    return sum(reckoned(module, sizes) for _, module, _ in modules(plan))  # type: ignore[arg-type]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_features_of_a_polynomial_by_cost(grad: bool, ordered: bool) -> None:
    """Few features make the work grow as the positions do; of many, pairs cost less."""
    program, choices = typed(text("1 + x_{t s} + x_{t s}^2/2").replace(")^2)", "))")), Choices(ordered=ordered)
    plan = gradient(program, choices) if grad else front.plan(program, choices)
    assert any(isinstance(step, Choose) for _, module, _ in modules(plan) for step in module.steps)
    few, many = {"D": 8, "E": 32}, {"D": 256, "E": 32}
    assert taken(plan, {**few, "T": 32768}) <= 2.1 * taken(plan, {**few, "T": 16384})
    assert taken(plan, {**many, "T": 8192}) >= 3 * taken(plan, {**many, "T": 4096})


@pytest.mark.parametrize("name", ["gallery/retention", "gallery/linear"])
def test_the_gradient_of_linear_attention_is_linear(name: str) -> None:
    spec = (Path(__file__).parent.parent / "specs" / f"{name}.ein").read_text(encoding="utf-8")
    plan = gradient(typed(spec), Choices(ordered=True))
    sizes = {"H": 2, "d_k": 16, "d_v": 16, "B": 1}
    assert taken(plan, {**sizes, "T": 65536}) <= 2.1 * taken(plan, {**sizes, "T": 32768})


@pytest.mark.parametrize("T", [1, 2, 5, 300])
@pytest.mark.parametrize("domain", ["s < t", "s ≤ t"])
def test_what_divides_by_nothing_before_the_first(domain: str, T: int) -> None:
    """In a row without a point, and in the first tile, no infinite factor meets the 0 of a sum over nothing."""
    spec = f"index t, s : time(T)\ninput x_s, g_t\noutput y_t = Σ_{{{domain}}} x_s / g_t"
    random = torch.Generator().manual_seed(T)
    x, g = (torch.randn(T, generator=random, dtype=torch.float64) for _ in range(2))
    g[0] = 0
    got = einc.compile(spec, backend="torch")(x=x, g=g)
    sums = torch.cumsum(x, 0) - (x if domain == "s < t" else 0)
    want = torch.where((torch.arange(T) == 0) & (domain == "s < t"), torch.zeros_like(x), sums / g)
    assert torch.allclose(got[1:], want[1:], atol=1e-12)
    assert got[0] == want[0] or domain == "s ≤ t"


@pytest.mark.parametrize("T", [1, 5, 300])
def test_what_divides_by_nothing_beside_an_addend(T: int) -> None:
    """Each addend is a sum of its own, whose factor is infinite where the sum is over nothing."""
    spec = "index t, s : time(T)\ninput x_s, g_t\noutput y_t = Σ_{s < t} x_s (1 / g_t + x_s)"
    x, g = torch.randn(2, T, generator=torch.Generator().manual_seed(T), dtype=torch.float64)
    g[0] = 0
    want = (torch.cumsum(x, 0) - x)[1:] / g[1:] + (torch.cumsum(x * x, 0) - x * x)[1:]
    got = einc.compile(spec, backend="torch")(x=x, g=g)
    torch.testing.assert_close(got, torch.cat([x.new_zeros(1), want]))
