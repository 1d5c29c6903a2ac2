"""What a text asks for in `plan serve`: the same as by options, and a lesson where it asks for nothing."""

from __future__ import annotations

import inspect

import pytest

from einc import front
from einc.errors import EincError

SPEC = 'use "attention"\nplan serve:\n    dtype bf16\n    {}\n'


def test_what_is_kept_and_in_which_pages() -> None:
    made = front.compile(SPEC.format("cache K, V paged 32  # unturned"), plan="serve")
    assert {t.key for t in made.plan.inputs if t.role == "cache"} == {"K_past", "V_past"}
    own = inspect.unwrap(made.function).__globals__
    assert own["Pool"](4).page == 32
    assert {t.key for t in front.compile(SPEC.format("cache K, V"), plan="serve", keep=["K_hat", "V"]).plan.inputs
            if t.role == "cache"} == {"K_hat_past", "V_past"}
    assert not any(t.role == "cache" for t in front.compile(SPEC.format("cache K, V")).plan.inputs)


@pytest.mark.parametrize(("line", "said"), [
    ("cache", "not how a line about what is kept reads"), ("cache K V", "not how a line"), ("cache K paged", "not how a line"),
    ("cache K, Z", "`Z` is no tensor"), ("cache K, V paged 0", "keeps nothing"),
])
def test_a_line_that_asks_for_nothing(line: str, said: str) -> None:
    with pytest.raises(EincError, match=said) as refused:
        front.compile(SPEC.format(line))
    (problem,) = refused.value.problems
    assert problem.code == "E0119" and problem.span.text in line and problem.helps
