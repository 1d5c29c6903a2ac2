"""Texts of many definitions that read each other: the work of compiling them grows as they do, counted in calls, and
what is chosen among the orders of many products means the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from test_documents_sources import calls

import einc
from einc.driver import compiling, pipeline
from einc.driver.back_ends import emit
from einc.driver.checking import typed
from einc.ir.programs import Definitions
from einc.planning.contractions.associate import _ALL, _PAIRS, Search, samples

HEAD = "index t, s : time(T)\nindex d, e : feature(D)\ninput x_t^d\nweight W_e^d, M_e^d\n"
NOUGHT = "values that may be 0"
LINES = {
    "pointwise": "{} = tanh({}_t^d) + x_t^d",
    "products of matrices": "{} = Σ_e W_e^d {}_t^e",
    "running sums": "{} = Σ_{{s ≤ t}} {}_s^d",
    "softmax": "{} = Σ_s softmax_{{s, s ≤ t}}({}_s^d) x_s^d",
    # followed to the point where it is read, each definition twice
    NOUGHT: "{0} = 1[t > 2] abs({1}_t^d) + abs({1}_t^d) / (1 + abs({1}_t^d))",
}


GROWS = "calls grow with an exponent of 1.24 from 50 to 400 definitions, of which each is a softmax"


def name(n: int) -> str:
    """A name with a label of letters that are no indices; before the first definition the input."""
    return "q_{c" + "".join("fghijklmno"[int(digit)] for digit in f"{n:03}") + "}" if n >= 0 else "x"


def chained(count: int, line: Callable[[int], str]) -> str:
    """Definitions of which each reads the one before it, and the last as the output."""
    lines = [line(n).format(f"{name(n)}_t^d", name(n - 1)) for n in range(count)]
    return HEAD + "\n".join(lines) + f"\noutput y_t^d = {name(count - 1)}_t^d\n"


def compiled(text: str) -> None:
    emit(compiling.plan(pipeline.normal(typed(text))))


def test_what_is_found_of_a_value_is_kept_where_it_is_defined() -> None:
    """Definitions that are laid over others share what is found of these, however many lie between."""
    first, second = typed("index t : time(T)\ninput x_t\na_t = x_t\nb_t = a_t\noutput y_t = b_t\n").equations[:2]
    below = Definitions([first])
    middle = Definitions([second], below)
    above = Definitions([], middle)
    assert above.about(first.target) is below and above.about(second.target) is middle


@pytest.mark.parametrize(("kind", "sizes"), [
    *((kind, (5, 15) if kind == "softmax" else (15, 45)) for kind in LINES),
    *(pytest.param(kind, (50, 100, 200, 400), marks=[pytest.mark.whole, *(
        pytest.mark.xfail(strict=True, reason=GROWS) for _ in range(kind == "softmax"))]) for kind in LINES)])
def test_the_work_of_chained_definitions_grows_with_their_number(kind: str, sizes: tuple[int, ...]) -> None:
    """Four times as many take at most 4^1.2 times as many calls."""
    def work(count: int) -> int:
        return calls(lambda: compiled(chained(count, lambda _: LINES[kind])))

    work(5)
    found = [work(count) for count in sizes]
    assert math.log(found[-1] / found[0]) / math.log(sizes[-1] / sizes[0]) <= 1.2, found


@pytest.mark.parametrize("kind", ["W W W", "W M", "masked"])
def test_a_chain_of_many_products_means_what_it_says(kind: str) -> None:
    """More definitions than are tried in every pair, in the order that is cheapest at each length."""
    count = _PAIRS + 5
    line = {"W W W": lambda n: "{} = Σ_e W_e^d {}_t^e", "W M": lambda n: f"{{}} = Σ_e {'WM'[n % 2]}_e^d {{}}_t^e",
            "masked": lambda n: "{} = Σ_{{s ≤ t}} {}_s^d / t" if n % 5 == 4 else "{} = Σ_e W_e^d {}_t^e"}[kind]
    text, draw = chained(count, line), np.random.default_rng(0)
    for length in (1, 9):
        x, W, M = draw.normal(size=(length, 3)), *(draw.normal(size=(3, 3)) / 2 for _ in "WM")
        means = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
        wanted = x
        for n in range(count):
            mean = kind == "masked" and n % 5 == 4
            wanted = means @ wanted if mean else wanted @ (M if kind == "W M" and n % 2 else W)
        given = {"x": x, "W": W} | ({"M": M} if kind == "W M" else {})
        found = einc.compile(text, "torch")(**{key: torch.from_numpy(v) for key, v in given.items()})
        assert np.allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-12 * np.abs(wanted).max())


def test_a_sweep_over_many_finds_what_pairs_find() -> None:
    """W (W x) is (W W) x where there are many x: positions then meet half as many matrices, or fewer."""
    count = _PAIRS + 5
    search = Search(pipeline.normal(typed(chained(count, lambda _: LINES["products of matrices"]))))
    assert len(search.open) > _PAIRS > _ALL
    few, *_, many = samples(search.program)

    def met(sizes: dict[str, int]) -> int:
        """How many equations go over positions."""
        return sum(any(i.set.cls == "time" for i in e.indices) for e in search.best(sizes).equations)

    assert met(few) == count
    assert met(many) <= math.ceil(count / 2)


@pytest.mark.parametrize("sizes", [(10, 30), pytest.param((20, 80), marks=pytest.mark.whole)])
def test_the_work_of_a_long_condition_grows_with_its_parts(sizes: tuple[int, int]) -> None:
    """A condition is held against no other for each of its parts."""
    def work(count: int) -> int:
        said = "".join(f", s ≠ {n + 1}" for n in range(count))
        text = f"{HEAD}input L_{{t s}}\nmask L_{{t s}} : s ≤ t{said}\noutput y_t^d = Σ_s softmax_s(L_{{t s}}) x_s^d\n"
        return calls(lambda: compiled(text))

    work(3)
    few, many = map(work, sizes)
    assert math.log(many / few) / math.log(sizes[1] / sizes[0]) <= 1.2, (few, many)
