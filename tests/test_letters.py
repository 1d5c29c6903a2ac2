"""The names of values that passes make are letters of papers; no stem of a pass is printed."""

from __future__ import annotations

import re

import pytest
from helpers import typed, typed_of
from programs import FILES

from einc.driver import front
from einc.driver.flow import normalise
from einc.syntax.printing.show import show

STEMS = re.compile(r"_(sum|max|min|prod|exp|log|sqrt|cos|sin|scaled|moment|mean|term)\d*\b|_\{\\text\{\w*_\w*\}\}")
SOFTMAX = """
index {t}, s : time(T)
index d : feature({D})
input x_{{{t} s}}, V_s^d
mask x_{{{t} s}} : s ≤ {t}
A_{{{t} s}} = softmax_s(x_{{{t} s}})
output Y_{t}^d = Σ_s A_{{{t} s}} V_s^d
"""


def names(text: str) -> set[str]:
    """The names of what a normal program defines."""
    return {e.target for e in normalise(typed(text)).equations}


def test_a_value_has_the_letter_of_what_it_is() -> None:
    assert names(SOFTMAX.format(t="t", D="D")) == {"m", "E", "z", "N", "Y"}


def test_a_letter_that_the_text_has_is_not_taken() -> None:
    assert names(SOFTMAX.format(t="m", D="N")) == {"M", "E", "z", "U", "Y"}


def test_several_values_have_the_letters_of_their_tensors() -> None:
    text = ("index t, s : time(T)\ninput x_t\noutput Y_t = 1 + Σ_{s ≤ t} x_s\noutput W_t = 2 + Σ_{s < t} x_s^2 + Σ_{s "
            "≤ t} x_s^3")
    assert {"S_Y", "S_W", "S_W2"} <= names(text)


@pytest.mark.parametrize("name", ["attention", "gqa", "gpt2_block", "retention", "mla_rope"])
def test_no_stem_of_a_pass_is_printed(name: str) -> None:
    program = typed_of(next(case for case in FILES if case.name == name))
    plan = front.plan(program, choices=front.choices(own=True))
    said = [show(normalise(program)), *(text for step in plan.steps for text in step.texts)]
    assert [found.group() for text in said for found in STEMS.finditer(text)] == []
