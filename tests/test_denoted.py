"""Signs and functions of which the words say other names than the usual ones: no formula is read against them."""

from __future__ import annotations

import pytest

from tests.test_sections import entries

SHAPES = (r"Let $X, Y \in \mathbb{R}^{n \times d}$. "
          r"Let $A, B \in \mathbb{R}^{n \times n}$. Let $u, v \in \mathbb{R}^{d}$. ")
OTHER = [
    (r"We write $\circ$ for the matrix product and $\cdot$ for the Hadamard product.", r"Z = A \circ B"),
    (r"We write $\circ$ for the matrix product and $\cdot$ for the Hadamard product.", r"Z = A \cdot B"),
    (r"We denote the Hadamard product by juxtaposition and the matrix product by $\odot$.", r"Z = A \odot B"),
    (r"We denote the Hadamard product by juxtaposition and the matrix product by $\odot$.", r"Z = A B"),
    (r"The symbol $\cdot$ denotes the outer product.", r"Z = u \cdot v"),
    (r"We use $\|\cdot\|$ to denote the squared Euclidean norm.", r"z = \|u\|"),
    (r"We use $\|\cdot\|$ to denote the squared Euclidean norm.", r"z = \lVert u \rVert"),
    (r"where $\cdot$ is the element-wise product.", r"Z = A \cdot B"),
    (r"We write $A \cdot B$ for the product taken by entries.", r"Z = A \cdot B"),
    (r"Here $+$ stands for the entrywise maximum.", "Z = A + B"),
    (r"By $+$ we denote the sum modulo two.", "Z = A + B"), (r"Here $-$ means the absolute difference.", "Z = A - B"),
    (r"Throughout, $\max$ denotes the smooth maximum.", r"z = \max_i u_i"),
    (r"We write $\exp$ for the base-2 exponential.", r"z = \exp(u)"),
    (r"By $\sqrt{x}$ we mean the cube root.", r"z = \sqrt{u}"), ("Square brackets denote rounding.", "Z = [X]"),
    (r"The sign $/$ rounds down.", "z = u / v"), ("Here $/$ is the integer division.", "Z = X / 2"),
    (r"Let $\sum$ denote a sum over even indices only.", r"z = \sum_i u_i"),
    (r"$\mathrm{LN}$ is layer normalization without mean subtraction.", r"Z = \mathrm{LN}(X)"),
    (r"$\mathrm{gelu}$ is the sigmoid approximation of GELU.", r"z = \mathrm{gelu}(u)"),
    (r"$\mathrm{ReLU}$ is the leaky ReLU with slope 0.1.", r"z = \mathrm{ReLU}(u)"),
    (r"$\mathrm{ReLU}$ denotes the squared rectified linear unit.", r"z = \mathrm{ReLU}(u)"),
    (r"$\tanh$ is the hard tanh.", r"z = \tanh(u)"),
    (r"Here softmax is applied with temperature $\tau = 2$.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    (r"We use $\mathrm{softmax}$ for the softmax with temperature $2$.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    (r"The upper triangle of the scores is set to $-\infty$.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    ("Each token only sees itself and earlier tokens.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    ("A token attends to itself and those before it.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    ("Queries see no later keys.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    ("LN is layer normalization without mean subtraction.", r"Z = \mathrm{LN}(X)"),
    ("Layer normalization does not subtract the mean.", r"Z = \mathrm{LN}(X)"),
    ("The softmax has temperature 2.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    (r"$\mathrm{softmax}(x)$ is $2^x / \sum 2^x$.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    ("GELU is approximated by tanh.", r"z = \mathrm{GELU}(u)"),
    ("We use the sigmoid approximation of GELU.", r"z = \mathrm{GELU}(u)"),
    (r"$\tanh$ is replaced by the identity.", r"z = \tanh(u)"),
    ("Sums run over even indices.", r"z = \sum_i u_i"), ("All sums are over odd $i$.", r"z = \sum_i u_i"),
    (r"where $\sum_i$ is over $i > 1$.", r"z = \sum_i u_i"), (r"$\sum$ skips the first term.", r"z = \sum_i u_i"),
    ("All exponentials are to base 2.", r"z = \exp(u)"), ("Addition is modulo 2.", "Z = A + B"),
    ("Multiplication is entrywise.", "Z = A B"), ("Division is integer division.", "z = u / v"),
    (r"$\log$ is the logarithm of one plus the argument.", r"z = \log(u)"),
    (r"With $\max$ we mean the minimum.", r"z = \max_i u_i"),
    (r"We set $\max$ to be the second largest entry.", r"z = \max_i u_i"),
    ("Norms are taken column-wise.", r"Z = \mathrm{RMSNorm}(X)"),
]
SAME = [
    (r"We write $\circ$ for the Hadamard product and $\cdot$ for the matrix product.", r"Z = A \circ B"),
    (r"We denote the matrix product by juxtaposition and the Hadamard product by $\odot$.", r"Z = A \odot B"),
    (r"The symbol $\cdot$ denotes the dot product.", r"z = u \cdot v"),
    (r"We use $\|\cdot\|$ to denote the Euclidean norm of a vector.", r"z = \|u\|"),
    (r"Here $+$ stands for the entrywise sum.", "Z = A + B"), (r"It is written with $+$ in the code.", "Z = A + B"),
    (r"Throughout, $\max$ denotes the maximum over all entries.", r"z = \max_i u_i"),
    (r"We write $\exp$ for the exponential function.", r"z = \exp(u)"),
    (r"where $\exp$ is applied element-wise.", r"z = \exp(u)"),
    (r"By $\sqrt{x}$ we mean the square root.", r"z = \sqrt{u}"),
    (r"Let $\sum$ denote a sum over all indices.", r"z = \sum_i u_i"),
    (r"$\mathrm{LN}$ is layer normalization (Ba et al., 2016).", r"Z = \mathrm{LN}(X)"),
    (r"$\mathrm{ReLU}$ is the rectified linear unit, which is cheap.", r"z = \mathrm{ReLU}(u)"),
    (r"$\mathrm{softmax}$ is expensive.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    (r"where $\sum_i$ runs over all positions.", r"z = \sum_i u_i"), ("Sums are computed last.", r"z = \sum_i u_i"),
    ("Matrix multiplication is the usual one.", "Z = A B"), ("The softmax has a quadratic cost.", r"z = \exp(u)"),
    ("Layer normalization does not help much here.", r"Z = \mathrm{LN}(X)"),
    ("The softmax runs over the $n$ source positions.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    ("Here softmax is the usual function, applied row-wise.", r"Z = \mathrm{softmax}(X Y^\top) X"),
    (r"where $\mathrm{GELU}$ is the Gaussian error linear unit.", r"z = \mathrm{GELU}(u)"),
]


@pytest.mark.parametrize(("words", "equation"), OTHER)
def test_another_name_than_the_usual_ones_makes_a_question(words: str, equation: str) -> None:
    assert entries(f"{SHAPES}{words} $$ {equation} $$")[-1].status == "skipped"
    assert entries(f"{SHAPES} $$ {equation} $$")[-1].status == "compiled" or "[X]" in equation


@pytest.mark.parametrize(("words", "equation"), SAME)
def test_the_usual_names_of_a_sign_are_read(words: str, equation: str) -> None:
    assert entries(f"{SHAPES}{words} $$ {equation} $$")[-1].status == "compiled"


def test_a_macro_of_the_author_is_the_sign_that_it_stands_for() -> None:
    text = rf"\newcommand{{\plus}}{{+}} {SHAPES}Here $+$ is the entrywise maximum. $$ Z = A \plus B $$"
    assert entries(text)[-1].status == "skipped"


@pytest.mark.parametrize("words", ["processed from right to left.", "The recurrence runs backwards in time."])
def test_a_recurrence_that_words_run_backwards_is_a_question(words: str) -> None:
    text = r"For positions $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{d}$. With $h_0 = 0$, $$ h_t = 2 h_{t-1} + x_t $$ "
    assert entries(text)[-1].status == "compiled"
    assert entries(text + words)[-1].status == "skipped"
