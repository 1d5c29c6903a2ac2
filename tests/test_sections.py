"""What a section of a document takes from others, and displays that are no equations for a name: equal expressions,
values without a name, names of rows, algorithms.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from einc.documents.coverage import Entry
from einc.documents.sections import Paper
from einc.driver import papers
from einc.driver.reports.coverage import account, section_of
from einc.errors.report import Report, Source
from einc.meaning.interpret import interpret

ROWS = (r"$$K \equiv \underbrace{\begin{bmatrix} - & k_1 & - \\ - & \dots & - \\ - & k_m & - \end{bmatrix}}"
        r"_{m \times d} \quad V \equiv "
        r"\underbrace{\begin{bmatrix} - & v_1 & - \\ - & \dots & - \\ - & v_m & - \end{bmatrix}}"
        r"_{m \times d_v}$$")


def paper(text: str, side: str = "") -> Paper:
    """A document with a side file."""
    return papers.paper(Source("paper.md", text), Report(), Source("side.ein", side) if side else None)


def entries(text: str, side: str = "") -> list[Entry]:
    """The entries of the equations of its displays."""
    found = account(paper(text, side), kernels=False)
    return [x for x in found.entries if x.display and x.reason != "a shape"]


def returned(text: str, side: str, inputs: Mapping[str, np.ndarray], section: str = "", **sizes: int) -> dict[
        str, np.ndarray]:
    """What the program of a section returns."""
    read = paper(text, side)
    found = section_of(read, read.find(section) if section else read.sections[0]).program
    assert found is not None
    return {k: np.asarray(v) for k, v in interpret(found, dict(inputs), sizes).items()}


# equal expressions

IDENTITIES = [
    (r"Q K^\top = \begin{bmatrix} q_1 k_1^\top & \dots & q_1 k_m^\top \\ \vdots & \ddots & \vdots \\ "
     r"q_n k_1^\top & \dots & q_n k_m^\top \end{bmatrix}", "fact"),
    (r"Q K^\top = \begin{bmatrix} q_1 k_1^\top & \dots & q_1 k_m^\top \\ \vdots & \ddots & \vdots \\ "
     r"q_n k_1^\top & \dots & q_n k_m^\top \end{bmatrix} V V^\top", "skipped"),
    (r"(Q K^\top) V = Q (K^\top V)", "fact"),
    (r"(Q K^\top)^\top = K Q^\top = Q K^\top", "skipped"),
    (r"2 Q K^\top = Q K^\top", "skipped"),
    (r"Q K^\top = Q U^\top", "skipped"),
]
SIDE = "matrix Q : n × d\nmatrix K : m × d\nmatrix V : m × d_v\n"
LISTED = ROWS + r"""

$$Q \equiv \underbrace{\begin{bmatrix} - & q_1 & - \\ - & \dots & - \\ - & q_n & - \end{bmatrix}}_{n \times d}$$

