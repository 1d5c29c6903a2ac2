"""Matrices that are written out: blocks, listings with dots, rows between dashes; as torch reads them, or asked."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import torch
from test_matrices import HEAD, SIZES, given_to
from torch import Tensor

import einc
from einc.driver import pipeline
from einc.errors.report import Report, Source

CASES: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "columns below each other": (
        "vector a : d_k\nvector b : d_v\nmatrix W : d × (d_k + d_v)\noutput y = W [a; b]",
        lambda a, b, W: W @ torch.cat([a, b])),
    "columns of one size below each other": (
        "vector a, b : d\nmatrix W : d_k × 2 d\noutput y = W [a; b]", lambda a, b, W: W @ torch.cat([a, b])),
    "an inner product of two parts": (
        "vector a, c : d_k\nvector b, e : d_v\nq = [a; b]\nk = [c; e]\noutput y = q^⊤ k",
        lambda a, c, b, e: a @ c + b @ e),
    "matrices side by side": (
        r"matrix A : T × d_k" "\n" r"matrix B : T × d_v" "\n" r"matrix W : (d_k + d_v) × d" "\n"
        r"output Y = \begin{bmatrix} A & B \end{bmatrix} W",
        lambda A, B, W: torch.cat([A, B], -1) @ W),
    "matrices below each other": (
        "matrix A : d_k × d\nmatrix B : d_v × d\nmatrix W : T × (d_k + d_v)\n"
        r"output Y = W \begin{bmatrix} A \\ B \end{bmatrix}", lambda A, B, W: W @ torch.cat([A, B])),
    "blocks in rows and columns": (
        "matrix A, B, C, D : d × d_k\nmatrix W : T × 2 d\n"
        r"output Y = W \begin{pmatrix} A & B \\ C & D \end{pmatrix}",
        lambda A, B, C, D, W: W @ torch.cat([torch.cat([A, B], -1), torch.cat([C, D], -1)])),
    "numbers": (
        "input w\nvector x : 2\n"
        r"output y = \begin{pmatrix} \cos(w) & -\sin(w) \\ \sin(w) & \cos(w) \end{pmatrix} x",
        lambda x, w: torch.stack([x[0] * w.cos() - x[1] * w.sin(), x[0] * w.sin() + x[1] * w.cos()])),
    "columns of a listing": (
        "vector q_i : d_k\nmatrix W : d × h d_k\noutput y = W [q_1; q_2; …; q_h]", lambda q, W: W @ q.flatten()),
    "heads side by side": (
        "matrix X : T × d\nmatrix W_i : d × d_k\nmatrix U : h d_k × d\n"
        r"output Y = \begin{bmatrix} X W_1 & \dots & X W_h \end{bmatrix} U",
        lambda X, W, U: torch.cat(list(X @ W), -1) @ U),
    "rows between dashes": (
        "vector x_i : d\nmatrix W : d × d_k\n"
        r"output Y = \begin{bmatrix} - & x_1 & - \\ & \vdots & \\ - & x_h & - \end{bmatrix} W", lambda x, W: x @ W),
    "rows between dashes times a column": (
        "vector x_i : d\nvector v : d\n"
        r"output y = \begin{bmatrix} - & x_1 & - \\ & \vdots & \\ - & x_h & - \end{bmatrix} v", lambda x, v: x @ v),
    "entries by their general term": (
        "vector x_i : d\nvector z_q : d\nmatrix V : n × d\n"
        r"output Y = \left[\begin{array}{ccc} x_1^⊤ z_1 & \dots & x_1^⊤ z_n \\ \vdots & \ddots & \vdots \\"
        r" x_h^⊤ z_1 & \cdots & x_h^⊤ z_n \end{array}\right] V", lambda x, z, V: x @ z.mT @ V),
    "numbers of a listing": (
        "input a_i\nmatrix V : h × d\n" r"output y = \begin{bmatrix} a_1 & \dots & a_h \end{bmatrix} V",
        lambda a, V: (a @ V)),
    "a listing that counts": (
        "matrix V : h × d\n"
        r"output y = \begin{bmatrix} \frac{1}{1} & \frac{1}{2} & \dots & \frac{1}{h} \end{bmatrix} V",
        lambda V: (1 / torch.arange(1, 4).double()) @ V),
    "the same letter in two listings": (
        "vector x_i, z_i : d\nmatrix V : h × d\n"
        r"output Y = \begin{bmatrix} x_1^⊤ z_1 & \dots & x_1^⊤ z_h \\ \vdots & \ddots & \vdots \\"
        r" x_h^⊤ z_1 & \dots & x_h^⊤ z_h \end{bmatrix} V", lambda x, z, V: x @ z.mT @ V),
    "two matrices that are concatenated": (
        "matrix A, B : T × d\nmatrix W : 2 d × d_k\noutput Y = Concat(A, B) W",
        lambda A, B, W: torch.cat([A, B], -1) @ W),
    "columns that are concatenated": (
        "vector a : d_k\nvector b : d_v\nmatrix W : d × (d_k + d_v)\noutput y = W Concat(a, b)",
        lambda a, b, W: W @ torch.cat([a, b])),
    "what is no sum after a sum": (
        "vector a, b : d\nmatrix W : d_k × 2 d\noutput y = W [a + b; a - b]",
        lambda a, b, W: W @ torch.cat([a + b, a - b])),
    "blocks on a diagonal": (
        "index j : feature(d_ff / 2)\ninput w_j\nvector x : d_ff\n"
        r"output y = \begin{pmatrix} \cos w_1 & -\sin w_1 & 0 & 0 & \cdots & 0 & 0 \\"
        r" \sin w_1 & \cos w_1 & 0 & 0 & \cdots & 0 & 0 \\ 0 & 0 & \cos w_2 & -\sin w_2 & \cdots & 0 & 0 \\"
        r" 0 & 0 & \sin w_2 & \cos w_2 & \cdots & 0 & 0 \\ \vdots & \vdots & \vdots & \vdots & \ddots & \vdots"
        r" & \vdots \\"
        r" 0 & 0 & 0 & 0 & \cdots & \cos w_{d_ff/2} & -\sin w_{d_ff/2} \\"
        r" 0 & 0 & 0 & 0 & \cdots & \sin w_{d_ff/2} & \cos w_{d_ff/2} \end{pmatrix} x",
        lambda w, x: torch.block_diag(*(torch.tensor([[v.cos(), -v.sin()], [v.sin(), v.cos()]]) for v in w)) @ x),
    "numbers on a diagonal": (
        "input w_i\nmatrix A : h × d\n"
        r"output Y = \begin{bmatrix} w_1 & \cdots & 0 \\ \vdots & \ddots & \vdots \\ 0 & \cdots & w_h \end{bmatrix} A",
        lambda w, A: torch.diag(w) @ A),
    "matrices on a diagonal": (
        "matrix A_i : d × d_k\nmatrix X : T × h d\n"
        r"output Y = X \begin{bmatrix} A_1 & 0 & \cdots & 0 \\ 0 & A_2 & \cdots & 0 \\ \vdots & \vdots & \ddots"
        r" & \vdots \\"
        r" 0 & 0 & \cdots & A_h \end{bmatrix}",
        lambda A, X: X @ torch.block_diag(*A)),
    "pieces on a left side": (
        "vector x_t : d\nvector b_i : d_v\nmatrix W : d_v h × d\nmatrix U : d × h d_v\n"
        "[q_{t,1}; q_{t,2}; …; q_{t,h}] = W x_t\ny_t = U [q_{t,1}; …; q_{t,h}]\n"
        "output z_{t,i} = (q_{t,i}^⊤ b_i) y_t",
        lambda x, b, W, U: ((x @ W.T).unflatten(-1, (3, 2)) * b).sum(-1)[..., None] * (x @ W.T @ U.T)[:, None]),
    "softmax inside of a listing": (
        "matrix X : T × d\nmatrix W_i : d × d_k\nmatrix U : h d_k × d\n"
        r"output Y = \begin{bmatrix} softmax_{s ≤ t}(X X^⊤) X W_1 & \dots & softmax_{s ≤ t}(X X^⊤) X W_h"
        r" \end{bmatrix} U",
        lambda X, W, U: torch.cat(list((X @ X.mT).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf).softmax(
            -1) @ X @ W), -1) @ U),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_out_is_what_torch_makes_of_it(name: str) -> None:
    text, torchs = CASES[name]
    given = given_to(text)
    got = einc.compile(HEAD + text + "\n")(**given)
    torch.testing.assert_close(got, torchs(**given), rtol=1e-12, atol=1e-12)


REFUSED: dict[str, tuple[str, str, str]] = {
    "rows or columns": ("matrix A, B : T × d\nmatrix W : 2 d × d\noutput Y = [A; B] W", "E0232", "below or beside"),
    "what the dots are": ("vector x_i : d\noutput Y = [x_1; x_3; …; x_h]", "E0232", "where the dots are"),
    "steps of two": ("vector x : d\noutput y = [0; 2; …; d]", "E0232", "where the dots are"),
    "two places": (r"matrix W : T × d" "\n" r"output y = [W_{1 1}; …; W_{T d}]", "E0232", "where the dots are"),
    "sides that differ": ("matrix A : T × d\nmatrix B : n × d\n" r"output Y = \begin{bmatrix} A & B \end{bmatrix}",
                          "E0231", "beside each other"),
    "an empty cell": ("matrix A : T × d\n" r"output Y = \begin{bmatrix} A & \\ A & A \end{bmatrix}", "E0103", "empty"),
    "a sum of positions": ("matrix A : T × d\nmatrix B : n × d\n"
                           r"output Y = \begin{bmatrix} A \\ B \end{bmatrix}", "E0230", "one after another"),
    "index notation": ("input x_t^i\noutput y_t = [x_t^i; x_t^i]", "E0109", "a matrix that is written out"),
    "a letter that counts from 0": (
        "index z : head(0..g-1)\ninput a_z\nmatrix V : g × d\noutput y = [a_1; …; a_g]ᵀ V",
        "E0601", "may pass g - 1"),
    "a column and a matrix in a list": ("matrix A : d × d\nvector b : d\noutput Y = [b; A]", "E0232", "below or"),
    "pieces below or beside": ("matrix A : h d_k × h d\noutput [B_1; …; B_h] = A", "E0232", "below or beside"),
    "pieces of a set that is made in another order": (
        "index k : feature(d_k)\nindex x : feature(d_k h) = (k i)\nvector x_t : d\nmatrix W : d_k h × d\n"
        "output [q_{t,1}; …; q_{t,h}] = W x_t", "E0231", "has h pieces"),
    "blocks that count otherwise": (
        "input w_i\nmatrix V : h × d\n" r"output Y = \begin{bmatrix} w_1 & 0 & \cdots & 0 \\ 0 & w_3 & \cdots & 0"
        r" \\ \vdots & \vdots & \ddots & \vdots"
        r" \\ 0 & 0 & \cdots & w_h \end{bmatrix} V", "E0232", "where the dots are"),
    "blocks that do not count": (
        "matrix V : h × d\n" r"output Y = \begin{bmatrix} 1 & \cdots & 0 \\ \vdots & \ddots & \vdots \\ 0 & \cdots"
        r" & 1 \end{bmatrix} V", "E0232",
        "where the dots are"),
    "something beside the blocks": (
        "input w_i\nmatrix V : h × d\n" r"output Y = \begin{bmatrix} w_1 & \cdots & 0 \\ \vdots & \ddots & \vdots"
        r" \\ 1 & \cdots & w_h \end{bmatrix} V",
        "E0232", "where the dots are"),
    "the last two of what counts": (
        "input w_i\nmatrix V : h × d\n" r"output Y = \begin{bmatrix} w_1 & 0 & \cdots & 0 & 0 \\ 0 & w_2 & \cdots"
        r" & 0 & 0 \\"
        r" \vdots & \vdots & \ddots & \vdots & \vdots \\ 0 & 0 & \cdots & w_{h-1} & 0 \\ 0 & 0 & \cdots & 0 & w_h"
        r" \end{bmatrix} V", "E0232", "where the dots are"),
    "a function of one factor or of two": (
        "input w, v\nvector x : 2\n" r"output y = \begin{pmatrix} \cos w v & 0 \\ 0 & 1 \end{pmatrix} x", "E0230",
        "in parentheses"),
    "up to a letter": ("vector x_t : d\noutput y_t = [x_1; …; x_t]", "E0232", "where the dots are"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_open_is_asked(name: str) -> None:
    text, code, said = REFUSED[name]
    report = Report()
    assert pipeline.check(Source("m.ein", HEAD + text + "\n"), report) is None
    assert (report.errors[0].code, said in report.errors[0].message) == (code, True), [
        (p.code, p.message) for p in report.errors]


@pytest.mark.parametrize("seed", range(12))
def test_drawn_blocks_are_what_torch_concatenates(seed: int) -> None:
    """Grids of equal parts, and rows or columns of parts of different sizes, behind a matrix and before another."""
    draw = Random(seed)
    grid = draw.random() < 0.5
    high = draw.randint(1, 3) if grid else 1
    wide = draw.randint(1 if high > 1 else 2, 3)
    sizes = ["d"] * wide if grid else draw.sample(["d_k", "d_v", "d_ff", "d"], wide)
    names = [["ABCDEFGHK"[3 * n + k] for k in range(wide)] for n in range(high)]
    turned = draw.random() < 0.5  # the parts of different sizes stand below each other
    lines = [f"matrix {x} : d × {size}" for row in names for x, size in zip(row, sizes, strict=True)]
    inner = f"{wide} d" if grid and wide > 1 else "d" if grid else f"({' + '.join(sizes)})"
    cells = r" \\ ".join(" & ".join(row) for row in names)
    if turned and not grid:
        cells = r" \\ ".join(f"{x}^⊤" for x in names[0])
    written = rf"\begin{{bmatrix}} {cells} \end{{bmatrix}}"
    back = "^⊤" if turned and not grid else ""
    text = "\n".join((*lines, f"matrix W : {inner} × n", f"output Y = {written}{back} W"))
    given = given_to(text)
    whole = torch.cat([torch.cat([given[x] for x in row], -1) for row in names])
    assert whole.shape == (high * SIZES["d"], sum(SIZES[x] for x in sizes))
    torch.testing.assert_close(einc.compile(HEAD + text + "\n")(**given), whole @ given["W"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_blocks_on_a_diagonal_are_those_of_torch(seed: int) -> None:
    """One or two of the first blocks and the last, each of some rows and columns of numbers that an index counts."""
    draw = Random(seed)
    shown, high, wide = draw.randint(1, 2), draw.randint(1, 3), draw.randint(1, 3)
    drawn = [[draw.choice(["a", "b", "0", "1", "a b", "2"]) for _ in range(wide)] for _ in range(high)]
    cells = [["a", *row[1:]] if n == 0 else row for n, row in enumerate(drawn)]
    numbers = [*map(str, range(1, shown + 1)), "h"]

    def row(at: int, n: int) -> str:
        """A row of the block at a place, among zeros, with dots before the last block."""
        parts = ["0"] * (wide * (shown + 1))
        parts[at * wide : (at + 1) * wide] = [
            x.replace("a", f"a_{numbers[at]}").replace("b", f"b_{numbers[at]}") for x in cells[n]]
        return " & ".join((*parts[: shown * wide], r"\cdots", *parts[shown * wide :]))

    dots = r" & ".join([r"\vdots"] * (shown * wide) + [r"\ddots"] + [r"\vdots"] * wide)
    rows = [row(at, n) for at in range(shown) for n in range(high)] + [dots] + [row(shown, n) for n in range(high)]
    written = r" \\ ".join(rows)
    columns = "h" if wide == 1 else f"{wide} h"
    text = "input a_i, b_i\n" + f"matrix W : {columns} × n\noutput Y = " + (
        r"\begin{bmatrix} " + written + r" \end{bmatrix} W")
    given = {"b": torch.zeros(3).double(), **given_to(text)}
    one = {"a": lambda k: given["a"][k], "b": lambda k: given["b"][k], "0": lambda k: torch.zeros(()),
           "1": lambda k: torch.ones(()), "2": lambda k: torch.tensor(2.0),
           "a b": lambda k: given["a"][k] * given["b"][k]}
    blocks = [torch.stack([torch.stack([one[x](k).double() for x in line]) for line in cells]) for k in range(3)]
    got = einc.compile(HEAD + text + "\n")(**{x: v for x, v in given.items() if x != "b" or "b" in written})
    torch.testing.assert_close(got, torch.block_diag(*blocks) @ given["W"], rtol=1e-12, atol=1e-12)
