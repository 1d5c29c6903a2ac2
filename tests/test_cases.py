r"""A choice between cases, `\begin{cases} … \end{cases}`, against the first row that holds."""

from __future__ import annotations

import operator
import random

import numpy as np
import pytest
from helpers import typed

from einc.driver import pipeline
from einc.errors.report import Report, Source
from einc.meaning.interpret import interpret

_SIGNS = {"<": operator.lt, "\\le": operator.le, ">": operator.gt, "\\ge": operator.ge, "=": operator.eq,
          "\\ne": operator.ne}
_TURNED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "=": "="}
_NAMES = {"i": 0, "j": 1, "2": None, "x_{ij}": None, "z_{ij}": None}


def values(text: str, **inputs: np.ndarray) -> np.ndarray:
    """What a spec with one output returns."""
    program = typed(text)
    shape = next(iter(inputs.values())).shape
    sizes = {"n": shape[0], "m": shape[1]} if shape else {}
    (found,) = interpret(program, inputs, sizes).values()
    return np.asarray(found)


def problems(text: str) -> list[str]:
    """The messages of the errors of a spec."""
    report = Report()
    pipeline.check(Source("cases.ein", text), report)
    return [x.message for x in report.errors]


def condition(draw: random.Random) -> tuple[str, str, str]:
    """A comparison of letters, numbers and entries."""
    return draw.choice(list(_NAMES)), draw.choice(list(_SIGNS)), draw.choice(["i", "j", "3", "x_{ij}", "0"])


def number(name: str, i: int, j: int, x: np.ndarray, z: np.ndarray) -> float:
    """A name of a condition or a row at one entry, which counts from 1."""
    return {"i": i + 1.0, "j": j + 1.0, "x_{ij}": float(x[i, j]), "z_{ij}": float(z[i, j])}.get(name) or (
        0.0 if name in ("i", "j", "x_{ij}", "z_{ij}") else float(name))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", range(40))
def test_the_first_row_that_holds_counts(seed: int) -> None:
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    rows: list[tuple[str, list[tuple[str, str, str]]]] = []
    for _ in range(draw.randint(1, 3)):
        held = [condition(draw) for _ in range(draw.randint(1, 2))]
        alone = [{x for a, _, b in one for x in (a, b)} for one in (*(before for _, before in rows), held)
                 if len(one) == 1]
        if len(held) > 1 or not any(alone[-1] & x for x in alone[:-1]):  # else they may be a question
            rows.append((draw.choice(["x_{ij}", "z_{ij}", "5", "0"]), held))
    last = draw.choice(["x_{ij}", "7", "0"])
    text = " \\\\ ".join(f"{value}{draw.choice(['', ','])} & {draw.choice(['', chr(92) + 'text{if } '])}"
                        + ", ".join(f"{a} {sign} {b}" for a, sign, b in held) for value, held in rows)
    ending = draw.choice([f"{last} & \\text{{otherwise}}", last, f"{last} & \\text{{else}} \\\\"])
    x, z = numbers.normal(size=(2, 4, 5)).round(1)
    if draw.random() < 0.3:
        x[draw.randrange(4), draw.randrange(5)] = np.nan
    found = values(f"index i : feature(n)\nindex j : feature(m)\ninput x_i^j, z_i^j\n"
                   f"output y_i^j = x_i^j - x_i^j + z_i^j - z_i^j + \\begin{{cases}} {text} \\\\ {ending} "
                   "\\end{cases}".replace("{ij}", "i^j"), x=x, z=z)
    for i in range(4):
        for j in range(5):
            held = next((value for value, conditions in rows if all(
                _SIGNS[sign](number(a, i, j, x, z), number(b, i, j, x, z)) for a, sign, b in conditions)), last)
            wanted = number(held, i, j, x, z) + 0 * x[i, j] + 0 * z[i, j]
            np.testing.assert_allclose(found[i, j], wanted, err_msg=text)


def test_rows_stand_in_an_array_and_in_each_other() -> None:
    x = np.array([[1.0, -2.0], [3.0, 0.0]])
    inner = r"\begin{dcases} 1 & i = j \\ 2 & i \neq j \end{dcases}"
    text = ("index i : feature(n)\nindex j : feature(m)\ninput x_i^j\noutput y_i^j = \\left\\{\n\\begin{array}{ll}\n"
            f"  x_i^j, & x_i^j > 0 \\\\[2pt]\n  {inner} & \\text{{otherwise.}}\n\\end{{array}}\n\\right.\n")
    np.testing.assert_array_equal(values(text, x=x), [[1.0, 2.0], [3.0, 1.0]])


