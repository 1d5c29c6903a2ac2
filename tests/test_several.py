"""Definitions over one index applied to several: softmax, logsumexp and mean over all points of them together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import einc
from einc.errors.report import EincError

HEAD = "index t, s : time(T)\nindex h : head(H)\nindex d, f : feature(D)\ninput x_{t s}^d, v_{s}^d, q_t^d\n"
Loop = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def causal(x: torch.Tensor) -> torch.Tensor:
    seen = torch.tril(torch.ones(len(x), len(x))) > 0
    return x.masked_fill(~seen[:, :, None], -torch.inf)


def weights(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(causal(x).flatten(1), 1).view(x.shape)


CASES: dict[str, tuple[str, Loop]] = {
    "softmax": ("output y_t = Σ_{s, d, s ≤ t} softmax_{s, d, s ≤ t}(x_{t s}^d) v_s^d",
                lambda x, v, q: torch.einsum("tsd,sd->t", weights(x), v)),
    "softmax of products": ("output y_t = Σ_{s, d, s ≤ t} softmax_{s, d, s ≤ t}(q_t^d v_s^d) v_s^d",
                            lambda x, v, q: torch.einsum("tsd,sd->t", weights(q[:, None] * v), v)),
    "softmax over a part": ("output y_t^f = Σ_{s, d, s ≤ t} softmax_{s, d, s ≤ t}(x_{t s}^d q_t^f) v_s^d",
                            lambda x, v, q: torch.stack([torch.einsum(
                                "tsd,sd->t", weights(x * q[:, None, f, None]), v) for f in range(q.shape[1])], 1)),
    "logsumexp": ("output y_t = logsumexp_{s, d, s ≤ t}(x_{t s}^d)",
                  lambda x, v, q: torch.logsumexp(causal(x).flatten(1), 1)),
    "mean": ("output y_t = mean_{s, d, s ≤ t}(x_{t s}^d)",
             lambda x, v, q: torch.tril(torch.ones(len(x), len(x)))[:, :, None].mul(x).sum((1, 2))
             / (torch.arange(len(x)) + 1) / x.shape[2]),
    "mean over one": ("output y_t^d = mean_{s ≤ t}(x_{t s}^d)",
                      lambda x, v, q: torch.tril(torch.ones(len(x), len(x)))[:, :, None].mul(x).sum(1)
                      / (torch.arange(len(x)) + 1)[:, None]),
    "largest": ("output y_t = max_{s, d, s ≤ t} x_{t s}^d", lambda x, v, q: causal(x).amax((1, 2))),
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (37, 4)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_several_indices_are_one_line_of_points(name: str, size: tuple[int, int]) -> None:
    """The interpreter, the emitted module, its gradient; logarithms of very different sizes."""
    text, loop = HEAD + CASES[name][0] + "\n", CASES[name][1]
    T, D = size
    generator = torch.Generator().manual_seed(T)
    drawn = {"x": torch.randn(T, T, D, generator=generator, dtype=torch.float64) * 5,
             "v": torch.randn(T, D, generator=generator, dtype=torch.float64),
             "q": torch.randn(T, D, generator=generator, dtype=torch.float64)}
    used = CASES[name][0].replace("max_", "")
    inputs = {key: x.requires_grad_() for key, x in drawn.items() if f"{key}_" in used}
    want = loop(**drawn)
    (meant,) = einc.interpret(text, {key: x.detach().numpy() for key, x in inputs.items()}).values()
    np.testing.assert_allclose(meant, want.detach().numpy(), rtol=1e-10, atol=1e-12)
    got = einc.compile(text, backend="torch", grad=True)(**inputs)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
    cotangent = torch.linspace(0.5, 2, want.numel(), dtype=want.dtype).view(want.shape)
    slopes = [torch.autograd.grad((y * cotangent).sum(), list(inputs.values())) for y in (got, want)]
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_large_numbers_do_not_overflow() -> None:
    text = HEAD + CASES["softmax"][0] + "\n"
    made = einc.compile(text, backend="torch")(x=torch.full((4, 4, 3), 800.0), v=torch.ones(4, 3))
    torch.testing.assert_close(made, torch.ones(4))


def test_an_argument_that_is_read_at_one_index_alone_is_refused() -> None:
    """`CE(x, w)` reads x at the label w: that is one number and not two."""
    text = "index b : batch(B)\nindex v : vocab(V)\nindex u : vocab(U)\ninput x_b^{v u}\ninput w_b : int\n"
    with pytest.raises(EincError, match="E0216"):
        einc.compile(text + "output y_b = CE_{v, u}(x_b^{v u}, w_b)\n")
