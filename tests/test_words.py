"""Words around formulas, and displays that go on: what they leave open is a question and never read over."""

from __future__ import annotations

import numpy as np
import pytest

from einc.driver.reports.coverage import account
from tests.test_sections import entries, paper, returned

PLACES = "Let $t, s = 1, \\dots, T$ be positions. Let $i, j = 1, \\dots, n$ be features.\n\n"
MATRICES = "Let $Q, K, V \\in \\mathbb{R}^{n \\times d}$ and $A, S, P \\in \\mathbb{R}^{n \\times n}$.\n\n"


def statuses(text: str, side: str = "") -> list[str]:
    """The status of each display of a paper."""
    return [x.status for x in entries(text, side)]


# rows that may go on

def display(rows: str, environment: str) -> str:
    """Rows in an environment."""
    inner = f"\\begin{{{environment}}} {rows} \\end{{{environment}}}"
    return f"$$\n{inner}\n$$" if environment in ("split", "aligned") else inner


@pytest.mark.parametrize("environment", ["align", "split", "aligned", "gather", "multline"])
@pytest.mark.parametrize("row", ["(A + S)", "A", r"&\quad (A + S)", "& A", r"& \sqrt{2} A", r"&\quad (A + S) = A"])
def test_a_row_that_may_go_on_is_a_question_with_the_row_above_and_its_readers(row: str, environment: str) -> None:
    mark = "&" if "&" in row else ""
    row = row if environment not in ("gather", "multline") else row.replace("&", "")
    mark = "" if environment in ("gather", "multline") else mark
    rows = rf"P {mark}= Q K^\top \\ {row} \\ O {mark}= P V"
    if "= A" in row and not mark:
        return
    found = entries(MATRICES + display(rows, environment))
    assert [x.status for x in found] == ["skipped"] * 3
    assert all("go on" in x.reason for x in found[:2])


def test_a_row_that_may_go_on_in_a_sum() -> None:
    rows = r"y_t &= \sum_{s \le t} x_s \\ & z_s w_s"
    assert statuses(PLACES + display(rows, "align")) == ["skipped", "skipped"]


@pytest.mark.parametrize("rows", [
    r"P &= Q K^\top \\ &\quad + A \\ O &= P V", r"P &= Q K^\top \\ &\quad \odot A \\ O &= P V",
    r"P &= (Q K^\top \\ &\quad + A) \\ O &= P V", r"P &= Q K^\top, \\ O &= P V", r"Q K^\top V \\ A V",
    r"& P = Q K^\top \\ & O = P V"])
def test_rows_with_a_sign_and_rows_of_their_own_are_read(rows: str) -> None:
    found = statuses(MATRICES + display(rows, "align"))
    assert found and {*found} == {"compiled"}


# displays that begin with a sign of equality

@pytest.mark.parametrize("end", ["", ",", ";", ".", r"\,,", r"\quad", r",\quad", r"\; .",
                                 r".\qquad"])
@pytest.mark.parametrize(("right", "status"), [("z_t - x_t", "skipped"), ("z_t + x_t", "restates")])
def test_what_goes_on_is_compared_whatever_ends_the_display_before(end: str, right: str, status: str) -> None:
    assert statuses(f"{PLACES}$$y_t = x_t + z_t{end}$$\n\n$$= {right}.$$") == ["compiled", status]


@pytest.mark.parametrize("end", [r"\quad \text{(by definition)}", r" \qquad (\text{by definition})",
                                 r"\; \text{by (3)}"])
def test_words_at_the_end_of_a_display_leave_its_left_side_open(end: str) -> None:
    found = statuses(f"{PLACES}$$x_t + z_t = z_t + x_t{end}$$\n\n$$= z_t - x_t.$$")
    assert found[-1] == "skipped"


@pytest.mark.parametrize("before", [r"P \approx Q K^\top", r"P = Q K^\top, \quad S = A"])
def test_what_goes_on_from_nothing_that_is_told_is_a_question(before: str) -> None:
    found = entries(f"{MATRICES}$${before}$$\n\n$$= A S$$")
    assert found[-1].status == "skipped" and "go on" in found[-1].reason
    assert statuses(f"{MATRICES}$$= A S$$") == ["compiled"]


