"""Choices that the notation of a paper leaves open and that the rest of the text settles, or else stay questions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from einc.checking.matrices import elaborate
from einc.checking.matrices.equations import Work
from tests.test_sections import entries
from tests.test_small_papers import QKV, X, check, drawn, softmax

Array = NDArray[np.float64]
TOKENS = r"For tokens $i, j = 1, \dots, n$ let $q_i, k_i \in \mathbb{R}^d$ and $v_i \in \mathbb{R}^m$. "


# how vectors lie

def states(q: Array, k: Array, v: Array) -> Array:
    """What a sum of outer products up to each position makes of a query."""
    total, out = np.zeros((v.shape[1], k.shape[1])), []
    for t in range(len(q)):
        total = total + np.outer(v[t], k[t])
        out.append(total @ q[t])
    return np.asarray(out)


@pytest.mark.parametrize(("shape", "update", "read"), [
    (r"$S_t \in \mathbb{R}^{m \times d}$", r"v_t k_t^\top", "S_t q_t"),
    (r"$S_t \in \mathbb{R}^{d \times m}$", r"k_t^\top v_t", "q_t S_t"), ("", r"v_t k_t^\top", "S_t q_t")])
def test_the_shape_of_a_state_says_how_vectors_lie(shape: str, update: str, read: str) -> None:
    given = drawn(1, q="nd", k="nd", v="nm")
    text = (rf"Let $q_t, k_t \in \mathbb{{R}}^d$, $v_t \in \mathbb{{R}}^m$ for $t = 1, \dots, n$, {shape} $S_0 = 0$. "
            rf"$$ S_t = S_{{t-1}} + {update} $$ $$ o_t = {read} $$")
    check(text, "o", given, states(**given))


def test_what_both_ways_to_lie_fit_is_a_question() -> None:
    text = (r"Let $q_t, k_t, v_t \in \mathbb{R}^d$ for $t = 1, \dots, n$ and $S_0 = 0$. "
            r"$$ S_t = S_{t-1} + v_t k_t^\top, \quad o_t = S_t q_t $$")
    assert {x.status for x in entries(text)} == {"skipped"}


def test_rows_of_a_matrix_are_columns_where_nothing_else_fits() -> None:
    given = drawn(2, X="nd", W="md")
    text = X + r"Let $W \in \mathbb{R}^{m \times d}$. For $i = 1, \dots, n$ $$ y_i = W X_{i,:} $$"
    check(text, "y", given, given["X"] @ given["W"].T)
    both = text.replace("W X_{i,:}", r"W X_{i,:}, \quad z_i = X_{i,:} X^\top")
    assert "skipped" in {x.status for x in entries(both)}


def test_an_inner_product_is_added_to_no_matrix() -> None:
    text = X + r"Let $u, w \in \mathbb{R}^d$. $$ Y = X + u^\top w $$"
    assert entries(text)[-1].status == "skipped"


# letters

def test_shapes_that_equations_tell_say_what_letters_count() -> None:
    given = drawn(3, X="nd", W="dm")
    text = X + (r"Let $W \in \mathbb{R}^{d \times m}$. $$ Q = X W $$ Subscripting a matrix with $i$ returns its "
                r"$i$-th row. $$ y_i = \sum_{j=1}^{n} Q_i Q_j^\top $$")
    queries = given["X"] @ given["W"]
    check(text, "y", given, (queries @ queries.T).sum(1))


@pytest.mark.parametrize("letter", ["j'", "k", "j''"])
def test_letters_of_sums_may_have_primes(letter: str) -> None:
    given = drawn(4, X="nd", W="dm")
    text = X + (rf"Let $W \in \mathbb{{R}}^{{d \times m}}$. $$ P_{{ij}} = \frac{{\exp((XW)_{{ij}})}}{{"
                rf"\sum_{{{letter}=1}}^{{m}} \exp((XW)_{{i{letter}}})}} $$ $$ Y = P W^\top $$")
    check(text, "Y", given, softmax(given["X"] @ given["W"]) @ given["W"].T)


def test_a_function_has_letters_of_its_own() -> None:
    given = {"a": np.asarray([1.0, 2.0, 3.0, -1.0]), "g": np.asarray([1.0, -1.0, 0.5, 2.0])}
    text = (r"For $a, g \in \mathbb{R}^n$ $$ b_i = \frac{a_i}{f(a)} g_i, \quad \text{where} \quad "
            r"f(a) = \sqrt{\frac{1}{n} \sum_{i=1}^{n} a_i^2} $$")
    check(text, "b", given, given["a"] / np.sqrt((given["a"] ** 2).mean()) * given["g"])


# a power behind a function, and what a big operator takes

@pytest.mark.parametrize(("right", "value"), [
    (r"X \exp(\tau)^2", lambda x, t: x * np.exp(t) ** 2), (r"\tanh(X)^\top", lambda x, t: np.tanh(x).T),
    (r"X \text{softmax}(X)^\top", lambda x, t: x @ softmax(x).T)])
def test_what_stands_behind_a_function_is_of_its_value(right: str, value: Callable[[Array, float], Array]) -> None:
    given = {**drawn(5, X="nd"), "tau": np.asarray(0.4)}
    read = {k: v for k, v in given.items() if k == "X" or "tau" in right}
    check(f"{X}Softmax is row-wise. With a scalar $\\tau$, $$ Y = {right} $$", "Y", read, value(given["X"], 0.4))


def test_a_big_operator_takes_products_entry_by_entry() -> None:
    given = drawn(6, X="nd", Y="nd")
    text = X + (r"Let $Y \in \mathbb{R}^{n \times d}$ and $u \in \mathbb{R}^d$. "
                r"$$ u = \sum_{i=1}^{n} X_{i,:} \odot Y_{i,:} $$")
    check(text, "u", given, (given["X"] * given["Y"]).sum(0))


def test_vectors_are_divided_entry_by_entry() -> None:
    given = {k: np.abs(v) + 1 for k, v in drawn(7, X="nd", Y="nd").items()}
    text = X + r"Let $Y \in \mathbb{R}^{n \times d}$. For $i = 1, \dots, n$ $$ z_i = \frac{X_{i,:}}{Y_{i,:}} $$"
    check(text, "z", given, given["X"] / given["Y"])
    assert entries(X + r"Let $Y \in \mathbb{R}^{n \times d}$. $$ Z = \frac{X}{Y} $$")[-1].status == "skipped"


# whole lines of positions

@pytest.mark.parametrize(("words", "read"), [
    ("", True), ("Attention is causal. ", False), ("Future positions are masked. ", False),
    ("We leave out the mask. ", True), ("There is no mask. ", True), ("It is bidirectional, not causal. ", True)])
def test_a_whole_line_is_meant_unless_the_words_speak_of_a_mask(words: str, read: bool) -> None:
    text = rf"For tokens $t = 1, \dots, n$ {QKV}{words}$$ O = \text{{softmax}}(Q K^\top) V $$"
    found = entries(text)[-1]
    assert (found.status == "compiled") is read
    if read:
        assert "runs over all of n" in found.reason


def test_weights_of_pairs_are_read_with_their_sums() -> None:
    given = drawn(8, q="nd", k="nd", v="nm")
    for weights in (r"\text{softmax}_j(q_i^\top k_j)", r"\frac{\exp(q_i^\top k_j)}{\sum_{l=1}^n \exp(q_i^\top k_l)}"):
        text = TOKENS + rf"$$ a_{{ij}} = {weights}, \quad y_i = \sum_{{j=1}}^n a_{{ij}} v_j $$"
        check(text, "y", given, softmax(given["q"] @ given["k"].T) @ given["v"])


def test_numbers_that_a_function_of_the_language_adds_are_told() -> None:
    found = entries(X + r"$$ Y = \text{LayerNorm}(X) $$")[-1]
    assert found.sure == "inferred" and "eps = 1e-5" in found.reason


@pytest.mark.parametrize(("own", "of"), [
    ("", lambda x: x / (1 + np.exp(-x))), (r"$$ \text{Swish}(x) = \max(x, 0) $$ ", lambda x: np.maximum(x, 0))])
def test_another_name_of_a_function_is_that_of_the_text_where_it_defines_one(own: str, of: Callable[[Array], Array],
                                                                          ) -> None:
    given = drawn(11, X="nd")
    check(own + X + r"$$ Y = \text{Swish}(X) $$", "Y", given, of(given["X"]))


# pieces, signs and rows that words name

@pytest.mark.parametrize("words", [
    r"$$ [A, B] = X W $$", r"$$ [A; B] = X W $$", r"$$ Z = X W $$ $Z$ is split into $A$ and $B$.",
    r"$$ Z = X W $$ We split $Z$ into two halves $A, B$.", r"$$ (A, B) = \text{split}(X W) $$"])
def test_equal_pieces(words: str) -> None:
    given = {**drawn(9, X="nd"), "W": np.arange(12.0).reshape(3, 4)}
    text = X + rf"Let $W \in \mathbb{{R}}^{{d \times 2e}}$. {words} $$ Y = A \odot B $$"
    first, second = np.split(given["X"] @ given["W"], 2, 1)
    check(text, "Y", given, first * second)


def test_pieces_of_no_such_side_are_refused() -> None:
    text = X + r"Let $W \in \mathbb{R}^{d \times 3e}$. $$ [A, B] = X W $$ $$ Y = A \odot B $$"
    assert {x.status for x in entries(text)} == {"skipped"}


@pytest.mark.parametrize(("sign", "words", "read"), [
    (r"\otimes", r"where $\otimes$ is the element-wise product", True),
    (r"\star", r"$\star$ denotes the Hadamard product", True),
    (r"\otimes", r"where $\otimes$ is the outer product", False),
    (r"\otimes", r"$\otimes$ is not the element-wise product", False),
    (r"\otimes", r"if $\otimes$ is the element-wise product", False)])
def test_words_say_that_a_sign_is_the_product_of_entries(sign: str, words: str, read: bool) -> None:
    given = drawn(10, X="nd", Y="nd")
    text = X + rf"Let $Y \in \mathbb{{R}}^{{n \times d}}$, {words}. $$ Z = X {sign} Y $$"
    assert (entries(text)[-1].status == "compiled") is read
    if read:
        check(text, "Z", given, given["X"] * given["Y"])


def test_a_matrix_of_rows_that_words_name() -> None:
    given = drawn(11, X="nd", W="nd")
    text = X + (r"Let $W \in \mathbb{R}^{n \times d}$ and let $x_i$ be the $i$-th row of $X$, $i = 1, \dots, n$. "
                r"$$ u_i = \frac{x_i}{\|x_i\|} $$ The matrix $U$ has the rows $u_i$. $$ S = U W^\top $$")
    wanted = given["X"] / np.linalg.norm(given["X"], axis=1, keepdims=True) @ given["W"].T
    check(text, "S", given, wanted)


# rows and columns that words name, beside other vectors

MATRICES = r"Let $A \in \mathbb{R}^{m \times n}$ and $B \in \mathbb{R}^{n \times d}$. "


@pytest.mark.parametrize("words", [
    r"Let $a_1, \dots, a_n$ be the columns of $A$.", r"The matrix $A$ has columns $a_1, \dots, a_n$.",
    "The columns of $A$ are $a_i$.", "We write $a_i$ for column $i$ of $A$.", "Denote by $a_j$ the columns of $A$.",
    "We denote the columns of $A$ by $a_j$.", r"$A$ has the column vectors $a_1, \dots, a_n$.",
    "Column $i$ of $A$ is $a_i$.",
    r"The columns of $A$, $a_1, \dots, a_n$, are learned.", "Its columns are called $a_i$."])
def test_what_words_call_rows_or_columns_is_no_number(words: str) -> None:
    found = entries(rf"{MATRICES}{words} $$ c = \sum_{{i=1}}^n a_i $$")[-1]
    assert found.status == "skipped"
    scaled = entries(rf"{MATRICES}{words} $$ c = \sum_{{i=1}}^n g_i $$")[-1]
    assert scaled.status == "compiled"


def test_two_sentences_in_one_name_a_column_and_a_row() -> None:
    given = drawn(12, A="mn", B="nd")
    text = MATRICES + ("Here $a_i$ is the $i$-th column of $A$ and $b_i$ is the $i$-th row of $B$. "
                       r"$$ Z = \sum_{i=1}^n a_i b_i^\top $$")
    check(text, "Z", given, given["A"] @ given["B"])
    check(text.replace(r"b_i^\top", "").replace("Z", "c"), "c", {"A": given["A"]}, given["A"].sum(1))
    assert entries(text.replace(r"b_i^\top", "b_i"))[-1].status == "skipped"


@pytest.mark.parametrize("right", ["A_{:,i} u", "u A_{i,:}", "A_{:,i} (u + u)", "2 A_{:,i} u", "A_{:,i} u A",
                                   "(A A_{:,i}) u", "A_{:,i} (u A)"])
def test_a_line_of_a_matrix_and_a_vector_side_by_side_are_a_question(right: str) -> None:
    given = drawn(13, A="nn", u="n")
    text = r"Let $A \in \mathbb{R}^{n \times n}$ and $u \in \mathbb{R}^n$, $i = 1, \dots, n$. $$ z_i = RIGHT $$"
    assert entries(text.replace("RIGHT", right))[-1].status == "skipped"
    check(text.replace("RIGHT", r"A_{:,i}^\top u"), "z", given, given["A"].T @ given["u"])
    check(text.replace("RIGHT", r"A_{:,i} u^\top"), "z", given, np.einsum("ki,j->ikj", given["A"], given["u"]))


# what readings cost

def ways(text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How vectors lie each time when the equations of a document are read."""
    found, once = list[str](), elaborate._Text._read

    def noting(self: elaborate._Text, told: elaborate.Told, lie: str) -> Work:
        found.append(lie)
        return once(self, told, lie)

    with monkeypatch.context() as patch:
        patch.setattr(elaborate._Text, "_read", noting)
        entries(text)
    return found


