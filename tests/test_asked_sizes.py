"""The sizes that no shape tells: an emitted file asks for them, and the commands that draw inputs give them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers import each, typed, typed_of
from programs import DRAWN, FILES, Case

from einc.driver import front
from einc.driver.cli import main
from einc.driver.commands import hard
from einc.driver.commands.sizes import asked
from einc.ir.programs import TypedProgram

PRODUCTS = """index g : feature(G)
index c : feature(C)
index f : feature(G C) = (g c)
index t : time(T)
input x_t^f
"""
TEXTS = {
    PRODUCTS + "output y_t^g = Σ_c x_t^{(g c)}": {"G", "C"},
    PRODUCTS + "weight w^c\noutput y_t^g = Σ_c w^c x_t^{(g c)}": {"G"},
    "index t : time(2 T + 1)\ninput x_t\noutput y_t = x_t T": set(),
    "dim W\nindex t, s : time(T)\ninput x_s\noutput y_t = Σ_{s ∈ (t - W, t]} x_s": {"W"},
    "dim B\nindex t, s : time(T)\nindex j : time(⌈T/B⌉)\ninput x_s\noutput y_j = Σ_{s ≤ j B} x_s : all": {"B"},
}


def parameters(program: TypedProgram) -> set[str]:
    """What the emitted function takes by name alone."""
    plan = front.plan(program)
    found = inspect.signature(front.load(front.emit(plan), plan.name)).parameters.values()
    return {x.name.rstrip("_") for x in found if x.kind is x.KEYWORD_ONLY}


@pytest.mark.parametrize("text", TEXTS)
def test_a_size_in_a_product_is_asked_for_unless_shapes_tell_the_other(text: str, tmp_path: Path,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*asked(typed(text))} == TEXTS[text] == parameters(typed(text))
    for name, number in (("SEEDS", 1), ("ALONE", 2), ("TOGETHER", 2)):
        monkeypatch.setattr(hard, name, number)
    file = tmp_path / "sizes.ein"
    file.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", str(file), "--hard", "--backend", "torch", "--repeat", "1"])
    assert done.exit_code == 0, done.output


@each(FILES, {}, few=DRAWN)
def test_what_a_command_gives_is_what_a_file_asks_for(case: Case) -> None:
    assert {*asked(typed_of(case))} == parameters(typed_of(case))


def test_a_draw_that_names_no_position_is_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sine of ∞ is no number of a row, which the definition refuses; the other draws are held against it."""
    for name, number in (("SEEDS", 1), ("ALONE", 16), ("TOGETHER", 4)):
        monkeypatch.setattr(hard, name, number)
    file = tmp_path / "rows.ein"
    file.write_text("index t : time(T)\nindex m : latent(0..M)\ninput x_t, z_t\nweight e_m\n"
                    "output y_t = z_t e_{floor(M abs(sin(x_t)))}", encoding="utf-8")
    done = CliRunner().invoke(main, ["run", str(file), "--hard", "--backend", "torch", "--repeat", "1"])
    assert done.exit_code == 0, done.output
