"""How work grows with the length of a text: counted in calls of functions, which no machine makes faster or slower."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest

from einc.driver import back_ends, compiling, pipeline
from einc.driver.checking import typed
from einc.driver.options import DEFAULTS, Options
from einc.driver.reports.coverage import account
from einc.errors.report import Report, Source

MOST = 1.2  # the exponent with which calls may grow, over four sizes
TIME = "For $t \\in \\{1..T\\}$ (time)\n\n"


def calls(work: Callable[[], object]) -> int:
    """How often functions of Python and of C are called."""
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def assert_grows(work: Callable[[int], object], first: int) -> None:
    """The calls for first, 2 first, 4 first and 8 first pieces grow with an exponent of at most MOST."""
    work(1)  # what is loaded and kept once is none of it
    sizes = [first * 2**n for n in range(4)]
    counted = [calls(lambda n=n: work(n)) for n in sizes]  # type: ignore[misc]
    exponents = [math.log2(b / a) for a, b in pairwise(counted)]
    assert max(exponents) <= MOST, (counted, exponents)


def paper(text: str) -> None:
    account(pipeline.paper(Source("p.md", f"# A\n\n{text}"), Report()), kernels=False)


def emitted(text: str, options: Options = DEFAULTS) -> None:
    back_ends.emit(compiling.planned(typed(text), options), "torch", None)


def rows(lines: list[str]) -> str:
    return "\\begin{align}\n" + "".join(f"{line} \\\\\n" for line in lines) + "\\end{align}\n"


PAPERS: dict[str, tuple[Callable[[int], str], int]] = {
    "rows that restate one": (lambda n: rows(["x &= y"] * n), 8),
    "rows with names of their own": (lambda n: TIME + rows([f"x_{{{k} t}} &= y_t" for k in range(n)]), 8),
    "words of a formula": (lambda n: "$x = " + "ab " * n + "$\n", 100),
    "signs of a formula": (lambda n: "$$ x = " + " + ".join(["a"] * n) + " $$\n", 25),
    "formulas of a text": (lambda n: TIME + "and $x_t = y_t$\n\n" * n, 8),
    "formulas of a text that are wrong": (lambda n: TIME
                                          + "".join(f"$$ x_{{{k} t}} = y_t z_q $$\n\n" for k in range(n)), 5),
    "formulas without an end": (lambda n: TIME + "\\begin{align} x_t = y_t\n\n" * n, 10),
}


@pytest.mark.parametrize("name", PAPERS)
def test_the_account_of_a_paper_grows_with_its_length(name: str) -> None:
    text, first = PAPERS[name]
    assert_grows(lambda n: paper(text(n)), first)


def chain(step: str, n: int) -> str:
    """n definitions, each of the one before."""
    lines = [f"x_{{{k + 1} t}} = {step.format(f'x_{{{k} t}}')}" for k in range(1, n + 1)]
    return "\n".join(["index t : time(T)", "input x_{1 t}", *lines, f"output x_{{{n + 1} t}}"]) + "\n"


@pytest.mark.parametrize("step", ["2 {}", "tanh({} + 1)"])
def test_a_chain_of_definitions_compiles_at_the_price_of_its_length(step: str) -> None:
    assert_grows(lambda n: emitted(chain(step, n)), 15)


def of_inputs(n: int) -> str:
    names = [f"x_{{{k} t}}" for k in range(n + 1)]
    return f"index t : time(T)\ninput {', '.join(names)}\noutput y_t = {' '.join(names)}\n"


def test_a_product_of_inputs_compiles_at_the_price_of_its_length() -> None:
    assert_grows(lambda n: emitted(of_inputs(n)), 5)


def test_the_gradient_of_a_product_compiles_at_the_price_of_its_length() -> None:
    """Slopes share their factors: n of n - 1 factors each would grow with n²."""
    assert_grows(lambda n: emitted(of_inputs(n), Options(grad=True)), 16)
