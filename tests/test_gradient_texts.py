"""The gradient as text: what the checker reads of it, and what `einc derive --grad` and `einc show --grad` print."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers import Arrays, arrays, assert_close, meaning, typed, typed_of
from programs import CASES, WITH_ROUNDS, Case
from test_backward import given

from einc.driver.cli import main
from einc.syntax.printing.show import show
from einc.transforms.gradients.backward import Derived, derive
from einc.transforms.gradients.pieces import Piece, pieces

ROUNDS = [c for c in CASES if c.name in WITH_ROUNDS]


def said(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, done.output


def written(folder: Path, text: str) -> str:
    file = folder / "some.ein"
    file.write_text(text, encoding="utf-8")
    return str(file)


def gradient_of(text: str) -> Derived:
    return derive(typed(text))


def lines(derived: Derived) -> list[str]:
    return show(derived.backward).splitlines()


# every piece of a program with rounds


def of_piece(piece: Piece, case: Case) -> Arrays:
    """Inputs of a piece's gradient; what the forward program would save for them may be any positive numbers."""
    program = piece.derived.backward
    ranges = {t.key: case.ranges.get(t.key, ("1", "1")) for t in program.inputs() if t.integer}
    return {key: x if x.dtype.kind == "i" else abs(x) + 0.5 for key, x in arrays(program, case.sizes, ranges).items()}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", ROUNDS, ids=lambda c: c.name)
def test_the_checker_reads_the_gradient_of_every_piece(case: Case) -> None:
    moved = [piece for piece in pieces(typed_of(case)) if piece.derived.gradients]
    assert any(piece.title.startswith("one of the rounds") for piece in moved)
    for piece in moved:
        again, x = typed(piece.text), of_piece(piece, case)
        named = {t.key: x[key] for t, key in zip(again.inputs(), x, strict=True)}  # `ℓ` is `ell` in a call
        assert_close(meaning(again, named, case.sizes), meaning(piece.derived.backward, x, case.sizes), 1e-9, 1.0)


# how the language says what a gradient needs


def test_a_value_that_is_the_same_all_along_an_index_says_so() -> None:
    text = "index c : feature(C)\nindex n : batch(B)\ninput x^c, y_n\noutput u = Σ_{c} x^c + Σ_{n} y_n"
    found = lines(gradient_of(text))
    assert "dx_{c} = 1[c = c] du" in found
    assert "dy^{n} = 1[n = n] du" in found
    typed("\n".join(found))


def test_a_part_of_which_nothing_is_read_is_zero_along_its_index() -> None:
    text = ("index c : feature(C)\nindex r : feature(R)\nindex e : feature = c ⊕ r\ninput q^e, a_c\noutput y = Σ_c "
            "(q^c)^2 a_c")
    found = lines(gradient_of(text))
    assert any(line.endswith("⊕ 1[r = r] 0") for line in found)
    typed("\n".join(found))


def test_a_cotangent_has_no_axis_along_which_it_is_the_same() -> None:
    derived = gradient_of(next(c.text for c in CASES if c.name == "gather_pages"))
    assert "dk_at^{(d)} = Σ_{t} dy^{t} q_{t}^{d}" in lines(derived)
    assert [slot.name for slot in derived.backward.tensors["dk_at"].slots] == ["d"]


def test_an_argument_that_is_nowhere_taken_sends_nothing_back() -> None:
    derived = gradient_of("index t : time(T)\ninput x_t, y_t\noutput z_t = max(abs(x_t), max(x_t, y_t))")
    assert sum("dx^{t} = " in line for line in lines(derived)) == 1
    assert "y_{t} ≤ x_{t}" not in "\n".join(lines(derived))
    typed(show(derived.backward))


PAIR = """index i : feature(n)
index a : feature(2)
index x : feature(2 n) = (i a)
input q^x
input w_{(i a)}
weight v^i
output y^i = Σ_a q^{((i) a)} w_{((i) a)} v^i
"""


def test_an_index_within_a_pair_may_be_a_label() -> None:
    assert "y^{i} = Σ_{a} q^{((i) a)} w_{((i) a)} v^{(i)}" in show(typed(PAIR)).splitlines()
    with pytest.raises(AssertionError, match="E0305"):
        typed(PAIR.replace("(i)", "i"))


def test_a_letter_of_a_pair_is_no_name_of_a_tensor() -> None:
    text = """index c : feature(2)
    index h : head(H)
    index x : feature(2 H) = (c h)
    input y^x, p
    output z^h = p y^{(1, h)}
    """
    x = given(Case("some", text, {"H": 3}))
    derived = gradient_of(text)
    assert_close(meaning(typed(show(derived.backward)), x, {"H": 3}), meaning(derived.backward, x, {"H": 3}))