@pytest.mark.parametrize(("right", "status"), [("z_t - x_t", "skipped"), ("z_t + x_t", "fact")])
def test_what_goes_on_from_a_value_is_compared_with_it(right: str, status: str) -> None:
    assert statuses(f"{PLACES}$$x_t + z_t$$\n\n$$= {right}$$") == ["compiled", status]


def test_a_name_alone_is_the_left_side_of_what_goes_on() -> None:
    found = entries(f"{MATRICES}$$P$$\n\n$$= Q K^\\top$$\n\n$$O = P V$$")
    assert [x.status for x in found] == ["skipped", "compiled", "compiled"]


# words of a condition or of a denial

FUNCTION, APPLIED = "$$f(u) = u/2 + 1$$", "\n\nThen\n\n$$y_t = f(x_t)$$"


@pytest.mark.parametrize("words", [
    "Assume $u > 0$.", "In the limit of large $u$ we have", "On the positive half-line", "For small $u$,",
    "Around $u = 0$ the function behaves like", "Up to a constant,", "It would be wrong to define",
    "Let $u \\ge 0$. Then"])
def test_words_before_a_function_limit_it(words: str) -> None:
    assert statuses(f"{PLACES}{words}\n{FUNCTION}{APPLIED}") == ["skipped", "skipped"]
    assert statuses(f"{PLACES}{words}\n\n{FUNCTION}{APPLIED}") == ["skipped", "skipped"]


@pytest.mark.parametrize("words", ["for $u > 0$, and then", "where $u > 0$.", "\n\nwhere $u > 0$.", "near $u = 0$."])
def test_words_behind_a_function_limit_it(words: str) -> None:
    assert statuses(f"{PLACES}{FUNCTION}\n{words}{APPLIED}") == ["skipped", "skipped"]


@pytest.mark.parametrize("words", [
    "We define", "The function of a layer is", "We let $u$ be a number and define", "It is applied to each $x_t$:"])
def test_words_that_limit_no_function(words: str) -> None:
    assert statuses(f"{PLACES}{words}\n{FUNCTION}\n\nIt is large.{APPLIED}") == ["definition", "compiled"]


@pytest.mark.parametrize("words", [
    "It is not true that", "During training,", "At test time we use", "If $x_t > 0$, then", "If $x_t$ is positive:",
    "Unless $x_t > 0$,", "Otherwise", "We do not use"])
def test_words_before_an_equation_limit_it(words: str) -> None:
    assert statuses(f"{PLACES}{words}\n$$y_t = x_t$$\n\n$$z_t = y_t + 1$$") == ["skipped", "skipped"]


def test_both_cases_of_a_condition_are_questions() -> None:
    text = "If $x_t > 0$, then $$y_t = x_t$$ otherwise $$y_t = 0$$\n\n$$z_t = y_t + 1$$"
    assert statuses(f"{PLACES}{text}") == ["skipped"] * 3


@pytest.mark.parametrize("text", [
    "If $x_t > 0$, then $y_t = x_t$, otherwise $y_t = 0$.",
    "We use $y_t = x_t$ when $x_t > 0$ and $y_t = 0$ when $x_t < 0$."])
def test_what_a_line_of_text_defines_by_cases_is_a_question(text: str) -> None:
    assert statuses(f"{PLACES}{text}\n\n$$z_t = y_t + 1$$\n\n$$v_t = x_t + 1$$") == ["skipped", "compiled"]


def test_what_a_line_of_text_supposes_begins_no_recurrence() -> None:
    state = "$$h_t = a_t h_{t-1} + x_t$$"
    assert statuses(f"{PLACES}If $h_0 = 2$, the state grows.\n\n{state}") == ["skipped"]
    assert statuses(f"{PLACES}Let $h_0 = 2$.\n\n{state}") == ["compiled"]


@pytest.mark.parametrize("words", [
    "For $t > 1$,", "For all $s \\le t$ we have", "For $t = 1, \\dots, T$,", "As $T \\gg 1$ we use",
    "We do not need $Q$:", "instead of a sum", "Instead of a sum over all of them, we use",
    "It is not hard to see that", "This is trained on $n$ tokens.",
    "where $1 \\le t \\le T$ and"])
