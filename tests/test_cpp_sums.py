"""Long sums in compiled kernels: what is lost does not grow with the length, whichever loop adds."""

from __future__ import annotations

import pytest
import torch
from cpp_texts import NEEDED, loaded, running
from helpers import arrays, called, tensors, typed
from test_cpp import said, worst

from einc.backends.cpp.growing import RUN, Grown, closed, opened
from einc.backends.writer import Writer

pytestmark = [NEEDED, pytest.mark.usefixtures("kernel_cache")]

HEAD = """index t : time(T)
index s : time(S)
index d : feature(D)
index c, f : feature(F)
input q_t^d, p_t^d, k_s^d, v_s^d, x_t^f, l_s^f
mask L_{t s} : all
mask M_{t s} : all
L_{t s} = q_t^d k_{s d}
M_{t s} = p_t^d k_{s d}
A_{t s} = softmax_s(L_{t s})
"""
LONG = {
    "carried": "output y_t^d = Σ_s A_{t s} v_s^d",
    "largest of shares": "output y_t = max_s A_{t s}",
    "least of shares": "output y_t = min_s A_{t s}",
    "shares": "output y_{t s} = A_{t s}",
    "shares of shares": "B_{t s} = softmax_s(A_{t s})\noutput y_t^d = Σ_s B_{t s} v_s^d",
    "differences": "output y_t = Σ_s (A_{t s} - 3 softmax_s(M_{t s}))^2",
}
WIDE = {
    "pass": "w_t = Σ_f x_t^f^2 / F\noutput y_t^f = tanh(x_t^f) / (1 + w_t)",
    "product": "mask N_{t s} : all\nN_{t s} = x_t^f l_{s f} / F\noutput y_t = max_s tanh(N_{t s})",
    "distance": "output y_t = max_s Σ_f abs(x_t^f - 3 l_s^f)",
}
SCAN = """index t : time(T)
index e : feature(D)
input x_t^e
s^e = 0
for t in 1..T:
    r^e = s^e + x_t^e
    output y_t^e = r^e
    s^e ← r^e
"""
CASES = [
    *((name, HEAD + text, {"T": 9, "S": 20_000, "D": 3, "F": 5}) for name, text in LONG.items()),
    *((name, HEAD + text, {"T": 9, "S": 10, "D": 3, "F": 100_000}) for name, text in WIDE.items()),
    ("product for few rows", HEAD + WIDE["product"], {"T": 3, "S": 10, "D": 3, "F": 100_000}),
]
BOUNDS = {torch.float32: 2e-6, torch.bfloat16: 8e-3}  # of the largest value; torch's own are at 2e-6 and 4e-3
QUICK = ("largest of shares", "differences", "pass", "product")


def _cases() -> list[object]:
    """Every case in both types and at two lengths; without `--whole` one for each loop that adds."""
    return [
        pytest.param(text, {**sizes, "S": longest} if name in LONG else sizes, dtype, id=f"{name}-{dtype}-{longest}",
                     marks=[pytest.mark.whole] * (late > 0 or longest > 20_000 or name not in QUICK))
        for longest in (20_000, 100_000) for late, dtype in enumerate((torch.float32, torch.bfloat16))
        for name, text, sizes in CASES if name in LONG or longest > 20_000 or name in QUICK
    ]


@pytest.mark.parametrize(("text", "sizes", "dtype"), _cases())
def test_long_sums_lose_no_more_than_torch(text: str, sizes: dict[str, int], dtype: torch.dtype) -> None:
    """Addends that are nearly alike: each addition to one long sum would be rounded the same way."""
    program = typed(text)
    given = tensors(arrays(program, sizes, {}), torch.float64)
    given = {key: (1e-5 * value + 0.9 * (key in "xlv")).to(dtype) for key, value in given.items()}
    want, function = said(program, given, sizes), loaded(program, tile=256)
    with running(function) as ran:
        got = called(function, program, given, sizes)
    assert ran and all(ran.values()), ran
    assert worst(got, want) <= BOUNDS[dtype]


def test_running_sums_are_kept_in_double() -> None:
    """A state to which the same number is added at 100,000 positions."""
    function, x = loaded(typed(SCAN)), torch.full((100_000, 3), 0.7123)
    with running(function) as ran:
        got = function(x=x)
    assert ran and all(ran.values()), ran
    assert (got / x.double().cumsum(0) - 1).abs().max() < 1e-7


def test_sums_of_few_numbers_have_no_runs() -> None:
    """A number of addends that is known and small, and a fold that rounds nothing, are one loop."""
    def written(fold: str, *ends: str) -> str:
        body, loops = Writer(), [(f"i{n}", end) for n, end in enumerate(ends)]
        opened(body, [Grown("x", fold, lanes=True)], loops)
        closed(body, [Grown("x", fold, lanes=True)], loops)
        return body.text

    assert all("_run" in written("sum", *ends) for ends in (("n",), (str(RUN + 1),), ("9", "9")))
    assert "_run" not in written("sum", str(RUN)) and "_run" not in written("max", "n")
