"""Heads that share: an element read by a run of indices is a view where the runs are of
one length, a copy elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import einc
from einc.ir.plan import BroadcastView

TEXT = """
index h : head(H)
index g : head(G)
index t, s : time(T)
index d, k : feature(D)
map π(h) = {map} : g
input Q_{{h t}}^d, K_{{g s}}^d, V_{{g s}}^d, m_h
mask L_{{h t s}} : s ≤ t
L_{{h t s}} = Q_{{h t}}^k K_{{π(h), s k}} - m_h (t - s) + h/4
output Y_{{h t}}^d = Σ_s softmax_s(L_{{h t s}}) V_{{π(h), s}}^d
"""
MAPS = {
    "ceil": "ceil(h G / H)",
    "floor": "floor((h - 1) G / H) + 1",
    "round robin": "mod(h - 1, G) + 1",
    "one further": "min(ceil(h G / H) + 1, G)",
}
SIZES = [(8, 2), (6, 3), (6, 4), (5, 5), (7, 1), (3, 2), (1, 1)]


def the_only(outputs: dict[str, np.ndarray]) -> np.ndarray:
    (value,) = outputs.values()
    return value


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("heads", "shared"), SIZES)
@pytest.mark.parametrize("name", MAPS)
def test_as_the_interpreter(name: str, heads: int, shared: int) -> None:
    text = TEXT.format(map=MAPS[name])
    draw = np.random.default_rng(heads * 10 + shared)
    shapes = {"Q": (heads, 9, 4), "K": (shared, 9, 4), "V": (shared, 9, 4), "m": (heads,)}
    data = {key: draw.normal(size=shape) for key, shape in shapes.items()}
    found = einc.compile(text)(**{key: torch.from_numpy(x) for key, x in data.items()})
    np.testing.assert_allclose(found.numpy(), the_only(einc.interpret(text, data)), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", MAPS)
def test_only_runs_of_one_length_are_views(name: str) -> None:
    views = [step for step in einc.compile(TEXT.format(map=MAPS[name])).plan.steps if isinstance(step, BroadcastView)]
    assert len(views) == (2 if name in ("ceil", "floor") else 0)


def test_no_copy_where_the_runs_are_equal() -> None:
    call = einc.compile(TEXT.format(map=MAPS["ceil"]))
    shapes = {"Q": (8, 64, 16), "K": (2, 64, 16), "V": (2, 64, 16), "m": (8,)}
    data = {key: torch.randn(shape) for key, shape in shapes.items()}
    gathers = 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal gathers
            gathers += func is torch.ops.aten.index.Tensor
            return func(*args, **(kwargs or {}))

    with Count():
        call(**data)
    assert gathers == 0


def test_sums_over_the_shared_index() -> None:
    text = TEXT.format(map=MAPS["ceil"]).replace("output Y_{h t}", "Y_{h t}") + "output Z_t^d = Σ_h Y_{h t}^d\n"
    draw = np.random.default_rng(0)
    shapes = {"Q": (6, 7, 4), "K": (2, 7, 4), "V": (2, 7, 4), "m": (6,)}
    data = {key: draw.normal(size=shape) for key, shape in shapes.items()}
    found = einc.compile(text)(**{key: torch.from_numpy(x) for key, x in data.items()})
    np.testing.assert_allclose(found.numpy(), the_only(einc.interpret(text, data)), rtol=1e-9)