"""


@pytest.mark.parametrize(("text", "status"), IDENTITIES)
def test_expressions_that_are_said_to_be_equal_are_proved_so(text: str, status: str) -> None:
    found = entries(f"# One\n\n{LISTED}$${text}$$", SIDE)[-1]
    assert found.status == status
    assert (found.reason == "both sides are proved equal") is (status == "fact")


def test_what_is_refuted_is_shown_with_numbers() -> None:
    found = entries(r"$$2 Q K^\top = Q K^\top$$", SIDE)[0]
    assert found.reason == "its two sides differ"
    assert any("with random numbers" in note for problem in found.problems for note in problem.notes)


def test_each_further_side_of_a_function_is_proved() -> None:
    text = r"""$$\begin{aligned} A(Q, K, V) &= \text{softmax}(Q K^\top) V \\
    &= \text{softmax}(\begin{bmatrix} Q k_1^\top & \dots & Q k_m^\top \end{bmatrix}) V \\
    &= \text{softmax}(Q K^\top) V V^\top V \\ &\in \mathbb{R}^{n \times d_v} \end{aligned}$$"""
    found = [x.status for x in entries(f"# One\n\n{ROWS}\n\n{text}", SIDE) if x.span.start > len(ROWS) + 8]
    assert found == ["compiled", "fact", "skipped"]


# names of rows

def test_a_listed_letter_names_the_rows_of_its_matrix() -> None:
    text = f"# One\n\n{ROWS}\n\n" + r"$$y = \sum_{i=1}^m k_i u v_i$$"
    rng = np.random.default_rng(1)
    k, v, u = rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), rng.normal(size=3)
    made = returned(text, "matrix u : d × 1\n", {"K": k, "V": v, "u": u}, m=4, d=3, d_v=2)
    np.testing.assert_allclose(made["y"], (k @ u) @ v, rtol=1e-12)


def test_a_row_is_never_a_matrix_of_a_stack() -> None:
    """`k_i` is a row of K, also where another section has a matrix `K^{(i)}` and i counts as many."""
    text = f"# One\n\n{ROWS}\n\n$$x_i = k_i u$$\n\n# Two\n\n$$K^{{(i)}} = X W^{{(i)}}$$\n"
    side = ('index i : feature(m)\nsection "One":\n    matrix u : d × 1\n'
            'section "Two":\n    matrix X : T × d\n    matrix W^{(i)} : d × 1\n')
    rng = np.random.default_rng(2)
    k, u = rng.normal(size=(4, 3)), rng.normal(size=3)
    np.testing.assert_allclose(returned(text, side, {"K": k, "u": u}, "One", m=4, d=3)["x"], k @ u, rtol=1e-12)


def test_a_label_is_no_row() -> None:
    found = entries(f"# One\n\n{ROWS}\n\n$$y = k_C u$$", "matrix u : d × 1\n")[-1]
    assert found.status == "skipped"


# values without a name

@pytest.mark.parametrize(("text", "right"), [
    (r"Q K^\top", lambda q, k: q @ k.T),
    (r"\begin{bmatrix} Q K^\top & Q K^\top \end{bmatrix}", lambda q, k: np.concatenate([q @ k.T] * 2, -1)),
    (r"[[0 \ 1 \ 2 \ \dots \ n-1]] Q", lambda q, k: np.arange(len(q)) @ q),
    (r"\left[ 1 \quad \dots \quad n \right] Q", lambda q, k: (1 + np.arange(len(q))) @ q),
])
def test_a_display_without_an_equation_is_a_value(text: str, right: object) -> None:
    rng = np.random.default_rng(3)
    given = {"Q": rng.normal(size=(3, 2)), "K": rng.normal(size=(4, 2))}
    read = paper(f"$${text}$$", SIDE)
    found = section_of(read, read.sections[0]).program
    assert found is not None
    sizes = {x for t in found.tensors.values() for slot in t.slots for x in slot.set.extent.sizes}
    made = interpret(found, {t.key: given[t.key] for t in found.inputs()},
                     {k: v for k, v in {"n": 3, "m": 4, "d": 2}.items() if k in sizes})
    assert callable(right)
    wanted = right(given["Q"], given["K"])
    np.testing.assert_allclose(np.asarray(made["value_1"]).reshape(wanted.shape), wanted, rtol=1e-12)


@pytest.mark.parametrize("text", [
    r"[0 \ 2 \ \dots \ n-1] Q", r"[0 \ 2 \ \dots \ n] Q", r"[1 \ 3 \ \dots \ n] Q", r"[0 \ 1 \ \dots \ n] Q",
    r"[1 \ \dots \ n-1] Q", r"[Q \cdots K]", r"Q \text{ is no embedding}", "x_t", r"\text{words}",
])
def test_what_is_no_value_has_a_reason(text: str) -> None:
    (found,) = entries(f"$${text}$$", SIDE)
    assert found.status == "skipped" and found.reason == "there is no equation in it"


# algorithms

ONLINE = r"""## Softmax

$$d_i = \sum_{j=1}^{i} \exp(x_j - m_N)$$

Then one loop does:

$$\begin{aligned} m_0 &= -\infty \\ d_0 &= 0 \\ \text{for } 1 \leq i \leq N \text{ do} \\ m_i &= \max(m_{i-1}, x_i) \\
d_i &= d_{i-1} \exp(m_{i-1} - m_i) + \exp(x_i - m_i) \\ \text{return } m_N, d_N \end{aligned} \tag{7}$$

## Shares

