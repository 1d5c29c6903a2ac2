"""Letters that a text counts in another way than from 1 to the size of what they index: no equation that depends on it
is read as if they did.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_sections import entries, returned
from tests.test_small_papers import check, drawn

X = r"Let $x \in \mathbb{R}^{d}$. "
ZERO = [
    X + r"For $i = 0, \dots, d-1$ let $u$ be given.", X + r"It has the entries $x_0, \dots, x_{d-1}$.",
    X + r"It has the entries $x_0, x_1, \dots, x_{d-1}$.", X + "Indices start at $0$.", X + "The indices are 0-based.",
    X + "We use zero-based indices.", X + "Positions are counted from zero.", X + "Entries are numbered from 0.",
    X + "Here counting begins with 0.", X + "Arrays are zero-indexed.", X + r"Here $0 \le i < d$.",
    X + r"Here $i$ starts at 0.", X + "We count from 0.", X + r"where $i$ runs from $0$ to $d-1$.",
    X + "The first entry is $x_0$.", X + "The index of the first entry is 0.", X + "where $i \\ge 0$.",
    X + r"with $i \in [0, d-1]$.", X + r"$x = [x_0, x_1, x_2, \ldots]$.", X + "Indices are counted backwards.",
    X + "Indices start at two.", X + "We use Python indexing.", X + "Indices follow the convention of C.",
    r"Let $x \in \mathbb{R}^{d}$ with $0 \leq i \leq d - 1$.", X + r"Let $x = (x_0, \dots, x_{d-1})$."]
PARTS = [r"i = 2, \dots, d", r"i = 1, \dots, d-1", r"i = 0, \dots, d", r"i = 1, \dots, d/2", r"i = 1, \dots, 3",
         r"i = 3, 4, \dots, d"]


def last(text: str) -> tuple[str, str]:
    """What became of the last display of a text, and why."""
    found = entries(text)[-1]
    return found.status, found.reason


@pytest.mark.parametrize("equation", [
    "z_i = i x_i", r"z_i = x_i \cos(i)", "z_i = x_i / 10000^{2 i / d}", "z_i = (i + 1) x_i", "z_i = a^i x_i", "z = x_1",
    r"z = \sum_{i=1}^{d} i x_i"])
@pytest.mark.parametrize("words", ZERO)
def test_a_letter_that_counts_from_zero_is_no_number(words: str, equation: str) -> None:
    status, reason = last(f"{words} $$ {equation} $$")
    assert status == "skipped", reason


@pytest.mark.parametrize("words", ZERO)
def test_what_does_not_depend_on_where_a_letter_begins_to_count_is_read(words: str) -> None:
    given = drawn(1, x="d")
    check(rf"{words} $$ z_i = 2 x_i $$", "z", given, 2 * given["x"])


ONE = ["", "Learning starts at 0.", "Indices start at 1.", r"For $i = 1, \dots, d$ it is given.",
       "The first index is 1.", "where $i$ runs from 1.", r"with $i \in [1, d]$.",
       r"where $p \ge 0$.", r"Here $0 \le p < 1$ is a number."]


@pytest.mark.parametrize("words", ONE)
def test_a_letter_that_counts_from_one_is_a_number(words: str) -> None:
    given = drawn(1, x="d")
    check(rf"{X}{words} $$ z_i = i x_i $$", "z", given, given["x"] * np.arange(1, len(given["x"]) + 1))


@pytest.mark.parametrize("range_", [r"i = 0, \dots, d-1", *PARTS])
@pytest.mark.parametrize("text", [r"$$ z_i = i x_i, \quad {} $$", r"$$ z_i = i x_i \quad \text{{for }} {} $$",
                                  r"For ${}$ we have $$ z_i = i x_i $$"])
def test_a_range_beside_an_equation_that_is_not_from_one_to_the_size_is_a_question(range_: str, text: str) -> None:
    status, reason = last(X + text.format(range_))
    assert status == "skipped" and "says how a letter of it counts" in reason
    assert last(X + text.format(r"i = 1, \dots, d"))[0] == "compiled"


@pytest.mark.parametrize("range_", PARTS)
def test_a_part_of_a_range_is_a_question_where_the_letter_is_no_number(range_: str) -> None:
    assert last(rf"{X} $$ z_i = 2 x_i, \quad {range_} $$")[0] == "skipped"


def test_a_range_that_the_text_declares_is_read_as_it_stands() -> None:
    given = drawn(1, x="d")
    check(r"Let $x \in \mathbb{R}^{d}$. For $i \in \{0, \dots, d-1\}$, $$ z_i = i x_i $$", "z", given,
          given["x"] * np.arange(len(given["x"])))


def test_two_letters_that_count_from_zero() -> None:
    text = r"Let $X \in \mathbb{R}^{n \times d}$. For $t = 0, \dots, n-1$ and $j = 0, \dots, d-1$, "
    assert last(text + r"$$ Z_{tj} = (t + j) X_{tj} $$")[0] == "skipped"
    given = drawn(1, X="nd")
    check(text + r"$$ Z_{tj} = 3 X_{tj} $$", "Z", given, 3 * given["X"])


@pytest.mark.parametrize(("words", "status"), [("", "compiled"), ("Steps are counted from 0.", "skipped")])
def test_a_recurrence_whose_first_place_is_zero_does_not_begin_before_it(words: str, status: str) -> None:
    text = r"For positions $t = 1, \dots, n$ let $x_t \in \mathbb{R}$. With $h_0 = 0$, $$ h_t = a h_{t-1} + x_t $$"
    assert last(f"{words} {text}")[0] == status


U = r"Let $u \in \mathbb{R}^{d}$. "


@pytest.mark.parametrize("range_", [r"i = 1, \dots, m", r"i \in \{1, \dots, d/2\}", r"i \in \{1, \dots, m\}",
                                    r"i = 1, 2, \dots, d/2"])
@pytest.mark.parametrize("equation", [r"w = \sum_i u_i", "z_i = u_i", r"w = \max_i u_i"])
def test_a_letter_at_a_side_of_another_size_is_a_question(range_: str, equation: str) -> None:
    status, reason = last(f"{U}For ${range_}$ we have $$ {equation} $$")
    assert status == "skipped" and "says how a letter of it counts" in reason
    elsewhere = last(f"{U}For ${range_}$ it is given.\n\n# B\n\n{U} We have $$ {equation} $$")[0]
    assert elsewhere == "compiled" or "m" in range_


@pytest.mark.parametrize(("range_", "equation"), [
    (r"i = 1, \dots, d", r"w = \sum_i u_i"), (r"i = 1, \dots, m", r"w = \sum_j u_j"),
    (r"i \in \{1, \dots, m\}", r"w = \sum_{i=1}^{d} u_i")])
def test_a_letter_at_a_side_of_its_size_or_with_a_range_of_its_own_is_read(range_: str, equation: str) -> None:
    given = drawn(1, u="d")
    check(f"{U}For ${range_}$ we have $$ {equation} $$", "w", given, given["u"].sum())


def test_a_list_of_numbers_up_to_a_part_of_a_size_declares_its_letter() -> None:
    text = U + r"For $i = 1, 2, \dots, d/2$ let $$ \theta_i = 10000^{-2(i-1)/d} $$ $$ w = \sum_j u_j $$"
    found = returned(text, "", {"u": np.ones(6)})
    np.testing.assert_allclose(found["theta"], 10000.0 ** (-np.arange(3) / 3))