def test_words_that_limit_no_equation(words: str) -> None:
    assert statuses(f"{PLACES}{words}\n$$y_t = x_t$$\n\nwhere $x_t > 0$.\n\n$$z_t = y_t + 1$$") == ["compiled"] * 2


@pytest.mark.parametrize(("words", "status"), [
    ("is wrong.", "skipped"), ("cannot hold.", "skipped"), ("as long as $x_t > 0$.", "skipped"),
    ("is not a sum over tokens.", "compiled"), ("for all $t > 1$.", "compiled"), ("where $x_t > 0$.", "compiled")])
def test_words_behind_an_equation(words: str, status: str) -> None:
    assert statuses(f"{PLACES}$$y_t = x_t$$ {words}\n\n$$z_t = y_t + 1$$") == [status, status]


@pytest.mark.parametrize("text", [
    r"Instead of $$P = Q K^\top$$ we use $$P = K Q^\top$$", r"We use $$P = K Q^\top$$ rather than $$P = Q K^\top$$"])
def test_what_is_rejected_is_not_taken(text: str) -> None:
    found = entries(f"{MATRICES}{text}\n\n$$O = P V$$")
    assert [x.status for x in found if "Q K" in x.span.text] == ["skipped"]
    q, k, v = np.random.default_rng(3).normal(size=(3, 5, 4))
    made = returned(f"{MATRICES}{text}\n\n$$O = P V$$", "", {"Q": q, "K": k, "V": v}, n=5, d=4)
    np.testing.assert_allclose(made["O"], k @ q.T @ v)


@pytest.mark.parametrize(("text", "read"), [
    (r"Instead of $P = Q K^\top$ we use $P = K Q^\top$.", "KQ"),
    (r"The choice $P = Q K^\top$ is bad; we take $P = A$.", "A"),
    (r"Suppose for contradiction that $P = Q K^\top$.", ""), (r"The scores are $P = Q K^\top$.", "QK")])
def test_a_line_of_text_that_is_denied_defines_nothing(text: str, read: str) -> None:
    found = account(paper(f"{MATRICES}{text}\n\n$$O = P V$$"), kernels=False)
    (made,) = found.made
    assert {"QK": "KQV", "KQ": "KQV", "A": "AV", "": "PV"}[read] == "".join(sorted(x[0] for x in made.inputs))


# sentences that say what a name stands for

SIDE = "index i : feature(n)\nindex t : time(T)\ninput w_i, c, x_t\n"
W, C = np.random.default_rng(5).uniform(0.5, 1.5, size=4), 3.0


def value(text: str, name: str, section: str = "", side: str = SIDE) -> np.ndarray:
    """What an equation over w and c returns."""
    return returned(text, side, {"w": W, "c": np.array(C)}, section, n=4)[name]


@pytest.mark.parametrize(("sentence", "wide"), [
    ("We write $w_i / c$ as $w_i$ throughout the paper.", True), ("We write $w_i / c$ as $w_i$ throughout.", True),
    ("In the whole paper we write $w_i / c$ as $w_i$.", True), ("We write $w_i / c$ as $w_i$.", False),
    ("Throughout this section, we write $w_i / c$ as $w_i$.", False)])
def test_a_sentence_says_where_it_holds(sentence: str, wide: bool) -> None:
    text = f"# A\n\n{sentence}\n\n$$z_i = w_i + 1$$\n\n# B\n\n$$y_i = w_i + 2$$\n"
    np.testing.assert_allclose(value(text, "z", "A"), W / C + 1)
    if wide:
        np.testing.assert_allclose(value(text, "y", "B"), W / C + 2)
    else:
        np.testing.assert_allclose(returned(text, SIDE, {"w": W}, "B", n=4)["y"], W + 2)


def test_what_is_not_read_holds_everywhere_too() -> None:
    text = "# A\n\nWe write $c w_i$ where needed as $w_i$. We write $u_i$ for $w_i / c$ throughout the paper.\n\n"
    assert statuses(f"{text}# B\n\n$$y_i = u_i + 2$$", SIDE) == ["skipped"]
    assert statuses(f"{text.replace(' throughout the paper', '')}# B\n\n$$y_i = u_i + 2$$", SIDE) == ["compiled"]


