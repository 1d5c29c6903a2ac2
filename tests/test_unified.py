"""Shapes that nothing says and the equations of a paper determine, and those that they leave open."""

from __future__ import annotations

import numpy as np
import pytest

from einc.driver import papers
from einc.driver.reports.coverage import account
from einc.errors.report import Report, Source
from tests.test_sections import entries, paper, returned
from tests.test_small_papers import Array, check, softmax

W = r"Let $W \in \mathbb{R}^{d \times m}$. "


def drawn(**shapes: str) -> dict[str, Array]:
    """Random arrays, whose sizes are n = 4, d = 3, m = 5, h = 2."""
    random = np.random.default_rng(5)
    return {name: random.normal(size=[{"n": 4, "d": 3, "m": 5, "h": 2}[x] for x in of]) for name, of in shapes.items()}


def inferred(text: str) -> list[str]:
    """The names of the inputs that a paper's programs have without saying so."""
    found = account(paper(text), kernels=False).made
    return [x.text.split("_")[0].split("^")[0] for made in found for x in made.inferred]


def test_a_vector_that_a_definition_is_of_has_the_rows_of_its_matrix() -> None:
    given = drawn(W="dm", x="d", b="m")
    text = W + r"$$ f(x) = \max(0, x W + b) $$"
    check(text, "f", given, np.maximum(0, given["x"] @ given["W"] + given["b"]))
    assert sorted(inferred(text)) == ["b", "x"]


def test_a_matrix_between_two_that_have_shapes() -> None:
    given = drawn(X="nd", A="dm", Y="nm")
    text = r"Let $X \in \mathbb{R}^{n \times d}$ and $Y \in \mathbb{R}^{n \times m}$. $$ Z = X A + Y $$"
    check(text, "Z", given, given["X"] @ given["A"] + given["Y"])
    assert inferred(text) == ["A"]


def test_arguments_of_heads_have_as_many_rows_as_one_likes() -> None:
    given = drawn(Q="nd", K="md", V="md", A="dh", B="dh", C="dd")
    text = (r"Let $A, B \in \mathbb{R}^{d \times h}$, $C \in \mathbb{R}^{d \times d}$. "
            r"$$ \mathrm{At}(Q, K, V) = \mathrm{softmax}(Q K^\top) V $$ "
            r"$$ \mathrm{Out}(Q, K, V) = \mathrm{At}(Q A, K B, V C) $$")
    right = softmax(given["Q"] @ given["A"] @ (given["K"] @ given["B"]).T) @ given["V"] @ given["C"]
    found = returned(text, "", given, Q_len=4, K_len=5, d=3, h=2)["Out"]
    np.testing.assert_allclose(found, right, rtol=1e-12)


@pytest.mark.parametrize(("text", "why"), [
    (r"$$ Y = a W $$", "a number or a vector"), (r"$$ Y = W A $$", "the columns of A are not said"),
    (r"Let $V \in \mathbb{R}^{n \times d}$. $$ f(x) = x W W_3 V $$",
     "another label of a letter that has a shape: it may be a slip"),
    (r"$$ Y = X W + b $$", "rows that are not said, and a vector of either side"),
    (r"$$ y = g(W x) $$", "a function of which nothing is said"),
    (r"$$ f(x) = x W, \quad y = f(x) + W x $$", "two shapes of one name"),
    (r"Let $x \in \mathbb{R}^{d}$ and $x \in \mathbb{R}^{m}$. $$ f(x) = x W $$", "two shapes in the words")])
def test_what_equations_leave_open_stays_a_question(text: str, why: str) -> None:
    assert "compiled" not in {x.status for x in entries(W + text)}, why
    assert not inferred(W + text)


def test_a_document_of_refused_displays_alone_is_told_by_what_is_wrong_with_them() -> None:
    report = Report()
    assert papers.check_section(Source("p.md", "$$ y = \\foo{x} $$"), report) is None
    assert [x.message for x in report.errors] == ["`\\foo` is not a macro of the language"]


def test_another_label_of_a_letter_that_a_side_file_declares_is_no_input() -> None:
    side = "matrix W_1 : d × m\nmatrix V : n × d\n"
    assert [x.status for x in entries("$$ f(x) = x W_1 A V $$", side)] == ["compiled"]
    assert [x.status for x in entries("$$ f(x) = x W_1 W_3 V $$", side)] == ["skipped"]
