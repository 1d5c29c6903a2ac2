"""Signs and words to which a text gives another meaning than the language: no formula is read against them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_sections import entries
from tests.test_small_papers import X, check, drawn, softmax

XY = X + r"Let $Y \in \mathbb{R}^{n \times d}$. "
U = r"Let $u \in \mathbb{R}^d$. "
AB = r"Let $A, B \in \mathbb{R}^{n \times n}$. "

OTHER = [
    (XY, r"$\odot$ denotes the matrix product with a transpose.", r"Z = X \odot Y"),
    (AB, r"$\odot$ is matrix multiplication.", r"Z = A \odot B"),
    (XY, r"Here $\odot$ stands for division.", r"Z = X \odot Y"),
    (XY, r"By $\circ$ we mean the circular convolution.", r"Z = X \circ Y"),
    (XY, r"We denote the outer product by $\odot$.", r"Z = X \odot Y"),
    (XY, r"where $\odot$ is not the element-wise product.", r"Z = X \odot Y"),
    (XY, r"We set $A \odot B = A B^\top$.", r"Z = X \odot Y"), (AB, r"$$ A \odot B = A B $$", r"Z = B \odot A"),
    (AB, r"We write $AB$ for the entrywise product.", "Z = A B"),
    (AB, "Juxtaposition denotes the elementwise product.", "Z = A B"),
    (AB, "Products of matrices are taken entry by entry.", "Z = A B"),
    (X, "Logarithms are to base 2.", r"Z = \log(X)"), (X, r"where $\log$ is the binary logarithm.", r"Z = \log(X)"),
    (X, r"where $\log$ denotes $\log_2$.", r"Z = \log(X)"), (X, "All logs are base 10.", r"Z = \log(X)"),
    (X, "All logarithms in this paper are taken to base two.", r"Z = \log(X)"),
    (X, "The base-2 logarithm is used.", r"Z = \log(X)"),
    (U, r"where $\|\cdot\|$ denotes the $\ell_1$ norm.", r"z = \frac{u}{\|u\|}"),
    (X, r"where $\top$ denotes the Moore-Penrose inverse.", r"Z = X^\top"),
]
SAME = [
    (XY, r"where $\odot$ is the element-wise product.", r"Z = X \odot Y"),
    (XY, r"$\odot$ denotes the Hadamard product and $\star$ the convolution.", r"Z = X \odot Y"),
    (XY, r"with $\odot$ multiplying entry by entry.", r"Z = X \odot Y"),
    (XY, r"We denote the elementwise product by $\odot$ and the convolution by $\star$.", r"Z = X \odot Y"),
    (XY, r"Note that $X \odot Y$ is cheap.", r"Z = X \odot Y"),
    (XY, r"Here $\circ$ is the composition of functions.", r"Z = X \odot Y"),
    (AB, "Matrix products are computed on tensor cores.", "Z = A B"), (AB, "The matrix $AB$ is large.", "Z = A B"),
    (X, "Logarithms are natural.", r"Z = \log(X)"), (X, "All logarithms are to base $e$.", r"Z = \log(X)"),
    (X, "The log likelihood is based on it.", r"Z = \log(X)"),
    (U, r"where $\|\cdot\|$ denotes the Euclidean norm.", r"z = \frac{u}{\|u\|}"),
    (U, r"where $\|\cdot\|$ denotes the $\ell_2$ norm.", r"z = \frac{u}{\|u\|}"),
    (X, r"where $^\top$ denotes the transpose.", r"Z = X^\top"),
]


@pytest.mark.parametrize(("shapes", "words", "equation"), OTHER)
def test_a_sign_with_another_meaning_is_a_question(shapes: str, words: str, equation: str) -> None:
    found = entries(f"{shapes}{words} $$ {equation} $$")[-1]
    assert found.status == "skipped" and "say what a sign of it means" in found.reason
    assert entries(f"{shapes} $$ {equation} $$")[-1].status == "compiled"


@pytest.mark.parametrize(("shapes", "words", "equation"), SAME)
def test_a_sign_with_its_meaning_is_read(shapes: str, words: str, equation: str) -> None:
    assert entries(f"{shapes}{words} $$ {equation} $$")[-1].status == "compiled"


def test_macros_of_an_author_are_the_signs_that_they_stand_for() -> None:
    text = rf"\newcommand{{\had}}{{\odot}} {XY}$\odot$ is the outer product. $$ Z = X \had Y $$"
    assert entries(text)[-1].status == "skipped"


# letters that are numbers to many

def test_pi_is_its_number_where_the_text_says_nothing_else() -> None:
    given = drawn(1, X="nd")
    check(X + r"$$ Y = \sin(2 \pi X) / \pi^2 $$", "Y", given, np.sin(2 * np.pi * given["X"]) / np.pi**2)


@pytest.mark.parametrize("words", [
    r"A policy $\pi$ is given.", r"Let $\pi$ be a weight.", r"The weights $\pi_1, \dots, \pi_K$ are learned.",
    r"It is $\pi(a | s)$.", r"The best is $\pi^*$."])
def test_pi_is_no_number_where_the_words_speak_of_it(words: str) -> None:
    found = entries(rf"{words} For $t \in \{{1..T\}}$ (time) $$ y_t = \pi x_t $$")[-1]
    assert found.status == "skipped"


@pytest.mark.parametrize("letter", ["e", "i"])
def test_letters_that_are_numbers_to_many_are_no_inputs(letter: str) -> None:
    assert entries(rf"For $t \in \{{1..T\}}$ (time) $$ y_t = {letter} x_t $$")[-1].status == "skipped"


# tokens that are columns, and norms that run over tokens

XT = r"Let $X \in \mathbb{R}^{d \times n}$. "
COLUMNS = ["The columns of $X$ are tokens.", "Each column of $X$ is a token.", "The $n$ tokens are the columns of $X$.",
           r"We store the tokens as columns of $X$.", r"The columns of $X$ hold the embeddings of the tokens."]


def normal(x: np.ndarray, axis: int) -> np.ndarray:
    """What LN computes along an axis."""
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


@pytest.mark.parametrize("words", [*COLUMNS, r"$X = [x_1, \dots, x_n] \in \mathbb{R}^{d \times n}$ has tokens."])
def test_a_norm_of_what_words_call_columns_of_tokens_runs_along_columns(words: str) -> None:
    given = drawn(1, X="dn")
    check(rf"{XT}{words} $$ Y = \text{{LN}}(X) $$", "Y", given, normal(given["X"], 0))
    other = rf"{XT}{words} Let $W \in \mathbb{{R}}^{{d \times d}}$. $$ Y = \text{{LN}}(W X) $$"
    assert entries(other)[-1].status == "skipped"


@pytest.mark.parametrize("words", [
    "LN normalizes along the first axis.", "The normalization runs over the batch.", "LN is computed over the batch.",
    "Layer normalization is applied over the batch dimension.", "We normalize over tokens.",
    "LayerNorm is taken across the sequence.", "LN normalizes each row and each column."])
def test_a_norm_over_what_words_name_in_another_way_is_a_question(words: str) -> None:
    assert entries(rf"{X}{words} $$ Y = \text{{LN}}(X) $$")[-1].status == "skipped"


@pytest.mark.parametrize("words", ["Tokens are columns.", "Here $n$ is the number of tokens.", "There are $n$ tokens."])
def test_a_norm_is_a_question_where_the_words_may_mean_columns(words: str) -> None:
    assert entries(rf"{XT}{words} $$ Y = \text{{LN}}(X) $$")[-1].status == "skipped"


@pytest.mark.parametrize(("words", "axis"), [
    ("", 1), ("Here $n$ is the number of tokens.", 1), ("LN normalizes each row.", 1), ("LN acts on each column.", 0),
    ("LayerNorm is applied row-wise.", 1), ("The softmax runs over the tokens.", 1),
    ("LN normalizes over the $d$ features.", 1), ("LN normalizes over the $n$ tokens.", 0)])
def test_a_norm_runs_along_what_the_words_say(words: str, axis: int) -> None:
    given = drawn(2, X="nd")
    check(rf"{X}{words} $$ Y = \text{{LN}}(X) $$", "Y", given, normal(given["X"], axis))


# what a line of text says of single entries

M = X + r"Let $M \in \mathbb{R}^{n \times n}$. "


@pytest.mark.parametrize("words", [
    r"$M_{ij} = 1$ if $i \ge j$.", r"where $M_{ij} = 1$ when $i \ge j$ and $M_{ij} = 2$ if $i > 2 j$.",
    r"with $M_{ij} = 0$.", r"where $M_{ij} = 1$ when $i \ge j$ and something else otherwise.",
    r"In the baseline $M_{ij} = 1$ if $i = j$ and $0$ otherwise; ours differs.",
    r"Earlier work has $M_{ij} = 1$ if $i \ge j$ and $0$ otherwise.",
    r"$M_{ij} = 1$ if $i > j$ and $0$ otherwise. $M_{ij} = 2$ if $i > j$ and $0$ otherwise.",
    r"$M_{ij} = 1$ if $i \ge j$ and $0$ otherwise, except for the first row."])
@pytest.mark.parametrize("right", ["M X", r"M^\top X", r"(M \odot M) X"])
def test_what_a_line_of_text_says_of_entries_leaves_no_input(words: str, right: str) -> None:
    assert entries(rf"{M}{words} $$ Y = {right} $$")[-1].status == "skipped"
    assert entries(rf"{M} $$ Y = {right} $$")[-1].status == "compiled"


@pytest.mark.parametrize("words", [
    r"If $M_{ij} = 0$, nothing is added.", r"$N_{ij} = 1$ if $i \ge j$.",
    r"Do not set $M_{ij} = 1$ if $i \ge j$ and $M_{ij} = 0$ otherwise."])
def test_what_a_line_of_text_supposes_or_says_of_others_is_no_definition(words: str) -> None:
    assert entries(rf"{M}{words} $$ Y = M X $$")[-1].status == "compiled"


@pytest.mark.parametrize(("words", "other"), [
    (r"$M_{ij} = 1$ if $i \ge j$, and $M_{ij} = 0$ otherwise.", 0.0),
    (r"where $M_{ij} = 1$ when $i \ge j$ and 0 otherwise.", 0.0),
    (r"Here $M_{ij} = 1$ for $i \ge j$, zero otherwise.", 0.0),
    (r"We set $M_{ij} = 1$ if $i \ge j$ and $M_{ij} = 2$ if $i < j$.", 2.0),
    (r"$M_{ij} = 1$ if $i \ge j$; otherwise it is $2$.", 2.0), (r"$M_{ij} = 1$ if $i \ge j$ and $2$ elsewhere.", 2.0)])
def test_cases_in_a_line_of_text_are_an_equation(words: str, other: float) -> None:
    given = drawn(4, X="nd")
    mask = np.where(np.tri(4) > 0, 1.0, other)
    check(rf"{M}{words} $$ Y = M X $$", "Y", given, mask @ given["X"])


def test_cases_of_values_in_a_line_of_text_are_an_equation() -> None:
    given = {"x": np.asarray([1.0, -2.0, 0.0, 3.0])}
    text = (r"For $t \in \{1..T\}$ (time) we use $y_t = x_t$ when $x_t > 0$ and $y_t = 0.5 x_t$ otherwise. "
            r"$$ z_t = y_t + 1 $$")
    check(text, "z", given, np.where(given["x"] > 0, given["x"], 0.5 * given["x"]) + 1)


def test_a_mask_in_a_line_of_text_limits_a_softmax() -> None:
    given = drawn(5, X="nd")
    text = M + (r"Softmax is row-wise. $$ Y = \text{softmax}(X X^\top + M) X $$ Here $M_{ij} = 0$ if $i \ge j$ and "
                r"$M_{ij} = -\infty$ otherwise.")
    check(text, "Y", given, softmax(np.where(np.tri(4) > 0, given["X"] @ given["X"].T, -np.inf)) @ given["X"])


def test_a_display_says_what_a_line_of_text_repeats() -> None:
    given = drawn(3, X="nd")
    text = M + (r"$$ M_{ij} = \begin{cases} 1 & i \ge j \\ 0 & i < j \end{cases} $$ Here $M_{ij} = 1$ if $i \ge j$. "
                r"$$ Y = M X $$")
    check(text, "Y", given, np.cumsum(given["X"], 0))


# vectors that scale lines

SCALED = [
    (r"Each entry of $c$ scales a row of $X$:", "Z = c X", ""),
    (r"The entries of $c$ scale the rows of $X$.", "Z = c X", ""),
    (r"Each entry of $c$ multiplies a row of $X$.", "Z = c X", ""),
    ("We have", "Z = c X", r"where row $i$ of $X$ is scaled by $c_i$."),
    (r"The vector $c$ scales each row of $X$.", "Z = c X", ""), ("It rescales every channel:", "Z = X c", ""),
]


@pytest.mark.parametrize(("before", "equation", "behind"), SCALED)
def test_a_product_that_is_said_to_scale_lines_is_a_question(before: str, equation: str, behind: str) -> None:
    shapes = X + rf"Let $c \in \mathbb{{R}}^{{{'n' if equation.endswith('X') else 'd'}}}$. "
    assert entries(f"{shapes}{before} $$ {equation} $$ {behind}")[-1].status == "skipped"
    assert entries(f"{shapes} $$ {equation} $$")[-1].status == "compiled"


@pytest.mark.parametrize(("words", "right"), [
    (r"The scalar $a$ scales each row of $X$.", "a X"),
    (r"Each entry of $c$ scales a row of $X$:", r"\text{diag}(c) X"),
    (r"Each row of $X$ is multiplied by $W$.", "X W")])
def test_what_scales_lines_by_other_means_is_read(words: str, right: str) -> None:
    text = X + r"Let $c \in \mathbb{R}^n$, $W \in \mathbb{R}^{d \times d}$ and $a \in \mathbb{R}$, a scalar. "
    assert entries(f"{text}{words} $$ Z = {right} $$")[-1].status == "compiled"


# vectors that lie in two ways

@pytest.mark.parametrize(("first", "second"), [("y = B x", "z = x C"), ("y = A x", "z = x A"), ("z = x C", "y = B x")])
def test_a_vector_that_lies_in_two_ways_is_told(first: str, second: str) -> None:
    text = (r"Let $C \in \mathbb{R}^{d \times m}$, $B \in \mathbb{R}^{m \times d}$, $A \in \mathbb{R}^{d \times d}$ "
            rf"and $x \in \mathbb{{R}}^d$. $$ {first} $$ $$ {second} $$")
    found = entries(text)
    assert {x.sure for x in found} == {"inferred"}
    assert all("in another equation" in x.reason for x in found)
    assert [x.sure for x in entries(text.replace(second, "z = B x"))] == ["bound", "bound"] or "x C" in first
