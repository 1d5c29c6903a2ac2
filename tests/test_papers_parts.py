r"""Small papers: entries, rows, masks, recurrences, listed products and functions, each against numpy in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from helpers import extent
from test_documents import made

from einc.documents.sections import Paper
from einc.driver import papers
from einc.driver.reports.coverage import returns, section_of
from einc.errors.report import Report, Source
from einc.ir.programs import TypedProgram
from einc.meaning.interpret import interpret

Array = np.ndarray
SIZES = {"n": 5, "m": 4, "d": 3, "e": 2, "T": 5, "N": 5, "L": 5, "D": 3, "x_len": 5, "h": 4, "g": 2, "H": 4, "G": 2,
         "d_c_prime": 5, "d_prime_c": 5, "d_h_R": 3, "d_c": 2}
QKV = r"Let $Q, K \in \mathbb{R}^{n \times d}$ and $V \in \mathbb{R}^{n \times e}$. "
ROWS = np.arange(1, 6)[:, None]
COLUMNS = np.arange(1, 6)[None, :]


@dataclass(frozen=True)
class Text:
    """A paper of one section, the one output that it has, and what that is of its inputs."""

    name: str
    text: str
    output: str
    wanted: Callable[..., Array]
    positive: bool = False


def softmax(x: Array) -> Array:
    """Along the rows."""
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def recurrence(a: Array, B: Array, x: Array) -> Array:
    """The states of h_t = a_t h_{t-1} + B_t x_tᵀ."""
    state, out = np.zeros((B.shape[1], x.shape[1])), []
    for t in range(len(a)):
        state = a[t] * state + np.outer(B[t], x[t])
        out.append(state)
    return np.stack(out)


def listed(a: Array) -> Array:
    """a_i … a_{j+1} below the diagonal, 1 on it."""
    return np.array([[a[j + 1 : i + 1].prod() if j <= i else 0.0 for j in range(5)] for i in range(5)])


def features(x: Array, W: Array) -> Array:
    """Σ_j ≤ t of x_j Wᵀ."""
    return np.cumsum(x @ W.T, axis=0)


TEXTS = (
    Text("a mask is multiplied", QKV + r"""
$$ O = (Q K^\top \odot D) V $$
$$ D_{ij} = \begin{cases} \gamma^{i-j} & i \ge j \\ 0 & i < j \end{cases} $$
with a scalar decay $\gamma$ and $D \in \mathbb{R}^{n \times n}$.""", "O",
         lambda Q, K, V, gamma: (Q @ K.T * np.where(ROWS >= COLUMNS, gamma ** (ROWS - COLUMNS), 0)) @ V, True),
    Text("a mask is added", QKV + r"""Let $M \in \mathbb{R}^{n \times n}$ and a scalar $b$.
$$ M_{ij} = \begin{cases} b & j \le i \\ -\infty & \text{otherwise} \end{cases} $$
$$ O = \mathrm{softmax}(Q K^\top + M) V $$""", "O",
         lambda Q, K, V, b: softmax(np.where(COLUMNS <= ROWS, Q @ K.T + b, -np.inf)) @ V),
    Text("a mask that is nothing but a domain", QKV + r"""Let $M \in \mathbb{R}^{n \times n}$.
