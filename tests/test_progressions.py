"""Matrices that a paper writes out with dots: progressions, triangles, rows under a function; and what displays say
besides: functions of numbers, abbreviations, values that go on.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_parse import parsed

from einc.checking.matrices.shapes import alike, parts, plain
from einc.documents.coverage import Entry
from einc.driver.reports.coverage import section_of
from einc.meaning.interpret import interpret
from tests.test_sections import entries, paper, returned

COUNTED = "index t : time(0..T-1)\nindex k : feature(0..d-1)\ninput q_{t, k}\n"


def draw(*shape: int) -> np.ndarray:
    """Numbers of a normal distribution."""
    return np.random.default_rng(5).normal(size=shape)


def last(text: str, side: str = "") -> Entry:
    """The entry of the last display."""
    return entries(text, side)[-1]


# what terms have in common


def test_what_is_alike_is_the_same_but_for_its_place() -> None:
    """`alike` stops at the first difference; what it is to say is that both are the same without their places."""
    texts = ["y_t = x_t + 1/2 x_{t-1}^{2}", "y_t = x_t + 1/2 x_{t-1}^{3}", "z = -∞ + ∞ + log(x_t) (x_t)"]
    nodes = [node for text in texts for line in parsed(text).statements for c in line.clauses for node in parts(c.body)]
    same = [(alike(x, y), plain(x) == plain(y)) for x in nodes for y in nodes]
    assert len(nodes) > 20 and all(got == want for got, want in same)
    assert sum(got for got, _ in same) > len(nodes), "some stand at two places"


# progressions

PROGRESSIONS = [
    (r"[0 \ 2 \ 4 \ \dots \ d - 2]", slice(0, 6, 2)), (r"[1 \ 3 \ \dots \ d - 1]", slice(1, 6, 2)),
    (r"[1 \ 2 \ \dots \ d]", slice(1, 7, 1)), (r"[0 \ \dots \ d - 1]", slice(0, 6, 1)),
    (r"[0 \ 1 \ \dots \ d - 2 \ d - 1]", slice(0, 6, 1)),
]
OPEN = [r"[0 \ \dots \ d - 2]", r"[0 \ 2 \ 3 \ \dots \ d]", r"[2 \ \dots \ d]", r"[4 \ 2 \ \dots \ d]",
        r"[0 \ 2 \ \dots \ d]", r"[0 \ 2 \ \dots \ d - 4 \ d - 1]", r"[3 \ 6 \ \dots \ 3 \ d]",
        r"[d \ d - 1 \ \dots \ 1]"]


@pytest.mark.parametrize(("listed", "numbers"), PROGRESSIONS, ids=range(len(PROGRESSIONS)))
@pytest.mark.parametrize("d", [2, 6])
def test_a_progression_has_its_general_term(listed: str, numbers: slice, d: int) -> None:
    made = returned(f"# P\n\n$$x = {listed}$$\n", "index j : feature(d)\ninput w_j\n", {}, d=d)
    assert made["x"].tolist() == [*range(numbers.start, d + numbers.stop - 6, numbers.step)]


@pytest.mark.parametrize("listed", OPEN, ids=range(len(OPEN)))
def test_what_is_no_progression_is_a_question(listed: str) -> None:
    found = last(f"# P\n\n$$x = {listed}$$\n", "index j : feature(d)\ninput w_j\n")
    assert found.status == "skipped"


EVEN = (r"$$E = \begin{bmatrix} q_{0,0} & q_{0,2} & \dots & q_{0,d-2} \\ q_{1,0} & q_{1,2} & \dots & q_{1,d-2} \\ "
        r"\vdots & \vdots & \ddots & \vdots \\ LAST \end{bmatrix}$$")


def test_entries_that_count_from_zero_by_two() -> None:
    text = EVEN.replace("LAST", r"q_{T-1,0} & q_{T-1,2} & \dots & q_{T-1,d-2}")
    given = draw(5, 6)
    np.testing.assert_array_equal(returned(text, COUNTED, {"q": given}, T=5, d=6)["E"], given[:, 0::2])


@pytest.mark.parametrize("row", [
    r"q_{T,0} & q_{T,2} & \dots & q_{T,d-2}", r"q_{T-1,0} & q_{T-1,2} & \dots & q_{T-1,d-1}",
    r"q_{T-1,0} & q_{T-2,2} & \dots & q_{T-1,d-2}"], ids=range(3))
def test_a_slip_in_a_listing_is_a_question(row: str) -> None:
    found = last(EVEN.replace("LAST", row), COUNTED)
    assert found.status == "skipped"


def test_letters_of_one_size_that_begin_at_two_places_are_a_question() -> None:
    text = EVEN.replace("LAST", r"q_{T-1,0} & q_{T-1,2} & \dots & q_{T-1,d-2}")
    assert last(text, COUNTED + "index s : time(T)\n").status == "skipped"


def test_blocks_that_count_from_zero() -> None:
    text = r"""Let $\Theta = \{\theta_i = 2^{-i}, i \in [0, 1, \dots, d/2 - 1]\}$ and $x \in \mathbb{R}^d$.

