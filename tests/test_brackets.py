"""`|x|`, `⌈x⌉` and `⌊x⌋` are applications: random nestings mean what the functions do, and a bar is never guessed."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from helpers import arrays, assert_close, called, meaning, tensors, typed

from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.errors.report import Report, Source
from einc.syntax.printing.show import show

HEAD = "index t : time(T)\ninput x_t, y_t\noutput z_t = "
FORMS = {"abs": [("|", "|"), (r"\lvert ", r"\rvert "), (r"\left|", r"\right|")],
         "ceil": [("⌈", "⌉"), (r"\lceil ", r"\rceil ")], "floor": [("⌊", "⌋"), (r"\left\lfloor ", r"\right\rfloor ")]}


def codes(text: str) -> list[str]:
    report = Report()
    pipeline.check(Source("<text>", HEAD + text), report)
    return [p.code for p in report.problems]


def expression(random: Random, depth: int) -> tuple[str, str]:
    """An expression with brackets, and the same with the names of functions; sums alone, so that no bar is in doubt."""
    if depth == 0:
        leaf = random.choice(["x_t", "y_t", "x_{t}^2", "1.5"])
        return leaf, leaf
    name = random.choice(list(FORMS))
    left, right = random.choice(FORMS[name])
    (a, fa), (b, fb) = expression(random, depth - 1), expression(random, depth - 1)
    inner, plain = random.choice([(f"{a} - {b}", f"{fa} - {fb}"), (f"2 {a} + {b}", f"2 {fa} + {fb}")])
    return f"{left}{inner}{right}", f"{name}({plain})"


@pytest.mark.parametrize("seed", range(30))
def test_brackets_are_functions(seed: int) -> None:
    """The same program as with the names, and the kernel agrees with the definition."""
    written, plain = expression(Random(seed), 1 + seed % 3)
    first, second = typed(HEAD + written), typed(HEAD + plain)
    assert show(first) == show(second), written
    given = arrays(first, {"T": 6}, {})
    made = load(front.emit(front.plan(first)), first.name)
    assert_close(called(made, first, tensors(given), {"T": 6}), meaning(second, given, {"T": 6}))


def test_a_product_of_bars() -> None:
    given = {"x": np.array([-2.0, 3.0]), "y": np.array([5.0, -0.5])}
    for text, want in (("|x_t||y_t|", [10.0, 1.5]), ("2 |x_t| / |y_t|", [0.8, 12.0]), ("|x_t| |y_t|", [10.0, 1.5]),
                       ("|x_t (|y_t| + 1)|", [12.0, 4.5]), ("Σ_{t'} |x_{t'}| + |y_t|", [10.0, 5.5]),
                       ("||x_t| - 2.5|", [0.5, 0.5])):
        program = typed(HEAD + text + " : all")
        asked = {t.key: given[t.key] for t in program.inputs()}
        assert np.allclose(meaning(program, asked, {"T": 2})["z"], want), text


@pytest.mark.parametrize("text", ["|x_t| y_t |x_t|", "||x_t||", "|x_t (1) |y_t| 2|", "|x_t| 2 |y_t| 3 |x_t|"])
def test_bars_in_doubt_are_refused(text: str) -> None:
    assert "E0121" in codes(text), text


@pytest.mark.parametrize("text", ["|x_t", "x_t|", "⌈x_t", "x_t⌋", r"\lceil x_t \rfloor", "(|x_t) + |y_t|", "⌈x_t|",
                                  "|x_t +\n y_t|"])
def test_halves_without_a_partner(text: str) -> None:
    """No traceback and no guess: what has no partner cannot stand there."""
    assert set(codes(text)) & {"E0103", "E0101", "E0102"}, text


@pytest.mark.parametrize("name", list(FORMS))
def test_the_formatter_keeps_the_meaning(name: str) -> None:
    for left, right in FORMS[name]:
        for spelling in ("unicode", "ascii", "latex"):
            source = Source("<text>", f"{HEAD}2 {left}x_t - y_t{right}\n")
            report = Report()
            printed = pipeline.formatted(source, spelling, report)
            assert printed is not None and not report.problems
            assert show(typed(printed)) == show(typed(source.text))
