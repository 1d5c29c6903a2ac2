"""Parameters of definitions that have values of their own, and arguments by name."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import layer_norm, rms_norm

import einc

HEAD = "index t : time(T)\nindex f : feature(D)\ninput x_t^f\n"
SCALED = "def scaled(x, a, b = 2 a, c = b + 1) = a x + 10 b x + 100 c x\n"


def of(call: str, before: str = "") -> torch.Tensor:
    """What a text makes of two positions of three numbers near 0."""
    function = einc.compile(f"{HEAD}{before}output y_t^f = {call}", backend="torch")
    made: torch.Tensor = function(x=numbers())
    return made


def numbers() -> torch.Tensor:
    return torch.randn(2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 1000


@pytest.mark.parametrize(("given", "eps"), [("", None), (", eps = 1e-3", 1e-3), (", 0.25", 0.25)])
def test_norms_are_those_of_torch(given: str, eps: float | None) -> None:
    x = numbers()
    torch.testing.assert_close(of(f"LN(x_t^f{given})"), layer_norm(x, (3,), eps=eps or 1e-5))
    torch.testing.assert_close(of(f"RMSNorm(x_t^f{given})"), rms_norm(x, (3,), eps=eps or 1e-6))
    torch.testing.assert_close(of(f"RMSNorm_{{f}}(x_t^f{given})"), rms_norm(x, (3,), eps=eps or 1e-6))


@pytest.mark.parametrize(("call", "factor"), [
    ("scaled(x_t^f, 1)", 1 + 20 + 300), ("scaled(x_t^f, 1, 5)", 1 + 50 + 600), ("scaled(x_t^f, 1, 5, 7)", 1 + 50 + 700),
    ("scaled(x_t^f, 1, c = 7)", 1 + 20 + 700), ("scaled(x_t^f, c = 7, a = 1)", 1 + 20 + 700),
    ("scaled(a = 3, x = x_t^f)", 3 + 60 + 700), ("scaled(x_t^f, a := 1, b := 0)", 1 + 100),
])
def test_what_is_left_out_and_what_is_given_by_name(call: str, factor: float) -> None:
    torch.testing.assert_close(of(call, SCALED), factor * numbers())


def test_a_value_of_its_own_may_be_given_for_each_element() -> None:
    torch.testing.assert_close(of("scaled(x_t^f, 1, x_t^f, 0)", SCALED), numbers() + 10 * numbers() ** 2)


def test_within_another_definition() -> None:
    before = SCALED + "def twice(x, b = 4) = scaled(scaled(x, 1, b, 0), 1, c = b)\n"
    torch.testing.assert_close(of("twice(x_t^f)", before), (1 + 40) * (1 + 20 + 400) * numbers())


@pytest.mark.parametrize(("call", "said"), [
    ("scaled(x_t^f)", "`a` of `scaled` is not given"), ("scaled()", "takes 2 to 4 arguments, not 0"),
    ("scaled(x_t^f, 1, 2, 3, 4)", "takes 2 to 4 arguments, not 5"), ("scaled(x_t^f, 1, d = 2)", "no parameter `d`"),
    ("scaled(x_t^f, 1, a = 2)", "`a` is given twice"), ("scaled(a = 2, x_t^f)", "behind one with a name"),
    ("scaled(x_t^f, b = 2)", "`a` of `scaled` is not given"), ("scaled(x_t^f, 1, b_t = 2)", "no parameter `b_t`"),
    ("RMSNorm(x_t^f, eps_t = 2)", "no parameter `eps_t`"), ("LN(x_t^f, 1, 2)", "takes 1 or 2 arguments, not 3"),
])
def test_arguments_that_do_not_fit(call: str, said: str) -> None:
    problems = einc.check(f"{HEAD}{SCALED}output y_t^f = {call}")
    assert [p.code for p in problems if p.code.startswith("E")] == ["E0216"]
    assert said in problems[0].message


@pytest.mark.parametrize("line", [
    "def g(x, a_f = 1) = x", "def g(a = 1, x) = a x", "def g(x, a = 1, a = 2) = x", "def g(x, 2 = a) = x",
    "def g(x, a = h) = a x", "def g(x, a = b, b = 1) = a x", "def g(x, a = 1 = 2) = a x", "def g(x, a < 1) = a x",
])
def test_definitions_that_are_none(line: str) -> None:
    found = [p.code for p in einc.check(f"{HEAD}{line}\noutput y_t^f = g(x_t^f)")]
    assert found
    assert all(code.startswith("E") for code in found)
