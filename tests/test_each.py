"""Letters that the words beside a display count and its left side leaves out: "for each head `i` we have" makes
`k_t = W^{(i)} x_t` an equation for `k_{t i}`; what reads such a name says of which letter, or is a question.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_sections import entries, returned

HEAD = ("Let $x_t \\in \\mathbb{R}^{d}$ for $t, s = 1, \\dots, T$ (time), heads $i = 1, \\dots, h$ and "
        "$W^{(i)} \\in \\mathbb{R}^{d_k \\times d}$.\n\n")
KEYS = "$$k_t = W^{(i)} x_t$$\n\n"


def statuses(text: str) -> list[str]:
    """The status of each display of a paper."""
    return [x.status for x in entries(HEAD + text)]


def reason(text: str) -> str:
    """The reason that the last display is left out."""
    return entries(HEAD + text)[-1].reason


GIVEN = {"x": np.arange(6.0).reshape(3, 2) - 2, "W": np.arange(16.0).reshape(2, 4, 2) / 8}
EACH = np.einsum("hkd,td->thk", GIVEN["W"], GIVEN["x"])


@pytest.mark.parametrize(("before", "behind"), [
    ("For each head $i$ we have", ""), ("For each head $i$ and each token $t$ we have", ""),
    ("For every head $i$:", ""), ("We compute, for all tokens $t$ and heads $i$,", ""),
    ("For each head $i$, and each token $t$, we have, note that we multiply from the left:", ""),
    ("We have", "for each $i = 1, \\dots, h$."), ("We have", "for all heads $i$."),
    ("Let $k_t \\in \\mathbb{R}^{d_k}$. For each head $i$", "")])
def test_the_letter_is_one_of_the_name(before: str, behind: str) -> None:
    made = returned(f"{HEAD}{before}\n\n{KEYS}{behind}", "", GIVEN)
    np.testing.assert_allclose(made["k"], EACH)


@pytest.mark.parametrize(("before", "behind"), [
    ("We have", ""), ("For each token $t$ we have", ""), ("For each head $i$ we choose a key.\n\nThe keys are", ""),
    ("The keys are the same for every head $i$:", ""), ("We sum the keys, for each head $i$,", ""),
    ("We have", "For each head $i$ there is a query."), ("Not for each head $i$ we have", "")])
def test_other_words_do_not_say_so(before: str, behind: str) -> None:
    assert statuses(f"{before}\n\n{KEYS}{behind}") == ["skipped"]


def test_what_has_the_letter_reads_the_name_of_this_letter() -> None:
    text = f"{HEAD}For each head $i$ we have\n\n{KEYS}$$e_{{t,s,i}} = k_t^\\top k_s$$"
    np.testing.assert_allclose(returned(text, "", GIVEN)["e"], np.einsum("thk,shk->tsh", EACH, EACH))


@pytest.mark.parametrize("reader", ["y_t = 2 k_t", "y_t = \\sum_i k_t", "e_{t,s} = k_t^\\top k_s"])
@pytest.mark.parametrize("between", ["", "## Later\n\n"])
def test_elsewhere_it_is_a_question_which_is_meant(reader: str, between: str) -> None:
    text = f"For each head $i$ we have\n\n{KEYS}{between}$${reader}$$"
    assert statuses(text)[-1] == "skipped" and "which is meant" in reason(text)


def test_a_section_with_an_equation_of_its_own_means_that() -> None:
    assert statuses(f"For each head $i$ we have\n\n{KEYS}## Later\n\n$$k_t = 2 x_t$$\n\n$$y_t = 3 k_t$$"
                    ) == ["compiled"] * 3


def test_two_equations_one_of_which_has_no_such_letter_are_a_question() -> None:
    assert statuses(f"For each head $i$ we have\n\n{KEYS}$$k_t = 2 x_t$$")[0] == "skipped"


def test_a_pair_that_may_be_summed_is_a_question() -> None:
    head = "Let $t = 1, \\dots, T$ (time) and $i = 1, \\dots, h$ (head). "
    found = entries(f"{head}For each head $i$:\n\n$$y_t = w_i x_t^i$$")[-1]
    assert found.status == "skipped" and "summed, as a pair" in found.reason
    assert entries(f"{head}For each head $i$:\n\n$$y_t = w_i x_t$$")[-1].status == "compiled"


@pytest.mark.parametrize(("behind", "status"), [
    ("during inference, we have the following steps:", "compiled"), ("during inference.", "skipped"),
    ("during training, and twice as much at inference.", "skipped")])
def test_words_that_begin_the_next_step_do_not_limit_what_stands_above(behind: str, status: str) -> None:
    assert statuses(f"We have\n\n$$y_t = 2 x_t$$\n\n{behind}") == [status]


def test_lines_beside_the_text_settle_which_of_two_shapes_holds() -> None:
    text = "Let $A \\in \\mathbb{R}^{n \\times d}$ and $A \\in \\mathbb{R}^{n \\times m}$.\n\n$$B = 2 A$$"
    assert [x.status for x in entries(text)] == ["skipped"]
    assert [x.status for x in entries(text, "matrix A : n × m")] == ["compiled"]
