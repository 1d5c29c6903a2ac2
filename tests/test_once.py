"""What depends on weights alone is computed once: the two parts of a program against the whole."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from test_products_of_few_bits import given, spec

import einc
from einc.driver.cli import main
from einc.errors.report import EincError

ROUNDS = """
index t : time(T)
index f, g : feature(D)
input X_t^f
weight G_f
H_t^f = X_t^f
for ℓ in 1..N:
    weight W_f^{g (ℓ)}
    U_f^g = W_f^{g (ℓ)} (1 + G_f)
    H_t^g ← tanh(H_t^f U_f^g)
output H_t^f
plan few:
    products of U by int8 per row
"""


@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_the_parts_give_what_the_whole_gives(backend: str) -> None:
    inputs = [x.float() for x in given()]
    whole = einc.compile(spec("e4m3 per block 4"), plan="few", backend=backend)(*inputs)
    once = einc.compile(spec("e4m3 per block 4"), plan="few,once", backend=backend)
    rest = einc.compile(spec("e4m3 per block 4"), plan="few,rest", backend=backend)
    made = dict(zip((name for name, _ in once.program.outputs), once(*inputs[1:]), strict=True))
    assert {name: x.dtype for name, x in made.items()} == {
        "W_1_e4m3": torch.float8_e4m3fn, "W_2_e4m3": torch.float8_e4m3fn, "W_1_scale": torch.float32,
        "W_2_scale": torch.float32}
    assert (rest(X=inputs[0], **made) - whole).norm() <= 1e-5 * whole.norm()
    assert not {"W_1", "W_2"} & {t.key for t in rest.program.inputs()}


def test_rounds_are_given_what_is_made_for_all_of_them() -> None:
    torch.manual_seed(4)
    x, g, w = torch.randn(5, 6), torch.randn(6), torch.randn(6, 6, 3)
    whole = einc.compile(ROUNDS, plan="few", backend="torch")(X=x, G=g, W=w)
    once = einc.compile(ROUNDS, plan="few,once", backend="torch")
    made = dict(zip((name for name, _ in once.program.outputs), once(G=g, W=w), strict=True))
    assert made["U_int8"].shape == (3, 6, 6) and made["U_int8"].dtype == torch.int8
    rest = einc.compile(ROUNDS, plan="few,rest", backend="torch")
    assert torch.equal(rest(X=x, **made), whole)


def test_weights_of_another_model_are_rounded_once(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(spec("int8 per row"))
    (tmp_path / "a.toml").write_text('W_1 = "up"\nW_2 = "down"\n')
    x, first, second = (x.float() for x in given())
    state = {"up": first, "down": second}
    made = einc.load_weights(tmp_path / "a.ein", state, map=str(tmp_path / "a.toml"), plan="few")
    assert set(made) == {"W_1_int8", "W_1_scale", "W_2_int8", "W_2_scale"} and made["W_1_int8"].dtype == torch.int8
    rest = einc.compile(tmp_path / "a.ein", plan="few,rest", backend="torch")
    whole = einc.compile(tmp_path / "a.ein", plan="few", backend="torch")
    assert torch.equal(rest(X=x, **made), whole(x, first, second))


def test_two_files_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(spec("int8 per row"))
    for part in ("once", "rest"):
        words = ["compile", str(tmp_path / "a.ein"), "--plan", f"few,{part}", "-o", str(tmp_path / f"{part}.py")]
        assert CliRunner().invoke(main, words).exit_code == 0
        again = CliRunner().invoke(main, ["check", str(tmp_path / f"{part}.py")])
        assert again.exit_code == 0, again.output
    names = {x.name for x in ast.parse((tmp_path / "once.py").read_text()).body if isinstance(x, ast.FunctionDef)}
    assert "a_once" in names


def test_what_has_no_parts_is_told() -> None:
    with pytest.raises(EincError, match="makes nothing of its weights alone"):
        einc.compile("mla", plan="rest")


def test_a_loop_over_positions_makes_what_no_position_changes_once() -> None:
    text = """
index t : time(T)
index d, e : feature(D)
input x_t^d
weight W_d^e
h^d = 0
for t in 1..T:
    g_t^e = tanh(W_d^e h^d + x_t^e)
    h^e ← g_t^e
    output y_t^e = g_t^e
plan few:
    products of W by int8 per row
"""
    torch.manual_seed(7)
    x, w = torch.randn(6, 3), torch.randn(3, 3)
    once = einc.compile(text, plan="few,once", backend="torch")
    made = dict(zip((name for name, _ in once.program.outputs), once(w), strict=True))
    assert made["W_int8"].shape == (3, 3) and made["W_scale"].shape == (3,)
    whole = einc.compile(text, plan="few", backend="torch")(x, w)
    assert torch.allclose(einc.compile(text, plan="few,rest", backend="torch")(x=x, **made), whole, atol=1e-6)


def test_values_of_positions_stay_in_the_rest() -> None:
    text = """
index t : time(T)
index f, g : feature(D)
input X_t^f
weight W_f^g, p^f
P_t^f = p^f sin(t)
output Y_t^g = Σ_f (X_t^f + P_t^f) W_f^g
plan few:
    products of W by int8 per row
"""
    once = einc.compile(text, plan="few,once", backend="torch")
    assert {name for name, _ in once.program.outputs} == {"W_scale", "W_int8"}


@pytest.mark.parametrize("plan", ["few,once,rest", "few,once,serve"])
def test_parts_that_exclude_each_other_are_told(plan: str) -> None:
    with pytest.raises(EincError, match="makes tensors of weights and nothing else"):
        einc.compile(ROUNDS, plan=plan)


def test_run_takes_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.ein").write_text(spec("int8 per row"))
    words = ["run", str(tmp_path / "a.ein"), "--plan", "few,rest", "--verify", "--sizes", "T=4,M=4,F=8"]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0 and "W_1_int8" in found.output, found.output
