r"""What stands above a name, and other writing with two readings: the one that fits is read, or it is a question."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from einc.meaning.interpret import interpret
from tests.test_sections import entries, returned
from tests.texts import codes, typed

POSITIONS = "Let $t, s = 1, \\dots, T$ be positions.\n\n"
DECLARED = "dim m = 4\ninput x_t, θ, γ_h\n"


def draw(*shape: int) -> np.ndarray:
    """Numbers above 0."""
    return np.random.default_rng(7).uniform(0.5, 1.5, size=shape)


def last(text: str, side: str = "") -> tuple[str, str]:
    """The status of the last display, and the reason."""
    found = entries(text, side)[-1]
    return found.status, found.reason


# scripts above names, in a spec

X, THETA, GAMMA = draw(5), 2.5, draw(3)
LAGS = np.arange(5)[:, None] - np.arange(5)
POWERS = {
    "x_t^2": X**2, "x_t^{-1}": 1 / X, "x_t^{1/2}": X**0.5, "x_t^{m/2}": X**2, "θ^{2/m} x_t": THETA**0.5 * X,
    "θ^{-t} x_t": THETA ** -np.arange(1.0, 6.0) * X,
}


@pytest.mark.parametrize("text", POWERS)
def test_what_is_computed_above_a_name_is_a_power(text: str) -> None:
    found = typed(f"{DECLARED}output y_t = {text}")
    made = interpret(found, {t.key: {"x": X, "theta": np.array(THETA)}[t.key] for t in found.inputs()}, {"T": 5})
    np.testing.assert_allclose(made["y"], POWERS[text])


def test_a_power_that_changes_from_pair_to_pair() -> None:
    found = typed(f"{DECLARED}output y_{{t h}} = Σ_{{s ≤ t}} γ_h^{{t-s}} x_s")
    made = interpret(found, {"x": X, "gamma": GAMMA}, {"T": 5, "H": 3})
    decay = torch.tril(torch.tensor(GAMMA)[:, None, None] ** torch.tensor(LAGS))
    np.testing.assert_allclose(made["y"], torch.einsum("hts,s->th", decay, torch.tensor(X)))


@pytest.mark.parametrize("text", ["x_t^{(2)}", "x_t^{\\text{2}}", "x_t^{s}", "x_t^{(t-s)}", "γ_h^{h} x_t", "x_t^{T}"])
def test_what_may_be_a_label_or_a_place_is_no_power(text: str) -> None:
    assert codes(f"{DECLARED}output y_t = {text}")


def test_a_declared_place_above_a_name_is_no_power() -> None:
    both = f"{DECLARED}input w, w^t\noutput y_t = 1[t > 1] w^{{t-1}}"
    assert codes(both) == ["E0203"]
    one = typed(f"{DECLARED}input w^t\noutput y_t = 1[t > 1] w^{{t-1}}")
    np.testing.assert_allclose(interpret(one, {"w": X}, {"T": 5})["y"], [0, *X[:-1]])


# scripts above names, in a paper

MATRICES = "Let $A \\in \\mathbb{R}^{n \\times n}$, $V \\in \\mathbb{R}^{n \\times d}$.\n\n"


@pytest.mark.parametrize(("text", "status"), [
    ("V^T V", "compiled"), (r"V^{\text{T}} V", "compiled"), (r"V^\mathsf{T} V", "compiled"), ("V^{(T)} V", "skipped"),
    ("A^{(2)} V", "skipped"), ("A^2 V", "skipped"), (r"\gamma^2 V", "compiled"), (r"\gamma^{(2)} V", "skipped")])
def test_what_stands_above_a_matrix(text: str, status: str) -> None:
    assert last(f"{MATRICES}$$O = {text}$$", "input γ\n")[0] == status


@pytest.mark.parametrize("side", ["input γ_t", "input γ_t^i"])
def test_nothing_is_inferred_beside_what_has_other_indices(side: str) -> None:
    declared = f"index t : time(T)\nindex i : feature(d)\n{side}\n"
    status, reason = last(f"{POSITIONS}$$y_t^i = \\gamma_t^i x_t^i$$", declared)
    assert status == ("compiled" if side.endswith("i") else "skipped")
    assert ("has other indices" in reason) is (status == "skipped")


# quotients, displays that go on, conditions, sentences

@pytest.mark.parametrize("text", ["1/2x_t", "1/2 x_t z_t", "1/x_t z_t", "x_t/2z_t", r"\exp(1/2x_t)"])
def test_what_may_stand_below_a_line_is_a_question(text: str) -> None:
    status, reason = last(f"{POSITIONS}$$y_t = {text}$$")
    assert status == "skipped" and "below the line" in reason


@pytest.mark.parametrize("text", ["1/T x_t", r"1/\sqrt{T} x_t", "(1/2) x_t", "x_t/2 + z_t", r"\frac12 x_t",
                                  "x_t z_t/2"])
def test_what_stands_below_a_line_alone_is_read(text: str) -> None:
    assert last(f"{POSITIONS}$$y_t = {text}$$")[0] == "compiled"


@pytest.mark.parametrize(("right", "status"), [("z_t + x_t", "restates"), ("x_t - z_t", "skipped")])
@pytest.mark.parametrize("words", ["", "Since sums commute, this is the same as\n\n"])
def test_a_display_that_begins_with_a_sign_of_equality_goes_on_from_the_one_before(right: str, status: str,
                                                                                 words: str) -> None:
    text = f"{POSITIONS}$$y_t = x_t + z_t$$\n\n{words}$$= {right}$$"
    found = entries(text)
    assert [x.status for x in found] == ["compiled", status]
    assert found[-1].span.text.strip() == f"= {right}"


def test_one_that_goes_on_from_another_that_goes_on() -> None:
    text = f"{POSITIONS}$$y_t = x_t + x_t$$\n\n$$= 2 x_t$$\n\n$$= 3 x_t$$"
    assert [x.status for x in entries(text)] == ["compiled", "restates", "skipped"]


@pytest.mark.parametrize("condition", [
    "For small $x$ we use", r"For $x \gt 0$,", r"If $x \leqslant 1$:", r"As $x \to 0$,", r"Provided that $x \ge 0$,",
    "When $x > 0$"])
@pytest.mark.parametrize("name", ["f", r"\operatorname{gelu}"])
def test_a_function_under_a_condition_is_not_read_and_no_other_takes_its_place(condition: str, name: str) -> None:
    text = f"{POSITIONS}{condition}\n$${name}(x) = x/2 + 1$$\n\nThen\n\n$$y_t = {name}(x_t)$$"
    assert [x.status for x in entries(text)] == ["skipped", "skipped"]
    assert "cannot be read" in last(text)[1]


@pytest.mark.parametrize("sentence", [
    r"We write $Q$ for $Q/\sqrt{d}$.", r"We denote $K$ by $Q$.", r"We write $K$ as $Q$ where needed.",
    r"We shall denote $K^2$ by $K$ and $V$ by $Q$."])
def test_a_sentence_that_is_not_read_is_told_where_its_name_stands(sentence: str) -> None:
    text = f"Let $Q, K, V \\in \\mathbb{{R}}^{{n \\times d}}$. {sentence}\n\n"
    assert "a sentence says what `Q` stands for" in last(text + r"$$O = Q^\top V$$")[1]
    assert last(text + r"$$O = V^\top V$$")[0] == "compiled"
    assert last(r"$$O = Q^\top V$$" + "\n\n" + text)[0] == "compiled"


def test_two_abbreviations_of_one_sentence() -> None:
    sentence = r"We write $w_i / c$ as $w_i$ and $v_i / c$ as $v_i$."
    made = returned(f"# A\n\n{sentence}\n\n$$z_i = w_i + v_i$$", "index i : feature(n)\ninput w_i, v_i, c\n",
                    {"w": X, "v": X, "c": np.array(4.0)}, n=5)
    np.testing.assert_allclose(made["z"], X / 2)


# points at −∞

CASES = r"$$M_{ts} = \begin{cases} GIVEN & s \le t \\ -\infty & s > t \end{cases}$$"
SHAPES = ("Let $Q, K, V \\in \\mathbb{R}^{T \\times d}$ and $S, M \\in \\mathbb{R}^{T \\times T}$ and "
          "$t, s \\in \\{1..T\\}$ (time).\n\n")
MASKED = {
    r"\frac{Q K^\top + M}{\sqrt{d}}": "0", r"\frac{Q K^\top}{\sqrt{d}} + M": "0", r"\frac{1}{2} (Q K^\top + 2 M)": "0",
    r"\frac{M}{\sqrt{d}}": "S_{ts}", "M": "S_{ts}", "3 M + Q K^\\top": "S_{ts}",
}
LOOSE = {r"Q K^\top - M": "0", r"\gamma (Q K^\top + M)": "0", r"-\frac{M}{\sqrt{d}}": "S_{ts}"}


@pytest.mark.parametrize("scores", MASKED)
def test_points_at_minus_infinity_are_seen_through_sums_and_scaling(scores: str) -> None:
    q, k, v, s = (np.random.default_rng(n).normal(size=(5, 5 if n == 3 else 4)) for n in range(4))
    text = f"{SHAPES}{CASES.replace('GIVEN', MASKED[scores])}\n\n$$O = \\operatorname{{softmax}}({scores}) V$$"
    assert last(text)[0] == "compiled"
    names = {"Q": q, "K": k, "V": v, "S": s}
    made = returned(text, "", {x: names[x] for x in names if x in scores or x == "V" or x in MASKED[scores]}, T=5, d=4)
    mask = torch.full((5, 5), float("-inf"), dtype=torch.float64).triu(1)
    given = mask + (torch.tensor(s) if MASKED[scores] != "0" else 0)
    product = torch.tensor(q @ k.T)
    wanted = {r"\frac{Q K^\top + M}{\sqrt{d}}": (product + given) / 2, r"\frac{M}{\sqrt{d}}": given / 2, "M": given,
              r"\frac{Q K^\top}{\sqrt{d}} + M": product / 2 + given, "3 M + Q K^\\top": 3 * given + product,
              r"\frac{1}{2} (Q K^\top + 2 M)": (product + given) / 2}[scores]
    np.testing.assert_allclose(made["O"], wanted.softmax(-1) @ torch.tensor(v))


@pytest.mark.parametrize("scores", LOOSE)
def test_what_may_turn_a_point_at_minus_infinity_is_no_domain(scores: str) -> None:
    text = f"{SHAPES}{CASES.replace('GIVEN', LOOSE[scores])}\n\n$$O = \\operatorname{{softmax}}({scores}) V$$"
    assert last(text, "input γ\n")[0] == "skipped"


# products that are none to others

MATRIX = "Let $Q, K, V, O \\in \\mathbb{R}^{n \\times d}$ and $A, S, P \\in \\mathbb{R}^{n \\times n}$.\n\n"
OPEN = [
    (POSITIONS, r"y_t = \log_2(x_t)", "takes no script"),
    (POSITIONS, r"y_t = \sin^{-1}(x_t)", "takes no script"),
    (POSITIONS, r"\frac{d y_t}{d x_t} = x_t", "differential or gradient"),
    (POSITIONS, "d y_t = z_t d x_t", "differential or gradient"),
    (POSITIONS, r"g_t = \frac{d y_t}{d x_t}", "differential or gradient"),
    (MATRIX, r"D = \operatorname{rowsum}(dO \odot O)", "nothing says which shape `dO` has"),
    (MATRIX, r"G = P^\top dO", "nothing says which shape `dO` has"), (MATRIX, "Y = d O", "differential or gradient"),
    (MATRIX, "Y = V[2]", "at a place or applied"), (MATRIX, "Y = V(2)", "at a place or applied"),
    (MATRIX, "Y = d(Q)", "at a place or applied"), (POSITIONS, "y_t = x_t[2]", "at a place or applied"),
    (POSITIONS, "y_t = E[x_t]", "at a place or applied"), (POSITIONS, "y_t = T(x_t)", "at a place or applied"),
    (POSITIONS, r"y_t = 1\,000 x_t", "one number"), (MATRIX, r"S_{ij} = A^\top_{ij}", "of its transpose"),
    (MATRIX, r"S_{ij} = A_{ij}^\top", "of its transpose"),
    (f"{MATRIX}Let $i, j = 1, \\dots, n$ be features.\n\n", r"z_{ij} = Q_i^\top K_j", "a matrix for each pair"),
]


@pytest.mark.parametrize(("head", "text", "why"), OPEN)
def test_what_has_another_reading_is_a_question(head: str, text: str, why: str) -> None:
    status, reason = last(f"{head}$${text}$$")
    assert status == "skipped" and why in reason


@pytest.mark.parametrize(("head", "text"), [
    (MATRIX, "Y = 2 d O"), (MATRIX, r"Y = \frac{1}{d} O"), (MATRIX, r"Y = QK^\top V"), (MATRIX, "S_{ij} = A_{ji}"),
    (MATRIX, r"S = A^\top"), (POSITIONS, "y_t = x_t (x_t + 1)"), (POSITIONS, "y_t = x_t [x_t + 1]"),
    (POSITIONS, "y_t = 1[t > 1] x_t"), (POSITIONS, r"y_t = (\tanh(x_t))^2"), (POSITIONS, "y_t = 10 x_t")])
def test_products_and_entries_that_have_one_reading_are_read(head: str, text: str) -> None:
    assert last(f"{head}$${text}$$")[0] == "compiled"


def test_a_number_to_the_power_of_a_size_may_be_a_transpose() -> None:
    assert last(f"{POSITIONS}Let $V \\in \\mathbb{{R}}^{{n \\times d}}$.\n\n$$Y = w^T V$$", "input w\n")[0] == "skipped"


def test_a_power_of_an_entry_is_one_where_the_words_say_that_it_is_a_vector() -> None:
    text = "Let $x \\in \\mathbb{R}^n$. Let $i \\in \\{1, \\dots, n\\}$.\n\n$$y_i = x_i^2$$"
    assert entries(text)[-1].explicit == "y_{i} = (x^{i})^{2}"


def test_the_way_out_of_a_power_is_one_that_compiles() -> None:
    text = "Let $i \\in \\{1, \\dots, n\\}$.\n\n$$y_i = x_i^2$$"
    found = entries(text)[-1]
    assert found.status == "skipped"
    assert any("`(x_i)^2`" in x.text for problem in found.problems for x in problem.helps)
    assert entries(text.replace("x_i^2", "(x_i)^2"))[-1].status == "compiled"


def test_a_norm_in_index_notation_is_refused_with_the_sum_that_it_is() -> None:
    text = "For $i \\in \\{1, \\dots, d\\}$ (feature) let\n\n$$y = \\|q^i\\|$$\n"
    assert "`\\sqrt{\\sum_{i=1}^d (q_i)^2}`" in entries(text)[-1].reason
    text = "Let $q \\in \\mathbb{R}^d$.\n\n$$y = \\|q\\|$$"
    assert entries(text)[-1].explicit == r"y = \sqrt{\sum_{e} (q^{e})^{2}}"
    assert entries(text.replace("\\|q\\|", "\\sqrt{\\sum_{i=1}^d (q_i)^2}"))[-1].status == "compiled"


def test_empty_scripts_are_no_traceback() -> None:
    text = "Let $t, i \\in \\{1, \\dots, n\\}$.\n\n$$y_{ti} = \\gamma_{i}^{2}{}_{} x_t$$"
    assert entries(text)[-1].status in ("skipped", "compiled")
