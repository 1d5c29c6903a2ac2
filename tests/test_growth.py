"""What grows faster with positions than attention need is told, in the plan and when a file is written."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from helpers import typed
from programs import FILES

from einc.driver import front
from einc.driver.cli import main
from einc.driver.gradients import gradient
from einc.driver.reports.growth import growth, growth_of

HEAD = """
index t, s, u : time(T)
index d : feature(D)
input x_t^d, q_t^d, k_t^d, a_{t s}
"""
TEXTS = {
    "output y_t^d = Σ_s softmax_{s ≤ t}(q_t^e k_{s e}) x_s^d": [],
    "output y_t^d = Σ_{s, s ≤ t} a_{t s} x_s^d": [],
    "output c_{t s} = q_t^d k_{s d} : all": [],
    "output y_{t s} = max_u (a_{t u} + a_{u s}) : all": ["step 1 takes time beyond the square of positions"],
    "b_{t s} = tanh(a_{t s})\noutput y_t^d = Σ_{s, u} b_{t s} b_{s u} x_u^d : all": ["pairs of positions"],
    "h^d = 0\nfor t in 1..T:\n    g^d = tanh(h^d + x_t^d)\n    output y_t^d = g^d\n    h^d ← g^d":
        ["step 2 takes T positions one after the other"],
    "h^d = 0\nfor t in 1..T:\n    g^d = h^d / 2 + x_t^d\n    output y_t^d = g^d\n    h^d ← g^d": [],
}


@pytest.mark.parametrize("text", TEXTS)
def test_what_grows_is_told(text: str) -> None:
    """A step that grows has its line, in the order of the steps, and others have none."""
    head = HEAD.replace("index d : feature(D)", "index d, e : feature(D)") if "^e" in text else HEAD
    found = growth(front.plan(typed(head + text)))
    assert len(found) >= len(TEXTS[text]) and bool(found) == bool(TEXTS[text]), found
    for line, wanted in zip(found, TEXTS[text], strict=False):
        assert wanted in line


def test_layers_one_after_the_other_are_no_positions() -> None:
    (case,) = (case for case in FILES if case.name == "decoder_lm")
    assert not growth(front.plan(typed(case.text)))


def test_what_pieces_of_a_gradient_hand_on_is_told() -> None:
    """It is stored, though a piece gives it; what the caller asks for is not told, such as a gradient of pairs."""
    (case,) = (case for case in FILES if case.name == "deltaformer")
    for whole in (front.plan(typed(case.text)), gradient(typed(case.text))):
        assert any("stores pairs of positions: `u_before_write`" in line for line in growth_of(whole))
    of_pairs = typed(f"{HEAD}output y_t^d = Σ_{{s, s ≤ t}} a_{{t s}} x_s^d")
    assert not [*growth_of(gradient(of_pairs))]
    made = CliRunner().invoke(main, ["compile", "recurrent/deltaformer", "--grad"])
    assert "warning: forward of piece 1, step 2 stores pairs" in made.stderr


def test_the_plan_and_the_file_say_it() -> None:
    told = "step 3 takes T positions one after the other"
    for extra in ([], ["--full"]):
        shown = CliRunner().invoke(main, ["show", "recurrent/titans_momentum", "--stage", "plan", *extra])
        assert f"grows: {told}" in shown.stdout
    made = CliRunner().invoke(main, ["compile", "recurrent/titans_momentum"])
    assert f"warning: {told}" in made.stderr and "warning" not in made.stdout
