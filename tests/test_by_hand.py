"""Programs that were written to be hard, each beside plain torch: masks with `or`, two and three passes, columns beside
rows, quotients by what may be 0, gates with shifts, folds over nothing, states that are not linear."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers import cut, meaning, typed

from einc.backends.torch.load import load
from einc.driver import front

Tensor = torch.Tensor
T = 9
HEAD = "index t, s, u : time(T)\nindex d, e : feature(D)\ninput x_t, z_t, w_t, k_t^d\n"
LOGITS = "mask L_{t s} : s ≤ t\nL_{t s} = k_t^d k_{s d}\nA_{t s} = softmax_s(L_{t s})\n"
PLACE = torch.arange(1, T + 1)
UPTO, BEFORE = PLACE[None] <= PLACE[:, None], PLACE[None] < PLACE[:, None]
EITHER = (PLACE[None] <= PLACE[:, None] - 5) | (PLACE[None] == 2) | (UPTO & (PLACE[None] > PLACE[:, None] - 2))


def drawn() -> dict[str, Tensor]:
    """Data in which some of w are 0, and x and k where w is."""
    draw = torch.Generator().manual_seed(19)
    made = {key: torch.randn(shape, generator=draw, dtype=torch.float64)
            for key, shape in (("x", (T,)), ("z", (T,)), ("w", (T,)), ("k", (T, 3)))}
    for key in "xwk":
        made[key][[0, 3, 7]] = 0
    return made


def ratio(above: Tensor, below: Tensor) -> Tensor:
    """A quotient; 0 where both are 0."""
    nothing = (above == 0) & (below == 0)
    return torch.where(nothing, 0.0, above / torch.where(nothing, 1.0, below))


def shares(logits: Tensor, inside: Tensor) -> Tensor:
    """The rows of a softmax, 0 over nothing."""
    kept = torch.where(inside, logits, -math.inf)
    most = kept.amax(1, keepdim=True)
    weights = torch.where(inside, (kept - torch.where(most > -math.inf, most, 0.0)).exp(), 0.0)
    return ratio(weights, weights.sum(1, keepdim=True))


def total(values: Tensor, inside: Tensor = UPTO) -> Tensor:
    """Sums of rows over what is inside."""
    return torch.where(inside, values, 0.0).sum(1)


def before(x: Tensor, by: int = 1) -> Tensor:
    """x at earlier positions, 0 at the first."""
    return torch.cat([x.new_zeros(by), x[:-by]])


def third(z: Tensor, k: Tensor) -> Tensor:
    """A third central moment beside the second."""
    weights = shares(k @ k.T, UPTO)
    away = z[None] - (weights @ z)[:, None]
    return (weights * away**3).sum(1) / (1 + (weights * away**2).sum(1))


def products(x: Tensor, z: Tensor) -> Tensor:
    """Sums weighed by products over intervals."""
    gates, rows = x.tanh(), []
    for t in range(T):
        rows.append(torch.stack([gates[s + 1 : t + 1].prod() * z[s] * z[t] for s in range(t + 1)]).sum())
    return torch.stack(rows)


def states(x: Tensor, z: Tensor) -> Tensor:
    """Two states, one of which is not linear."""
    a, b, rows = torch.zeros(()), torch.zeros(()), []
    for t in range(T):
        a, b = x[t].tanh() * a + b * z[t] / 2, b.tanh() + z[t]
        rows.append(a)
    return torch.stack(rows)


def gated(x: Tensor, z: Tensor, w: Tensor) -> Tensor:
    """A state whose gate is a quotient."""
    state, rows = torch.zeros(()), []
    for gate, more in zip(ratio(x, w), z, strict=True):
        state = gate * state + more
        rows.append(state)
    return torch.stack(rows)


PROGRAMS: dict[str, Callable[..., Tensor]] = {
    "mask L_{t s} : s ≤ t - 5 or s = 2 or (s > t - 2 and s ≤ t)\nL_{t s} = k_t^d k_{s d}\n"
    "output y_t = Σ_s softmax_s(L_{t s}) z_s + max_s L_{t s} : all": lambda z, k: (
        shares(k @ k.T, EITHER) @ z + torch.where(EITHER, k @ k.T, -math.inf).amax(1)),
    f"{LOGITS}c_t = Σ_s A_{{t s}} z_s\nv_t = Σ_s A_{{t s}} (z_s - c_t)^2\n"
    "output y_t = (Σ_s A_{t s} (z_s - c_t)^3) / (1 + v_t)": third,
    f"{LOGITS}output y_t = (Σ_s A_{{t s}} z_s) + Σ_s A_{{s t}} z_s : all": lambda z, k: (
        shares(k @ k.T, UPTO) @ z + shares(k @ k.T, UPTO).T @ z),
    f"{LOGITS.replace('≤', '<')}output y_t = Σ_s softmax_s(3 A_{{t s}}) z_s": lambda z, k: (
        shares(3 * shares(k @ k.T, BEFORE), BEFORE) @ z),
    f"{LOGITS}output y_t = Σ_s A_{{t s}} log(A_{{t s}})": lambda k: total(
        shares(k @ k.T, UPTO) * torch.where(UPTO, shares(k @ k.T, UPTO), 1.0).log()),
    f"{LOGITS}output y_t = Σ_s A_{{t s}} ((z_s w_s) / (w_s w_s)) (w_t / z_t)": lambda z, w, k: (
        shares(k @ k.T, UPTO) @ ratio(z * w, w * w) * (w / z)),
    "output y_t = Σ_{s ≤ t} (1[s > 2] x_{s-2} - 1[s > 1] z_{s-1}) (1[t > 1] x_{t-1} + z_s)": lambda x, z: total(
        (before(x, 2) - before(z))[None] * (before(x)[:, None] + z[None])),
    "m_t = max_{s < t} x_s\noutput y_t = Σ_{s < t} exp(x_s - m_t) z_s": lambda x, z: torch.stack(
        [((x[:t] - x[:t].max()).exp() * z[:t]).sum() if t else torch.zeros(()).double() for t in range(T)]),
    "output y_t = (max_{s ≤ t} min(x_s, z_t)) - min_{s ≤ t} (x_s z_t)": lambda x, z: (
        torch.where(UPTO, torch.minimum(x[None], z[:, None]), -math.inf).amax(1)
        - torch.where(UPTO, x[None] * z[:, None], math.inf).amin(1)),
    "output y_t = Σ_{s ≤ t} (∏_{u ∈ (s, t]} tanh(x_u)) z_s z_t": products,
    "a = 0\nb = 0\nfor t in 1..T:\n    n = tanh(x_t) a + b z_t / 2\n    a ← n\n    b ← tanh(b) + z_t\n"
    "    output y_t = n": states,
    "output y_t = log(1 + Σ_{s ≤ t} exp(900 x_s))": lambda x: torch.logaddexp(
        torch.zeros(T), torch.where(UPTO, 900 * x[None], -math.inf).logsumexp(1)),
    "output y_t = (x_t Σ_{s ≤ t} z_s) / w_t": lambda x, z, w: ratio(x * z.cumsum(0), w),
    "output y_t = Σ_{s ≤ t} (x_t / w_t) z_s": lambda x, z, w: ratio(x, w) * z.cumsum(0),
    "output y_t = Σ_{s ≤ t} (x_s / w_s) z_t": lambda x, z, w: ratio(x, w).cumsum(0) * z,
    "output y_t = Σ_{s ≤ t} (k_t^d k_{s d}) / (w_t w_s)": lambda w, k: total(ratio(k @ k.T, w[:, None] * w)),
    "output y_t^e = Σ_{s ≤ t} ((k_t^d k_{s d}) / w_s) k_s^e": lambda w, k: (
        torch.where(UPTO, ratio(k @ k.T, w[None].expand(T, T)), 0.0) @ k),
    "output y_t = 1[t > 1] (x_t / w_t) y_{t-1} + z_t": gated,
    "output y_t = 1[t > 1] y_{t-1} / 2 + x_t z_t / w_t": lambda x, z, w: gated(torch.full_like(x, 0.5), ratio(x * z, w),
                                                                              torch.ones_like(w)),
    "output y_t = (Σ_{s < t} softmax_{s < t}(x_s) z_s) + mean_{s < t}(z_s)": lambda x, z: (
        shares(x[None].expand(T, T), BEFORE) @ z + ratio(before(z.cumsum(0)), (PLACE - 1).double())),
}


@pytest.mark.parametrize("lines", PROGRAMS)
def test_a_hard_program_is_what_torch_says(lines: str) -> None:
    data, of = drawn(), PROGRAMS[lines]
    want = of(**{key: data[key] for key in inspect.signature(of).parameters})
    text = HEAD + lines + "\n"
    program = typed(text)
    given = {key: data[key] for key in (t.key for t in program.inputs())}
    found = meaning(program, {key: x.numpy() for key, x in given.items()}, {})
    np.testing.assert_allclose(next(iter(found.values())), want.numpy(), rtol=1e-9, atol=1e-12)
    source = front.emit(front.plan(program))
    for tiles in (None, (2, 1), (3, 4)):
        torch.testing.assert_close(load(cut(source, tiles) if tiles else source, "text")(**given), want)
