"""Weights that lie two numbers in a byte, dealt out over processes."""

from __future__ import annotations

import pytest
from helpers import meaning, typed
from team import Team, TeamError

from einc.driver.commands import data
from einc.driver.compiling import built
from einc.driver.options import Options
from einc.ir.programs import TypedProgram

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
