"""Sentences that change a formula are never read as if they did not; those of real papers are seldom a question."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.sentences_apart import ALL, HARMLESS, HOSTILE, SHAPES, Altered
from tests.test_sections import entries, returned


def drawn() -> dict[str, torch.Tensor]:
    """X, Y, W and u."""
    torch.manual_seed(5)
    shapes = {"X": (4, 6), "Y": (4, 6), "W": (6, 6), "u": (6,)}
    return {name: torch.rand(shape, dtype=torch.float64) for name, shape in shapes.items()}


@pytest.mark.parametrize(("words", "equation", "altered"), HOSTILE, ids=[x[0] for x in HOSTILE])
def test_words_that_change_a_formula_are_a_question_or_read(words: str, equation: str, altered: Altered) -> None:
    text = f"{SHAPES}{words}\n\n$$ {equation} $$"
    if entries(text)[-1].status != "skipped":
        given = drawn()
        taken = {k: x.numpy() for k, x in given.items() if k in equation}
        found = returned(text, "", taken)[equation[0]]
        wanted = altered(*given.values()).numpy()
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_what_no_words_change_is_read() -> None:
    assert [x.status for x in entries(ALL.replace("SENTENCE", ""))] == ["compiled"] * 4


def test_a_harmless_sentence_is_seldom_a_question() -> None:
    asked = {x for x in HARMLESS if any(y.status != "compiled" for y in entries(ALL.replace("SENTENCE", x)))}
    assert len(asked) < len(HARMLESS) / 10, asked
