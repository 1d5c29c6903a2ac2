"""The names of values that passes make are letters of papers; no stem of a pass is printed."""

from __future__ import annotations

import re

import pytest
from helpers import typed, typed_of
from programs import FILES, SPEC_TEXTS, Case

from einc.driver import front
from einc.driver.reports.recurrence import as_tex, as_text, recurrences
from einc.syntax.printing.show import show
from einc.transforms.normal.normalise import normalise

STEMS = re.compile(r"_(sum|max|min|prod|exp|log|sqrt|cos|sin|scaled|moment|mean|term)\d*(?![A-Za-z0-9])"
                   r"|_\{\\text\{\w*_\w*\}\}")
# Labels that say what a value is: the elements that were chosen, whether one is among them, what stands at them, a part
# or all of it, what it was.
SAID = re.compile(r"_\{\\text\{\w*_(chosen|has|at|part|all|before)\d*\}\}")
ASSIGNED = re.compile(r"^    +([A-Za-z]\w*) = ", re.M)  # names that the statements of a file give
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


SHOWN = ("attention", "gqa", "gpt2_block", "retention", "mla_rope")


@pytest.mark.parametrize("case", [case if case.name in SHOWN else pytest.param(case, marks=pytest.mark.whole)
                                  for case in FILES], ids=lambda case: case.name)
def test_no_stem_of_a_pass_is_printed(case: Case) -> None:
    """Neither in the normal program, nor in a plan, a file or a recurrence; a name of a text or a spec may look so."""
    program = typed_of(case)
    normal, plan = normalise(program), front.plan(program, choices=front.choices(own=True))
    said = [show(normal), *(text for step in plan.steps for text in step.texts),
            *(write(one) for one in recurrences(normal) for write in (as_text, as_tex)),
            *(name for name in ASSIGNED.findall(front.emit(plan, "torch")) if name not in program.tensors)]
    specs = (f"_{{\\text{{{name}}}}}" for key in SPEC_TEXTS for name in [key.rpartition("/")[2]])
    own = {found.group() for text in (case.text, *specs) for found in STEMS.finditer(text)}
    found = {found.group() for text in said for found in STEMS.finditer(text)} - own
    assert {name for name in found if SAID.fullmatch(name) is None} == set()
