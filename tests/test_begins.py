"""Recurrences whose first value a text says by an equation of its own, `h_1 = x_1`, and conditions that a display
writes in words or in parentheses behind its right side.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_sections import entries, returned

POS = "Let $t, s = 1, \\dots, T$ be positions.\n\n"
X, Z = np.random.default_rng(3).normal(size=(2, 5))
A = np.array(0.5)


def shown(*displays: str) -> str:
    """Displays one after another."""
    return POS + "\n\n".join(x if x[:1].isupper() or "$" in x else f"$${x}$$" for x in displays)


def loop(first: float, behind: str = "a h + x") -> np.ndarray:
    """The recurrence as a loop."""
    out = [first]
    for x in X[1:]:
        out.append(max(out[-1], x) if behind == "max" else A * out[-1] + x)
    return np.array(out)


NEXT = "h_t = a h_{t-1} + x_t"


@pytest.mark.parametrize(("displays", "right"), [
    (("h_1 = x_1, \\quad " + NEXT,), loop(X[0])), (("h_1 = x_1", NEXT), loop(X[0])),
    (("h_1 = x_1", NEXT + r" \quad (t \ge 2)"), loop(X[0])),
    (("h_1 = 2 x_1 + 1", NEXT + ", t > 1"), loop(2 * X[0] + 1)),
    ((NEXT, "where $h_1 = x_1$."), loop(X[0])), (("h_1 = 0", NEXT + r", \quad t = 2, \dots, T"), loop(0.0)),
    (("h_1 = 2", NEXT + r" \quad \text{for } t = 2, \dots, T"), loop(2.0)),
    (("h_1 = 2", NEXT + r" \text{ for all } t \ge 2."), loop(2.0)),
    (("h_0 = 2", NEXT), loop(A * 2 + X[0])), (("h_1 = x_1", r"h_t = \max(h_{t-1}, x_t)"), loop(X[0], "max"))])
def test_a_recurrence_with_its_start(displays: tuple[str, ...], right: np.ndarray) -> None:
    given = {"x": X} if "max" in displays[-1] else {"x": X, "a": A}
    np.testing.assert_allclose(returned(shown(*displays), "", given)["h"], right)


def test_of_matrices() -> None:
    head = ("Let $t = 1, \\dots, T$ be positions, $x_t \\in \\mathbb{R}^{d}$, $A \\in \\mathbb{R}^{n \\times n}$ and "
            "$B \\in \\mathbb{R}^{n \\times d}$.\n\n")
    x, a, b = (np.random.default_rng(n).normal(size=size) for n, size in enumerate([(4, 3), (2, 2), (2, 3)]))
    h = [b @ x[0]]
    for one in x[1:]:
        h.append(a @ h[-1] + 2 * b @ one)
    made = returned(head + "$$h_1 = B x_1$$\n\n$$h_t = A h_{t-1} + 2 B x_t$$", "", {"x": x, "A": a, "B": b})
    np.testing.assert_allclose(made["h"], np.array(h))


@pytest.mark.parametrize("displays", [
    ("h_1 = x_1", NEXT + ", t > 2"), ("h_2 = x_2", NEXT), ("h_1 = x_1, \\quad h_1 = 2", NEXT),
    ("h_1 = x_1, \\quad h_0 = 2", NEXT), ("h_1 = x_1", NEXT + r", \quad t = 3, \dots, T")])
def test_a_start_that_does_not_fit_is_a_question(displays: tuple[str, ...]) -> None:
    found = entries(shown(*displays))
    assert [x.status for x in found if x.span.text.startswith("h_t")] == ["skipped"]


def test_where_the_letter_counts_from_0_the_second_is_no_start() -> None:
    text = "Let $t = 0, \\dots, T-1$ be positions.\n\n$$h_1 = x_1$$\n\n$$h_t = a h_{t-1} + x_t$$"
    assert entries(text)[-1].status == "skipped"
    assert entries("$$h_1 = x_1$$\n\n$$h_t = a h_{t-1} + x_t$$", "index t : time(0..T-1)")[-1].status == "skipped"
    assert entries("$$h_1 = x_1$$\n\n$$h_t = a h_{t-1} + x_t$$", "index t : time(T)")[-1].status == "compiled"


# conditions behind a right side

@pytest.mark.parametrize("condition", [
    r"\text{ for } s \le t", r"\quad \text{if } s \le t", r"\quad (s \le t)", r", \quad s \le t",
    r", \text{ for } s \le t", r"\text{ when } s \le t"])
def test_a_condition_in_words_is_the_domain(condition: str) -> None:
    text = POS + rf"$$L_{{ts}} = x_t z_s + 1 {condition}$$" "\n\n$$y_t = \\sum_s \\exp(L_{ts})$$"
    made = returned(text, "", {"x": X, "z": Z})
    right = [sum(np.exp(X[t] * Z[s] + 1) for s in range(t + 1)) for t in range(5)]
    np.testing.assert_allclose(made["y"], right)


@pytest.mark.parametrize("condition", [r"\text{ for } t \ge 1", r"\quad \text{for all } t = 1, \dots, T",
                                       r"\quad \text{for } t \in \{1, \dots, T\}"])
def test_a_condition_that_always_holds(condition: str) -> None:
    np.testing.assert_allclose(returned(POS + rf"$$y_t = x_t z_t {condition}$$", "", {"x": X, "z": Z})["y"], X * Z)


@pytest.mark.parametrize("right", [r"x_t \text{ if } t > 1 \text{ else } 0", r"x_t (z_t > 0)", r"x_t \text{ if } t > 1",
                                   r"x_t \quad (z_t > 0)", r"f(t > 1)"])
def test_others_are_questions(right: str) -> None:
    assert entries(POS + f"$$y_t = {right}$$")[-1].status == "skipped"


# functions before big operators, functions by cases, numbers

@pytest.mark.parametrize(("right", "value"), [
    (r"\log \sum_{s \le t} e^{x_s}", lambda: np.log(np.cumsum(np.exp(X)))),
    (r"x_t - 2 \log \sum_{s=1}^{t} \exp(x_s) z_s^{2} + 1", None),
    (r"\exp \max_{s \le t} x_s", lambda: np.exp(np.maximum.accumulate(X)))])
def test_a_function_before_a_big_operator_is_of_all_that_it_takes(right: str, value: object) -> None:
    side = "input x_t, z_t" if "z" in right else "input x_t"
    right = right.replace("z_s^{2}", "(z_s)^{2}")
    made = returned(POS + f"$$y_t = {right}$$", side, {"x": X, "z": Z} if "z" in right else {"x": X})["y"]
    wanted = value() if callable(value) else X - 2 * np.log(np.cumsum(np.exp(X) * Z**2)) + 1
    np.testing.assert_allclose(made, wanted)


@pytest.mark.parametrize("right", [r"\log \sum_{s \le t} \exp(x_s) / 2", r"\log \sum_{s \le t} \exp(x_s) \cdot 2"])
def test_where_a_function_ends_is_a_question(right: str) -> None:
    assert entries(POS + f"$$y_t = {right}$$")[-1].status == "skipped"


ROWS = "Let $Y, X \\in \\mathbb{R}^{n \\times d}$.\n\n"


@pytest.mark.parametrize(("cases", "function"), [
    (r"u & u > 0 \\ 0 & \text{otherwise}", lambda u: np.maximum(u, 0)),
    (r"u & \text{if } u > 0, \\ e^u - 1 & \text{if } u \le 0.", lambda u: np.where(u > 0, u, np.exp(u) - 1)),
    (r"u & \text{if } |u| > 1, \\ 0 & \text{otherwise}", lambda u: np.where(abs(u) > 1, u, 0)),
    (r"1 & -1 \le u \le 1 \\ 2 & \text{otherwise}", lambda u: np.where(abs(u) <= 1, 1, 2))])
def test_a_function_by_cases(cases: str, function: object) -> None:
    drawn = np.random.default_rng(1).normal(size=(4, 3)) * 2
    text = rf"{ROWS}$$f(u) = \begin{{cases}} {cases} \end{{cases}}$$" "\n\n$$Z = f(X)$$"
    assert callable(function)
    np.testing.assert_allclose(returned(text, "", {"X": drawn})["Z"], function(drawn))


def test_cases_that_leave_something_out_are_a_question() -> None:
    text = rf"{ROWS}$$f(u) = \begin{{cases}} u & u > 0 \\ 0 & u < 0 \end{{cases}}$$" "\n\n$$Z = f(X)$$"
    assert [x.status for x in entries(text)] == ["skipped", "skipped"]


@pytest.mark.parametrize(("number", "value"), [(r"\gamma = 0.5", 0.5), (r"\gamma = 1 - 2^{-5}", 1 - 2**-5),
                                               (r"\gamma = \frac{1}{\sqrt{2}}", 2**-0.5)])
def test_a_small_letter_that_is_a_number(number: str, value: float) -> None:
    drawn = np.random.default_rng(1).normal(size=(4, 3))
    made = returned(rf"{ROWS}$${number}$$" "\n\n$$Z = \\gamma X$$", "", {"X": drawn})
    np.testing.assert_allclose(made["Z"], value * drawn)


@pytest.mark.parametrize("text", ["A = 0", "A = 1", "x = 0", r"\mathbf{a} = 1"])
def test_what_may_be_a_matrix_is_a_question(text: str) -> None:
    name = text.partition(" =")[0]
    assert entries(rf"{ROWS}$${text}$$" f"\n\n$$Z = {name} X$$")[-1].status == "skipped"
