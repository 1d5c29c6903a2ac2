"""One row more than a size: matrices that follow each other along a side of `T + 1`, in lines of `.ein` and in papers,
and proofs that tell the last row apart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import einc
from einc.driver import pipeline
from einc.errors.report import Report, Source
from einc.meaning.prove import Proved, prove
from tests.test_sections import entries, returned

HEAD = "index t, s : time(T)\n"
BELOW = r"\begin{bmatrix} A \\ B \end{bmatrix}"


def draw(*shape: int) -> Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64)


def stacked(a: str, b: str) -> str:
    """One matrix below another."""
    return BELOW.replace("A", a).replace("B", b)


def beside(a: str, b: str) -> str:
    """One matrix beside another."""
    return stacked(a, b).replace(r" \\ ", " & ")


# in lines of .ein

Given = dict[str, Tensor]
CASES: dict[str, tuple[str, Given, Callable[..., Tensor]]] = {
    "a row below": (
        "matrix K : T × d\nmatrix k : 1 × d\nmatrix W : d × e\n"
        f"output Y = ({stacked('K', 'k')}) W : all", {"K": draw(5, 3), "k": draw(3), "W": draw(3, 2)},
        lambda K, k, W: torch.cat([K, k[None]]) @ W),
    "a row above": (
        f"matrix K : T × d\nmatrix k : 1 × d\noutput Y = {stacked('k', 'K')} : all", {"K": draw(5, 3), "k": draw(3)},
        lambda K, k: torch.cat([k[None], K])),
    "rows above and below": (
        "matrix K : T × d\nmatrix k, l : 1 × d\n"
        r"output Y = \begin{bmatrix} k \\ K \\ l \\ k \end{bmatrix} : all",
        {"K": draw(5, 3), "k": draw(3), "l": draw(1, 3)[0]},
        lambda K, k, l: torch.cat([k[None], K, l[None], k[None]])),  # noqa: E741
    "a column beside features": (
        f"matrix X : n × d\nmatrix W : (d+1) × e\nmatrix u : n × 1\noutput Y = ({beside('X', 'u')}) W",
        {"X": draw(4, 3), "W": draw(4, 2), "u": draw(4)}, lambda X, W, u: torch.cat([X, u[:, None]], 1) @ W),
    "a bias as one more feature": (
        f"vector x : d\nmatrix W : e × (d+1)\noutput y = W {stacked('x', '1')}",
        {"x": draw(3), "W": draw(2, 4)}, lambda x, W: W @ torch.cat([x, torch.ones(1, dtype=torch.float64)])),
    "a matrix of one more row by its rows": (
        "matrix x : (T+1) × d\nmatrix X : T × d\nX_t = x_t\noutput S = X Xᵀ : all", {"x": draw(6, 3)},
        lambda x: x[:5] @ x[:5].T),
    "its last row": (
        "matrix x : (T+1) × d\nmatrix W : d × e\noutput y = x_{T+1} W : all", {"x": draw(6, 3), "W": draw(3, 2)},
        lambda x, W: x[-1] @ W),
    "a cache of keys and values": (
        "index j : time(T+1)\nmatrix K : T × d\nmatrix V : T × e\nmatrix k, q : 1 × d\nmatrix v : 1 × e\n"
        f"K' = {stacked('K', 'k')}\nV' = {stacked('V', 'v')}\n"
        r"output y = softmax_{j ≤ T+1}(q K'ᵀ / √d) V' : all",
        {"K": draw(5, 3), "V": draw(5, 2), "k": draw(3), "v": draw(2), "q": draw(1, 3)[0]},
        lambda K, V, k, v, q: torch.softmax(torch.cat([K, k[None]]) @ q / 3 ** 0.5, 0) @ torch.cat([V, v[None]])),
    "rows under a function": (
        "matrix S : n × m\nmatrix r : 1 × m\nindex c : feature(m)\n"
        f"output Y = {stacked('softmax_c(S)', 'r')}", {"S": draw(4, 3), "r": draw(3)},
        lambda S, r: torch.cat([torch.softmax(S, -1), r[None]])),
    "a function along the side": (
        f"vector a : n\noutput y = {stacked('softmax(a)', '1')}", {"a": draw(4)},
        lambda a: torch.cat([torch.softmax(a, 0), torch.ones(1, dtype=torch.float64)])),
    "positions that count from 0": (
        "index i : time(0..N-1)\nindex j : time(0..N)\nmatrix K : N × d\nmatrix k : 1 × d\n"
        f"output Y = {stacked('k', 'K')} : all", {"K": draw(5, 3), "k": draw(3)}, lambda K, k: torch.cat([k[None], K])),
    "a listing of one more": (
        "matrix x : (T+1) × d\n" r"output Y = \begin{bmatrix} x_1 \\ \vdots \\ x_T \\ x_{T+1} \end{bmatrix} : all",
        {"x": draw(6, 3)}, lambda x: x),
}


@pytest.mark.parametrize("name", CASES)
def test_what_follows_is_what_torch_makes_of_it(name: str) -> None:
    text, given, wanted = CASES[name]
    got = einc.compile(HEAD + text + "\n")(**given)
    torch.testing.assert_close(got, wanted(**given).reshape(got.shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("text", "code"), [
    (f"matrix K : T × d\nmatrix k : 1 × e\noutput Y = {stacked('K', 'k')} : all", "E0231"),  # another size
    (f"matrix K : T × d\nmatrix k : 1 × d\noutput Y = {beside('K', 'k')} : all", "E0231"),  # the other axis
    (f"matrix K : T × d\nmatrix k : d × 1\noutput Y = {stacked('K', 'k')} : all", "E0231"),  # a transpose is missing
    (f"matrix K, k : T × d\noutput Y = {stacked('K', 'k')} K : all", "E0231"),  # twice T is not T + 1
    ("matrix x : (T+1) × d\nmatrix X : T × d\noutput Y = x Xᵀ X x", "E0231"),  # T + 1 is not T
    ("matrix x : (T+1) × d\nmatrix W : d × e\noutput y = x_{T+2} W : all", "E0230"),  # beyond the last
    ("matrix X : T × d\nmatrix W : d × e\noutput y = X_{T+1} W : all", "E0230"),
    ("matrix A : (T-1) × d\noutput B = A", "E0210"),
    ("matrix K, L : T × d\nmatrix k : 1 × d\n" r"output Y = \begin{bmatrix} K \\ k \\ L \end{bmatrix} : all", "E0230"),
])
def test_slips_are_refused(text: str, code: str) -> None:
    report = Report()
    assert pipeline.check(Source("m.ein", HEAD + text + "\n"), report) is None
    assert code in [p.code for p in report.errors], [(p.code, p.message) for p in report.errors]


# in papers

ROWS = "matrix q, k : (T+1) × d\nmatrix Q, K : T × d\nQ_t = q_t\nK_t = k_t\nindex t, s : time(T)\n"
ONE_MORE = (
    r"\begin{bmatrix} q_1 k_1^\top & \dots & q_1 k_T^\top & q_1 k_{T+1}^\top \\ \vdots & \ddots & \vdots & \vdots \\ "
    r"q_T k_1^\top & \dots & q_T k_T^\top & q_T k_{T+1}^\top \\ "
    r"q_{T+1} k_1^\top & \dots & q_{T+1} k_T^\top & q_{T+1} k_{T+1}^\top \end{bmatrix} = "
    r"\begin{bmatrix} QK^\top & Q k_{T+1}^\top \\ q_{T+1} K^\top & q_{T+1} k_{T+1}^\top \end{bmatrix}")
SLIPS = [
    (r"q_{T+1} k_{T+1}^\top \end{bmatrix} =", r"q_T k_{T+1}^\top \end{bmatrix} ="),  # the corners of the listing
    (r"q_{T+1} k_{T+1}^\top \end{bmatrix}" + "$", r"q_{T+1} k_T^\top \end{bmatrix}$"),  # another key
    (r"QK^\top &", r"QK &"), (r"Q k_{T+1}^\top", r"Q k_{T+1}"), (r"QK^\top &", r"KQ^\top &"),
    (r"Q k_{T+1}^\top \\ q_{T+1} K^\top", r"q_{T+1} K^\top \\ Q k_{T+1}^\top"),  # the other axis
    (r"\begin{bmatrix} QK^\top &", r"\begin{bmatrix} 2 QK^\top &"),
]


def test_one_more_row_and_column_are_told_apart_in_proofs() -> None:
    (entry,) = entries(f"# P\n\n$${ONE_MORE}$$\n", ROWS)
    assert (entry.status, entry.reason) == ("fact", "both sides are proved equal")


@pytest.mark.parametrize("slip", SLIPS, ids=range(len(SLIPS)))
def test_a_slip_in_it_is_no_fact(slip: tuple[str, str]) -> None:
    text = f"# P\n\n$${ONE_MORE}$$\n"
    assert text.count(slip[0]) == 1
    (entry,) = entries(text.replace(*slip), ROWS)
    assert entry.status == "skipped"


CACHE = (r"$$\begin{aligned} & \begin{bmatrix} - & x_1 & - \\ - & \dots & - \\ - & x_T & - \end{bmatrix} [W]"
         r" = \text{cache} \\ \implies & \begin{bmatrix} - & x_1 & - \\ - & \dots & - \\ - & x_T & - \\ - & x_{T+1} & -"
         r" \end{bmatrix} [W] = \begin{bmatrix} \text{cache} \\ x_{T+1} W \end{bmatrix} \end{aligned}$$")
CACHED = "matrix x : (T+1) × d\nmatrix W : d × d\nindex t : time(T)\n"


def test_a_word_names_the_left_side_for_its_display() -> None:
    text = f"# P\n\n{CACHE}\n\n{CACHE.replace('[W]', '[W W]').replace('T+1} W', 'T+1} W W')}\n"
    found = entries(text, CACHED)
    assert [x.status for x in found] == ["compiled", "fact", "compiled", "fact"]
    x, w = draw(6, 3), draw(3, 3)
    made = returned(text, CACHED, {"x": x.numpy(), "W": w.numpy()}, T=5, d=3)
    np.testing.assert_allclose(made["value_1"], (x[:5] @ w).numpy(), rtol=1e-12)
    np.testing.assert_allclose(made["value_2"], (x[:5] @ w @ w).numpy(), rtol=1e-12)


@pytest.mark.parametrize(("old", "new"), [
    (r"\\ x_{T+1} W ", r"\\ x_T W "), (r"\\ x_{T+1} W ", r"\\ x_{T+1} W^\top "),
    (r"\\ x_{T+1} W ", r"\\ W x_{T+1} "), (r"{cache} \\ x_{T+1} W", r"{cache} & x_{T+1} W"),
    (r"\begin{bmatrix} \text{cache}", r"\begin{bmatrix} 2 \text{cache}"),
    (r"\begin{bmatrix} \text{cache}", r"\begin{bmatrix} \text{store}"),
])
def test_a_slip_in_the_row_that_follows_is_no_fact(old: str, new: str) -> None:
    assert CACHE.count(old) == 1
    found = entries(f"# P\n\n{CACHE.replace(old, new)}\n", CACHED)
    assert [x.status for x in found] == ["compiled", "skipped"]


def test_a_word_that_the_text_defines_is_no_name_for_anything_else() -> None:
    text = r"# P" "\n\n" r"$$\text{cache} = x W W$$" "\n\n" r"$$x W = \text{cache}$$" "\n"
    assert [x.status for x in entries(text, CACHED)] == ["compiled", "skipped"]


# in proofs

CLAIMS = """index i, j : time(T+1)
index t : time(T)
index k : feature(d)
input x_i^k, w_i
output S^k : all
S^k = Σ_i w_i x_i^k
claim S^k = Σ_t w_t_ x_t_^k + w_{T+1} x_{T+1}^k
""".replace("t_", "{min(t,T)}")


@pytest.mark.parametrize(("old", "new", "holds"), [
    ("", "", True), ("+ w_{T+1} x_{T+1}", "+ w_{T+1} x_T", False), ("+ w_{T+1} x_{T+1}^k", "", False),
    ("claim S^k = ", "claim S^k = S^k - ", False), ("+ w_{T+1}", "+ 2 w_{T+1}", False),
])
def test_a_sum_is_one_up_to_its_last_and_that(old: str, new: str, holds: bool) -> None:
    text = CLAIMS.replace(old, new) if old else CLAIMS
    (claim,) = pipeline.claims(Source("c.ein", text), Report())
    assert isinstance(prove(claim), Proved) == holds