$$y = \begin{pmatrix} \cos \theta_0 & -\sin \theta_0 & \cdots & 0 & 0 \\ \sin \theta_0 & \cos \theta_0 & \cdots & 0
& 0 \\ \vdots & \vdots & \ddots & \vdots & \vdots \\ 0 & 0 & \cdots & \cos \theta_{d/2-1} & -\sin \theta_{d/2-1} \\
0 & 0 & \cdots & \sin \theta_{d/2-1} & \cos \theta_{d/2-1} \end{pmatrix} x$$"""
    x = draw(6)
    angle = 2.0 ** -np.arange(3)
    even, odd = x[0::2], x[1::2]
    wanted = np.stack([even * np.cos(angle) - odd * np.sin(angle), even * np.sin(angle) + odd * np.cos(angle)], -1)
    np.testing.assert_allclose(returned(text, "", {"x": x}, d=6)["y"].reshape(3, 2), wanted)


# triangles

MASKED = (r"$$A = \begin{bmatrix} q_1 k_1^\top & \dots & ABOVE \\ \vdots & \ddots & \vdots \\ "
          r"q_T k_1^\top & \dots & q_T k_T^\top \end{bmatrix}$$")
TALL = "index t, s : time(T)\nmatrix Q, K : T × d\nmatrix q_t, k_t : 1 × d\nq_t = Q_t\nk_t = K_t\n"


@pytest.mark.parametrize(("above", "number"), [("0", 0.0), (r"-\infty", -np.inf), ("7", 7.0)],
                         ids=("zero", "less", "seven"))
def test_one_number_stands_above_the_diagonal(above: str, number: float) -> None:
    q, k = draw(5, 3), draw(5, 3)[::-1].copy()
    made = returned(MASKED.replace("ABOVE", above), TALL + "output A : all\n", {"Q": q, "K": k}, T=5, d=3)["A"]
    np.testing.assert_allclose(made, np.where(np.tri(5, dtype=bool), q @ k.T, number))


def test_two_numbers_above_the_diagonal_are_a_question() -> None:
    text = (r"$$A = \begin{bmatrix} q_1 k_1^\top & 0 & \dots & 1 \\ q_2 k_1^\top & q_2 k_2^\top & \dots & 0 \\ "
            r"\vdots & \vdots & \ddots & \vdots \\ q_T k_1^\top & q_T k_2^\top & \dots & q_T k_T^\top \end{bmatrix}$$")
    assert last(text, TALL + "output A : all\n").status == "skipped"


def test_softmax_of_rows_below_a_mask() -> None:
    row = r"\text{softmax}([q_N k_1^\top \dots LAST])"
    rows = (row.replace("N", "1").replace("LAST", r"-\infty"), row.replace("N", "T").replace("LAST", r"q_T k_T^\top"))
    text = rf"$$P = \begin{{bmatrix}} {rows[0]} \\ \vdots \\ {rows[1]} \end{{bmatrix}}$$"
    q, k = draw(5, 3), draw(5, 3)[::-1].copy()
    made = returned(text, TALL + "output P : all\n", {"Q": q, "K": k}, T=5, d=3)["P"]
    scores = torch.tensor(q @ k.T).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    np.testing.assert_allclose(made, scores.softmax(-1).numpy(), atol=1e-15)


def test_a_product_with_a_masked_triangle_keeps_what_stands_above() -> None:
    """A triangle with 0 cuts the sum of a product; one with another number does not."""
    text = MASKED.replace("ABOVE", "7").replace("A =", "Y =").replace(r"\end{bmatrix}", r"\end{bmatrix} V")
    q, k, v = draw(4, 3), draw(4, 3)[::-1].copy(), draw(4, 2)
    made = returned(text, TALL + "matrix V : T × c\noutput Y : all\n", {"Q": q, "K": k, "V": v}, T=4, d=3, c=2)["Y"]
    np.testing.assert_allclose(made, np.where(np.tri(4, dtype=bool), q @ k.T, 7.0) @ v)


# functions of numbers

SQUARE = "Let $S \\in \\mathbb{R}^{n \\times n}$.\n\n"


def test_a_function_of_numbers_is_applied_to_each_entry() -> None:
    text = SQUARE + r"$$f(z) = z \tanh(z)$$" + "\n\n" + r"$$g(x) = f(x)^2 + 1$$" + "\n\n" + r"$$Y = g(S)$$"
    given = draw(4, 4)
    made = returned(text, "", {"S": given}, n=4)
    np.testing.assert_allclose(made["Y"], (given * np.tanh(given)) ** 2 + 1)
    assert [x.status for x in entries(text)] == ["definition", "definition", "compiled"]


def test_a_function_of_matrices_is_none_of_numbers() -> None:
    text = SQUARE + r"$$F(X) = X \tanh(X)$$" + "\n\n" + r"$$Y = F(S)$$"
    given = draw(4, 4)
    np.testing.assert_allclose(returned(text, "", {"S": given}, n=4)["Y"], given @ np.tanh(given))


def test_a_paper_that_defines_a_function_of_the_language_means_its_own() -> None:
    text = SQUARE + r"$$\text{GELU}(x) = x \tanh(x)$$" + "\n\n" + r"$$Y = \text{GELU}(S)$$"
    given = draw(3, 3)
    np.testing.assert_allclose(returned(text, "", {"S": given}, n=3)["Y"], given * np.tanh(given))


SLIPS = {
    "a power of a number": (r"$$f(x) = 2^x$$", r"$$Y = f(S)$$", lambda x: 2.0 ** x),
    "a power of a number by a number": (r"$$f(n) = 2^n$$", r"$$Y = f(3) S$$", lambda x: 8 * x),
    "a function of a power": (r"$$f(x) = x 2^{x + 1}$$", r"$$Y = f(S)$$", lambda x: x * 2.0 ** (x + 1)),
}


@pytest.mark.parametrize("name", SLIPS)
def test_a_function_takes_its_argument_in_exponents(name: str) -> None:
    function, equation, wanted = SLIPS[name]
    given = draw(3, 3)
    made = returned(SQUARE + function + "\n\n" + equation, "", {"S": given}, n=3)["Y"]
    np.testing.assert_allclose(made, wanted(given))


@pytest.mark.parametrize("text", [
    "For positive $x$ we have\n\n" + r"$$\text{ReLU}(x) = x$$", r"$$f(x) = x$$ for $x > 0$.",
    "To first order\n\n$$f(x) = x$$",
    r"$$F(x) = \frac{1}{n}$$", r"$$f(e) = e^2$$", r"$$f(x, y) = x y$$",
], ids=range(6))
def test_what_may_be_no_definition_of_a_function_is_none(text: str) -> None:
    name = "F" if "F(" in text else "f"
    both = f"{name}(S, S)" if "x, y" in text else f"{name}(S)"
    found = entries(SQUARE + text + f"\n\n$$Y = {both} S$$")
    assert "compiled" not in {x.status for x in found[:1]}
    if "ReLU" not in text and "x, y" not in text:
        assert found[-1].status == "skipped"


def test_the_value_of_a_function_of_declared_numbers_is_compiled() -> None:
    made = returned(r"$$\text{GELU}(x) = x \cdot \Phi(x)$$", "input x\ndef Φ(x) = (1 + erf(x / √2)) / 2\n",
                    {"x": np.array(0.7)})
    np.testing.assert_allclose(made["GELU"], torch.nn.functional.gelu(torch.tensor(0.7, dtype=torch.float64)))


# abbreviations, displays that go on, names of functions

POWERS = r"""# R