$$a_i = \exp(x_i - m_N) / d_N$$
"""
ONLINE_SIDE = ('index i, j : time(N)\nsection "Softmax":\n    input x_i, m_i\n    output d_i : all\n'
               'section "Shares":\n    input x_i, m_i\n    output a_i : all\n')


def test_an_algorithm_is_a_program_whose_names_are_its_own() -> None:
    x = np.random.default_rng(4).normal(size=6) * 10
    m = np.maximum.accumulate(x)
    sums = np.array([np.exp(x[: i + 1] - m[i]).sum() for i in range(6)])
    found = returned(ONLINE, ONLINE_SIDE, {"x": x}, "Softmax (7)", N=6)
    np.testing.assert_allclose(found["d"], sums, rtol=1e-12)
    whole = np.cumsum(np.exp(x - m[-1]))
    np.testing.assert_allclose(returned(ONLINE, ONLINE_SIDE, {"x": x, "m": m}, "Softmax", N=6)["d"], whole, rtol=1e-12)
    shares = returned(ONLINE, ONLINE_SIDE, {"x": x, "m": m}, "Shares", N=6)["a"]
    np.testing.assert_allclose(shares, np.exp(x - m[-1]) / whole[-1], rtol=1e-12)


def test_its_lines_say_what_is_counted_and_returned() -> None:
    found = [(x.status, x.reason) for x in entries(ONLINE, ONLINE_SIDE) if "text" in x.span.text]
    assert found == [("definition", "index i, j : time(N) (side.ein)"), ("fact", "what it returns")]


def test_algorithms_may_stand_beside_each_other() -> None:
    text = r"""$$\begin{aligned} o_0 &= 0 & s_0 &= 0 \\ \text{for } 1 \leq i \leq N \text{ do} & &
    \text{for } 1 \leq i \leq N \text{ do} \\ o_i &= o_{i-1} + x_i & s_i &= s_{i-1} + x_i^2 \end{aligned}$$"""
    x = np.random.default_rng(5).normal(size=6)
    found = returned(text, "index i : time(N)\ninput x_i\n", {"x": x}, N=6)
    np.testing.assert_allclose(found["o"], np.cumsum(x), rtol=1e-12)
    np.testing.assert_allclose(found["s"], np.cumsum(x**2), rtol=1e-12)


# what others say

def test_a_section_that_is_given_a_tensor_reads_no_equation_for_it() -> None:
    text = "# One\n\n$$Q = X W$$\n\n# Two\n\n$$S = Q Q^\\top$$\n"
    side = 'section "One":\n    matrix X : T × d\n    matrix W : d × d_k\nsection "Two":\n    matrix Q : n × d_k\n'
    read = paper(text, side)
    program = section_of(read, read.find("Two")).program
    assert program is not None and [t.key for t in program.inputs()] == ["Q"]
    without = paper(text, side.replace("    matrix Q : n × d_k\n", "    matrix X : T × d\n    matrix W : d × d_k\n"))
    program = section_of(without, without.find("Two")).program
    assert program is not None and sorted(t.key for t in program.inputs()) == ["W", "X"]


def test_what_a_variant_replaces_needs_nothing() -> None:
    """The equation that a section has of its own is compared with the first one, whose inputs are none of its own."""
    text = "# One\n\n$$y_t = u_t$$\n\n$$u_t = 2 x_t$$\n\n# Two\n\n$$y_t = 3 x_t$$\n\n# Three\n\n$$y_t = 2 x_t$$\n"
    found = entries(text, "index t : time(T)\ninput x_t\n")
    assert [x.status for x in found] == ["compiled", "compiled", "compiled", "restates"]


def test_what_holds_in_place_of_a_formula_in_a_line_is_read_with_what_it_needs() -> None:
    text = "# One\n\n$$y_t = u_t$$\n\n$$u_t = 2 x_t$$\n\n# Two\n\nHere $y_t = 3 x_t$, and\n\n$$z_t = y_t$$\n"
    x = np.arange(3.0)
    found = returned(text, "index t : time(T)\ninput x_t\n", {"x": x}, "Two", T=3)
    np.testing.assert_allclose(found["z"], 2 * x)


def test_two_sections_may_give_letters_other_sizes() -> None:
    """A letter that another section's sums count otherwise gets a new name, and no prime of the declared one."""
    text = "# One\n\n$$Y = \\sum_{i=1}^{n} A_i B_i^\\top$$\n\n# Two\n\n$$Z = Y Y^\\top$$\n"
    side = "index i : head(h)\nmatrix A, B : n × d\n"
    assert [x.status for x in entries(text, side)] == ["compiled", "compiled"]


@pytest.mark.parametrize(("text", "status"), [
    (r"$$y_t = \text{ReLU}(x_t)$$", "compiled"), (r"$$y_t = \text{Relu}(x_t)$$", "compiled"),
    (r"$$y_t = \text{RELUX}(x_t)$$", "skipped"), (r"$$y_t = \textcolor{red}{x_t} + 1$$", "compiled"),
    (r"$$y_t = \textc{x_t} + 1$$", "skipped"),
])
def test_functions_in_upright_type_and_colours(text: str, status: str) -> None:
    (found,) = entries(text, "index t : time(T)\ninput x_t\n")
    assert found.status == status


def test_a_row_is_no_matrix_of_a_stack_that_is_declared_too() -> None:
    side = "index i : feature(m)\nmatrix K^{(i)} : n × d\nmatrix u : d × 1\n"
    found = section_of(read := paper(ROWS + "\n\n$$x_i = k_i u$$", side), read.sections[0]).program
    assert found is not None
    assert [str(slot.set.extent) for slot in found.tensors["x"].slots] == ["m"]


def test_what_an_algorithm_defines_no_other_section_reads() -> None:
    read = paper(ONLINE + "\n\n## Largest\n\n$$l_i = m_i$$", "index i, j : time(N)\ninput x_i\n")
    found = section_of(read, read.find("Largest")).program
    assert found is not None
    assert [t.key for t in found.inputs()] == ["m"]
