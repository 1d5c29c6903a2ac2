"""Sums that a listing writes out before its dots: `a_1`, `a_1 + a_2`, …, `Σ_{i=1}^T a_i` are the sums up to each place,
where the terms before the dots are what the sum behind them is for 1, 2, … terms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.test_sections import entries, returned

SIDE = "index i, j : time(T)\ninput a_i, b_i\n"
DRAWN = np.random.default_rng(5).normal(size=(2, 4))
GIVEN = {"a": DRAWN[0], "b": DRAWN[1]}


def shares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of each place the sum of a over that of b, both up to it."""
    return np.array([a[: n + 1].sum() / b[: n + 1].sum() for n in range(len(a))])


@pytest.mark.parametrize(("rows", "right"), [
    (r"a_1 \\ a_1 + a_2 \\ \vdots \\ \sum_{i=1}^T a_i", lambda a, b: np.cumsum(a)),
    (r"a_1 b_1 \\ a_1 b_1 + a_2 b_2 \\ a_1 b_1 + a_2 b_2 + a_3 b_3 \\ \vdots \\ \sum_{i=1}^T a_i b_i",
     lambda a, b: np.cumsum(a * b)),
    (r"b_1 a_1 \\ b_2 (a_1 + a_2) \\ \vdots \\ b_T \sum_{i=1}^T a_i", lambda a, b: b * np.cumsum(a)),
    (r"\frac{a_1}{b_1} \\ \frac{a_1 + a_2}{b_1 + b_2} \\ \vdots \\ \frac{\sum_{i=1}^T a_i}{\sum_{j=1}^T b_j}", shares),
    (r"\exp(a_1) + 2 \\ \exp(a_1) + \exp(a_2) + 2 \\ \vdots \\ \sum_{i=1}^T \exp(a_i) + 2",
     lambda a, b: np.cumsum(np.exp(a)) + 2)])
def test_the_sums_up_to_each_place(rows: str, right: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    side = SIDE if "b" in rows.replace("bmatrix", "") else SIDE.replace(", b_i", "")
    given = GIVEN if side == SIDE else {"a": GIVEN["a"]}
    text = rf"$$y = \begin{{bmatrix}} {rows} \end{{bmatrix}}$$"
    np.testing.assert_allclose(returned(text, side, given)["y"].ravel(), right(GIVEN["a"], GIVEN["b"]))


@pytest.mark.parametrize("rows", [
    r"a_1 b_1 \\ a_1 b_1 + a_2 b_3 \\ \vdots \\ \sum_{i=1}^T a_i b_i",
    r"a_1 \\ a_1 - a_2 \\ \vdots \\ \sum_{i=1}^T a_i", r"a_1 \\ \vdots \\ \sum_{i=1}^T a_i",
    r"a_2 \\ a_2 + a_3 \\ \vdots \\ \sum_{i=1}^T a_i", r"a_1 + a_2 \\ a_1 + a_2 + a_3 \\ \vdots \\ \sum_{i=1}^T a_i",
    r"\frac{1}{2} a_1 \\ \frac{1}{2} (a_1 + a_2) \\ \vdots \\ \frac{1}{T} \sum_{i=1}^T a_i"])
def test_what_does_not_grow_so_is_a_question(rows: str) -> None:
    found = entries(rf"$$y = \begin{{bmatrix}} {rows} \end{{bmatrix}}$$", SIDE)[-1]
    assert found.status == "skipped" and "where the dots are" in found.reason


ONE_MORE = (r"$$y = \begin{bmatrix} a_1 \\ a_1 + a_2 \\ \vdots \\ \sum_{i=1}^T a_i \\ \sum_{i=1}^{T+1} a_i"
            r"\end{bmatrix}$$")


def test_one_more_row_sums_up_to_its_own_end() -> None:
    made = returned(ONE_MORE, "index i : time(T+1)\ninput a_i", {"a": DRAWN[0]})
    np.testing.assert_allclose(made["y"].ravel(), np.cumsum(DRAWN[0]))


def test_a_letter_that_ends_before_the_sum_is_not_made_up() -> None:
    """Beside `T` as a size, `Σ_{i=1}^T` told that i counts T, and the last row lost its last term."""
    side = "index t : time(T)\nindex i : time(T+1)\nmatrix a : (T+1) × d\nmatrix B : T × d"
    rows = np.random.default_rng(2).normal(size=(5, 3))
    np.testing.assert_allclose(returned(ONE_MORE, side, {"a": rows})["y"], np.cumsum(rows, 0))


def test_a_sum_up_to_a_letter_that_goes_beyond_its_own() -> None:
    side = "index t : time(T+1)\nindex s : time(T)\ninput x_s"
    found = entries(r"$$y_t = \sum_{s=1}^{t} x_s$$", side)[-1]
    assert found.status == "skipped"
