"""What a display of a paper leaves unknown when it is not read, and what it says of a name that something else defines:
no equation that reads the name is compiled as if nothing had been said.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_sections import entries, returned

POS = "Let $t, s = 1, \\dots, T$ be positions.\n\n"
SHAPES = "Let $Q, K, V \\in \\mathbb{R}^{n \\times d}$ and $A, S, P \\in \\mathbb{R}^{n \\times n}$.\n\n"


def statuses(head: str, *displays: str) -> list[str]:
    """What became of displays after some words, each in a display of its own."""
    return [x.status for x in entries(head + "\n\n".join(f"$${x}$$" for x in displays))]


def reason(head: str, *displays: str) -> str:
    """The reason that the last of some displays is left out."""
    found = entries(head + "\n\n".join(f"$${x}$$" for x in displays))[-1]
    return found.reason if found.status == "skipped" else ""


# displays that are not read

UNREAD = [
    ("u = v^2", "y_t = u x_t"), ("u_{t+1} = v_t", "y_t = u_t x_t"), ("u_{t-1} = v_t", "y_t = u_t x_t"),
    ("(u_t, w_t) = v_t", "y_t = u_t x_t"),
    ("(u_t, w_t) = v_t", "y_t = w_t x_t"), (r"u_t, w_t = \operatorname{split}(v_t)", "y_t = u_t x_t"),
    (r"u_t, w_t = \operatorname{split}(v_t)", "y_t = w_t x_t"), ("2u_t = v_t", "y_t = u_t x_t"),
    (r"\begin{cases} u_t = v_t \\ w_t = 2 v_t \end{cases}", "y_t = u_t x_t"),
    (r"\begin{cases} u_t = v_t \\ w_t = 2 v_t \end{cases}", "y_t = w_t x_t"),
    (r"\log(u_t) = v_t", "y_t = u_t x_t"), (r"(\sigma_t)^2 = v_t", r"y_t = \sigma_t x_t"),
    ("x_t' = 2 x_t", "y_t = x'_t"), (r"u_t \leftarrow v_t / c", "y_t = u_t + 1"),
    ("h_{t+1} = a h_t + x_t", "y_t = h_t"),
]


@pytest.mark.parametrize(("left", "reader"), UNREAD)
def test_every_name_on_the_left_of_a_display_that_is_not_read_is_unknown(left: str, reader: str) -> None:
    assert set(statuses(POS, left, reader)) == {"skipped"}
    assert "cannot be read" in reason(POS, left, reader)


def test_a_start_does_not_stand_for_a_recurrence_that_is_not_read() -> None:
    assert statuses(POS, "h_0 = 0", "h_{t+1} = a h_t + x_t", "y_t = h_t")[1:] == ["skipped", "skipped"]


@pytest.mark.parametrize(("left", "reader"), [
    ("u = v^2", "y_t = w x_t"), ("u_{t+1} = v_t", "y_t = v_t x_t"), ("(u_t, w_t) = v_t", "y_t = v_t x_t"),
    ("f(x) = z_{t+1 = 2", "y_t = x_t"), (r"\begin{cases} u_t = v_t \\ w_t = 2 v_t \end{cases}", "y_t = v_t x_t"),
    ("2u_t = v_t", "y_t = v_t x_t"), (r"u_t \leftarrow v_t / c", "y_t = v_t + c"),
    (r"u_t = v_t \text{ if } s = 1", "y_t = v_t + z_t"), (r"\frac{\partial L}{\partial x_t} = v_t", "y_t = x_t"),
    (r"\hat{u}_t = v_t \text{ if } s = 1", "y_t = u_t"), (r"(a_t b_t) c_t = a_t (b_t c_t)", "y_t = a_t x_t")])
def test_other_names_stay_what_they_are(left: str, reader: str) -> None:
    assert statuses(POS, left, reader)[-1] == "compiled"


def test_what_an_update_that_is_not_read_updates_is_unknown() -> None:
    text = ("w_t = v_t / c", r"w_t \leftarrow w_t + 1", "z_t = w_t + 1")
    assert statuses(POS, *text) == ["skipped"] * 3
    assert statuses(POS, *text[:2], "z_t = v_t + 1")[-1] == "compiled"
    assert set(statuses(SHAPES + "Let $W \\in \\mathbb{R}^{d \\times d}$.\n\n", r"Q \leftarrow Q W",
                        r"O = Q K^\top V")) == {"skipped"}


# facts, and displays of nothing

@pytest.mark.parametrize("text", ["P = A^2", "O = x^2", "s = x_1^2", "s = A_{12}", r"\alpha = \beta^2"])
def test_a_power_and_an_entry_are_no_second_name(text: str) -> None:
    assert statuses(SHAPES, text) != ["fact"]


@pytest.mark.parametrize("text", [r"\alpha = \beta", "d_k = d_v", "W_1 = W_2", "d^2 = n"])
def test_second_names_and_sizes(text: str) -> None:
    assert statuses(SHAPES, text) == ["fact"]


@pytest.mark.parametrize("displays", [("= ",), ("=",), ("2 x_t", "= = x_t"), ("= =",), ("x_t = 1", "= = x_t")])
def test_a_sign_of_equality_alone_says_nothing(displays: tuple[str, ...]) -> None:
    assert statuses(POS, *displays)[-1] == "skipped"


# two equations of one section

DISPUTED = [
    (SHAPES, r"A_{ij} = 0, \quad j > i", r"A_{ij} = S_{ij}, \quad j \le i", "O = A V"),
    (SHAPES, r"A_{ij} = 0, \quad j > i", r"A_{ij} = \mystery{S}_{ij}, \quad j \le i", "O = A V"),
    (POS, r"x_t = 2 w_t, \quad t > 1", r"x_t = 7, \quad t = 1", r"y_t = \sum_{s \le t} x_s"),
    (POS, "x_t = 2 w_t", "x_t = 3 w_t", "y_t = x_t + 1"),
    (SHAPES, "P = A S", "P = S A", "O = P V"),
]


@pytest.mark.parametrize(("head", "one", "other", "reader"), DISPUTED)
def test_which_of_two_equations_of_a_section_holds_is_a_question(head: str, one: str, other: str, reader: str) -> None:
    assert statuses(head, one, other, reader) == ["skipped"] * 3


def test_both_equations_say_so_and_other_sections_do_not_read_the_name() -> None:
    text = f"{POS}# A\n\n$$x_t = 2 w_t$$\n\n$$x_t = 3 w_t$$\n\n# B\n\n$$y_t = x_t + 1$$"
    found = entries(text)
    assert [x.status for x in found] == ["skipped"] * 3
    assert [x.reason.split(",")[0] for x in found[:2]] == ["it is not equal to 3", "it is not equal to 2"]


@pytest.mark.parametrize(("text", "wanted"), [
    (f"{POS}$$x_t = 2 w_t$$\n\n$$x_t = w_t + w_t$$\n\n$$y_t = x_t + 1$$", ["compiled", "restates", "compiled"]),
    (f"{POS}$$x_t = 2 w_t = 3 w_t$$\n\n$$y_t = x_t + 1$$", ["compiled", "skipped", "compiled"]),
    (f"{POS}# A\n\n$$x_t = 2 w_t$$\n\n$$y_t = x_t$$\n\n# B\n\n$$x_t = 3 w_t$$\n\n$$z_t = x_t$$", ["compiled"] * 4),
    (f"{POS}# A\n\n$$x_t = 2 w_t$$\n\n$$x_t = 3 w_t$$\n\n# B\n\n$$y_t = w_t + 1$$", ["skipped"] * 2 + ["compiled"]),
])
def test_what_is_no_contradiction(text: str, wanted: list[str]) -> None:
    assert [x.status for x in entries(text)] == wanted


# entries and values

MAPPED = SHAPES + "Let $W \\in \\mathbb{R}^{d \\times d}$ and $x \\in \\mathbb{R}^{n}$.\n\n"
ENTRIES = [
    (SHAPES, "A_{1,2} = 3", "O = A V"), (MAPPED, "S_{i,1} = x_i", "O = S V"), (SHAPES, "A_{11} = 3", "O = A V"),
    (SHAPES, "S_{ij} = A_{ij}", "S_{1,2} = 0", "O = S V"), (SHAPES, "S_{ij} = A_{ij}", "S_{ii} = 0", "O = S V"),
    (MAPPED, "O = A V", "O_{1,j} = 0", "Y = O W"), (POS, "x_t = 2 w_t", "x_1 = 7", "y_t = x_t"),
    (POS, "x_1 = 7", "y_t = x_t"), (SHAPES, "A = 0", "O = A V"), (SHAPES, "A = 1", "O = A V"),
    (SHAPES, "A = I", "O = A V"), (SHAPES + "We use $A$ with $A_{ii} = 0$.\n\n", "O = A V"),
]


@pytest.mark.parametrize("text", ENTRIES, ids=lambda x: " | ".join(x[1:]))
def test_what_is_said_of_entries_and_not_taken_in_is_a_question(text: tuple[str, ...]) -> None:
    assert set(statuses(*text)) == {"skipped"}


@pytest.mark.parametrize("text", [
    (POS, "h_0 = 0", "h_t = a_t h_{t-1} + x_t", "y_t = h_t"),
    (POS, r"\mathbf{h}_0 = 0", r"\mathbf{h}_t = a_t \mathbf{h}_{t-1} + x_t", r"y_t = \mathbf{h}_t"),
    (SHAPES, "P = A", "O = P V"),
    (SHAPES, "A_{ij} = S_{ij}", "O = A V"), (SHAPES + "We use $S$ with $S_{ii} = 0$.\n\n", "O = A V"),
    (POS, "x_1 = 7", "y_t = 2 w_t", "z_t = y_t + x_1"), (POS, "W_1 = 7", "y_t = W_1 x_t + W_2"),
    (POS, "x_t = 2 w_t", "y_1 = 7", "z_t = x_t"),
], ids=lambda x: " | ".join(x[1:]))
def test_what_is_said_of_other_names_is_no_question(text: tuple[str, ...]) -> None:
    assert set(statuses(*text)) <= {"compiled", "fact"} and statuses(*text)[-1] == "compiled"


@pytest.mark.parametrize(("head", "reader", "name", "wanted"), [
    (SHAPES, r"O = \gamma V", "V", "O"), (POS, r"y_t = \gamma x_t", "x", "y")])
def test_a_number_with_a_value_is_no_input(head: str, reader: str, name: str, wanted: str) -> None:
    text = f"{head}Let $\\gamma \\in \\mathbb{{R}}$.\n\n$$\\gamma = 0.5$$\n\n$${reader}$$"
    drawn = np.random.default_rng(1).normal(size=(4, 3) if name == "V" else 4)
    np.testing.assert_allclose(returned(text, "", {name: drawn})[wanted], drawn / 2)


CASES = r"x_{ts} = \begin{cases} ONE & s \le t \\ OTHER & s RELATION t \end{cases}"


@pytest.mark.parametrize(("one", "other", "relation", "status"), [
    ("1", "2", r"\ge", "skipped"), ("(a)^{t-s}", "0", r"\ge", "skipped"), ("1", "2", ">", "compiled"),
    ("1", "1", r"\ge", "compiled"), ("w_t", "w_s", r"\ge", "compiled")])
def test_two_cases_that_hold_at_once_are_the_same_there(one: str, other: str, relation: str, status: str) -> None:
    text = CASES.replace("ONE", one).replace("OTHER", other).replace("RELATION", relation)
    assert statuses(POS, text, "y_{ts} = 2 x_{ts}") == [status] * 2
