"""Names with digits after their first letter: one word where it is declared, in every spelling; never a product."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import meaning, typed
from texts import codes, problems

from einc.driver import flow
from einc.errors.report import Report, Source
from einc.syntax.parse import parse_formula
from einc.syntax.printing.writer import Spelling

TEXT = """index t1, t : time(T)
dim N4
input W1_t, x2, x_t
weight K_t^{Q4}
def e3(x1) = 3 x1
mask M2_{t t1} : t1 ≤ t
M2_{t t1} = x_{t1} N4 + 0 x_t
output Y1_t = e3(W1_t) + 2 x2 + K_t^{Q4} + Σ_{t1} M2_{t t1}
"""


def test_they_are_words() -> None:
    given = {"W1": np.asarray([1.0, 2.0]), "x2": np.asarray(3.0), "x": np.asarray([5.0, 7.0]),
             "K_Q4": np.asarray([0.5, 0.25])}
    assert meaning(typed(TEXT), given, {"T": 2, "N4": 2})["Y1"].tolist() == [19.5, 36.25]


@pytest.mark.parametrize("spelling", ["unicode", "latex", "ascii"])
def test_they_are_printed_and_read_again(spelling: Spelling) -> None:
    report = Report()
    written = flow.formatted(Source("a.ein", TEXT), spelling, report)
    assert not report.problems and written is not None
    assert flow.formatted(Source("a.ein", written), spelling, report) == written


@pytest.mark.parametrize(("line", "code"), [
    ("y_t = x2 x_t", "E0201"), ("y_t = x_t2", "E0204"), ("y_t = x_{t 2t}", "E0205"), ("y_t = α1 x_t", "E0108"),
    ("y_t = x_t W_{ab}1", "E0201"), ("y_t = log2(x_t)", "E0201")])
def test_one_that_nothing_declares_is_no_product(line: str, code: str) -> None:
    assert codes(f"input x_t\n{line}")[:1] == [code]


def test_a_word_of_the_language_ends_before_digits() -> None:
    assert codes("input x_t\ny_t = Σ_{s in1..t} x_s") == []
    assert codes("input x_t\ny_t = 1[t>1 and2<t] x_t") == []


def test_a_label_may_have_digits() -> None:
    assert codes("weight W_int8, W_{Q4}\ninput x_t\ny_t = x_t W_int8 + W_Q4") == []


@pytest.mark.parametrize("product", ["2e4m3(x_t)", "2e3(x_t)"])
def test_a_number_does_not_begin_the_name_of_a_function(product: str) -> None:
    text = f"input x_t\ndef e3(a) = 3 a\ny_t = {product}"
    assert codes(text)[0] == "E0117"
    assert codes(text.replace("2e", "2 e"))[:1] != ["E0117"]


def test_the_two_readings_are_offered() -> None:
    (problem,) = problems("input x_t\ny_t = x2 x_t")
    assert any("`x_2`" in h.text and "`2 x`" in h.text for h in problem.helps)


def test_in_a_formula_of_a_paper_digits_are_none_of_a_name() -> None:
    report = Report()
    text = Source("a.md", "$$Y = X2$$")
    parse_formula(text, report, frozenset(), (2, 8))
    assert [p.code for p in report.problems] == ["E0108"]
