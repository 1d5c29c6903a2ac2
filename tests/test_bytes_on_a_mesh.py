"""Weights that lie two numbers in a byte, dealt out over processes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers import meaning, typed
from team import Team, TeamError

from einc.driver import placing
from einc.driver.cli import main
from einc.driver.commands import data
from einc.driver.compiling import built
from einc.driver.options import Options
from einc.ir.programs import TypedProgram
from einc.planning.placing.prices import priced

TEXT = """index t : time(T)
index f, g : feature(F)
index e : feature(D)
input X_t^f
weight w_f^e : int4
weight v_e^g : int4
weight ω^e
A_t^e = ω^e tanh(X_t^f w_f^e)
output Y_t^g = A_t^e v_e^g
plan tp:
    mesh p = 2
    shard LETTER over p
"""
SIZES = {"T": 3, "F": 12, "D": 8}


def program(letter: str) -> TypedProgram:
    return typed(TEXT.replace("LETTER", letter))


def run(two: Team, letter: str, sizes: dict[str, int], plain: bool) -> float:
    """How far what two processes make is from what one of the definition makes."""
    text = program(letter)
    drawn = data.randoms(text, sizes, "float64", 3)
    want = meaning(text, {key: data.exact(x) for key, x in drawn.items()}, sizes)["Y"]
    made = built(text, Options("torch", plan="tp"), mesh={"p": 2})
    found, _ = two.run(made.source, text.name, {key: x.numpy() for key, x in drawn.items()}, ["Y"], grad=False,
                       plain=plain, sizes=sizes)
    return float(abs(found["Y"] - want).max())


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("letter", ["g", "e"])
def test_each_process_has_bytes_of_its_own(two: Team, letter: str, plain: bool) -> None:
    """Cut along rows of bytes, and along the axis whose numbers share them; the other weight the other way round."""
    assert run(two, letter, SIZES, plain) <= 1e-12


def test_a_byte_is_not_cut(two: Team) -> None:
    """Each of two would have five of ten columns."""
    with pytest.raises(TeamError, match="w has 5 elements along its axis 1, no multiple of p = 2"):
        run(two, "e", {**SIZES, "D": 10}, False)


def test_a_byte_of_plain_tensors_is_not_cut(two: Team) -> None:
    """Each has three of six columns in two bytes of its own: what these would be side by side is no matrix of six."""
    own = {"X": np.zeros((1, 6)), "w": np.zeros((3, 4), np.uint8), "v": np.zeros((8, 2), np.uint8),
           "omega": np.zeros(8)}
    text = program("t, else f")
    made = built(text, Options("torch", plan="tp"), mesh={"p": 2})
    with pytest.raises(TeamError, match="F = 6 is not a multiple of 4"):
        two.run(made.source, text.name, {}, ["Y"], grad=False, plain=True, sizes={}, differs=[own, own])


@pytest.mark.parametrize("door", ["show", "cost", "compile", "fixed"])
def test_a_byte_that_would_be_cut_is_told_before_the_call(tmp_path: Path, door: str) -> None:
    """Where the sizes are known, with those that would do; and no plan that would cut it is printed."""
    text, sizes = TEXT.replace("LETTER", "e"), "T=3,F=12,D=10"
    (tmp_path / "a.ein").write_text(text.replace("(D)", "(10)") if door in ("compile", "fixed") else text, "utf-8")
    words = {"show": ["--stage", "plan", "--plan", "tp", "--sizes", sizes], "compile": ["--plan", "tp"],
             "cost": ["--devices", "2", "--sizes", sizes], "fixed": ["--stage", "plan", "--plan", "tp"]}[door]
    done = CliRunner().invoke(main, [door.replace("fixed", "show"), str(tmp_path / "a.ein"), *words])
    if door == "cost":
        assert done.exit_code == 0 and "  f over 2" in done.output
        assert re.search(r"  e(, f)? over 2", done.output) is None
    else:
        assert done.exit_code == 1 and "10 is no multiple of p = 2 with 2 numbers of `w` in a byte" in done.output
        assert re.search(r"(D =|an extent of) 8 would do, or 12", done.output)


def test_half_bytes_are_counted_as_such() -> None:
    """What is sent of a weight, and what a device has of it, is half of its numbers in bytes; of odd ones one more."""
    found = placing.on_mesh(program("t, else f"), ("tp",), {}, SIZES | {"T": 4}).forward
    moved = {move.tensor: move for _, move in found.moves}
    assert moved["w"].wire.at(SIZES) * moved["w"].element.size(4) == 12 * 8 / 2 / 2
    assert moved["v"].wire.at(SIZES) * moved["v"].element.size(4) == 8 * 12 / 2 / 2
    odd = placing.on_mesh(program("t, else f"), ("tp",), {}, SIZES | {"T": 4, "D": 7}).forward
    assert {m.tensor: m.wire.at(SIZES | {"D": 7}) for _, m in odd.moves}["w"] == 12 / 2 * 4
    some = placing.pieces(program("t, else f"), grad=False)
    held = priced(found.mesh, *placing.put(some, found.mesh, SIZES | {"T": 4}), SIZES | {"T": 4}, 4).price.held
    assert held == 4 * (2 * 12) + 12 * 8 / 4 + 8 * 12 / 4 + 4 * 8 + 4 * (2 * 12)
