"""Matrix notation in a spec: read as torch reads it, or asked about, or refused; never something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from test_documents import made
from torch import Tensor
from torch.nn import functional

import einc
from einc.driver import pipeline
from einc.driver.cli import main
from einc.errors.report import Report, Source
from einc.meaning.interpret import interpret

SIZES = {"T": 5, "n": 4, "m": 6, "d": 7, "d_k": 3, "d_v": 2, "d_ff": 8, "h": 3, "r": 2}
HEAD = """
index t, s : time(T)
index q    : time(n)
index u    : time(m)
index i    : head(h)
"""
Given = dict[str, Tensor]


def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf).softmax(-1)


def turned(x: Tensor) -> Tensor:
    return x.transpose(-1, -2)


CASES: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "attention": (
        "matrix Q, K : T × d_k\nmatrix V : T × d_v\noutput O = softmax_{s ≤ t}(Q Kᵀ / √d_k) V",
        lambda Q, K, V: causal(Q @ turned(K) / 3 ** 0.5) @ V),
    "attention between two texts": (
        "matrix Q : n × d_k\nmatrix K : m × d_k\nmatrix V : m × d_v\noutput O = softmax_u(1/√d_k Q K^⊤) V : all",
        lambda Q, K, V: (Q @ turned(K) / 3 ** 0.5).softmax(-1) @ V),
    "a softmax down the columns": (
        "matrix Q : n × d_k\nmatrix K : m × d_k\nmatrix V : m × d_v\noutput O = softmax_q(Q K^{\\top}) V : all",
        lambda Q, K, V: (Q @ turned(K)).softmax(0) @ V),
    "heads side by side": (
        "matrix X : T × d\nmatrix W_Q^{(i)}, W_K^{(i)} : d × d_k\nmatrix W_V^{(i)} : d × d_v\nmatrix W_O : h d_v × d\n"
        "head_i = softmax_{s ≤ t}(X W_Q^{(i)} (X W_K^{(i)})ᵀ / √d_k) X W_V^{(i)}\n"
        "output Y = Concat(head_1, …, head_h) W_O",
        lambda X, W_Q, W_K, W_V, W_O: torch.cat(list(
            causal(X @ W_Q @ turned(X @ W_K) / 3 ** 0.5) @ X @ W_V), -1) @ W_O),
    "a sum over heads": (
        "matrix X : T × d\nmatrix W_i : d × d\noutput Y = Σ_i X W_i",
        lambda X, W: (X @ W).sum(0)),
    "a layer with biases": (
        "matrix X : T × d\nmatrix W_1 : d × d_ff\nmatrix W_2 : d_ff × d\nvector b_1 : d_ff\nvector b_2 : d\n"
        "output F = max(0, X W_1 + b_1) W_2 + b_2",
        lambda X, W_1, W_2, b_1, b_2: (X @ W_1 + b_1).relu() @ W_2 + b_2),
    "a norm before it": (
        "matrix X : T × d\nmatrix W_1 : d × d_ff\nmatrix W_2 : d_ff × d\noutput Z = X + gelu(LN(X) W_1) W_2",
        lambda X, W_1, W_2: X + functional.gelu(functional.layer_norm(X, X.shape[-1:]) @ W_1) @ W_2),
    "an epsilon of its own": (
        "matrix X : T × d\noutput Z = 2 LN(X, eps = 0.5)",
        lambda X: 2 * functional.layer_norm(X, X.shape[-1:], eps=0.5)),
    "retention": (
        "input γ\nmatrix X : T × d\nmatrix W_Q, W_K : d × d_k\nmatrix W_V : d × d_v\nmatrix D : T × T\n"
        "D_{t s} = (γ)^{t - s}, s ≤ t\nQ = X W_Q\nK = X W_K\nV = X W_V\noutput Y = (Q Kᵀ ⊙ D) V",
        lambda X, W_Q, W_K, W_V, gamma: ((X @ W_Q) @ turned(X @ W_K) * torch.tril(
            gamma ** (torch.arange(5.)[:, None] - torch.arange(5.)).double())) @ (X @ W_V)),
    "a triangle": (
        "matrix Q, K : T × d_k\nmatrix V : T × d\nA = Q Kᵀ\noutput Y = tril(A) V + 0.5 tril(A / 2) V",
        lambda Q, K, V: 1.25 * (Q @ turned(K)).tril() @ V),
    "linear attention": (
        "matrix Q, K : T × d_k\nmatrix V : T × d_v\noutput O = exp(Q) (exp(K)ᵀ V) : all",
        lambda Q, K, V: Q.exp() @ (turned(K.exp()) @ V)),
    "one that is normalised": (
        "matrix Q, K : T × r\nmatrix V : T × d\nA = exp(Q) exp(K)ᵀ\n"
        "output Y = diag(rowsum(A))^{-1} A V : all",
        lambda Q, K, V: (Q.exp() @ turned(K.exp()) @ V) / (Q.exp() @ turned(K.exp())).sum(-1, keepdim=True)),
    "a diagonal on the right": (
        "matrix A : T × d\nvector v : d\noutput Y = A diag(exp(v))", lambda A, v: A * v.exp()),
    "entry by entry": (
        "matrix A, B : T × d\nmatrix W : d × r\noutput Y = A W ⊙ B W", lambda A, B, W: (A @ W) * (B @ W)),
    "low rank": (
        "matrix X : T × d\nmatrix W : d × d_ff\nmatrix A : d × r\nmatrix B : r × d_ff\noutput H = X W + 2 X A B",
        lambda X, W, A, B: X @ W + 2 * X @ A @ B),
    "columns": (
        "matrix W : d × d_k\nmatrix U : r × d\nvector x_t : d_k\noutput y_t = U W x_t",
        lambda W, U, x: x @ turned(U @ W)),
    "rows": (
        "matrix W : d_k × d\nvector x_t : d_k\noutput y_t = x_t W", lambda W, x: x @ W),
    "entries of vectors": ("vector w, u, v : d\noutput w = u v", lambda u, v: u * v),
    "a vector named e": ("vector e : d\nmatrix W : d × r\noutput y = e^T W", lambda e, W: e @ W),
    "powers of entries": (
        "matrix A : T × d\nvector m : T\noutput B = e^{A - m}", lambda A, m: (A - m[:, None]).exp()),
    "an inner product": (
        "matrix q, k : d × 1\nmatrix X : T × d\noutput y = qᵀ k X", lambda q, k, X: (q.T @ k).squeeze() * X),
    "an outer product": (
        "vector u : d\nmatrix v : 1 × r\noutput Y = u v", lambda u, v: torch.outer(u, v.squeeze())),
    "a transpose of a product": (
        "matrix A : T × d\nmatrix B : d × r\noutput Y = (A B)ᵀ", lambda A, B: turned(A @ B)),
    "a chain": (
        "matrix A : T × d\nmatrix B : d × r\nmatrix C : r × d\noutput Y = A B C Bᵀᵀ" .replace("Bᵀᵀ", "(Bᵀ)ᵀ"),
        lambda A, B, C: A @ B @ C @ B),
    "a square matrix twice": (
        "matrix A : d × d\nmatrix X : T × d\noutput Y = X A Aᵀ A", lambda A, X: X @ A @ A.T @ A),
    "lines of maxima": (
        "matrix A : T × d\noutput Y = exp(A - rowmax(A))", lambda A: (A - A.amax(-1, keepdim=True)).exp()),
    "a fraction": (
        "matrix A : T × d\noutput Y = \\frac{A + 1}{√d - 1}", lambda A: (A + 1) / (7 ** 0.5 - 1)),
    "two conditions": (
        "matrix Q : n × d_k\nmatrix K : m × d_k\nmatrix V : m × d_v\noutput O = softmax_{u ≤ 3, u ≥ 2}(Q Kᵀ) V : all",
        lambda Q, K, V: (Q @ turned(K))[:, 1:3].softmax(-1) @ V[1:3]),
    "an argument by name": (
        "def f(x, a = 1) = a x\nmatrix X : T × d\noutput Y = f(X, a = 3) + softcap(X, c = 2)",
        lambda X: 3 * X + 2 * (X / 2).tanh()),
    "a transpose by a letter": (
        "matrix Q, K : n × d_k\nmatrix W : d × d_k\noutput Y = Q (W^T W) K^T", lambda Q, K, W: Q @ W.T @ W @ K.T),
    "two norms of one shape": (
        "matrix X, Z : T × d\nmatrix W_1, W_2 : d × r\nY_1 = LN(X) W_1\nY_2 = LN(Z) W_2\noutput Y = Y_1 - Y_2",
        lambda X, Z, W_1, W_2: functional.layer_norm(X, X.shape[-1:]) @ W_1 - functional.layer_norm(
            Z, Z.shape[-1:]) @ W_2),
    "a norm of a sum": (
        "matrix X : T × d\nmatrix A_i : d × d\nmatrix W : d × r\noutput Y = LN(Σ_i X A_i) W",
        lambda X, A, W: functional.layer_norm((X @ A).sum(0), X.shape[-1:]) @ W),
    "sizes in braces, and powers of them": (
        "matrix X : T × d_{k}\noutput Y = X / √d_{k} + (d_k)^2 X", lambda X: X / 3 ** 0.5 + 9 * X),
    "letters beside matrices": (
        "matrix X : T × d\ninput w_t\noutput Y_t^d = w_t X_t^d".replace("Y_t^d", "Y_t^e").replace("X_t^d", "X_t^e"),
        lambda X, w: w[:, None] * X),
}


def program_of(text: str) -> object:
    report = Report()
    found = pipeline.check(Source("m.ein", HEAD + text + "\n"), report)
    assert found is not None, "\n".join(f"{p.code} {p.message}" for p in report.errors)
    return found


def given_to(text: str, seed: int = 0) -> Given:
    program = program_of(text)
    draw = torch.Generator().manual_seed(seed)
    out = {}
    for tensor in program.inputs():  # type: ignore[attr-defined]
        shape = [slot.set.extent.at(SIZES) for slot in tensor.slots]
        out[tensor.key] = torch.randn([int(n) for n in shape], dtype=torch.float64, generator=draw)
    return {name: x if x.ndim else x.abs() for name, x in out.items()}


@pytest.mark.parametrize("name", CASES)
def test_a_formula_is_what_torch_makes_of_it(name: str) -> None:
    text, torchs = CASES[name]
    text = text.replace("index e", "index e")
    head = "index e : feature(d)\n" if "X_t^e" in text else ""
    given = given_to(head + text)
    want = torchs(**given)
    got = einc.compile(HEAD + head + text + "\n")(**given)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


# what is asked, and what is refused


@pytest.mark.parametrize(("text", "code", "said"), [
    ("matrix S : T × T\noutput P = softmax(S) : all", "E0232", "rows or columns"),
    ("matrix S : T × T\nmatrix V : T × d\noutput P = softmax(S)ᵀ V : all", "E0232", "rows or columns"),
    ("matrix X : d × d\nvector b : d\noutput Y = X + b", "E0232", "columns or rows"),
    ("vector q, k : d\noutput x = q kᵀ", "E0232", "columns or rows"),
    ("vector q : d\noutput x = |q|", "E0232", "each entry of `q`, or one number"),
    ("matrix A : d × d\noutput B = \\lvert A \\rvert A", "E0232", "each entry of `A`, or one number"),
    ("matrix X : T × d\ninput a, b, c\noutput Y = a / b c X", "E0232", "what follows the divisor"),
    ("matrix X_i : T × d\nmatrix W_O : h d × d\noutput Y = Concat(X_2, …, X_h) W_O", "E0232", "where the dots are"),
    ("matrix S : T × T\nmatrix V : T × d\noutput P = softmax(S) V", "E0503", "over which part of time(T)"),
])
def test_what_is_open_is_asked(text: str, code: str, said: str) -> None:
    report = Report()
    assert pipeline.check(Source("m.ein", HEAD + text + "\n"), report) is None
    assert [p.code for p in report.errors] == [code]
    assert said in report.errors[0].message
    assert report.errors[0].helps


@pytest.mark.parametrize(("text", "code", "said"), [
    ("matrix Q, K : T × d\noutput S = Q K", "E0231", "`Q` (T × d) times `K` (T × d): d is not T"),
    ("matrix A : T × d\nmatrix B : d × T\noutput S = A + B", "E0231", "are added"),
    ("matrix A : T × d\nmatrix B : d × T\noutput S = A ⊙ B", "E0231", "are multiplied entry by entry"),
    ("matrix A : T × d\nvector b : d\noutput S = A ⊙ b", "E0231", "are multiplied entry by entry"),
    ("matrix u : d × 1\nmatrix v : 1 × d\noutput S = u + v", "E0231", "are added"),
    ("matrix A : T × d\nmatrix Y : d × T\noutput Y = 2 A", "E0231", "`Y` is d × T, and the right side T × d"),
    ("matrix A : T × d\nmatrix A : d × T\noutput Y = 2 A", "E0231", "two shapes"),
    ("matrix A : T × d\noutput S = 1 / A", "E0231", "is divided by"),
    ("matrix A : T × d\noutput S = diag(A) A", "E0231", "which is no vector"),
    ("matrix A : T × d\noutput S = tril(A)", "E0231", "not square"),
    ("matrix A : T × d\nvector v : d\noutput S = diag(v)", "E0230", "stands alone"),
    ("matrix X : T × d\noutput Y = X W", "E0230", "nothing says which shape `W` has"),
    ("matrix X : T × d\noutput Y = XX", "E0201", ""),
    ("matrix A : d × d\noutput Y = A^{-1} A", "E0230", "stands after a matrix"),
    ("matrix A : d × d\noutput Y = (A A)^2", "E0230", "stands after a matrix"),
    ("matrix Q : T × d\nvector v : d\noutput Y = Q diag^{-1}(v)", "E0230", "has a script"),
    ("matrix Q : T × d\noutput Y = LN^2(Q)", "E0230", "has a script"),
    ("matrix Q : T × d\noutput Y = gelu_{tanh}(Q)", "E0230", "has a script"),
    ("matrix A : T × T\noutput Y = tril_{strict}(A)", "E0230", "has a script"),
    ("matrix Q : T × d\noutput Y = gelu(Q, foo = 3)", "E0216", "no parameter `foo`"),
    ("matrix X : T × d\noutput Y = Σ_t X", "E0230", "`t` is no letter of what is summed"),
    ("matrix A : d × d\noutput Y = A Σ_{} A", "E0230", "nothing is summed"),
    ("input c^i\nmatrix A^i : d × d\noutput Y = c^i A^i", "E0301", ""),
    ("index j : time(0..r-1)\nmatrix A : r × r\nmatrix X : r × d\noutput Y = A X", "E0501", ""),
    ("index g : head(2 h)\nmatrix X : T × d\nmatrix A^{(g)} : d × d\noutput Y = X A^{(g)}", "E0301", ""),
    ("matrix A^{(i)} : d × d\noutput Y = 2 A", "E0230", "`A` has no letter beside"),
    ("matrix A^{(i)} : d × d\noutput Y = 2 A_i", "E0301", ""),
    ("vector u, v : d\noutput w = u v", "E0231", "is not"),
    ("matrix A : d × d\noutput B = e^A", "E0232", "power series"),
    ("matrix A : d × d\noutput Y = Z A\nZ = Y A", "E0230", "is not known before its own"),
    ("matrix A : d × d\nY = 2 A\noutput Y = 3 A", "E0230", "is defined twice"),
    ("matrix A\noutput Y = 2 A", "E0210", "which shape"),
    ("matrix A : T × d × r\noutput Y = 2 A", "E0210", "has rows and columns"),
    ("vector A : T × d\noutput Y = 2 A", "E0210", "has one size"),
    ("matrix A : T × d / 2\noutput Y = 2 A", "E0210", "is no shape"),
    ("matrix A : T × d\noutput Y = A 1[s ≤ t]", "E0301", ""),
    ("matrix A : T × d\noutput Y = softmax(A, A)", "E0230", "of 2 matrices"),
    ("input A_{t s}, V_s\noutput y_t = Σ_s A_{t s}ᵀ V_s", "E0109", "is a transpose"),
    ("input a_t, b_t\noutput y_t = a_t ⊙ b_t", "E0109", "a product without indices"),
])
def test_what_does_not_fit_is_refused(text: str, code: str, said: str) -> None:
    report = Report()
    assert pipeline.check(Source("m.ein", HEAD + text + "\n"), report) is None
    assert code in [p.code for p in report.errors], [(p.code, p.message) for p in report.errors]
    assert any(said in p.message for p in report.errors)


def test_a_transpose_that_is_missing_is_offered() -> None:
    report = Report()
    pipeline.check(Source("m.ein", HEAD + "matrix Q, K : T × d\noutput S = Q K\n"), report)
    assert [h.text for h in report.errors[0].helps] == ["write `Q Kᵀ`"]


def test_a_symbol_that_is_multiplied_alone_says_along_what_it_runs() -> None:
    text = HEAD + "matrix Q, K : T × d_k\nmatrix V : T × d_v\nS = Q Kᵀ\nP = softmax_{s ≤ t}(S)\noutput O = P V{}\n"
    given = given_to(CASES["attention"][0])
    got = einc.compile(text.replace("{}", ""))(**given)
    torch.testing.assert_close(got, causal(given["Q"] @ turned(given["K"])) @ given["V"])
    second = text.replace("output O = P V{}", "matrix A : d_k × T\noutput O = A P V : all")
    for open_text in (text.replace("{}", "\noutput R = Pᵀ V : all"), second):
        report = Report()
        assert pipeline.check(Source("m.ein", open_text), report) is None
        assert "E0232" in [p.code for p in report.errors]


def test_outputs_are_named_as_matrices() -> None:
    text = HEAD + "matrix A : T × d\nmatrix W_i : d × r\nY = A Aᵀ\nZ_i = A W_i\noutput Z_i, Y : all\n"
    given = {"A": torch.randn(5, 7, dtype=torch.float64), "W": torch.randn(3, 7, 2, dtype=torch.float64)}
    made = einc.compile(text)(**given)
    torch.testing.assert_close(made.Z, given["A"] @ given["W"])
    torch.testing.assert_close(made.Y, given["A"] @ given["A"].T)


def test_a_composite_size_of_the_text_is_its_parts() -> None:
    report = Report()
    text = HEAD + "index v : feature(d_v)\nindex c : feature(d_o) = (i v)\nmatrix X : T × d_o\nmatrix W : d_o × d_o\n"
    found = pipeline.check(Source("m.ein", text + "output Y = X W\n"), report)
    assert found is not None, [(p.code, p.message) for p in report.errors]
    x, w = np.random.default_rng(5).normal(size=(5, 6)), np.random.default_rng(6).normal(size=(6, 6))
    got = interpret(found, {"X": x, "W": w}, {"h": 3, "d_v": 2})["Y"]
    np.testing.assert_allclose(got.reshape(5, 6), x @ w, rtol=1e-12)


# papers


SIDE = """
index t, s : time(T)
index i : head(h)
matrix X : T × d
matrix W_i^Q, W_i^K : d × d_k
matrix W_i^V : d × d_v
matrix W^O : h d_v × d
matrix W_1 : d × d_ff
matrix W_2 : d_ff × d
vector b_1 : d_ff
vector b_2 : d
"""
PAPER = r"""
# Heads

