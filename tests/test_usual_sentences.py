"""Usual sentences of papers about signs and functions: none of them is a question, and formulas say what they say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.test_sections import entries
from tests.test_small_papers import Array, check, drawn

X = r"Let $X \in \mathbb{R}^{n \times d}$. "
SHAPES = (r"Let $X, Y \in \mathbb{R}^{n \times d}$, $A, B \in \mathbb{R}^{n \times n}$ and $u, v \in \mathbb{R}^{d}$, "
          "with a scalar $c$.\n\n")
EQUATIONS = r"""

$$ Z_1 = \mathrm{softmax}(X Y^\top / \sqrt{d}) X $$

$$ Z_2 = \mathrm{LN}(X) + \mathrm{RMSNorm}(Y) $$

$$ Z_3 = \mathrm{ReLU}(X) \odot \mathrm{GELU}(Y) + \mathrm{SiLU}(X) $$

$$ z_4 = \frac{u}{\|u\|} + \tanh(v) \sum_i u_i $$

$$ Z_5 = c A B^\top + \exp(A) \cdot B - \log(B) $$

$$ z_6 = \max_i u_i + v $$
"""
USUAL = r"""
We use layer normalization with learned parameters. Layer normalization has a learned gain and bias.
LN denotes layer normalization (Ba et al., 2016). LN denotes layer normalization with learned gain and bias.
We use RMSNorm with a learnable gain. RMSNorm is root mean square layer normalization.
Layer normalization normalizes over the feature dimension. Layer normalization normalizes each token independently.
Layer normalization is not used at the output. No layer normalization is used after the last layer.
The softmax is applied over the last dimension. The softmax is the bottleneck.
Softmax is a smooth approximation of the argmax. RMSNorm is a simplification of LayerNorm.
Softmax is computed in float32 for stability. We apply a softmax function to obtain the weights on the values.
Attention weights are computed by a softmax over the keys. Each row of the attention matrix sums to one.
ReLU is used as the activation function. GELU is the activation function of BERT. SiLU is also known as Swish.
The ReLU, GELU and Swish are common activations. GELU is the Gaussian Error Linear Unit.
Unlike earlier work with the leaky ReLU, a parametric activation is not used here.
where $\odot$ represents the element-wise (Hadamard) product.
where $\odot$ is elementwise multiplication with broadcasting.
where $\|\cdot\|_2$ denotes the $\ell_2$ norm. where $\|\cdot\|$ denotes the vector norm.
The norm is the Euclidean norm.
where $\log$ is the natural logarithm. The logarithm is concave. where $\exp$ is applied elementwise.
The exponential is monotone.
where $\cdot$ denotes matrix multiplication. where $^\top$ is the matrix transpose operator.
Matrix multiplication is highly optimized on modern hardware. Matrix multiplication is the most expensive operation.
The sum is over all keys. Sums are accumulated in float32. The maximum is taken over the features.
The square root is used for scaling. The absolute value is non-negative. Subtraction of the maximum is exact.
Division by $\sqrt{d}$ keeps the variance at one. Following the addition, layer normalization is performed.
The addition is a residual connection. The residual connection is the identity. The function $\tanh$ is bounded.
The cost of the softmax is quadratic. The softmax is $O(n^2)$. The sigmoid is bounded.
The inner-layer has dimensionality $d_{ff} = 2048$.
For simplicity, we omit the batch dimension. We omit biases for clarity. We drop the head index for simplicity.
We replace the ReLU non-linearity by SwiGLU. We use pre-norm rather than post-norm.
In all experiments we use $c = 8$. The temperature $c$ is learned. All vectors are column vectors.
"""


def test_the_usual_sentences_of_papers_ask_nothing() -> None:
    found = entries(SHAPES + USUAL.replace("\n", "\n\n") + EQUATIONS)
    assert {x.status for x in found} == {"compiled"}, [x.reason for x in found if x.status == "skipped"]


VALUES = [
    (r"ReLU denotes $\max(0, x)$.", lambda x: np.maximum(x, 0)), (r"ReLU is $\max(x, 0)$.", lambda x: np.maximum(x, 0)),
    (r"The ReLU is defined as $\mathrm{ReLU}(x) = \max(0, x)$.", lambda x: np.maximum(x, 0)),
    (r"$\mathrm{ReLU}$ is $\max(0.1 x, x)$, applied elementwise.", lambda x: np.maximum(x, 0.1 * x)),
    (r"Here ReLU is defined as $x^2$.", lambda x: x**2)]


@pytest.mark.parametrize(("words", "value"), VALUES)
def test_a_function_is_what_a_sentence_says_by_an_expression(words: str, value: Callable[[Array], Array]) -> None:
    given = drawn(1, X="nd")
    check(rf"{X}{words} $$ Y = \mathrm{{ReLU}}(X) $$", "Y", given, value(given["X"]))


REMARKS = ["The derivative of ReLU is $x^2$.", r"The antiderivative of $\mathrm{ReLU}$ is $x^2 / 2$.",
           "The memory of ReLU is $n^2$.", "The number of parameters of ReLU is $2 d$.",
           "The derivative of the ReLU is $s (1 - s)$.", "The mean of ReLU is $1/n$."]


@pytest.mark.parametrize("words", REMARKS)
def test_a_remark_about_a_function_does_not_define_it(words: str) -> None:
    given = drawn(1, X="nd")
    check(rf"{X}{words} $$ Y = \mathrm{{ReLU}}(X) $$", "Y", given, np.maximum(given["X"], 0))


@pytest.mark.parametrize("words", [
    r"ReLU is $\max(0, x)$ plus one.", r"ReLU is $\max(0, x)$ if $x < 1$.", r"ReLU is $\max(0, a x)$.",
    r"ReLU is $\max(0, x)$. ReLU denotes $\max(x, 1)$.", r"ReLU is $\mathrm{ReLU}(x) = \mathrm{foo}(x)$.",
    r"In other work $\mathrm{ReLU}$ is $\max(0.1 x, x)$.", r"Replacing $\mathrm{GELU}$, $\mathrm{ReLU}$ is $x^2$.",
    r"$\mathrm{ReLU}$ is $\max(0, x)$, scaled by 2.", r"$\mathrm{ReLU}$ is $\max(0, x)$; then it is doubled.",
    r"$\mathrm{ReLU}$ is $\max(0, x)$, up to scale.", r"$\mathrm{ReLU}$ is $n^2$.", r"$\mathrm{ReLU}(x)$ is $a^2$.",
    r"$\mathrm{ReLU}$ is $\max(0, x)$. Then it is doubled.",
    r"We use the leaky ReLU.", r"A squared ReLU is used.", r"ReLU is $x \Phi(x)$."])
def test_what_else_a_sentence_says_of_a_function_is_a_question(words: str) -> None:
    assert entries(rf"{X}{words} $$ Y = \mathrm{{ReLU}}(X) $$")[-1].status == "skipped"


def test_a_function_of_lines_tells_that_it_has_nothing_learned() -> None:
    found = entries(X + r"We use layer normalization with learned gain. $$ Y = \mathrm{LN}(X) $$")[-1]
    assert found.sure == "inferred" and "nothing that is learned" in found.reason


SHAPED = r"Let $X, Y \in \mathbb{R}^{n \times d}$, $W \in \mathbb{R}^{d \times d}$ and $u, v \in \mathbb{R}^{d}$. "
SCORES, PRODUCT, NORM = r"Z = \mathrm{softmax}(X Y^\top) X", "Z = X W", r"Z = \mathrm{LN}(X)"
SUM, LARGEST = r"z = \sum_i u_i", r"z = \max_i u_i"
HOSTILE = [
    ("The softmax is applied to the transposed scores.", SCORES), ("Every score is negated first.", SCORES),
    (r"The scores are clipped to $[-5, 5]$ before the softmax.", SCORES),
    ("Only the ten largest scores of each query are kept.", SCORES), ("A token may not attend to itself.", SCORES),
    (r"Softmax weights below $0.1$ are set to zero.", SCORES), ("The diagonal of the scores is removed.", SCORES),
    ("The denominator of the softmax has an additional one.", SCORES),
    ("Before the product $X$ is centred.", PRODUCT), ("where $X$ is first normalized to unit rows.", PRODUCT),
    ("By abuse of notation, $X$ denotes its own transpose.", PRODUCT), ("All matrices are transposed.", PRODUCT),
    ("In what follows a product $AB$ means $BA$.", PRODUCT), ("We use the max-plus algebra.", PRODUCT),
    ("All operations are in the tropical semiring.", PRODUCT), ("The equation below is wrong.", PRODUCT),
    ("The following equation holds only approximately.", PRODUCT), ("Replace $W$ by its inverse in", PRODUCT),
    ("The result is rounded to integers.", PRODUCT), ("In all sums $i$ runs over odd numbers.", SUM),
    (r"where the sum excludes $i = 1$.", SUM), (r"$\sum$ and $\prod$ both denote averages.", SUM),
    ("The maximum is over all but the largest entry.", LARGEST), (r"where $\max$ is taken modulo $d$.", LARGEST),
    (r"We apply the $\mathrm{ReLU}$ after squaring.", r"Z = \mathrm{ReLU}(X)"),
    (r"As usual $\mathrm{ReLU}$ keeps a slope of 0.01 for negative inputs.", r"Z = \mathrm{ReLU}(X)"),
    (r"Here $\tanh$ is scaled by 1.7159.", r"Z = \tanh(X)"), ("GELU uses the tanh formula.", r"Z = \mathrm{GELU}(X)"),
    ("LayerNorm divides by the variance and not by its root.", NORM), ("LN is over pairs of features.", NORM),
    ("LN uses the unbiased variance.", NORM), ("LN normalizes in groups of 8 features.", NORM),
    ("The variance in LN is clipped.", NORM), ("Norms are squared throughout.", r"z = u / \|u\|"),
    ("Softmax means its logarithm.", SCORES), (r"$\max$ is short for $\min$.", LARGEST),
    (r"Read $\max$ as $\min$.", LARGEST),
    (r"For $\log$ read $\log_2$.", r"Z = \log(X)"), ("log, as everywhere here, has base two.", r"Z = \log(X)"),
    ("Angles are in degrees.", r"Z = \sin(X)"), (r"$\sin$ takes degrees.", r"Z = \sin(X)"),
    ("ReLU is short for leaky ReLU.", r"Z = \mathrm{ReLU}(X)"), ("Our ReLU is smooth.", r"Z = \mathrm{ReLU}(X)"),
    ("ReLU, unlike usually, has slope $0.1$ below zero.", r"Z = \mathrm{ReLU}(X)"),
    ("GELU refers to its sigmoid approximation.", r"Z = \mathrm{GELU}(X)"),
    (r"We set $\epsilon = 0.1$ in LN.", NORM), (r"where $\epsilon = 10^{-3}$ is used in layer normalization.", NORM),
    ("Up to a sign, we have", PRODUCT), ("We suppress a factor of two.", PRODUCT),
    (r"A factor $1/\sqrt{d}$ is suppressed.", PRODUCT),
    ("The bias is omitted from the notation but always added.", PRODUCT),
    ("After each product a ReLU is applied, which we do not write.", PRODUCT),
    ("$e$ denotes the base 2.", "z = e^{u}"), ("Here a fraction $a/b$ denotes $b/a$.", "z = u / 2"),
    ("Juxtaposition is the product of entries.", PRODUCT),
    ("The product of two matrices is their commutator.", PRODUCT), *((x, r"Z = \log(X)") for x in (
        r"$\log$ is to base 2.", "We take logarithms to base 2.", "We use base-2 logarithms.",
        "Base-2 logarithms are used throughout.", "Logarithms base 2 are used.", "The base of the logarithm is 2.",
        r"$\log = \log_2$.", r"where $\log$ is to base two")), *((x, r"Z = X \odot Y") for x in (
        r"Circular convolution is written $\odot$.", r"$\odot$ computes the maximum.", r"$\odot$ adds entries.",
        r"The operator $\odot$ performs convolution.", r"The symbol for addition is $\odot$.",
        r"$\odot$ acts between columns as an outer product.",
        r"$\odot$ and $\otimes$ are the matrix and Kronecker products.")),
    (r"$\top$ is complex conjugation.", SCORES), (r"The superscript $\top$ flips rows.", SCORES),
    *((x, NORM) for x in (
        r"$\mathrm{LN}$ denotes the mean.", r"$\mathrm{LN}$ is the learned bias.", "LN subtracts the bias.",
        "LN denotes the shift layer.", "We write LN for the standard deviation.")),
    ("The softmax is the off-by-one softmax.", SCORES), ("tanh is the hard tanh.", r"Z = \tanh(X)"),
    ("The softmax temperature is 2.", SCORES), ("We set the temperature of the softmax to $0.1$.", SCORES),
    ("We add one to the denominator of the softmax.", SCORES), ("All our ReLUs are leaky.", r"Z = \mathrm{ReLU}(X)"),
    (r"We clip the scores to $[-10, 10]$.", SCORES),
    ("As always, the scores are divided by $\\sqrt{d}$ inside of the softmax.", SCORES),
    ("A sink token is appended.", SCORES),
    ("Instead of $W$ we use $W^\\top$.", PRODUCT), ("$W$ is shorthand for $W^2$.", PRODUCT),
    ("$X$ is replaced by $Y$ everywhere.", PRODUCT), ("The softmax is over heads.", SCORES),
    ("Logarithms of zero are taken as zero.", r"Z = \log(X)"), ("All vectors have unit length.", SUM),
    ("The activation is ReLU of the absolute value.", r"Z = \mathrm{ReLU}(X)"),
]
NO_REWRITING = [
    (r"The scores are divided by $\sqrt{d}$.", r"Z = \mathrm{softmax}(X Y^\top / \sqrt{d}) X"),
    (r"We divide the scores by $\sqrt{d}$.", r"Z = \mathrm{softmax}(\frac{X Y^\top}{\sqrt{d}}) X"),
    (r"The scores are not divided by $\sqrt{d}$.", SCORES), ("We clip the gradients.", SCORES),
    ("The scores are clipped as follows.", SCORES), ("Instead of a recurrence we use attention.", SCORES),
    ("The ReLU technique is replaced by another one.", r"Z = \mathrm{ReLU}(X)"), ("$V$ is replaced by $U$.", PRODUCT),
    ("All vectors are taken as column vectors.", SUM), ("If $W$ is transposed, rows become columns.", PRODUCT),
]


@pytest.mark.parametrize(("words", "equation"), NO_REWRITING)
def test_words_that_say_what_a_formula_says_or_speak_of_others_are_no_question(words: str, equation: str) -> None:
    assert entries(f"{SHAPED}{words}\n\n$$ {equation} $$")[-1].status == "compiled"


@pytest.mark.parametrize(("words", "equation"), HOSTILE)
def test_words_that_change_a_formula_are_a_question(words: str, equation: str) -> None:
    assert entries(f"{SHAPED}{words}\n\n$$ {equation} $$")[-1].status == "skipped"


def test_formulas_that_no_words_change_are_read() -> None:
    equations = "\n\n".join(f"$$ {x} $$" for x in dict.fromkeys(x for _, x in HOSTILE))
    text = SHAPED + equations.replace("Z =", "Z_{N} =").replace("z =", "z_{N} =")
    many = text.count("{N}")
    for n in range(many):
        text = text.replace("{N}", f"{{{n + 1}}}", 1)
    assert [x.status for x in entries(text)] == ["compiled"] * many