@pytest.mark.parametrize("rows", [r"1 & x > 0 \\ 2 & x < 0", r"1 & x > 0 \\ 2 & z \le 0", r"1 & x > 0", ""])
def test_what_holds_nowhere_is_a_question(rows: str) -> None:
    text = f"input x, z\noutput y = x + z + \\begin{{cases}} {rows} \\end{{cases}}\n"
    assert problems(text) == ["what is it where none of these conditions holds?"]


@pytest.mark.parametrize("rows", [r"1 & x > 0 \\ 2 & x \le 0", r"1 & x > 0 \\ 2 & 0 > x \\ 3 & x = 0"])
def test_rows_that_leave_nothing_out_are_all(rows: str) -> None:
    assert not problems(f"input x\noutput y = x + \\begin{{cases}} {rows} \\end{{cases}}\n")


def half(sign: str, edge: int) -> set[float]:
    """The numbers near an edge, whole ones and between, that compare so with it."""
    return {t / 2 for t in range(-9, 19) if _SIGNS[sign](t / 2, edge)}


@pytest.mark.parametrize("seed", range(30))
def test_two_values_in_one_place_are_a_question(seed: int) -> None:
    """Rows that hold at once are a question, but where the first is the narrower of the two."""
    draw = random.Random(seed)
    (one, at), (other, near) = ((draw.choice(list(_TURNED)), draw.choice([2, 3, 4])) for _ in range(2))
    text = f"index t : time(T)\ninput x_t\noutput y_t = x_t + \\begin{{cases}} 1 & t {one} {at} \\\\ 2 & "
    text += draw.choice([f"t {other} {near}", f"{near} {_TURNED[other]} t"])
    text += " \\\\ 3 & \\text{otherwise} \\end{cases}\n"
    first, second = half(one, at), half(other, near)
    asked = ["two of these conditions hold at once, with two values"]
    whole = any(t.is_integer() for t in first & second)
    assert problems(text) == (asked if whole and not first < second else []), text


@pytest.mark.parametrize(("rows", "asked"), [
    (r"x_t & t \ge 2 \\ 7 & t \le 2", True), (r"x_t & t \ge 2 \\ z_t & t \le 2", True),
    (r"x_t & x_t \ge 0 \\ 7 & x_t \le 0", True), (r"x_t & x_t \ge 0 \\ 0 & x_t \le 0", False),
    (r"x_t & x_t \ge 0 \\ 0.1 x_t & x_t \le 0", False), (r"x_t & t = 1 \\ z_t & t = 2 \\ 0 & \text{else}", False),
    (r"\frac12 x_t^2 & x_t \le 1 \\ x_t - \frac12 & x_t \ge 1", False)])
def test_what_meets_at_an_edge_may_be_the_same_there(rows: str, asked: bool) -> None:
    text = f"index t : time(T)\ninput x_t, z_t\noutput y_t = x_t + z_t + \\begin{{cases}} {rows} \\end{{cases}}\n"
    assert bool(problems(text)) == asked


def test_what_holds_otherwise_may_stand_first() -> None:
    text = "input x\noutput y = \\begin{cases} 1 & \\text{otherwise}, \\\\ 2, & x > 0, x < 5, \\end{cases}\n"
    assert [float(values(text, x=np.full((1, 1), v)[0, 0])) for v in (-1.0, 3.0, 7.0)] == [1.0, 2.0, 1.0]


@pytest.mark.parametrize("text", [r"\begin{cases} 1 \\ 2 & x > 0 \\ 3 \end{cases}",
                                  r"\begin{cases} x & x > 0", r"\begin{cases} (x & x > 0 \\ 1) \end{cases}",
                                  r"x \end{cases}", r"\begin{cases} & \\ & \end{cases}",
                                  r"\begin{cases} x & x > 0 & 3 \\ 1 \end{cases}"])
def test_what_is_no_choice_is_an_error(text: str) -> None:
    assert problems(f"input x\noutput y = {text}\n")
