"""Values of two positions that a gate chooses between, in one sum: the gradient of each choice has its own domain, and
a kernel that makes both visits the points of both."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product

import pytest
import torch
from helpers import cut

import einc
from einc.backends.torch.load import load

SIZE = 6
T, S = torch.arange(1, SIZE + 1)[:, None], torch.arange(1, SIZE + 1)[None]
Given = dict[str, torch.Tensor]
OVER: dict[str, Callable[[int], torch.Tensor]] = {"s ≤ t": lambda w: S <= T, "2 s ≤ t": lambda w: 2 * S <= T,
                                                  "s ≠ t": lambda w: S != T}
GATES: dict[str, Callable[[int], torch.Tensor]] = {
    "s + W ≤ t": lambda w: S + w <= T, "s > t - W": lambda w: T - w < S, "s ≥ W": lambda w: (w <= S).expand(SIZE, SIZE),
    "t ≤ W": lambda w: (w >= T).expand(SIZE, SIZE), "s < t": lambda w: S < T}
HERE: dict[str, Callable[[Given], torch.Tensor]] = {"x_s": lambda g: g["x"][None],
                                                    "x_{ptr_s}": lambda g: g["x"][g["ptr"] - 1][None]}
LEAST: dict[str, Callable[[Given], torch.Tensor]] = {"t / 2": lambda g: T / 2, "v_t": lambda g: g["v"][:, None]}
THERE: dict[str, Callable[[Given, int], torch.Tensor]] = {
    "tanh(z_t)": lambda g, w: g["z"].tanh(), "z_{ptr_t}": lambda g, w: g["z"][g["ptr"] - 1],
    "z_{min(t + W, T)}": lambda g, w: g["z"][(T[:, 0] + w).clamp(max=SIZE) - 1]}
CASES = list(product(OVER, GATES, HERE, LEAST, THERE))


def wanted(case: tuple[str, str, str, str, str], given: Given, w: int) -> torch.Tensor:
    """The output in plain torch."""
    over, gate, here, least, there = case
    chosen = torch.where(GATES[gate](w), torch.minimum(HERE[here](given), LEAST[least](given)),
                         THERE[there](given, w)[:, None])
    pairs = chosen[..., None] * torch.minimum(given["u"][:, None], given["q"][:, None, :])
    return torch.where(OVER[over](w)[..., None], pairs, 0).sum(1)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", [
    pytest.param(n, marks=[pytest.mark.whole] * (n % 17 > 0)) for n in range(len(CASES))])
def test_each_choice_has_the_gradient_of_its_own_points(seed: int) -> None:
    over, gate, here, least, there = CASES[seed]
    run = einc.compile(
        "index t, s : time(T)\nindex h : head(H)\ndim W\ninput x_t, z_t, u_t, v_t, q_{t h}\ninput ptr_t : int\n"
        f"output y_{{t h}} = Σ_{{s, {over}}} (1[{gate}] min({here}, {least}) + 1[not ({gate})] ({there})) "
        "min(u_s, q_{t h}) : all", grad=True, backend="torch")
    draw = torch.Generator().manual_seed(seed)
    given = {key: torch.randn(shape, generator=draw, dtype=torch.float64) for key, shape in
             {"x": (SIZE,), "z": (SIZE,), "u": (SIZE,), "v": (SIZE,), "q": (SIZE, 2)}.items()}
    moved = [x.requires_grad_() for x in given.values()]
    given["ptr"] = torch.randint(1, SIZE + 1, (SIZE,), generator=draw)
    cotangent = torch.randn(SIZE, 2, generator=draw, dtype=torch.float64)
    asked = inspect.signature(run).parameters
    for function, w in product((run, load(cut(run.source, (2, 1)), "text")), (2, 9)):
        found = function(**{key: x for key, x in (given | {"W": w}).items() if key in asked})
        want = wanted(CASES[seed], given, w)
        torch.testing.assert_close(found, want)
        pairs = (torch.autograd.grad((x * cotangent).sum(), moved, allow_unused=True, materialize_grads=True)
                 for x in (found, want))
        for derived, other in zip(*pairs, strict=True):
            torch.testing.assert_close(derived, other)
