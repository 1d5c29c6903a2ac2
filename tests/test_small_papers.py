"""Small papers in the words and the spelling of well-known ones, each against numpy, and what looks like them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.test_sections import entries, returned

Array = NDArray[np.float64]
X = r"Let $X \in \mathbb{R}^{n \times d}$. "
QKV = r"Let $Q, K, V \in \mathbb{R}^{n \times d}$. "


def drawn(seed: int, **shapes: str) -> dict[str, Array]:
    """Random arrays of n, d and m, by their names."""
    random_ = np.random.default_rng(seed)
    return {name: random_.normal(size=[{"n": 4, "d": 3, "m": 5}[x] for x in shape]) for name, shape in shapes.items()}


def softmax(x: Array) -> Array:
    """Softmax of each row."""
    found = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(found / found.sum(-1, keepdims=True))


def check(text: str, name: str, given: dict[str, Array], wanted: Array) -> None:
    """Whether a paper computes what numpy does."""
    found = returned(text, "", given)[name]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12, err_msg=text)


# numbers of which a text speaks

SAID = ["with a scalar $NAME$.", r"where $NAME$ is a scalar.", "$NAME$, a scalar, scales.", r"$NAME \in \mathbb{R}$.",
        r"with $NAME \in (0, 1)$.", r"and $NAME \in [0, 1]$.", "with a small positive constant $NAME$.",
        "The scalars $NAME$ and $u$ are learned.", "$u$ and $NAME$ are positive constants.", "We use $NAME = 0.5$.",
        "The coefficient $NAME$ is fixed.", "$NAME$ a scalar decay.",
        r"$W \in \mathbb{R}^{d \times d}$, $NAME$ be scalars."]
OTHERS = ["$NAME$ is a constant vector.", "with a constant vector $NAME$.", "A scalar multiple of $NAME$ is used.",
          "$NAME$ is a scalar field.", "$NAME$ is not a scalar.", "If $NAME = 2$, nothing changes.",
          r"with $NAME \in (0, 1)^n$.", "the scalar product $NAME$."]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("words", SAID)
def test_words_say_that_a_name_is_of_a_number(words: str, seed: int) -> None:
    if seed % 3 != SAID.index(words) % 3:
        return
    draw = random.Random(seed)
    name, key = draw.choice([(r"\gamma", "gamma"), (r"\tau", "tau"), ("a", "a"), (r"\epsilon", "epsilon")])
    right, value = draw.choice([("{0} X", lambda a, x: a * x), (r"\frac{{X}}{{{0}}}", lambda a, x: x / a),
                                ("(1 - {0}) X + {0}", lambda a, x: (1 - a) * x + a),
                                ("X / {0}^2", lambda a, x: x / a**2)])
    given = drawn(seed, X="nd")
    number = np.asarray(0.3)
    text = f"{X}{words.replace('NAME', name)}\n\n$$ Y = {right.format(name)} $$"
    check(text, "Y", {**given, key: number}, value(number, given["X"]))


@pytest.mark.parametrize("words", OTHERS)
def test_other_words_say_no_number(words: str) -> None:
    text = f"{X}{words.replace('NAME', 'a')}\n\n$$ Y = a X $$"
    assert [x.status for x in entries(text)] == ["skipped"], text


def test_what_numbers_make_is_a_number_beside_matrices() -> None:
    given = {**drawn(1, X="nd"), "a": np.asarray(0.7)}
    text = X + r"With a scalar $a$, $$ \beta = 1 - a^2, \quad \gamma = \frac{\beta}{\sqrt{d}} $$ $$ Y = \gamma X $$"
    check(text, "Y", given, (1 - 0.49) / np.sqrt(3) * given["X"])


@pytest.mark.parametrize(("text", "name"), [
    ("We set $i = 1$. $$ y_j = \\sum_i X_{ij} $$", "y"), ("For $X = 0$ this is $0$. $$ y_j = \\sum_i X_{ij} $$", "y")])
def test_a_value_in_a_line_of_text_makes_no_letter_and_no_tensor_a_number(text: str, name: str) -> None:
    given = drawn(2, X="nd")
    check(X + text, name, given, given["X"].sum(0))


# shapes in words

@pytest.mark.parametrize("words", [
    r"Queries, keys and values are matrices $Q$, $K$, $V$ of size $n \times d$.",
    r"$Q$, $K$ and $V$ have shape $n \times d$.",
    r"The $n \times d$ matrices $Q$, $K$ and $V$ are given.", r"$Q$, $K$ and $V$ are $n \times d$ matrices.",
    r"$Q$ is an $n\times d$ matrix, as are the $n \times d$ matrices $K$ and $V$.",
    r"Let $W \in \mathbb{R}^{d \times d}$, $Q$, $K$ and $V$ be of dimensions $n \times d$."])
def test_sentences_say_shapes(words: str) -> None:
    given = drawn(14, Q="nd", K="nd", V="nd")
    wanted = softmax(given["Q"] @ given["K"].T) @ given["V"]
    check(f"{words}\n\n$$ O = \\text{{softmax}}(QK^\\top) V $$", "O", given, wanted)


@pytest.mark.parametrize("words", [
    r"$Q$, $K$ and $V$ are not of size $n \times d$.", r"If $Q$, $K$ and $V$ are of size $n \times d$, it is cheap.",
    r"$Q$ is $n \times d$ and $K$, $V$ of size $m \times d$."])
def test_sentences_that_leave_shapes_open(words: str) -> None:
    assert entries(f"{words}\n\n$$ O = QK^\\top V $$")[-1].status == "skipped"


# entries of what nothing gives a shape

ENTRIES: dict[str, Callable[[int, int], float]] = {
    "i - j": lambda i, j: i - j, r"\frac{i}{j}": lambda i, j: i / j, "b_i b_j": lambda i, j: (i + 1) * (j + 1) / 4,
    r"\begin{cases} 1 & i \ge j \\ 0 & i < j \end{cases}": lambda i, j: float(i >= j),
    r"\begin{cases} \gamma^{i-j} & j \le i \\ 0 & j > i \end{cases}": lambda i, j: 0.5 ** (i - j) * (j <= i)}


@pytest.mark.parametrize("right", ENTRIES)
@pytest.mark.parametrize(("use", "value"), [
    (r"(Q K^\top + M) V", lambda a, m, v: (a + m) @ v), (r"(M \odot Q K^\top) V", lambda a, m, v: (m * a) @ v),
    (r"\exp(Q K^\top / 2 - M) V", lambda a, m, v: np.exp(a / 2 - m) @ v)])
def test_entries_have_the_shape_of_what_they_stand_beside(
        right: str, use: str, value: Callable[[Array, Array, Array], Array]) -> None:
    given = drawn(3, Q="nd", K="nd", V="nd")
    places = np.arange(1, 5)
    m = np.asarray([[ENTRIES[right](i, j) for j in places] for i in places])
    more = {"b": (places + 1) / 2} if "b_" in right else {"gamma": np.asarray(0.5)} if "gamma" in right else {}
    words = r"Let $b \in \mathbb{R}^n$. " if "b_" in right else r"With a scalar $\gamma$, " if more else ""
    text = f"{QKV}{words}$$ M_{{ij}} = {right} $$ $$ O = {use} $$"
    check(text, "O", {**given, **more}, value(given["Q"] @ given["K"].T, m, given["V"]))


def test_entries_whose_letters_are_declared_have_the_shape_that_these_count() -> None:
    given = drawn(15, Q="nd", K="nd", V="nd")
    text = QKV + (r"For $i, j = 1, \dots, n$ (time) "
                  r"$$ M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases} $$ "
                  r"$$ L = Q K^\top + M, \quad O = \text{softmax}(L) V $$")
    scores = np.where(np.tri(4) > 0, given["Q"] @ given["K"].T, -np.inf)
    check(text, "O", given, softmax(scores) @ given["V"])


@pytest.mark.parametrize("entries_", [
    r"A_{ts} = 0 \text{ for } s > t", r"A_{ts} = \fraq{1}{2}", r"A_{t s} = 0 \text{ where } s > t \text{ holds}"])
def test_entries_that_are_not_read_leave_the_whole_open(entries_: str) -> None:
    found = entries(QKV + rf"$$ A = \text{{softmax}}(Q K^\top) $$ $$ {entries_} $$ $$ O = A V $$")
    assert {x.status for x in found} == {"skipped"}


def test_what_stands_beside_two_shapes_has_none() -> None:
    text = QKV + r"Let $P \in \mathbb{R}^{n \times m}$. $$ M_{ij} = i - j $$ $$ O = M + Q K^\top, \quad R = M + P $$"
    assert {x.status for x in entries(text)} == {"skipped"}
    assert entries(QKV + r"$$ M_{ij} = i - j $$ $$ O = M V $$")[-1].status == "skipped"


# the identity

@pytest.mark.parametrize(("right", "value"), [
    (r"(I + X X^\top) X", lambda x: x + x @ x.T @ x), (r"X (I - X^\top X)", lambda x: x - x @ x.T @ x),
    (r"(\lambda I + X X^\top / 3 - 2 I_n) X", lambda x: -1.3 * x + x @ x.T @ x / 3), (r"I_n X", lambda x: x),
    (r"X (\mathbf{I}_d - I)", lambda x: 0 * x)])
def test_the_identity_is_as_large_as_what_it_is_added_to(right: str, value: Callable[[Array], Array]) -> None:
    given = drawn(4, X="nd")
    words = r"With a scalar $\lambda$, " if "lambda" in right else ""
    more = {"lambda_": np.asarray(0.7)} if words else {}
    if right == r"X (\mathbf{I}_d - I)":
        assert entries(f"{X}$$ Y = {right} $$")[-1].status in ("compiled", "skipped")
        return
    check(f"{X}{words}$$ Y = {right} $$", "Y", {**given, **more}, value(given["X"]))


@pytest.mark.parametrize("right", ["I X", "I_d X", r"(I + X) X^\top", "X I"])
def test_an_identity_of_no_size_is_a_question(right: str) -> None:
    assert entries(f"{X}$$ Y = {right} $$")[-1].status == "skipped"


def test_a_letter_i_that_the_text_gives_is_no_identity() -> None:
    given = drawn(5, X="nd", I="nn")
    text = X + r"Let $I \in \mathbb{R}^{n \times n}$. $$ Y = (I + X X^\top) X $$"
    check(text, "Y", given, (given["I"] + given["X"] @ given["X"].T) @ given["X"])
    defined = X + r"$$ I = X X^\top $$ $$ Y = (I + X X^\top) X $$"
    check(defined, "Y", {"X": given["X"]}, 2 * given["X"] @ given["X"].T @ given["X"])


@pytest.mark.parametrize("words", ["Let $I$ be the set of positions.", r"Let $I \subseteq \{1, \dots, n\}$.",
                                   "Here $I$ denotes the interval."])
def test_a_letter_i_of_which_the_words_say_another_thing_is_no_identity(words: str) -> None:
    assert entries(f"{X}{words}\n\n$$ Y = (I + X X^\\top) X $$")[-1].status == "skipped"
    given = drawn(16, X="nd")
    text = f"{X}Let $I$ be the identity matrix.\n\n$$ Y = (I + X X^\\top) X $$"
    check(text, "Y", given, given["X"] + given["X"] @ given["X"].T @ given["X"])


# functions in lines of text

FUNCTIONS = {r"f(x) = x^2 + 1": lambda x: x**2 + 1, r"f(z) = \max(0, z)": lambda z: np.maximum(z, 0),
             r"f(x) = x / (1 + e^{-x})": lambda x: x / (1 + np.exp(-x))}
NAMED = {"$f$ is the sigmoid function": lambda x: 1 / (1 + np.exp(-x)),
         "$f$ denotes the ReLU": lambda x: np.maximum(x, 0),
         r"$f(\cdot)$ is the usual tanh": np.tanh, "the softplus function $f$ is used": lambda x: np.log1p(np.exp(x))}


@pytest.mark.parametrize("words", [*(f"where ${x}$" for x in FUNCTIONS), *NAMED])
def test_a_line_of_text_defines_a_function(words: str) -> None:
    given = drawn(6, X="nd")
    function = NAMED.get(words) or FUNCTIONS[words.removeprefix("where ").strip("$")]
    check(f"{X}{words}.\n\n$$ Y = f(X) X^\\top $$", "Y", given, function(given["X"]) @ given["X"].T)


@pytest.mark.parametrize("words", [
    "For example $f(x) = x^2$ is convex.", "A common choice is $f(x) = x^2$.", "where, e.g. $f(x) = x^2$.",
    "Unlike $f(x) = x^2$ it is not even.", "$f(x) = x^2$ if $x > 0$.",
    "$f(x) = x^2$ is used for $x > 0$.", "such as $f(x) = x^2$ or $f(x) = x$.",
    "$f$ is not the sigmoid.", "$f$ is a function.", "If $f$ is the sigmoid, it saturates."])
def test_what_is_no_definition_of_a_function(words: str) -> None:
    assert entries(f"{X}{words}\n\n$$ Y = f(X) $$")[-1].status == "skipped"


@pytest.mark.parametrize("word", ["max", "mean", "log", "sum"])
def test_a_number_that_has_the_name_of_a_function_is_none(word: str) -> None:
    found = entries(f"{X}$m$ is the {word}, and a scalar.\n\n$$ Y = m (X + 1) $$")
    assert found[-1].status == "skipped" or "m" in found[-1].explicit


def test_a_function_that_nothing_applies_says_nothing() -> None:
    given = drawn(7, X="nd")
    text = X + "The cost is $O(n) = n^2$, and $M(s, t) = W_s W_t$.\n\n$$ Y = 2 X $$"
    check(text, "Y", given, 2 * given["X"])


# scripts without braces

def test_a_script_without_braces_is_one_letter_as_tex_sets_it() -> None:
    given = drawn(8, X="nd", W_Q="dm", W_K="dm")
    words = X + r"Let $W_Q, W_K \in \mathbb{R}^{d \times m}$. "
    wanted = given["X"] @ given["W_Q"] @ given["W_K"].T @ given["X"].T
    check(words + r"$$ S = XW_QW_K^\top X^\top $$", "S", given, wanted)
    check(words + r"$$ S = XW_QW_K^TX^T $$", "S", given, wanted)
    check(X + r"$$ G = X^TX $$", "G", {"X": given["X"]}, given["X"].T @ given["X"])
    vectors = r"For $t, s = 1, \dots, n$ (time) let $x_t \in \mathbb{R}$ and $w \in \mathbb{R}$. "
    x = np.arange(1.0, 5)
    check(vectors + "$$ y_{ts} = x_tx_sw $$", "y", {"x": x, "w": np.asarray(2.0)}, 2 * np.outer(x, x))


def test_a_label_that_the_text_has_stays_one() -> None:
    given = drawn(9, X="nd", W_QW="dd", W="dd", W_Q="dd")
    words = X + r"Let $W_{QW}, W, W_Q \in \mathbb{R}^{d \times d}$. "
    check(words + "$$ S = X W_QW $$", "S", {k: given[k] for k in ("X", "W_QW")}, given["X"] @ given["W_QW"])


# a transpose without a macro

@pytest.mark.parametrize("name", ["Q K^T", "QK^T", r"Q K^{T}", r"Q K^{\mathsf{T}}"])
def test_a_transpose_beside_a_size_of_another_name(name: str) -> None:
    given = drawn(10, Q="nd", K="nd")
    words = r"Let $Q, K \in \mathbb{R}^{n \times d}$. "
    found = entries(f"{words}$$ S = {name} $$")
    assert found[-1].status == "skipped" or found[-1].sure == "bound"
    if found[-1].status == "compiled":
        check(f"{words}$$ S = {name} $$", "S", given, given["Q"] @ given["K"].T)


# strings in code

CODE = {
    "y = x + einsum('nd,de->ne', x, W)": lambda x, W: x + x @ W,
    "y = einsum(x, W, 'n d, d e -> n e')": lambda x, W: x @ W,
    "y = einsum('nd,de->ne', x, W) ** 2": lambda x, W: (x @ W) ** 2,
    "h = rearrange(x, '(a b) d -> a b d', b=2)\ny = einsum('abd,de->abe', h, W)":
        lambda x, W: (x @ W).reshape(2, 2, -1)}


@pytest.mark.parametrize("code", CODE)
def test_lines_of_code_with_strings(code: str) -> None:
    given = {**drawn(11, x="nd"), "W": drawn(12, W="dd")["W"]}
    wanted = CODE[code](**given)
    names = code.replace("W", "Wq").replace("x", "xs").replace("exs", "ex")
    for text, change in ((code, {}), (names, {"x": "xs", "W": "Wq"})):
        arrays = {change.get(k, k): v for k, v in given.items()}
        check(f"# One\n\n```python\n{text}\n```\n", "y", arrays, wanted)


def test_one_comment_says_the_axes_of_several_arrays() -> None:
    text = "# One\n\n```python\n# q, k: (N, D), v: (N, E)\ny = einsum('nd,md,me->ne', q, k, v)\n```\n"
    given = drawn(13, q="nd", k="nd", v="nm")
    check(text, "y", given, given["q"] @ given["k"].T @ given["v"])
