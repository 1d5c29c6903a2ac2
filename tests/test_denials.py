"""A sentence that says of an equation that it does not hold makes it a question; one that says that it does is none."""

from __future__ import annotations

import pytest

from tests.test_sections import entries

SHAPES = r"Let $X \in \mathbb{R}^{n \times d}$ and $W \in \mathbb{R}^{d \times d}$. "


@pytest.mark.parametrize(("words", "status"), [
    ("The next equation does not hold.", "skipped"), ("This is false:", "skipped"),
    ("It holds approximately that", "skipped"), ("The next equation is off by a factor of 2.", "skipped"),
    ("The formula below doesn't hold.", "skipped"), ("The following holds:", "compiled"), ("It holds that", "compiled"),
    ("This is not needed below.", "compiled"), ("It is true that", "compiled")])
def test_an_equation_that_is_denied_is_not_read(words: str, status: str) -> None:
    assert entries(f"{SHAPES}{words}\n\n$$ Z = X W $$")[-1].status == status
