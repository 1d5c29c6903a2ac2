r"""Square matrices that are written out with dots, with one number on one side of the diagonal, each against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.test_sections import entries
from tests.test_small_papers import QKV, check, drawn, softmax

Array = NDArray[np.float64]
WORDS = QKV.replace("Q, K, V", "Q, K") + r"Let $\gamma$ be a scalar and $a \in \mathbb{R}^n$. "
DOTS = r"\vdots & \vdots & \ddots & \vdots"

# The rows of a matrix, and its entry at two places from 1 on, by a number and a vector.
FORMS: dict[str, tuple[tuple[str, ...], Callable[[int, int, float, Array], float]]] = {
    "ones": (("1 & 0 & \\cdots & 0", "1 & 1 & \\cdots & 0", DOTS, "1 & 1 & \\cdots & 1"),
             lambda i, j, g, a: j <= i),
    "ones above": (("0 & 1 & \\cdots & 1", "0 & 0 & \\cdots & 1", DOTS, "0 & 0 & \\cdots & 0"),
                   lambda i, j, g, a: i < j),
    "two numbers": (("2 & 0 & \\dots & 0", "3 & 2 & \\dots & 0", DOTS, "3 & 3 & \\dots & 2"),
                    lambda i, j, g, a: 2 if i == j else 3 * (j < i)),
    "powers": (("1 & 0 & \\cdots & 0", "\\gamma & 1 & \\cdots & 0", DOTS,
                "\\gamma^{n-1} & \\gamma^{n-2} & \\cdots & 1"),
               lambda i, j, g, a: g ** (i - j) if j <= i else 0),
    "powers above": (("1 & \\gamma & \\cdots & \\gamma^{n-1}", "0 & 1 & \\cdots & \\gamma^{n-2}", DOTS,
                      "0 & 0 & \\cdots & 1"), lambda i, j, g, a: g ** (j - i) if i <= j else 0),
    "powers from one on": (("\\gamma & & & ", "\\gamma^2 & \\gamma & & ", DOTS,
                            "\\gamma^n & \\gamma^{n-1} & \\cdots & \\gamma"),
                           lambda i, j, g, a: g ** (i - j + 1) if j <= i else 0),
    "three rows": (("1 & 0 & 0 & \\dots & 0", "\\gamma & 1 & 0 & \\dots & 0", "\\gamma^2 & \\gamma & 1 & \\dots & 0",
                    "\\vdots & \\vdots & \\vdots & \\ddots & \\vdots",
                    "\\gamma^{n-1} & \\gamma^{n-2} & \\gamma^{n-3} & \\dots & 1"),
                   lambda i, j, g, a: g ** (i - j) if j <= i else 0),
    "products": (("1 & & & & ", "a_2 & 1 & & & ", "a_3 a_2 & a_3 & 1 & & ", "\\vdots & \\vdots & \\ddots & \\ddots & ",
                  "a_n \\cdots a_2 & a_n \\cdots a_3 & \\dots & a_n & 1"),
                 lambda i, j, g, a: np.prod(a[j:i]) if j <= i else 0),
    "products from one on": (("1 & 0 & \\dots & 0", "a_1 & 1 & \\dots & 0", DOTS,
                              "a_{n-1} \\cdots a_1 & a_{n-1} \\cdots a_2 & \\dots & 1"),
                             lambda i, j, g, a: np.prod(a[j - 1:i - 1]) if j <= i else 0),
    "names": (("a_1 & 0 & \\dots & 0", "a_2 & a_1 & \\dots & 0", DOTS, "a_n & a_{n-1} & \\dots & a_1"),
              lambda i, j, g, a: a[i - j] if j <= i else 0),
}


def written(form: str) -> str:
    """A matrix as TeX has it."""
    return r"\begin{bmatrix} " + r" \\ ".join(FORMS[form][0]) + r" \end{bmatrix}"


@pytest.mark.parametrize("form", FORMS)
def test_a_triangle_is_its_general_term(form: str) -> None:
    given = {**drawn(3, Q="nd", K="nd"), "gamma": np.asarray(0.6), "a": np.asarray([0.3, -0.5, 0.0, 0.9])}
    term = FORMS[form][1]
    wanted = np.asarray([[term(i, j, 0.6, given["a"]) for j in range(1, 5)] for i in range(1, 5)])
    text = f"{WORDS}$$ D = {written(form)} $$ $$ O = (Q K^\\top \\odot D) K $$"
    read = {x: given[x] for x in ("Q", "K", *(["gamma"] if "gamma" in text.split("$$")[1] else []),
                                  *(["a"] if "a_" in text.split("$$")[1] else []))}
    check(text, "O", read, (given["Q"] @ given["K"].T * wanted) @ given["K"])


@pytest.mark.parametrize("shape", ["", r" \in \mathbb{R}^{n \times n}"])
@pytest.mark.parametrize("rows", [
    (r"0 & -\infty & \cdots & -\infty", r"0 & 0 & \cdots & -\infty", DOTS, r"0 & 0 & \cdots & 0"),
    (r"0 & -\infty & -\infty & \dots & -\infty", r"0 & 0 & -\infty & \dots & -\infty",
     r"\vdots & & & \ddots & \vdots", r"0 & 0 & 0 & \dots & 0")])
def test_a_mask_is_a_domain(rows: tuple[str, ...], shape: str) -> None:
    given = drawn(4, Q="nd", K="nd", V="nd")
    matrix = r"\begin{bmatrix} " + r" \\ ".join(rows) + r" \end{bmatrix}"
    text = f"{QKV}$$ M = {matrix}{shape} $$ $$ O = \\text{{softmax}}(Q K^\\top + M) V $$"
    scores = np.where(np.tri(4) > 0, given["Q"] @ given["K"].T, -np.inf)
    check(text, "O", given, softmax(scores) @ given["V"])


@pytest.mark.parametrize("rows", [
    ("1 & 0 & \\cdots & 0", "\\gamma & 1 & \\cdots & 0", DOTS, "\\gamma^{n-1} & \\gamma^{n-3} & \\cdots & 1"),
    ("1 & 0 & \\cdots & 0", "\\gamma^2 & 1 & \\cdots & 0", DOTS, "\\gamma^{n-1} & \\gamma^{n-2} & \\cdots & 1"),
    ("1 & 2 & \\cdots & 0", "\\gamma & 1 & \\cdots & 0", DOTS, "\\gamma^{n-1} & \\gamma^{n-2} & \\cdots & 1"),
    ("1 & 0 & \\cdots & 0", "1 & 0 & \\cdots & 0", DOTS, "1 & 1 & \\cdots & 1"),
    ("1 & 0 & \\cdots & 0", "a_2 & 1 & \\cdots & 0", DOTS, "a_n \\cdots a_1 & a_n \\cdots a_3 & \\cdots & 1"),
    ("1 & 0 & \\cdots & 0", "a_3 a_1 & 1 & \\cdots & 0", DOTS, "a_n \\cdots a_2 & a_n \\cdots a_3 & \\cdots & 1"),
    ("1 & & \\cdots & 0", "\\gamma & & \\cdots & 0", DOTS, "\\gamma^{n-1} & \\gamma^{n-2} & \\cdots & 1")])
def test_what_is_no_triangle_is_a_question(rows: tuple[str, ...]) -> None:
    matrix = r"\begin{bmatrix} " + r" \\ ".join(rows) + r" \end{bmatrix}"
    text = f"{WORDS}$$ D = {matrix} $$ $$ O = (Q K^\\top \\odot D) K $$"
    assert {x.status for x in entries(text)} == {"skipped"}


@pytest.mark.parametrize(("rows", "wanted"), [
    (("1 & & ", "a & 1 & ", "b & c & 1"), [[1, 0, 0], [2, 1, 0], [3, 5, 1]]),
    (("1 & 0 & 0", "a & 1 & 0", "b & c & 1"), [[1, 0, 0], [2, 1, 0], [3, 5, 1]]),
    (("a & b & c", " & a & b", " & & a"), [[2, 3, 5], [0, 2, 3], [0, 0, 2]])])
def test_a_triangle_with_every_entry(rows: tuple[str, ...], wanted: list[list[float]]) -> None:
    matrix = r"\begin{bmatrix} " + r" \\ ".join(rows) + r" \end{bmatrix}"
    x = np.arange(12.0).reshape(3, 4)
    numbers = {"a": np.asarray(2.0), "b": np.asarray(3.0), "c": np.asarray(5.0)}
    text = rf"Let $X \in \mathbb{{R}}^{{3 \times d}}$ and $a$, $b$ and $c$ be scalars. $$ A = {matrix} $$ $$ Y = A X $$"
    check(text, "Y", {"X": x, **numbers}, np.asarray(wanted) @ x)