def test_a_slot_whose_pair_no_text_needs_has_one_letter() -> None:
    text = """index i, j : feature(n)
    index a, b : feature(2)
    index x, y : feature(2 n) = (i a)
    input R_{(i a)}^{(j b)}, q^x
    output z^y = q^x R_x^y
    """
    assert "input R_{x}^{x'}" in show(typed(text)).splitlines()
    assert "dR^{x}_{x'} = dz_{x'} q^{x}" in lines(gradient_of(text))
    typed(show(typed(text)))


SHIFTED = """index r : request(R)
index t : time(T_r)
input x_{r t}
output y_{r t} = 1[t ≥ 3] x_{r, t-2}
"""


def test_a_shift_ends_where_its_request_does() -> None:
    assert "dx_{r}^{t} = 1[t + 2 ≤ T_{r}, 3 ≤ t + 2] dy_{r}^{t + 2}" in lines(gradient_of(SHIFTED))


RESTRICTED = """index t, s : time(T)
dim W
input x_t, y_s
a_{t s} = x_t + y_s, s ≤ t
b_{t s} = x_t y_s, s < W, s ≤ t
c_{t s} = 1[s < W] b_{t s} + a_{t s}"""


def test_restrictions_of_a_sum_are_compared_within_that_of_the_equation() -> None:
    typed(f"{RESTRICTED}, s ≤ t\noutput z_t = Σ_s c_{{t s}}")
    for broken in (RESTRICTED, RESTRICTED.replace("1[s < W] ", "") + ", s ≤ t", RESTRICTED + ", s ≤ W + 1"):
        with pytest.raises(AssertionError, match="E0507"):
            typed(f"{broken}\noutput z_t = Σ_s c_{{t s}}")


# the commands


@pytest.mark.parametrize("name", ["alibi", "not_attention/group_norm", "yarn", "moe"])
def test_what_derive_prints_is_a_spec(name: str, tmp_path: Path) -> None:
    code, text = said("derive", name, "--grad")
    assert code == 0
    assert text.startswith(f"# The gradient of {name.rpartition('/')[2]}.\n# Cotangents: d")
    assert said("check", written(tmp_path, text))[0] == 0


def test_derive_prints_each_piece_of_rounds(tmp_path: Path) -> None:
    code, text = said("derive", "decoder_lm", "--grad")
    after, once, before = ("# The gradient of" + part for part in text.split("# The gradient of")[1:])
    assert code == 0
    assert ", what stands after the rounds ℓ ∈ 1..N.\n" in after
    assert ", one of the rounds ℓ ∈ 1..N.\n" in once
    assert ", what stands before the rounds ℓ ∈ 1..N.\n" in before
    assert all(said("check", written(tmp_path, part))[0] == 0 for part in (after, once, before))


def test_derive_prints_the_gradient_as_latex() -> None:
    code, text = said("derive", "sdpa", "--grad", "--tex")
    assert code == 0
    assert r"\text{dV}^{n h s}_d &= \sum_{t, s \le t} \text{dY}^{n h t}_d" in text


def test_the_plan_of_a_gradient_is_shown() -> None:
    code, text = said("show", "sdpa", "--stage", "plan", "--grad", "--own", "--sizes", "T=64,B=1,H=2,d_k=16")
    assert code == 0
    assert text.startswith("plan of sdpa_backward: ")
    assert "dV, dK, dQ" in text
    code, text = said("show", "decoder_lm", "--stage", "plan", "--grad", "--full")
    assert code == 0
    assert text.count("plan of decoder_lm_backward") == 3


CONSTANT = {
    "no input": "index t : time(T)\noutput y_t = t / T",
    "whole numbers": "index t : time(T)\ninput w_t : int\noutput y_t = w_t + 1",
    "rounded": "index t : time(T)\ninput x_t\noutput y_t = floor(x_t)",
    "claims alone": "index t : time(T)\ninput x_t\nclaim x_t = x_t",
}


@pytest.mark.parametrize("command", [("derive",), ("show", "--stage", "plan")], ids=["derive", "show"])
@pytest.mark.parametrize("name", CONSTANT)
def test_what_has_no_gradient_is_said(name: str, command: tuple[str, ...], tmp_path: Path) -> None:
    code, text = said(*command, written(tmp_path, CONSTANT[name]), "--grad")
    assert code == 1
    assert "error: `some` has no gradient: nothing it returns depends on an input of real numbers\n" in text
    assert "help: " in text


@pytest.mark.parametrize("stage", ["typed", "normal", "source", "syntax"])
def test_other_stages_have_no_gradient(stage: str) -> None:
    code, text = said("show", "sdpa", "--stage", stage, "--grad")
    assert code == 1
    assert f"--grad is for the stage plan, not for {stage}" in text
