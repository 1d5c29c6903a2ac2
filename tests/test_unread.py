"""Values that are infinite, or no number, at positions where nothing reads them: their gradients are those of single
numbers, of which no one computes such a value.

A value is made of a fold that may be over nothing, and read by folds over the same points, or through gates; so it
stands outside of the sum that it scales, shifts or weighs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch
from programs import Case
from test_guards import LETTERS, gradients_agree, kernels_agree

# What a fold runs over, for the row t; without a point for some t.
OVER = ["s < t", "s < t, doc_s = doc_t", "s, s ≤ t - W", "s, s > t + 1", "s, s < doc_t"]
# What a fold is over no points: an infinite number, or a 0 that something is divided by.
MADE = {"greatest": "max_{O} x_s", "least": "min_{O} z_s", "logarithm of a sum": "log(Σ_{O} exp(x_s))",
        "soft maximum": "logsumexp_{O}(z_s)", "sum": "Σ_{O} abs(x_s)", "mean": "(Σ_{O} x_s^2) / (Σ_{O} 1)",
        "of a row": "max_{O} (x_s - z_t)"}
# What is made of it at its own position, steep or infinite where the fold is.
STEEP = {"exponential": "exp(x_t - a_t)", "inverse exponential": "exp(a_t - z_t)", "square": "(x_t - a_t)^2",
         "inverse": "z_t / a_t", "logarithm": "log(abs(a_t) + z_t^2)", "root": "sqrt(abs(a_t))",
         "sigmoid": "sigmoid(x_t - a_t)", "softplus": "log(1 + exp(x_t - a_t))", "power": "abs(a_t)^{3/2}",
         "tanh": "x_t tanh(a_t)", "two": "exp(x_t - a_t) / (1 + a_t^2)"}
# How that is read: by folds over the same points, or through gates that are shut where it is infinite.
READ = {"scaled": "output y = Σ_t Σ_{O} r_t x_s : all",
        "scaled rows": "output y_t = Σ_{O} r_t x_s : all",
        "deviations": "output y_t = Σ_{O} (x_s - 0.3 r_t)^2 : all",
        "variance": "m_t = (Σ_{O} r_t x_s) / (Σ_{O} 1)\noutput y_t = Σ_{O} (r_t x_s - m_t)^2 : all",
        "weights": "output y_t = Σ_{O} softmax_{O}(tanh(r_t) x_s) z_s : all",
        "exponents": "output y_t = Σ_{O} exp(-abs(r_t x_s)) : all",
        "greatest": "output y_t = max(max_{O} (x_s - tanh(r_t)), -9) : all",
        "product": "output y_t = ∏_{O} (1 + 0.1 x_s tanh(r_t)) : all",
        "of sums": "b_t = Σ_{u ≤ t} exp(x_u / 8) r_t\noutput y = Σ_t Σ_{O} b_t x_s : all",
        "gates": "output y_t = 1[n_t > 0] r_t + 1[n_t > 1] z_t r_t : all",
        "choice": "output y_t = 1[n_t > 0] min(max(r_t, -3), 3) + z_t : all",
        "both": "output y_t = Σ_{O} r_t x_s + 1[n_t > 0] r_t : all"}
TEXTS = list(product(MADE, STEEP, READ, range(len(OVER))))


def text(made: str, steep: str, read: str, over: int) -> str:
    """The program of one of each."""
    body = f"n_t = Σ_{{O}} 1\na_t = {MADE[made]}\nr_t = {STEEP[steep]}\n{READ[read]}"
    lines = [line for line in body.split("\n") if not line.startswith("n_t") or "n_t >" in body]
    domain = OVER[over]
    return (LETTERS + "input x_t, z_t\n" + ("input doc_t : int\n" if "doc" in domain else "")
            + "\n".join(lines).replace("{O}", f"{{{domain}}}"))


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    """Where a program gets no numbers it is in float64."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(usual)


@pytest.mark.drawn(194)
@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_what_nothing_reads_reaches_no_gradient(number: int) -> None:
    case = Case(f"guarded{number}", text(*TEXTS[number]), {"T": 5, "W": 2}, {"doc": ("1", "3")})
    kernels_agree(case, [None, (2, 1)])
    gradients_agree(case)


@pytest.mark.parametrize("made", ["greatest", "logarithm of a sum", "of a row"])
def test_a_maximum_over_nothing_is_none_of_what_moves_it(made: str) -> None:
    """What is taken off all that a maximum is of may be no number where that is over nothing: it is not taken off."""
    kernels_agree(Case("guarded0", text(made, "two", "greatest", 2), {"T": 5, "W": 2}), [None, (2, 1)])
