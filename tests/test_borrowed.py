"""Letters of used specs: what a text declares holds in its lines, and the used lines keep their own meaning."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers import arrays, assert_close, called, meaning, tensors, typed

from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.errors.report import Report, Source
from einc.syntax.printing.show import show

PLAIN = "index u : head(U)\ninput scale, x_{t u}^d\noutput y_{t u}^k = scale R_{t d}^k x_{t u}^d"
INNER = ("i", "j", "a", "b")
SIZES = {"T": 5, "d_k": 6, "U": 3}


def problems(text: str) -> list[str]:
    report = Report()
    pipeline.check(Source("<text>", text), report)
    return [p.code for p in report.problems]


def notes(text: str) -> list[str]:
    report = Report()
    pipeline.check(Source("<text>", text), report)
    return report.notes


def renamed(base: str, index: str, scalar: str) -> str:
    """The text over a used spec, with these names for its own index and scalar."""
    words = {"u": index, "scale": scalar}
    lines = PLAIN.split("\n")
    made = "\n".join(line.replace("x_{t u}", f"x_{{t {words['u']}}}").replace("y_{t u}", f"y_{{t {words['u']}}}")
                     .replace("index u", f"index {words['u']}").replace("scale", words["scale"]) for line in lines)
    return f'use "{base}"\n{made}'


@pytest.mark.parametrize("seed", range(10))
def test_names_of_the_text_collide_with_none_of_the_used_one(seed: int) -> None:
    """Inner letters of rotary positions as an index and a scalar of the reader: the values are those of other names."""
    random = Random(seed)
    index, scalar = random.sample((*INNER, "θ", "w"), 2)
    index = "w" if index == "θ" else index
    base = random.choice(["rope", "rope_half"])
    other, mine = typed(renamed(base, "u", "scale")), typed(renamed(base, index, scalar))
    given = arrays(other, SIZES, {})
    ours = {{"scale": next(t.key for t in mine.inputs() if not t.slots)}.get(k, k): v for k, v in given.items()}
    assert_close(meaning(mine, ours, SIZES), meaning(other, given, SIZES))


@pytest.mark.parametrize("index", INNER)
def test_compiled_with_a_letter_of_the_used_text(index: str) -> None:
    """The plain kernel agrees with the definition, and with torch's own product with the rotation."""
    text = renamed("rope_half", index, "w")
    program = typed(text)
    given = arrays(program, SIZES, {})
    made = load(front.emit(front.plan(program)), program.name)
    assert_close(called(made, program, tensors(given), SIZES), meaning(program, given, SIZES))
    x, half = given["x"], SIZES["d_k"] // 2
    angles = np.arange(SIZES["T"])[:, None] * 10000.0 ** (-2 * np.arange(half) / SIZES["d_k"])
    first, second = x[:, :, :half], x[:, :, half:]
    sin, cos = np.sin(angles)[:, None], np.cos(angles)[:, None]
    want = given["w"] * np.concatenate([first * cos - second * sin, first * sin + second * cos], 2)
    assert_close({"y": meaning(program, given, SIZES)["y"]}, {"y": want})


@pytest.mark.parametrize("seed", range(6))
def test_a_program_with_displaced_letters_reads_back(seed: int) -> None:
    """What `einc show` prints of it means the same: one letter is over one set there."""
    random = Random(seed)
    index, scalar = random.sample(INNER, 2)
    text = renamed(random.choice(["rope", "rope_half"]), index, scalar)
    first = typed(text)
    again = typed(show(first))
    given = arrays(first, SIZES, {})
    assert_close(meaning(again, given, SIZES), meaning(first, given, SIZES))


def test_a_size_of_the_text_beside_a_letter_of_the_used_one() -> None:
    text = 'use "rope"\ndim a, i\ninput x_t^d\noutput y_t^k = a i R_{t d}^k x_t^d'
    other = text.replace("dim a, i", "dim p, q").replace("a i R", "p q R")
    given = arrays(typed(text), {"T": 4, "d_k": 4, "a": 2, "i": 3}, {})
    assert_close(meaning(typed(text), given, {"T": 4, "d_k": 4, "a": 2, "i": 3}),
                 meaning(typed(other), given, {"T": 4, "d_k": 4, "p": 2, "q": 3}))


def test_letters_that_are_asked_for() -> None:
    """In a script of a tensor of the spec, under an operator, in parentheses: there nothing but an index can stand."""
    assert problems('use "gqa"\noverride θ_i = 0 * i') == []
    assert problems('use "rope"\noverride θ_i = 2^{-i}\ninput x_t^d\noutput y_t^k = R_{t d}^k x_t^d') == []
    assert problems('use "rope"\ninput x_t^{(i a)}\noutput y_t^k = R_{t d}^k x_t^d') == []
    assert problems('use "rope"\ninput x_t^i\noutput y_t = Σ_i θ_i x_t^i') == []
    assert problems('use "rope"\nθ_i = 2\ninput x_t^d\noutput y_t^k = R_{t d}^k x_t^d') == ["E0209"]