$$ O = \mathrm{softmax}(Q K^\top + M) V, \qquad
   M_{ts} = \left\{ \begin{array}{ll} 0, & |t - s| \le 1 \\ -\infty, & \text{otherwise.} \end{array} \right. $$""", "O",
         lambda Q, K, V: softmax(np.where(abs(ROWS - COLUMNS) <= 1, Q @ K.T, -np.inf)) @ V),
    Text("a mask on columns that come later", QKV + r"""Let $M \in \mathbb{R}^{n \times n}$.
$$ M_{ji} = \begin{cases} -\infty & i > j \\ 0 & i \le j \end{cases} \qquad O = \mathrm{softmax}(M + Q K^\top) V $$""",
         "O", lambda Q, K, V: softmax(np.where(COLUMNS > ROWS, -np.inf, Q @ K.T)) @ V),
    Text("a recurrence", r"""For $t = 1, \dots, T$ let $x_t \in \mathbb{R}^d$, $B_t \in \mathbb{R}^e$, a scalar $a_t$,
$h_0 = 0$ and $h_t \in \mathbb{R}^{e \times d}$:
$$ h_t = a_t h_{t-1} + B_t x_t^\top $$""", "h", lambda x, B, a: recurrence(a, B, x)),
    Text("a recurrence whose shape its other term tells", r"""
At token $n = 1, \dots, N$ the rows of $K \in \mathbb{R}^{N \times d}$ and $V \in \mathbb{R}^{N \times e}$ are taken;
$S_0 = 0$ and a scalar $\gamma$.
$$ S_n = \gamma S_{n-1} + K_n^\top V_n $$""", "S", lambda K, V, gamma: recurrence(np.full(5, gamma), K, V)),
    Text("rows by their words", r"""
Let $X \in \mathbb{R}^{T \times d}$ and let $x_t \in \mathbb{R}^d$ be the $t$-th row of $X$, for positions
$t = 1, \dots, T$. With $W \in \mathbb{R}^{e \times d}$
$$ y_t = W x_t $$""", "y", lambda X, W: X @ W.T),
    Text("a listed product", r"""For $t = 1, \dots, T$ let a scalar $a_t$ be given, and $A \in \mathbb{R}^{T \times T}$:
$$ A_{ij} = \begin{cases} a_i \cdots a_{j+1} & i > j \\ 1 & i = j \\ 0 & i < j \end{cases} $$""", "A", listed),
    Text("a letter beside a declared one", r"""
For tokens $m = 1, \dots, N$ let $x_m \in \mathbb{R}^d$; $W, U \in \mathbb{R}^{e \times d}$.
$$ q_m = W x_m, \qquad k_n = U x_n, \qquad a_{m,n} = \exp(q_m^\top k_n) $$""", "a",
         lambda x, W, U: np.exp(x @ W.T @ U @ x.T)),
    Text("rows beside rows", r"""
For tokens $m = 1, \dots, N$ let $x_m \in \mathbb{R}^d$; $W, U \in \mathbb{R}^{d \times e}$.
$$ q_m = x_m W, \qquad k_n = x_n U, \qquad a_{m,n} = \exp(q_m k_n^\top) $$""", "a",
         lambda x, W, U: np.exp(x @ W @ U.T @ x.T)),
    Text("a mean of points at −∞", r"""For $j \in \{1..n\}$ let $S, M \in \mathbb{R}^{m \times n}$.
$$ M_{ij} = \begin{cases} -\infty & j > 2 \\ 0 & j \le 2 \end{cases} \qquad r = \mathrm{mean}_j(S + M) $$""", "r",
         lambda S: np.full(4, -np.inf)),
    Text("rows of two sizes as columns", r"""At token $n = 1, \dots, N$, $K \in \mathbb{R}^{N \times d}$,
$V \in \mathbb{R}^{N \times m}$. $$ S_n = K_n V_n^\top $$""", "S", lambda K, V: np.einsum("na,nb->nab", K, V)),
    Text("columns by their words", r"""For tokens $n = 1, \dots, N$ let $K \in \mathbb{R}^{d \times N}$, where $K_n$
is the $n$-th column of $K$. $$ S_n = K_n K_n^\top $$""", "S", lambda K: np.einsum("an,bn->nab", K, K)),
    Text("numbers in words", r"""Let $X \in \mathbb{R}^{n \times d}$, a scalar slope $b$ and $\gamma \in \mathbb{R}$.
$$ Y = \gamma b X $$""", "Y", lambda X, b, gamma: gamma * b * X),
    Text("a sum up to one position", r"""
For tokens $t = 1, \dots, N$ let $x_t \in \mathbb{R}^d$ and $W \in \mathbb{R}^{e \times d}$.
$$ y_t = \sum_{j=1}^{t} W x_j $$""", "y", features),
    Text("the mean of the entries", r"""Let $u \in \mathbb{R}^{d}$. Then
$$ \mu = \frac{1}{d} \sum_{j=1}^{d} u_j $$""", "mu", lambda u: u.mean()),
    Text("a length in bars", r"""Let $X \in \mathbb{R}^{|x| \times d}$ and $W \in \mathbb{R}^{d \times e}$.
$$ Y = X W $$""", "Y", lambda X, W: X @ W),
    Text("a diagonal matrix under a name", QKV + r"""
$$ A = \exp(Q K^\top), \quad D = \mathrm{diag}(A \mathbf{1}_n), \quad O = D^{-1} A V $$""", "O",
         lambda Q, K, V: softmax(Q @ K.T) @ V),
    Text("a root of a diagonal matrix", r"""Let $A \in \mathbb{R}^{n \times n}$ and $X \in \mathbb{R}^{n \times d}$.
$$ D = \mathrm{diag}(A^\top \mathbf{1}_n), \qquad Y = D^{-1/2} A D^{-1/2} X $$""", "Y",
         lambda A, X: A.sum(axis=0)[:, None] ** -0.5 * A * A.sum(axis=0)[None, :] ** -0.5 @ X, True),
    Text("ones on the left", QKV + r"""$$ s = \mathbf{1}_n^\top Q K^\top $$""", "s",
         lambda Q, K: Q.sum(axis=0) @ K.T),
    Text("a function of a letter in a script", r"""
For $i = 1, \dots, H$ and $g = 1, \dots, G$ let $Q_i \in \mathbb{R}^{n \times d}$ and $K_g \in \mathbb{R}^{m \times d}$.
$$ S_i = Q_i K_{r(i)}^\top, \qquad r(i) = \left\lceil \frac{iG}{H} \right\rceil $$""", "S",
         lambda Q, K: np.stack([Q[i] @ K[i // 2].T for i in range(4)])),
    Text("values of a function at rows", r"""
Let $X \in \mathbb{R}^{N \times d}$, for tokens $n = 1, \dots, N$, and $W \in \mathbb{R}^{d \times e}$.
$$ F(X_n) = X_n W $$""", "F", lambda X, W: X @ W),
    Text("labels that are arrows, accents over scripts", QKV + r"""
$$ A_{\rightarrow} = Q K^\top, \qquad \widehat{B_{\leftrightarrow}} = A_{\rightarrow} V $$""",
         "B_hat_leftrightarrow", lambda Q, K, V: Q @ K.T @ V),
    Text("pieces of a vector that are listed", r"""
For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{d}$, $W \in \mathbb{R}^{e h \times d}$, $U \in \mathbb{R}^{d
\times h e}$.
$$ [q_{t,1}; q_{t,2}; \dots; q_{t,h}] = p_t = W x_t $$
$$ y_t = U [q_{t,1}; \dots; q_{t,h}] + U p_t + \sum_i (q_{t,i}^\top q_{t,i}) x_t $$""", "y",
         lambda x, W, U: 2 * x @ W.T @ U.T + ((x @ W.T) ** 2).sum(-1, keepdims=True) * x),
    Text("matrices side by side on a left side", r"""
Let $X \in \mathbb{R}^{n \times d}$ and $W \in \mathbb{R}^{d \times h e}$.
$$ [A_1; A_2; \dots; A_h] = X W, \qquad Y_i = A_i^\top A_i $$""", "Y",
         lambda X, W: np.einsum("nia,nib->iab", *2 * [(X @ W).reshape(5, 4, 2)])),
    Text("a vector of which the pieces are defined", r"""
For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{d}$, $W_i \in \mathbb{R}^{e \times d}$, $i = 1, \dots, h$, and
$U \in \mathbb{R}^{d \times e h}$. $$ q_{t,i} = W_i x_t $$ $$ [q_{t,1}; \dots; q_{t,h}] = q_t $$ $$ y_t = U q_t
$$""", "y",
         lambda x, W, U: np.einsum("ied,td->tie", W, x).reshape(5, 8) @ U.T),
    Text("a function that words define, of another position", r"""
For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{d}$ and $R_t \in \mathbb{R}^{d \times d}$. For a vector at
position $t$,
$F(\cdot)$ multiplies it by the matrix $R_t$. $$ y_t = \sum_{s=1}^{t} F(2 x_s) $$""", "y",
         lambda x, R: 2 * np.cumsum(np.einsum("tab,tb->ta", R, x), axis=0)),
    Text("a function of each part", r"""
For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{d}$, $W \in \mathbb{R}^{e h \times d}$, $R \in \mathbb{R}^{e
\times e}$, and
$F(\cdot)$ multiplies each part of $e$ entries, one for each head, by the matrix $R$.
$$ [y_{t,1}; \dots; y_{t,h}] = F(W x_t), \qquad z_{t,i} = R y_{t,i} $$""", "z",
         lambda x, W, R: (x @ W.T).reshape(5, 4, 2) @ (R @ R).T),
    Text("a softmax over what its sum runs over", r"""
For tokens $t = 1, \dots, T$ let $q_t, k_t, v_t \in \mathbb{R}^{d}$.
$$ o_t = \sum_{j=1}^{t} \operatorname{Softmax}_j(q_t^\top k_j) v_j $$""", "o",
         lambda q, k, v: softmax(np.where(ROWS >= COLUMNS, q @ k.T, -np.inf)) @ v),
    Text("sizes with primes and labels", r"""
Let $A \in \mathbb{R}^{d_c' \times d_h^R}$ and $B \in \mathbb{R}^{d_h^R \times d_c}$.
$$ Y = \frac{A B}{\sqrt{d_h^R}} $$""", "Y", lambda A, B: A @ B / 3 ** 0.5),
    Text("shapes in words", r"""There are $n$ rows in $Q$, and the rows of $Q$ and $K$ have length $d$. There are still
$m$ rows in $K$ and in $V$, and $V$ is as long: the rows of $V$ are all of dimension $e$.
$$ S = Q K^\top V $$""".replace("are all of", "are of"), "S", lambda Q, K, V: Q @ K.T @ V),
    Text("rows and columns in words", r"""Here $Q$ and $K$ have $n$ rows and $d$ columns.
$$ S = Q K^\top $$""", "S", lambda Q, K: Q @ K.T),
    Text("a family that is a set", QKV + r"""For tokens $t = 1, \dots, n$ let
$W = \{w_i = 2^{-i}, i \in [1, 2, \dots, d]\}$. $$ y_t = \sum_i Q_{ti} w_i K_{ti} $$""", "y",
         lambda Q, K: (Q * K) @ 0.5 ** np.arange(1, 4)),
    Text("shapes below braces", r"""
$$ Y = \underbrace{X}_{n \times d} \underbrace{W}_{d \times e}, \qquad
   X \equiv \underbrace{\begin{bmatrix} - & x_1 & - \\ - & \dots & - \\ - & x_n & - \end{bmatrix}}_{n \times d} $$""",
         "Y", lambda X, W: X @ W),
    Text("bold letters side by side and powers of exp", QKV.replace("Q, K", r"\mathbf{Q}, \mathbf{K}") + r"""
$$ \mathbf{S} = \exp^{\mathbf{QK}^\top / 2} V $$""", "S", lambda Q, K, V: np.exp(Q @ K.T / 2) @ V),
)


def program(text: str) -> TypedProgram:
    """The program of the one section of a paper that returns something."""
    paper: Paper = papers.paper(Source("paper.md", text), Report())
    (found,) = [x for n in paper.sections if returns(paper, n) and (x := section_of(paper, n).program) is not None]
    return found


@pytest.mark.parametrize("case", TEXTS, ids=lambda x: x.name)
def test_a_small_paper_means_what_numpy_makes_of_it(case: Text) -> None:
    found = program("# A section\n\n" + case.text + "\n")
    draw = np.random.default_rng(7)
    inputs = {}
    for tensor in found.inputs():
        shape = tuple(extent(s.set.extent, SIZES) for s in tensor.slots)
        inputs[tensor.key] = draw.uniform(0.5, 1.0, shape) if case.positive else draw.normal(size=shape)
    names = {x for t in found.tensors.values() for slot in t.slots for x in slot.set.extent.sizes}
    values = interpret(found, inputs, {x: SIZES[x] for x in names})
    assert set(values) == {case.output}
    got = np.asarray(values[case.output])
    np.testing.assert_allclose(got, case.wanted(**inputs).reshape(got.shape), rtol=1e-10, atol=1e-12)


def test_dead_text_is_not_read() -> None:
    text = QKV + r"\iffalse \[ O = Q K^\top V \] \ifdraft \else \fi \fi \[ O = \text{softmax}(Q K^\top) V \]"
    paper = papers.paper(Source("paper.tex", text), Report())
    read = [x.span.text for x in paper.said if x.formula.display]
    assert read == [r"O = \text{softmax}(Q K^\top) V"]


@pytest.mark.parametrize(("name", "text", "reason"), [
    ("a product that may count up or down", r"""For $t = 1, \dots, T$ let a scalar $a_t$ be given, and
$A \in \mathbb{R}^{T \times T}$: $$ A_{ij} = a_i \cdots a_{j+1} $$""", "does this count up or down?"),
    ("nothing is said of the first state", r"""For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^d$ and a scalar $a$:
$$ h_t = a h_{t-1} + x_t $$""", "may fall below 1"),
    ("a scalar product is no number's name", r"""Let $K \in \mathbb{R}^{n \times d}$ and the scalar product $q$.
$$ y = K q $$""", "nothing says which shape `q` has"),
    ("the letter counts rows and columns", r"""For tokens $t = 1, \dots, n$ let $A \in \mathbb{R}^{n \times n}$.
$$ y = A_t $$""", "letter"),
    ("index notation beside shapes in words", r"""For positions $t = 1, \dots, T$ and channels $c \in \{1..D\}$ let
$x_t \in \mathbb{R}^D$ and $w \in \mathbb{R}^D$. $$ y_t = w^c x_t^c $$""", "no index says what its entries are"),
    ("a list of numbers is no product", r"""For $t = 1, \dots, T$ let a scalar $a_t$ be given, and $b \in \mathbb{R}^d$.
$$ y = [a_1 \cdots a_T] b $$""", "is a list"),
    ("low dots multiply nothing", r"""For $t = 1, \dots, T$ let a scalar $a_t$ and $A \in \mathbb{R}^{T \times T}$.
$$ A_{ij} = \begin{cases} a_i \dots a_{j+1} & i > j \\ 0 & i \le j \end{cases} $$""", "is a list"),
    ("a product with a shape is no symbol", r"""Here $XW \in \mathbb{R}^{n \times d}$.
$$ Z = \underbrace{XW}_{n \times d} $$""", "has a shape in the text"),
    ("a shape that words deny", r"""The rows of $Q$ have dimension $d$, but not in every text there are $n$ rows in $Q$.
$$ S = Q^\top Q $$""", "is a transpose"),
    ("two shapes in words", r"""There are $n$ rows in $Q$ and the rows of $Q$ have dimension $d$.
There are $m$ rows in $Q$. $$ S = Q Q^\top $$""", "is a transpose"),
    ("a left side from 0", r"""Let $x \in \mathbb{R}^{d}$, $W \in \mathbb{R}^{h e \times d}$.
$$ [q_0; \dots; q_h] = W x, \qquad y_i = 2 q_i $$""", "says how a letter of it counts"),
    ("a left side with another step", r"""Let $x \in \mathbb{R}^{d}$, $W \in \mathbb{R}^{h e \times d}$.
$$ [q_1; q_3; \dots; q_h] = W x, \qquad y_i = 2 q_i $$""", "what stands where the dots are?"),
    ("pieces below or beside", r"""Let $X \in \mathbb{R}^{h e \times h d}$.
$$ [A_1; A_2; \dots; A_h] = X, \qquad Y_i = A_i A_i^\top $$""", "below or beside"),
    ("pieces of a size that is no factor", r"""Let $X \in \mathbb{R}^{e \times d}$.
$$ [A_1; A_2; \dots; A_h] = X, \qquad Y_i = A_i A_i^\top $$""", "has h pieces"),
    ("a letter more that nothing explains", r"""For tokens $t = 1, \dots, T$ and heads $i = 1, \dots, h$ let
$x_t \in \mathbb{R}^{d}$, $W \in \mathbb{R}^{h e \times d}$. $$ k_t = W x_t $$ $$ y_{t,i} = 2 k_{t,i} $$""",
     "has other indices"),
    ("a function in words of two positions", r"""For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{d}$ and
$R_t \in \mathbb{R}^{d \times d}$. For a vector at position $t$, $F(\cdot)$ multiplies it by the matrix $R_t$.
$$ y_t = \sum_{s=1}^{t} F(x_s + x_t) $$""", "is `R_t` taken here"),
    ("a function in words of a position that is not said", r"""For tokens $t = 1, \dots, T$ let $x_t \in
\mathbb{R}^{d}$ and
$R_t \in \mathbb{R}^{d \times d}$. Here $F(\cdot)$ multiplies a vector by the matrix $R_t$.
$$ y_t = F(x_t) $$""", "that of what it multiplies"),
    ("a function in words with a condition", r"""For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{d}$ and
$R \in \mathbb{R}^{d \times d}$. Here $F(\cdot)$ multiplies a vector by the matrix $R$ if it is short.
$$ y_t = F(x_t) $$""", "nothing says which shape `F` has"),
    ("a function in words that does more", r"""For tokens $t = 1, \dots, T$ let $x_t, b \in \mathbb{R}^{d}$ and
$R \in \mathbb{R}^{d \times d}$. Here $F(\cdot)$ multiplies a vector by the matrix $R$ and adds $b$.
$$ y_t = F(x_t) $$""", "nothing says which shape `F` has"),
    ("a function in words of parts of another size", r"""For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{h e}$ and
$R \in \mathbb{R}^{e \times e}$. Here $F(\cdot)$ multiplies each part of $h$ entries by the matrix $R$.
$$ [y_{t,1}; \dots; y_{t,h}] = F(x_t), \qquad z_{t,i} = 2 y_{t,i} $$""", "does not take these"),
    ("a letter above a size", r"""For heads $r = 1, \dots, h$ let $x \in \mathbb{R}^{d_h^r}$ and
$W \in \mathbb{R}^{e \times d_h^r}$. $$ y = W x $$""", "no index says what its entries are"),
    ("two orders of one side", r"""For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{h e}$.
$$ [q_{t,1}; \dots; q_{t,h}] = x_t, \qquad [p_{t,1}; \dots; p_{t,e}] = x_t $$
$$ z_{t,j} = 2 p_{t,j}^\top q_{t,i} $$""", "has e pieces"),
    ("a size above that may be a power", r"""Let $x \in \mathbb{R}^{d_h^R}$, $W \in \mathbb{R}^{R \times d_h^R}$.
$$ y = W x $$""", "no index says what its entries are"),
    ("a function without parentheses before a vector", r"""For tokens $m = 1, \dots, N$ let $x_m \in \mathbb{R}^{d}$
and a
scalar $\theta$. $$ q_m = \cos m \theta x_m $$""", "stands in parentheses"),
    ("a power of exp", r"""Let $x \in \mathbb{R}^{d}$. $$ y = \exp^{2} x $$""", "stands in parentheses"),
    ("a mask of which nothing says how large it is", QKV + r"""
$$ M_{ij} = \begin{cases} 0 & \text{if } i \ge j \\ -\infty & \text{otherwise} \end{cases} $$
$$ O = \mathrm{softmax}(M) V $$ where the softmax is row-wise.""", "nothing says which shape `M` has"),
    ("the letter of an entry is that of a size", r"""Let $Q, L \in \mathbb{R}^{n \times d}$.
$$ L_{nd} = \begin{cases} 1 & n \ge d \\ 0 & n < d \end{cases} $$ $$ Y = L \odot Q $$""", "or is the script a label?"),
    ("a power beside a label", r"""Let $A \in \mathbb{R}^{n \times n}$, $X \in \mathbb{R}^{n \times d}$.
$$ A^{(2)} = A A, \qquad Y = A^2 X $$""", "is a power of a matrix"),
    ("a state that is defined one ahead", r"""For tokens $t = 1, \dots, T$ let $q_t \in \mathbb{R}^d$, $S_0 = 0$ and
$S_t \in \mathbb{R}^{d \times d}$. $$ S_{t+1} = S_t + q_t q_t^\top $$ $$ o_t = S_t q_t $$""", "S_t"),
    ("a function without parentheses", QKV + r"$$ Y = \exp Q $$", "stands in parentheses"),
    ("columns where the letter counts rows", r"""For tokens $n = 1, \dots, N$ let $K \in \mathbb{R}^{N \times d}$, where
$K_n$ is the $n$-th column of $K$. $$ y_n = K_n K_n^\top $$""", "letter beside its rows and columns"),
    ("a script that is no letter", QKV + r"$$ O = \text{softmax}_{\text{all}}(Q K^\top) V $$", "is no letter"),
    ("a star between matrices", r"Let $W \in \mathbb{R}^{n \times n}$. $$ Y = W * W $$", "or of their entries"),
    ("a function of a vector that has a matrix", r"""Let $W, X \in \mathbb{R}^{d \times d}$ and $x \in \mathbb{R}^d$.
$$ f(x) = W x $$ $$ Y = f(X) $$""", "is defined of a vector"),
    ("one letter in two fonts", r"""$X \in \mathbb{R}^{n \times d}$, $\mathbf{s} \in \mathbb{R}^n$, $s \in \mathbb{R}$.
$$ Y = s X $$""", "two shapes"),
    ("words of another axis", QKV + r"""$$ O = \text{softmax}(Q K^\top) V $$
Softmax is taken along the first axis.""", "do not settle"),
    ("columns that are normalised", QKV + r"""$$ O = \text{softmax}(Q K^\top) V $$
The columns of the matrix are normalised to one.""", "do not settle"),
    ("ones of which nothing says how many", QKV + r"$$ O = V - \mathbf{1} \mathbf{1}^\top V $$", "of how many"),
    ("letters of an entry that nothing counts", r"""$$ M_{ij} = \frac{1}{i - j} $$""", "is a number here and a script"),
    ("a diagonal matrix that scales nothing", QKV + r"$$ D = \mathrm{diag}(Q \mathbf{1}_d) $$", "stands alone"),
    ("a letter beside one that counts", r"""For positions $t, l \in \{1..T\}$ let $x_t$ be given.
$$ y_t = \sum_l M_{lj} x_l $$""", "`lj` is no declared index"),
    ("a sum over a letter that nothing counts", QKV + r"$$ y = \sum_j Q_j $$", "`j` is no declared index"),
    ("ones of no size", QKV + r"$$ y = Q \mathbf{1}_k $$", "no size"),
    ("an entry that is a matrix", QKV + r"Let $A \in \mathbb{R}^{n \times n}$. $$ A_{ij} = Q K^\top $$", "right side"),
])
def test_what_has_no_one_reading_is_told(name: str, text: str, reason: str) -> None:
    account = made("# A section\n\n" + text + "\n")
    told = [e for e in account.entries if e.status == "skipped"]
    assert [e for e in told if reason in e.reason], (name, [e.reason for e in account.entries])
    assert not account.made or name in ("a power beside a label", "a function of a vector that has a matrix",
                                        "a letter more that nothing explains", "two orders of one side")


def test_a_piece_that_no_listing_names_is_inferred() -> None:
    found = made(r"""# A section

For tokens $t = 1, \dots, T$ let $x_t \in \mathbb{R}^{d}$, and $W, U \in \mathbb{R}^{h e \times d}$.

$$ [q_{t,1}; \dots; q_{t,h}] = W x_t $$

$$ k_t = U x_t $$

$$ y_{t,i} = q_{t,i} + k_{t,i} $$
""")
    assert [(e.status, e.sure) for e in found.entries if e.display] == [
        ("compiled", "bound"), ("compiled", "bound"), ("compiled", "inferred")]
    assert any("one of the pieces" in e.reason for e in found.entries)
