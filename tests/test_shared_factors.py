"""Gradients of operations with many arguments: what their slopes share,
and operators with more tensors than torch's may have.
"""

from __future__ import annotations

import math

import pytest
import torch
from test_documents_sources import calls

import einc
from einc.driver import pipeline
from einc.driver.checking import typed
from einc.transforms.gradients.shared_factors import FEW, shared_factors
from einc.transforms.normal.normalise import flat

HEAD = "index t, s : time(T)\nindex d : feature(D)\n"
FORMS = {
    "product": ("y_t = {}", ["x_{{{} t}}"], lambda x: x.prod(0)),
    "product and numbers": ("y_t = 3 t {}", ["x_{{{} t}}"], lambda x: 3 * torch.arange(1, x.shape[1] + 1) * x.prod(0)),
    "largest": ("y_t = max(0.9, {})", ["x_{{{} t}}"], lambda x: x.amax(0).clamp(min=0.9)),
    "under a fold": ("y_t = Σ_{{s ≤ t}} {}", ["x_{{{} s}}"], lambda x: x.prod(0).cumsum(0)),
    "of two indices": ("y_t = Σ_{{s ≤ t}} {}", ["x_{{{} s}}", "x_{{{} t}}"],
                       lambda x: x[1::2].prod(0) * x[::2].prod(0).cumsum(0)),
    "shifted": ("y_t = 1[t > 1] ({})", ["x_{{{}, t - 1}}"], lambda x: torch.cat([torch.zeros(1), x.prod(0)[:-1]])),
}


def inputs(n: int, length: int = 5) -> torch.Tensor:
    draw = torch.Generator().manual_seed(n)
    return torch.rand(n, length, dtype=torch.float64, generator=draw) * 0.4 + 0.8


@pytest.mark.drawn(5)
@pytest.mark.parametrize("count", [FEW, FEW + 1, 20, pytest.param(FEW * FEW + 3, marks=pytest.mark.whole)])
@pytest.mark.parametrize("name", FORMS)
def test_slopes_of_many_arguments_are_those_of_torch(name: str, count: int) -> None:
    form, reads, wanted = FORMS[name]
    names = [reads[n % len(reads)].format(n) for n in range(count)]
    body = form.format((", " if "max" in form else " ").join(names))
    given = ", ".join(f"x_{{{n} t}}" for n in range(count))
    made = einc.compile(f"{HEAD}input {given}\noutput {body}\n", grad=True)
    x = inputs(count).requires_grad_()
    value = made(**{f"x_{n}": row for n, row in enumerate(x)})
    cotangent = torch.linspace(-1, 1, 5, dtype=torch.float64)
    (found,) = torch.autograd.grad(value, x, cotangent)
    (right,) = torch.autograd.grad(wanted(x).to(torch.float64), x, cotangent)
    torch.testing.assert_close(value, wanted(x).to(torch.float64))
    torch.testing.assert_close(found, right)


def test_no_part_has_many_arguments_and_few_have_no_part() -> None:
    def parts(count: int) -> list[str]:
        names = " ".join(f"x_{{{n} t}}" for n in range(count))
        text = f"{HEAD}input {names.replace(' x', ', x')}\noutput y_t = {names}\n"
        program = shared_factors(flat(pipeline.normal(typed(text))))
        assert all(len(e.body.args) <= FEW for e in program.equations)  # type: ignore[union-attr]
        return [e.target for e in program.equations]

    assert parts(FEW) == ["y_t"] or len(parts(FEW)) == 1
    assert len(parts(FEW * FEW)) == FEW + 1


@pytest.mark.parametrize("count", [61, pytest.param(80, marks=pytest.mark.whole)])
def test_an_operator_takes_a_list_where_torch_has_no_more_arguments(count: int) -> None:
    """At 61 inputs only the second half has too many; some inputs have no gradient, and a size is given beside them."""
    names = [f"x_{{{n} t}}" for n in range(count)]
    total = f"D tensors_t ({' + '.join(names)}) {names[0]}"
    text = f"{HEAD}input {', '.join(names)}, q_t^d, tensors_t\noutput y_t = {total}\noutput z_t = Σ_d q_t^d\n"
    made = einc.compile(text, grad=True)
    x, q, more = inputs(count), torch.rand(5, 3, dtype=torch.float64), torch.rand(5, dtype=torch.float64)
    rows = [row.clone().requires_grad_(n % 2 == 0) for n, row in enumerate(x)]
    y, _ = made(q=q, tensors=more, **{f"x_{n}": row for n, row in enumerate(rows)})
    y.sum().backward()
    torch.testing.assert_close(rows[2].grad, 3 * more * x[0])
    torch.testing.assert_close(rows[0].grad, 3 * more * (x[0] + x.sum(0)))
    assert rows[1].grad is None
    compiled = torch.compile(lambda **k: made(q=q, tensors=more, **k)[0], backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(**{f"x_{n}": row for n, row in enumerate(rows)}), y)


GROWS = ("among 5 and 40 arguments it grows as n^1.26: kernels are asked anew what they read, and pairs of terms are "
         "compared; what Python did for each operator of a file that was loaded, the same for any n, once hid it")


@pytest.mark.parametrize("name", [
    pytest.param("largest", marks=pytest.mark.xfail(strict=True, reason=GROWS)),
    pytest.param("product", marks=pytest.mark.whole)])
def test_the_work_of_a_gradient_grows_with_the_arguments(name: str) -> None:
    """Eight times as many take no more than 8^1.2 times as many calls of functions."""
    def made(count: int) -> int:
        names = [f"x_{{{n} t}}" for n in range(count)]
        body = FORMS[name][0].format((", " if name == "largest" else " ").join(names))
        text = f"{HEAD}input {', '.join(names)}\noutput {body}\n"
        return calls(lambda: einc.compile(text, grad=True))

    made(2)
    assert math.log(made(40) / made(5), 8) <= 1.2