$$f = \left[ \frac{1}{\theta^{0/d}} \ \frac{1}{\theta^{2/d}} \ \dots \ \frac{1}{\theta^{(d-2)/d}} \right]$$

SENTENCE

$$f = \left[ \frac{1}{\theta^0} \ \frac{1}{\theta^2} \ \dots \ \frac{1}{\theta^{d-2}} \right]$$

# Other

$$g = \left[ \frac{1}{\theta^0} \ \frac{1}{\theta^2} \ \dots \ \frac{1}{\theta^{d-2}} \right]$$
"""


@pytest.mark.parametrize(("sentence", "status"), [
    (r"We write $\theta^{t/d}$ as $\theta^t$ for short.", "restates"),
    (r"From here on we simply write $\theta^t$ for $\theta^{t/d}$.", "restates"),
    (r"They write $\theta^{t/d}$ as $\theta^t$ for short.", "skipped"), ("", "skipped")],
    ids=("as", "for", "others", "none"))
def test_a_sentence_declares_an_abbreviation(sentence: str, status: str) -> None:
    found = entries(POWERS.replace("SENTENCE", sentence), "input θ\nindex j : feature(d)\ninput w_j\n")
    assert found[1].status == status


ABBREVIATED = {
    "a power": ("We write $w_i$ for $w_i / c$.", r"z_i = w_i^2", lambda w: (w / 3) ** 2),
    "of the display above": ("", r"z_i = w_i + 1,$$ where we write $w_i$ for $w_i / c$." "\n\n$$v_i = w_i",
                             lambda w: w / 3 + 1),
    "elsewhere": ("In Appendix B we write $w_i$ for $w_i / c$.", r"z_i = w_i", lambda w: w),
}


@pytest.mark.parametrize("name", ABBREVIATED)
def test_what_an_abbreviation_stands_for(name: str) -> None:
    sentence, display, wanted = ABBREVIATED[name]
    given = {"w": draw(4), "a": draw(4), "c": np.array(3.0)}
    read = paper(f"# A\n\n{sentence}\n\n$${display}$$", "index i : feature(n)\ninput w_i, a_i, c\n")
    program = section_of(read, read.sections[0]).program
    assert program is not None
    made = interpret(program, {t.key: given[t.key] for t in program.inputs()}, {"n": 4})
    np.testing.assert_allclose(made["z"], wanted(given["w"]))


@pytest.mark.parametrize("sentence", ["We write $w_i$ for $w_i / c$. We write $w_i$ for $w_i^2$.",
                                      "We write $a_i$ as $w_i$ plus a small noise."])
def test_what_a_sentence_leaves_open_is_told(sentence: str) -> None:
    found = last(f"# A\n\n{sentence}\n\n$$z_i = w_i$$", "index i : feature(n)\ninput w_i, a_i, c\n")
    assert found.reason == "a sentence says what `w_i` stands for, and it is not read"


def test_an_abbreviation_holds_in_its_section() -> None:
    text = POWERS.replace("SENTENCE", r"We write $\theta^{t/d}$ as $\theta^t$ for short.")
    side = "input θ\nindex j : feature(d)\ninput w_j\n"
    made = returned(text, side, {"theta": np.array(3.0)}, "Other", d=6)
    np.testing.assert_allclose(made["g"], 3.0 ** -np.arange(0, 6, 2))


def test_a_display_that_goes_on_and_one_named_as_a_function_are_values() -> None:
    found = paper("Let $Q, K \\in \\mathbb{R}^{n \\times d}$.\n\n$$= Q K^\\top$$\n\n$$\\cos = \\cos(Q K^\\top)$$")
    program = section_of(found, found.sections[0]).program
    assert program is not None
    assert [key for _, key in program.outputs] == ["value_1", "value_2"]


# what one name means

def test_a_matrix_of_each_head_has_its_letters_in_its_name_beside_another() -> None:
    side = ("index i : head(h)\nmatrix X : n × d\nmatrix W : d × d\nmatrix W^{(i)} : d × c\n")
    text = r"$$Q = X W$$" + "\n\n" + r"$$P^{(i)} = X W^{(i)}$$"
    x, w, each = draw(3, 4), draw(4, 4), draw(2, 4, 2)
    made = returned(text, side, {"X": x, "W": w, "W_i": each}, n=3, d=4, c=2, h=2)
    np.testing.assert_allclose(made["Q"], x @ w)
    np.testing.assert_allclose(made["P"], x @ each)


def test_a_start_that_a_restated_recurrence_reads_is_read() -> None:
    text = r"$$d_i = \sum_{j=1}^i x_j$$" + "\n\n" + r"$$d_0 = 0 \quad \text{and} \quad d_i = d_{i-1} + x_i$$"
    assert [x.status for x in entries(text, "index i, j : time(N)\ninput x_i\n")] == [
        "compiled", "fact", "restates"]


def test_a_size_that_is_a_number_is_that_number_in_shapes() -> None:
    side = "dim d = 4\nmatrix A : n × d\nmatrix B : 4 × m\n"
    a, b = draw(3, 4), draw(4, 2)
    np.testing.assert_allclose(returned(r"$$Y = A B$$", side, {"A": a, "B": b}, n=3, m=2)["Y"], a @ b)
    assert last(r"$$Y = A B$$", side.replace("dim d = 4", "dim d = 5")).status == "skipped"
