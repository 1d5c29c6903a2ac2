"""Functions as papers write them, recurrences through several equations, and names that their entries define."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import einc
from tests.test_sections import entries
from tests.test_small_papers import X, check, drawn

Array = NDArray[np.float64]
LINE = r"For $t \in \{1..T\}$ (time) "


def sigmoid(x: Array) -> Array:
    """The logistic function."""
    return np.asarray(1 / (1 + np.exp(-x)))


# functions

@pytest.mark.parametrize(("right", "value"), [
    (r"\log \frac{x_t}{y_t}", lambda x, y: np.log(x / y)), (r"x_t \log x_t", lambda x, y: x * np.log(x)),
    (r"\exp x_t + y_t", lambda x, y: np.exp(x) + y),
    (r"\sin^2(x_t) + \cos^{2}(y_t)", lambda x, y: np.sin(x) ** 2 + np.cos(y) ** 2),
    (r"\frac{\exp x_t}{\exp y_t}", lambda x, y: np.exp(x - y))])
def test_functions_without_parentheses_and_powers_of_functions(right: str, value: Callable[[Array, Array], Array],
                                                             ) -> None:
    given = {"x": np.asarray([0.5, 2.0, 3.0]), "y": np.asarray([1.0, 0.25, 2.0])}
    used = {k: v for k, v in given.items() if f"{k}_t" in right}
    check(f"{LINE}$$ z_t = {right} $$", "z", used, value(given["x"], given["y"]))


@pytest.mark.parametrize("right", [r"\log x_t y_t", r"\log x_t / y_t", r"\sin^{-1}(x_t)", r"\log^t(x_t)"])
def test_of_how_much_a_function_is_stays_a_question(right: str) -> None:
    assert entries(f"{LINE}$$ z_t = {right} $$")[-1].status == "skipped"


@pytest.mark.parametrize("words", [
    r"with the sigmoid $\sigma$.", r"$\sigma$ is the logistic function.", r"all of $\sigma, \phi$ are sigmoids.",
    r"where $\phi$ and $\sigma$ are sigmoid functions."])
def test_words_name_functions(words: str) -> None:
    given = drawn(1, X="nd")
    words = words.replace("sigmoids", "sigmoid")
    check(rf"{X}$$ Y = \sigma(X) $$ {words}", "Y", given, sigmoid(given["X"]))


@pytest.mark.parametrize("value", ["1", "2"])
def test_a_parameter_below_a_function_has_the_value_below_it(value: str) -> None:
    given = drawn(2, Z="nd")
    text = (r"Let $Z \in \mathbb{R}^{n \times d}$ and $F_\beta(x) = x \sigma(\beta x)$, where $\sigma$ is the sigmoid "
            rf"function. $$ Y = F_{value}(Z) $$")
    check(text, "Y", given, given["Z"] * sigmoid(int(value) * given["Z"]))


def test_a_letter_that_counts_functions_is_no_parameter() -> None:
    text = r"Let $Z, A_i \in \mathbb{R}^{d \times d}$ for $i = 1, \dots, h$ and $F_i(Z) = A_i Z$. $$ Y = F_1(Z) $$"
    assert entries(text)[-1].status == "skipped"


def test_a_positive_constant_is_a_number() -> None:
    given = {**drawn(3, X="nd"), "epsilon": np.asarray(0.3)}
    text = X + r"For a small constant $\epsilon > 0$ $$ Y = \frac{X}{1 + \epsilon} $$"
    check(text, "Y", given, given["X"] / 1.3)


# shapes

def test_products_side_by_side_bind_before_those_of_entries() -> None:
    given = {"x": np.asarray([1.0, -1.0, 2.0]), **drawn(4, W="dm", V="dm")}
    text = r"Let $W, V \in \mathbb{R}^{d \times m}$. $$ F(x) = \tanh(x W) \odot x V $$"
    check(text, "F", given, np.tanh(given["x"] @ given["W"]) * (given["x"] @ given["V"]))


def test_a_vector_is_what_its_entries_say() -> None:
    given = {**drawn(5, X="nd"), "W": np.arange(15.0).reshape(5, 3)}
    text = X + (r"Let $W \in \mathbb{R}^{m \times d}$. $$ z_j = \frac{1}{n} \sum_{i=1}^n X_{ij} $$ $$ y = W z $$")
    check(text, "y", given, given["W"] @ given["X"].mean(0))
    assert any("its letters count its sides" in x.reason for x in entries(text))


def test_entries_of_what_an_equation_defines_tell_letters() -> None:
    given = drawn(6, X="nd", Y="md")
    text = X + (r"Let $Y \in \mathbb{R}^{m \times d}$. $$ M = X Y^\top $$ "
                r"$$ A_{ij} = \frac{\exp(M_{ij})}{\sum_{l=1}^n \exp(M_{lj})} $$ $$ Z = A Y $$")
    scores = np.exp(given["X"] @ given["Y"].T)
    check(text, "Z", given, scores / scores.sum(0) @ given["Y"])


def test_letters_side_by_side_of_which_one_is_bound_are_no_label() -> None:
    found = entries(r"For $l \in \{1..m\}$ (feature) $$ a_l = \exp(M_{lj}) $$ $$ b_l = \exp(N_{lj}) + a_l $$")
    assert {x.status for x in found if x.display} == {"skipped"}


# recurrences through several equations

GATED = r"""For $x_t \in \mathbb{R}^d$, $t = 1, \dots, T$, $h_0 = 0$, $W, V \in \mathbb{R}^{m \times d}$ and
$U \in \mathbb{R}^{m \times m}$
$$ f_t = \tanh(W x_t + U h_{t-1}) $$
$$ h_t = (1 - f_t) \odot h_{t-1} + f_t \odot V x_t $$"""


def test_equations_that_read_each_other_have_the_shape_of_their_other_terms() -> None:
    given = {"x": np.random.default_rng(1).normal(size=(6, 3)), "W": np.random.default_rng(2).normal(size=(5, 3)),
             "V": np.random.default_rng(3).normal(size=(5, 3)), "U": np.random.default_rng(4).normal(size=(5, 5))}
    h, out = np.zeros(5), []
    for x in given["x"]:
        f = np.tanh(given["W"] @ x + given["U"] @ h)
        h = (1 - f) * h + f * (given["V"] @ x)
        out.append(h)
    check(GATED, "h", given, np.asarray(out))


@pytest.mark.parametrize(("old", "new"), [
    ("W x_t", "x_t W"), (r"U \in \mathbb{R}^{m \times m}", r"U \in \mathbb{R}^{m \times d}"), ("V x_t", r"V^\top x_t"),
    ("W x_t + U h_{t-1}", "U h_{t-1}")])
def test_equations_that_read_each_other_have_to_fit(old: str, new: str) -> None:
    assert old in GATED
    assert "compiled" not in {x.status for x in entries(GATED.replace(old, new))}


# messages

TOLD = [
    ("A[2,:] B", "`A` is read at place 2 of its side 1, whose places are 1 to n, and n may be less", "dim n = 4"),
    ("(A B)_{12}", "`_{12}` stands after a matrix", "`(A B)_{1,2}`"),
    ("tr A B", "stands in parentheses", "write `tr(…)`"),
]


@pytest.mark.parametrize(("right", "message", "way_out"), TOLD)
def test_a_message_speaks_of_what_the_text_has(right: str, message: str, way_out: str) -> None:
    found = einc.check(f"matrix A, B : n × n\noutput y = {right}\n")[0]
    assert message in found.message and any(way_out in x.text for x in found.helps)


def test_ways_out_of_messages_are_read() -> None:
    given = {"A": np.arange(16.0).reshape(4, 4), "B": np.eye(4)[::-1].copy()}
    for right, value in (("A[2,:] B", (given["A"] @ given["B"])[1]), ("(A B)_{1,2}", (given["A"] @ given["B"])[0, 1]),
                         ("tr(A B)", math.fsum(np.diag(given["A"] @ given["B"])))):
        found = einc.interpret(f"dim n = 4\nmatrix A, B : n × n\noutput y = {right}\n", given)["y"]
        np.testing.assert_allclose(found, value)