def repeating(many: int) -> str:
    """So many displays that say again what others say, and an equation that is not read."""
    lines = (rf"$$ y^{{({n})}} = W^{{({n})}} x = W^{{({n})}} x + 0 $$" for n in range(many))
    shapes = ", ".join(rf"W^{{({n})}}" for n in range(many))
    return (rf"Let $x \in \mathbb{{R}}^d$ and ${shapes} \in \mathbb{{R}}^{{d \times d}}$. " + "\n\n".join(lines)
            + "\n\n$$ z = x q $$")


def test_readings_grow_with_the_text_and_not_with_its_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another way for vectors to lie is tried only where it may read something else."""
    few, many = (len(ways(repeating(n), monkeypatch)) for n in (4, 16))
    assert math.log(many / few) / math.log(4) <= 1.2
    assert many <= 2 * 17


# what the words say of all vectors

BOTH = (r"For $t = 1, \dots, n$ let $q_t, k_t, v_t \in \mathbb{R}^d$ and $S_0 = 0$. "
        r"$$ S_t = S_{t-1} + v_t k_t^\top, \quad o_t = S_t q_t $$")


def test_a_vector_that_can_lie_in_one_way_is_tried_in_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = r"Let $x \in \mathbb{R}^d$, $W \in \mathbb{R}^{d \times e}$. "
    assert {*ways(declared + "$$ y = W x + x $$", monkeypatch)} == {"", "upright"}
    assert {"columns", "rows"} <= {*ways(BOTH, monkeypatch)}


@pytest.mark.parametrize("words", ["All vectors are column vectors.", "Vectors are always columns.",
                                   "Here every vector is a column vector."])
def test_words_say_that_all_vectors_are_columns(words: str) -> None:
    given = drawn(1, q="nd", k="nd", v="nd")
    check(f"{words} {BOTH}", "o", given, states(**given))


@pytest.mark.parametrize("words", ["Not all vectors are column vectors.", "All vectors are vectors.",
                                   "All vectors are columns. All vectors are rows.", "These vectors are columns of A."])
def test_other_words_leave_it_a_question(words: str) -> None:
    assert {x.status for x in entries(f"{words} {BOTH}")} == {"skipped"}


@pytest.mark.parametrize(("formula", "why"), [
    (r"y = \mathrm{tr} A B", "what it is applied to stands in parentheses"),
    (r"y = (AB)_{12}", "stands after a matrix of shape n × n")])
def test_what_is_not_read_is_told_by_what_it_is(formula: str, why: str) -> None:
    (found,) = entries(r"Let $A, B \in \mathbb{R}^{n \times n}$. $$ " + formula + " $$")
    assert found.status == "skipped" and why in found.reason
    assert "compiled" in {x.status for x in entries(
        r"For $i, j = 1, \dots, n$ let $A, B \in \mathbb{R}^{n \times n}$. $$ y_{ij} = (AB)_{ij} $$")}


# words that limit a softmax, or deny a formula

SCORES = r" $$ O = \mathrm{softmax}(Q K^\top / \sqrt{d}) V $$"


@pytest.mark.parametrize("words", [
    "Positions attend only to the left.", r"Entries above the diagonal are set to $-\infty$ before the softmax:",
    "Each token sees itself and the tokens before it:", "The diagonal is excluded from the softmax:",
    "Padding tokens get no weight.",
    "Attention competes across query slots, i.e. the weights of each key sum to one:"])
def test_words_that_limit_a_softmax_leave_it_a_question(words: str) -> None:
    assert {x.status for x in entries(f"{QKV} {words}{SCORES}")} == {"skipped"}


@pytest.mark.parametrize(("before", "behind"), [
    ("A common mistake is", ""), ("The naive (and broken) form is", ""), ("Some write", "which lacks the mask."),
    ("The usual form is", "but here we drop the softmax.")])
def test_words_that_deny_a_formula_are_heard(before: str, behind: str) -> None:
    assert {x.status for x in entries(f"{QKV} {before}{SCORES} {behind}")} == {"skipped"}


def test_sums_of_columns_say_along_what_a_softmax_runs() -> None:
    given = drawn(1, Q="nd", K="nd", V="nd")
    weights = softmax((given["Q"] @ given["K"].T / math.sqrt(3)).T).T
    check(f"{QKV} Each column of the attention matrix sums to 1.{SCORES}", "O", given, weights @ given["V"])