def test_a_letter_that_is_no_index_stands_for_itself() -> None:
    text = "We write $w_q / c$ as $w_q$.\n\n$$z = w_q + w_k$$"
    made = returned(text, "input w_q, w_k, c\n", {"w_q": np.array(2.0), "w_k": np.array(5.0), "c": np.array(4.0)})
    np.testing.assert_allclose(made["z"], 5.5)


@pytest.mark.parametrize("sentence", [
    "We write $u_i$ as $w_i / c$.", "We will write $u_i$ as $w_i / c$.", "We write $u_i$ for the ratio $w_i/c$.",
    "We write $x_t$ for the input, $w_i$ for the output and $u_i$ for $w_i/2$.", "Let $u_i$ denote $w_i/c$.",
    "Let $u_i$ be $w_i/c$.", "Below, $w_i/c$ is denoted by $u_i$.", "Writing $u_i$ for $w_i/c$, we have",
    "Define $u_i$ as $w_i/c$.", "We use the shorthand $u_i$ for $w_i/c$.", "We denote $w_i/c$ by $u_i$.",
    "Here $u_i$ is short for $w_i/c$.", "The gate $u_i$ is $w_i/c$.", "We call $w_i/c$ the gate $u_i$."])
def test_what_a_sentence_says_of_a_name_by_an_expression_is_a_question(sentence: str) -> None:
    found = entries(f"{sentence}\n\n$$z_i = u_i + 1$$\n\n$$y_i = w_i + 1$$", SIDE)
    assert [x.status for x in found] == ["skipped", "compiled"]
    assert "stands for" in found[0].reason


@pytest.mark.parametrize("end", ["where $u_i$ denotes $w_i/c$.", "where $u_i$ is $w_i/c$.",
                                 "with $u_i$ given by $w_i/c$"])
def test_words_behind_a_display_say_what_stands_in_it(end: str) -> None:
    assert statuses(f"$$z_i = u_i + 1$$\n\n{end}\n\n$$y_i = w_i + 1$$", SIDE) == ["skipped", "compiled"]


def test_a_sign_of_definition_in_a_line_of_text_defines() -> None:
    text = "We write $u_i \\triangleq w_i/c$.\n\n$$z_i = u_i + 1$$"
    np.testing.assert_allclose(value(text, "z"), W / C + 1)


@pytest.mark.parametrize("sentence", [
    "Let $u_i$ be an input of $n$ numbers.", "where $u_i$ is $1$.", "Let $u_i$ be the $i$-th entry.",
    "where $u_i$ is $w_i$.", "We write $w_i$ for short.", "It takes $u_i$ to $w_i/c$.",
    "The cost of $u_i$ is $O(n^2)$.", "The norm of $u_i$ is $w_i/c$.", "Let $u_i$ be $n \\times n$."])
def test_what_says_nothing_by_an_expression_leaves_a_name_as_it_is(sentence: str) -> None:
    assert statuses(f"{sentence}\n\n$$z_i = u_i + 1$$", SIDE) == ["compiled"]


def test_two_sentences_that_disagree_are_a_question() -> None:
    text = "# A\n\nThroughout, we write $w_i / c$ as $w_i$.\n\n$$z_i = w_i$$\n\n# B\n\nGIVEN\n\n$$y_i = w_i + 2$$\n"
    assert statuses(text.replace("GIVEN", "We write $w_i + 1$ as $w_i$."), SIDE)[-1] == "skipped"
    again = text.replace("GIVEN", "We write $w_i / c$ as $w_i$.")
    assert statuses(again, SIDE)[-1] == "compiled"


@pytest.mark.parametrize(("power", "read"), [("2", True), ("t", True), ("(2)", False), ("(t)", False)])
def test_what_stands_in_parentheses_is_no_place_of_an_abbreviation(power: str, read: bool) -> None:
    side = "index t : time(T)\ninput θ, x_t\n"
    text = f"{PLACES}We write $\\theta^{{t/n}}$ as $\\theta^t$.\n\n$$y_t = \\theta^{{{power}}} x_t$$"
    assert statuses(text, side) == ["compiled" if read else "skipped"]
