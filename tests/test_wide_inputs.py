"""Inputs of float64 while torch's default type is float32: every number in a file is made in their type,
forward and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

import einc
from einc.driver.compiled import Compiled

HEAD = "index t, s, u : time(T)\nindex z : feature(Z)\ninput c, x_t, w_t^z\noutput {} : all\n"
SCALARS = ("y = c T / 3", "y = Σ_t (t * 1.5) * c", "y = c Σ_{t} Σ_z z / t", "y = Σ_t 1[t > 2] c 0.1",
           "y = Σ_t sqrt(c t)", "y = Σ_t Σ_s Σ_u c sin(t u / 10) sin(u s / 10)", "y = max_t(c / t)",
           "y = Σ_t max(c, t / 3)", "y = (0.1 + c) (T + 0.3)")
ARRAYS = ("y_t = Σ_s softmax_{s ≤ t}(c (t - s) / 3) s / 3", "y_t = Σ_{s ≤ t} exp(-c (t - s)) x_s",
          "y_t = Σ_{s ≤ t} 0.5^{t - s} x_s",
          "y_t = Σ_s cos(t s / 7) x_s", "y = Σ_t Σ_z w_t^z sin(t / 10000^{z / Z})", "y_z = Σ_s cos(z s / 7) x_s c",
          "y = Σ_t Σ_s x_t x_s Σ_u sin(t u / 10) sin(u s / 10)", "y_{t z} = logsumexp_{s ≤ t}((z * 1.5) * c + x_s)")


@contextmanager
def default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def results(form: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """The value and the gradients of a formula where torch makes numbers of a type."""
    with default(torch.float32):
        made = einc.compile(HEAD.format(form), grad=True)
    draw = torch.Generator().manual_seed(1)
    everything = {"c": torch.tensor(0.7, dtype=torch.float64),
                  "x": torch.rand(9, generator=draw, dtype=torch.float64) + 0.5,
                  "w": torch.rand(9, 4, generator=draw, dtype=torch.float64)}
    asked = made.source.partition('"""')[2].partition('"""')[0]
    given = {key: value.requires_grad_() for key, value in everything.items() if f"input  {key} " in asked}
    with default(dtype):
        value = call(made, given)
        return [value.detach(), *torch.autograd.grad(value, list(given.values()), torch.linspace(
            0.5, 1, value.numel(), dtype=torch.float64).view_as(value))]


def call(made: Compiled, given: dict[str, torch.Tensor]) -> torch.Tensor:
    """The function with those of the sizes that it asks for."""
    asked = made.source.partition("def text(")[2].partition(")")[0]
    found: torch.Tensor = made(**given, **{name: size for name, size in (("T", 9), ("Z", 4)) if f" {name}" in asked})
    return found


@pytest.mark.parametrize("form", [*SCALARS[:3], *ARRAYS[:2], *(
    pytest.param(form, marks=pytest.mark.whole) for form in (*SCALARS[3:], *ARRAYS[2:]))])
def test_no_number_is_made_in_the_default_type(form: str) -> None:
    for narrow, wide in zip(results(form, torch.float32), results(form, torch.float64), strict=True):
        assert narrow.dtype == torch.float64
        torch.testing.assert_close(narrow, wide, rtol=1e-13, atol=1e-13)
