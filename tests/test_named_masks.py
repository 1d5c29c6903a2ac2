"""Masks that are seen through names: after `L = M + Q K^⊤` a softmax of L runs over what M leaves, and its value has
points there alone; and matrices that words call orthogonal.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_sections import entries, returned

HEAD = ("Let $Q, K, V \\in \\mathbb{R}^{T \\times d}$ and $M \\in \\mathbb{R}^{T \\times T}$ for $t, s = 1, \\dots, T$ "
        "(time).\n\n$$M_{ts} = \\begin{cases} 0 & s \\le t \\\\ -\\infty & s > t \\end{cases}$$\n\n")
Q, K, V = np.random.default_rng(6).normal(size=(3, 4, 3))


def softmax(scores: np.ndarray) -> np.ndarray:
    """Causal attention of some scores."""
    kept = np.where(np.tri(len(scores), dtype=bool), scores, -np.inf)
    shares = np.exp(kept - kept.max(-1, keepdims=True))
    return (shares / shares.sum(-1, keepdims=True)) @ V


@pytest.mark.parametrize(("lines", "scores"), [
    (("L = M + Q K^\\top", "O = \\text{softmax}(L) V"), Q @ K.T),
    (("L = (Q K^\\top + M) / \\sqrt{d}", "O = \\text{softmax}(L) V"), Q @ K.T / 3**0.5),
    (("S = Q K^\\top", "L = S + M", "O = \\text{softmax}(2 L) V"), 2 * Q @ K.T),
    (("L = Q K^\\top + M", "P = \\text{softmax}(L)", "O = P V"), Q @ K.T),
    (("P = \\text{softmax}(Q K^\\top + M)", "O = P V"), Q @ K.T),
    (("L = (M^\\top + K Q^\\top)^\\top", "O = \\text{softmax}(L) V"), Q @ K.T)])
def test_a_mask_counts_below_names(lines: tuple[str, ...], scores: np.ndarray) -> None:
    text = HEAD + "\n\n".join(f"$${x}$$" for x in lines)
    np.testing.assert_allclose(returned(text, "", {"Q": Q, "K": K, "V": V})["O"], softmax(scores))


@pytest.mark.parametrize("lines", [
    ("L = Q K^\\top - M", "O = \\text{softmax}(L) V"), ("L = -(Q K^\\top + M)", "O = \\text{softmax}(L) V"),
    ("L = Q K^\\top + M", "O = \\text{softmax}(L^\\top) V"), ("L = Q K^\\top + M^\\top", "O = \\text{softmax}(L) V")])
def test_what_is_above_infinity_later_is_no_mask_of_what_comes_later(lines: tuple[str, ...]) -> None:
    assert entries(HEAD + "\n\n".join(f"$${x}$$" for x in lines))[-1].status == "skipped"


def test_of_heads() -> None:
    head = HEAD.replace("Q, K, V \\in", "Q_i, K_i, V_i \\in").replace("for $t", "for heads $i = 1, \\dots, h$ and $t")
    text = (head + "$$L_i = Q_i K_i^\\top + M$$\n\n$$P_i = \\text{softmax}(L_i)$$\n\n$$O_i = P_i V_i$$")
    made = returned(text, "", {"Q": Q[None], "K": K[None], "V": V[None]})
    np.testing.assert_allclose(made["O"][0], softmax(Q @ K.T))


SIDES = "$$(Q U) (K U)^\\top = Q K^\\top$$"
SHAPES = "Let $Q, K \\in \\mathbb{R}^{n \\times d}$"


@pytest.mark.parametrize(("words", "status"), [
    ("$U \\in \\mathbb{R}^{d \\times d}$ be orthogonal.", "fact"),
    ("$U \\in \\mathbb{R}^{d \\times d}$. Let $U$ be orthogonal.", "fact"),
    ("an orthogonal matrix $U \\in \\mathbb{R}^{d \\times d}$.", "fact"),
    ("$U \\in \\mathbb{R}^{d \\times d}$. Here $U$ is not orthogonal.", "skipped"),
    ("$U \\in \\mathbb{R}^{d \\times d}$. It would help if $U$ is orthogonal.", "skipped"),
    ("$U \\in \\mathbb{R}^{d \\times d}$.", "skipped"),
    ("$U, W \\in \\mathbb{R}^{d \\times d}$ and let $U$ be orthogonal to $W$.", "skipped")])
def test_a_matrix_that_words_call_orthogonal(words: str, status: str) -> None:
    found = [x for x in entries(f"{SHAPES} and let {words}\n\n{SIDES}") if x.display]
    assert [x.status for x in found] == [status]


def test_orthogonal_makes_no_other_matrices_equal() -> None:
    text = f"{SHAPES} and let $U \\in \\mathbb{{R}}^{{d \\times d}}$ be orthogonal.\n\n$$(Q U) K^\\top = Q K^\\top$$"
    assert entries(text)[0].status == "skipped"