@pytest.mark.parametrize("letter", INNER)
def test_a_letter_that_is_passed_over_is_told(letter: str) -> None:
    """In a script of a new name it is a label, where it was an index once; both ways out leave nothing to tell."""
    extent = "feature(2)" if letter in "ab" else "feature(d_k / 2)"
    text = 'use "rope"\nweight W_{%s d}\ninput x_t^d\noutput y_t = W_{%s d} x_t^d'
    assert problems(text % (letter, letter)) == ["W0910"]
    assert typed(text % (letter, letter)).tensors[f"W_{letter}"].slots[0].name == "d"
    label = f"\\text{{{letter}}}"
    assert problems(text % (label, label)) == []
    indexed = text.replace("weight", f"index {letter} : {extent}\nweight").replace("y_t =", f"y_{{t {letter}}} =")
    assert problems(indexed % (letter, letter)) == []


def test_two_used_texts_with_one_letter(tmp_path: Path) -> None:
    """What both bring over different sets is an error only where the reader writes it, and not where he declares it."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.ein").write_text(f"index f : feature(D_{name})\nindex t : time(T)\ninput x_{name}_t^f\n"
                                              f"y_{name}_t = Σ_f x_{name}_t^f\noutput y_{name}_t\n")
    base = 'use "one"\nuse "two"\n'

    def found(text: str) -> list[str]:
        report = Report()
        pipeline.check(Source(str(tmp_path / "mine.ein"), base + text), report)
        return [p.code for p in report.problems]

    assert found("output z_t = y_one_t + y_two_t") == []
    assert found("output z_t = y_one_t + Σ_f x_two_t^f")[0] == "E0209"
    assert found("index f : feature(D_two)\noutput z_t = y_one_t + Σ_f x_two_t^f") == []
    assert found("index f : feature(D_two)\noutput z_t = y_two_t + Σ_f x_one_t^f") == ["E0401"]


def test_what_is_returned_is_told() -> None:
    text = 'use "sdpa"\noutput z_{n t h} = Σ_s L_{n h t s}'
    told = notes(text)
    assert len(told) == 1 and "`z_{n t h}`" in told[0] and "`Y_{n h t}^{d}`" in told[0] and "sdpa.ein" in told[0]
    assert notes(text + "\noutput Y_{n h t}^d") == []
    assert notes('use "sdpa"\nmask L_{n h t s} : s > t - 3') == []
    both = typed(text + "\noutput Y_{n h t}^d")
    assert {name for name, _ in both.outputs} == {"z", "Y"}


def test_a_scalar_is_a_number_of_the_text_alone() -> None:
    """`i` is a number here, and an index where the used spec counts its angles."""
    text = 'use "rope"\ninput i, x_t^d\noutput y_t^k = i R_{t d}^k x_t^d'
    program = typed(text)
    given = arrays(program, SIZES, {})
    plain = typed('use "rope"\ninput w, x_t^d\noutput y_t^k = w R_{t d}^k x_t^d')
    other = {"w" if k == "i" else k: v for k, v in given.items()}
    assert np.allclose(meaning(program, given, SIZES)["y"], meaning(plain, other, SIZES)["y"])


@pytest.mark.parametrize(("lines", "inputs"), [
    ("input θ, x_t^d\noutput y_t^k = θ x_t^d R_{t d}^k", {"theta", "x"}),
    ("index i : expert(E)\ninput x_t^d, g_{t i}\noutput y_{t i}^k = g_{t i} x_t^d R_{t d}^k", {"x", "g"}),
    ("index b : batch(B)\ninput x_{b t}^d\noutput y_{b t}^k = x_{b t}^d R_{t d}^k", {"x"}),
    ("weight b^d\ninput x_t^d\noutput y_t^k = (x_t^d + b^d) R_{t d}^k", {"x", "b"}),
    ("index x, y : feature(d_k)\ninput u_t^x\noutput z_t^y = u_t^x R_{t x}^y", {"u"}),
    ("input x_t^d, a_t\noutput y_t^k = a_t x_t^d R_{t d}^k\noutput f_i = θ_i", {"x", "a"}),
    ("index s : time(T)\ninput R_s\noutput y_t = Σ_{s ≤ t} R_s", {"R"}),
])
def test_names_of_real_texts_with_rotations(lines: str, inputs: set[str]) -> None:
    """A scale θ, experts i, batches b, a bias b, a gate a: of the rotations the text sees R, its size and what it asks
    for."""
    program = typed(f'use "rope_half"\n{lines}')
    assert {t.key for t in program.inputs()} == inputs
