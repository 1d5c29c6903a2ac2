"""Norms, traces, triangles about other diagonals and slices in matrix notation, each against numpy."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from helpers import meaning, typed
from numpy.typing import NDArray

from einc.driver import pipeline
from einc.errors.report import Report, Source
from tests.test_sections import entries
from tests.test_small_papers import QKV, check, drawn

Array = NDArray[np.float64]
Made = Callable[[Array, Array, Array, Array], Array]
LINES = "matrix A : n × d\nmatrix B : n × d\nmatrix C : n × n\nvector v : d\n"
SIZES = {"n": 4, "d": 3}

# An expression of A, B, C and v, and what numpy makes of it.
FORMS: dict[str, Made] = {
    r"\|v\| A": lambda a, b, c, v: np.linalg.norm(v) * a,
    r"\frac{v}{\lVert v \rVert_2}": lambda a, b, c, v: v / np.linalg.norm(v),
    r"v / \left\| v \right\|": lambda a, b, c, v: v / np.linalg.norm(v),
    r"‖v‖_1": lambda a, b, c, v: np.abs(v).sum(),
    r"‖A v‖_{\infty}": lambda a, b, c, v: np.abs(a @ v).max(),
    r"\|v\|^2_2": lambda a, b, c, v: (v**2).sum(),
    r"\|A - B\|_F^2": lambda a, b, c, v: ((a - b) ** 2).sum(),
    r"\|C A\|_{F} \|v\|": lambda a, b, c, v: np.linalg.norm(c @ a) * np.linalg.norm(v),
    r"\Vert 2 v - \|v\|_1 v \Vert": lambda a, b, c, v: np.linalg.norm(2 * v - np.abs(v).sum() * v),
    r"\text{tr}(C)": lambda a, b, c, v: np.trace(c),
    r"\mathrm{Tr}(A^\top B) v": lambda a, b, c, v: np.trace(a.T @ b) * v,
    r"\operatorname{trace}(A B^\top C)": lambda a, b, c, v: np.trace(a @ b.T @ c),
    r"\text{triu}(C) A": lambda a, b, c, v: np.triu(c) @ a,
    r"\text{tril}(C, -1) A": lambda a, b, c, v: np.tril(c, -1) @ a,
    r"\text{triu}(A B^\top, 1)": lambda a, b, c, v: np.triu(a @ b.T, 1),
    r"\text{tril}(C, 1) + \text{triu}(C, 2)": lambda a, b, c, v: c,
    r"A[:, 1]": lambda a, b, c, v: a[:, 0],
    r"A_{1,:} + B_{n:}": lambda a, b, c, v: a[0] + b[-1],
    r"C_{:,1} C_{*,n}^\top": lambda a, b, c, v: np.outer(c[:, 0], c[:, -1]),
    r"\|C_{\cdot n}\| C[1, :]": lambda a, b, c, v: np.linalg.norm(c[:, -1]) * c[0],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_what_numpy_makes_of_it(form: str) -> None:
    random = np.random.default_rng(len(form))
    given = {"A": random.normal(size=(4, 3)), "B": random.normal(size=(4, 3)), "C": random.normal(size=(4, 4)),
             "v": random.normal(size=3)}
    program = typed(f"{LINES}output y = {form} : all\n")
    found = meaning(program, {t.key: given[t.key] for t in program.inputs()}, SIZES)["y"]
    wanted = np.asarray(FORMS[form](*given.values()))
    np.testing.assert_allclose(np.asarray(found).reshape(wanted.shape), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spelling", ["latex", "unicode", "ascii"])
@pytest.mark.parametrize("form", FORMS)
def test_the_formatter_keeps_it(form: str, spelling: str) -> None:
    source = Source("<text>", f"{LINES}output y = {form} : all\n")
    report = Report()
    printed = pipeline.formatted(source, spelling, report)
    assert printed is not None and not report.problems, report.problems
    random = np.random.default_rng(1)
    given = {"A": random.normal(size=(4, 3)), "B": random.normal(size=(4, 3)), "C": random.normal(size=(4, 4)),
             "v": random.normal(size=3)}
    found = []
    for text in (source.text, printed):
        program = typed(text)
        found.append(meaning(program, {t.key: given[t.key] for t in program.inputs()}, SIZES)["y"])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("seed", range(8))
def test_random_rows_and_columns(seed: int) -> None:
    """Entries of products of rows and columns, in each of the ways to write them."""
    draw = Random(seed)
    row = draw.choice(["Q_{i,:}", "Q_{i *}", "Q_{i,*}", "Q[i, :]", r"Q_{i \cdot}", "Q_{i,:}"])
    other = draw.choice(["K_{j,:}^\\top", "(K_{j *})^\\top", "K_{j,*}^\\top", "(K[j,:])^\\top"])
    column = draw.choice(["V_{:,i}", "V_{*,i}", "V[:, i]", "V_{*i}"])
    given = drawn(seed, Q="nd", K="nd", V="dn")
    scores = given["Q"] @ given["K"].T
    words = r"Let $Q, K \in \mathbb{R}^{n \times d}$, $V \in \mathbb{R}^{d \times n}$ and $i, j = 1, \dots, n$. "
    check(f"{words}$$ S_{{ij}} = {row} {other} $$", "S", {k: given[k] for k in "QK"}, scores)
    check(f"{words}$$ y_i = {row} {column} $$", "y", {k: given[k] for k in "QV"}, np.diag(given["Q"] @ given["V"]))


@pytest.mark.parametrize("right", ["K_{:t}^\\top q", "K_{t:} w", "K[:t] w", "K[t:] w", r"(K^\top)_{:t} q",
                                   r"\exp(2 K_{t:} w)", r"K_{t\,:} w"])
def test_a_slice_without_a_comma_is_a_question(right: str) -> None:
    words = r"Let $K \in \mathbb{R}^{n \times d}$, $q \in \mathbb{R}^n$, $w \in \mathbb{R}^d$. For $t = 1, \dots, "
    for size in "dn":
        found = entries(rf"{words}{size}$, $$ y_t = {right} $$")[-1]
        assert found.status == "skipped" and "up to `t`" in found.reason


def test_a_letter_of_positions_is_at_no_column() -> None:
    words = r"Let $K \in \mathbb{R}^{n \times d}$ and $q \in \mathbb{R}^n$. Positions $t \in \{1..SIZE\}$. "
    text = rf"{words}$$ y_t = K_{{:,t}}^\top q $$"
    found = entries(text.replace("SIZE", "n"))[-1]
    assert found.status == "skipped" and "has d places" in found.reason
    given = drawn(3, K="nd", q="n")
    channels = text.replace("SIZE", "d").replace("Positions", "Channels")
    check(channels, "y", given, given["K"].T @ given["q"])


@pytest.mark.parametrize("form", [r"\|C\|", r"\|A\|_2", r"A_{:,:,1}", r"\text{tril}(C, d)", r"\text{tril}()",
                                  r"\text{tr}(A)", r"\text{triu}(A)", r"\|v", r"\|A\|_{F,F}",
                                  r"\text{tril}(C, 1, 2)", r"\|v\|_p"])
def test_what_has_no_one_meaning_is_refused(form: str) -> None:
    report = Report()
    pipeline.check(Source("<text>", f"{LINES}output y = {form} : all\n"), report)
    assert report.errors


def test_the_norm_of_a_matrix_is_a_question() -> None:
    found = entries(QKV + r"$$ c = \|Q\| $$")[-1]
    assert found.status == "skipped" and "which norm" in found.reason