$$ \mathrm{head}_i = \mathrm{softmax}_{s \le t}\left(\frac{XW_i^Q (XW_i^K)^\top}{\sqrt{d_k}}\right) XW_i^V $$

$$ \mathrm{MultiHead} = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h) W^O $$

# Layer

$$ F = \max(0, XW_1 + b_1)W_2 + b_2 $$

# Whole

$$ Y_i = \text{softmax}\left(XW_i^Q (XW_i^K)^\top\right) XW_i^V $$
"""


@pytest.mark.parametrize(("section", "wanted"), [
    ("Heads", CASES["heads side by side"][1]),
    ("Layer", CASES["a layer with biases"][1]),
    ("Whole", lambda X, W_Q, W_K, W_V: (X @ W_Q @ turned(X @ W_K)).softmax(-1) @ X @ W_V),
])
def test_a_paper_in_matrix_notation(section: str, wanted: Callable[..., Tensor]) -> None:
    report = Report()
    side = Source("side.ein", SIDE + 'section "Whole":\n    output Y_i : all\n')
    found = pipeline.check(Source("p.md", PAPER.replace("\\\\", "\\")), report, section=section, side=side)
    assert found is not None, [(p.code, p.message) for p in report.errors]
    draw = np.random.default_rng(4)
    given = {t.key: draw.normal(size=[int(x.set.extent.at(SIZES)) for x in t.slots]) for t in found.inputs()}
    (got,) = interpret(found, given, {}).values()
    np.testing.assert_allclose(got, wanted(**{k: torch.tensor(x) for k, x in given.items()}).numpy(), rtol=1e-10)


def test_what_a_paper_does_not_say_is_told() -> None:
    side = SIDE + 'section "Whole":\n    output Y_i : all\n'
    found = {e.section: e for e in made(PAPER.replace("\\\\", "\\"), side).entries}
    first, whole = "`softmax` runs along what the product beside it sums", "`softmax` runs over all of T"
    assert [(found[n].sure, first in found[n].reason, whole in found[n].reason) for n in (1, 2)] == [
        ("declared", False, False), ("inferred", True, True)]


def test_a_paper_that_reads_the_future_says_so() -> None:
    report = Report()
    pipeline.check(Source("p.md", PAPER.replace("\\\\", "\\")), report, section="Whole", side=Source("side.ein", SIDE))
    assert [p.code for p in report.errors] == ["E0501"]


# one text in both notations


def test_the_reader_sees_the_indices(tmp_path: Path) -> None:
    path = tmp_path / "m.ein"
    path.write_text(HEAD + CASES["heads side by side"][0] + "\n", encoding="utf-8")
    shown = CliRunner().invoke(main, ["fmt", str(path), "--indices"])
    assert shown.exit_code == 0, shown.output
    assert "output Y_t^e = Σ_i Σ_v head_{i t}^v W_O_{(i v)}^e" in shown.stdout
    for spelling in ("unicode", "latex", "ascii"):
        kept = CliRunner().invoke(main, ["fmt", str(path), "--spelling", spelling])
        assert kept.exit_code == 0, kept.output
        again = CliRunner().invoke(main, ["fmt", str(path), "--indices", "--spelling", spelling])
        assert again.exit_code == 0
        plain = pipeline.check(Source("again.ein", again.stdout), Report())
        assert plain is not None, again.stdout


@pytest.mark.parametrize("name", CASES)
def test_its_indices_mean_the_same(name: str) -> None:
    text = CASES[name][0]
    source = Source("m.ein", HEAD + ("index e : feature(d)\n" if "X_t^e" in text else "") + text + "\n")
    report = Report()
    written = pipeline.indexed(source, "unicode", report)
    assert written is not None
    one, other = pipeline.check(source, Report()), pipeline.check(Source("again.ein", written), report)
    assert one is not None
    assert other is not None, (written, [(p.code, p.message) for p in report.errors])
    given = {t.key: np.random.default_rng(3).normal(size=[int(slot.set.extent.at(SIZES)) for slot in t.slots])
             for t in one.inputs()}
    got, want = (interpret(p, {k: np.abs(x) for k, x in given.items()}, {}) for p in (other, one))
    assert got.keys() == want.keys()
    for key, x in want.items():
        np.testing.assert_array_equal(got[key], x)


# drawn


DIMS = {"d_a": 3, "d_b": 4, "d_c": 2, "1": 1}


class Drawn:
    """Random expressions of matrices, as text and as numpy computes them."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.given: dict[str, np.ndarray] = {}
        self.names: dict[str, tuple[str, str]] = {}
        self.rng = np.random.default_rng(seed)

    def leaf(self, rows: str, columns: str) -> tuple[str, np.ndarray]:
        known = [n for n, s in self.names.items() if s == (rows, columns)]
        if known and self.draw.random() < 0.5:
            name = self.draw.choice(known)
        else:
            label = "xyz"[len(self.names) % 3] + "uvwabcdefg"[len(self.names) // 3]
            name = f"{self.draw.choice('ABM')}_{{\\text{{{label}}}}}"
            self.names[name] = (rows, columns)
            self.given[name] = self.rng.normal(size=(DIMS[rows], DIMS[columns]))
        return name, self.given[name]

    def of(self, rows: str, columns: str, depth: int) -> tuple[str, np.ndarray]:
        """An expression of a shape, in parentheses unless it is one factor."""
        if depth == 0:
            return self.leaf(rows, columns)
        kind = self.draw.choice(["leaf", "times", "times", "turned", "sum", "entries", "scaled", "exp", "diag", "rows",
                                 "quotient", "fold"])
        inner = self.draw.choice([x for x in DIMS if x != "1"])
        (a, x), (b, y) = self.of(rows, columns, depth - 1), self.of(rows, columns, depth - 1)
        match kind:
            case "times":
                (a, x), (b, y) = self.of(rows, inner, depth - 1), self.of(inner, columns, depth - 1)
                return f"({a} {b})", x @ y
            case "turned":
                a, x = self.of(columns, rows, depth - 1)
                return f"{a}ᵀ" if a[0] != "(" else f"({a})ᵀ", x.T
            case "sum":
                return f"({a} - {b})", x - y
            case "entries" if rows != "1" or columns != "1":
                return f"({a} ⊙ {b})", x * y
            case "scaled":
                return f"(0.5 {a})", 0.5 * x
            case "exp":
                return f"tanh({a})", np.tanh(x)
            case "diag" if rows != "1":
                a, x = self.of(rows, "1", depth - 1)
                return f"(diag({a}) {b})", x * y
            case "rows" if rows != "1":
                a, x = self.of("1", columns, depth - 1)
                return f"({b} + {a})", x + y
            case "quotient":
                return f"({a} / √2)", x / np.sqrt(2)
            case "fold" if columns == "1":
                a, x = self.of(rows, inner, depth - 1)
                return f"rowsum({a})", x.sum(1, keepdims=True)
        return a, x


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.whole] * (n >= 40)) for n in range(400)])
def test_drawn_expressions_are_what_numpy_makes_of_them(seed: int) -> None:
    drawn = Drawn(seed)
    rows, columns = drawn.draw.choice(["d_a", "d_b"]), drawn.draw.choice(["d_a", "d_c", "1"])
    body, want = drawn.of(rows, columns, drawn.draw.choice([1, 2, 3]))
    declared = "".join(f"matrix {n} : {r} × {c}\n" for n, (r, c) in drawn.names.items() if n in body)
    text = f"{declared}output R = {body}\n"
    report = Report()
    found = pipeline.check(Source("m.ein", text), report)
    assert found is not None, (text, [(p.code, p.message) for p in report.errors])
    by = {t.key: t for t in found.inputs()}
    given = {name.replace("_{\\text{", "_").replace("}}", ""): x for name, x in drawn.given.items()}
    got = interpret(found, {k: given[k].reshape([n for n in given[k].shape if n > 1]) for k in by}, {})["R"]
    np.testing.assert_allclose(got, want.reshape(got.shape), rtol=1e-10, atol=1e-10, err_msg=text)
