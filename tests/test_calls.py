"""Calls of specs and rounds in order: what they mean, told by the interpreter, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import einc
from einc.driver import pipeline
from einc.driver.reports.table import table
from einc.errors.report import Report, render
from einc.ir.plan import Loop
from einc.planning.contractions.choose import taken
from einc.syntax.printing.show import show

Arrays = dict[str, Any]
SCALE = "index t : time(T)\nindex f : feature(D)\ninput x_t^f\nweight w^f\noutput y_t^f = w^f x_t^f\n"
RUNNING = ("index t, s : time(T)\nindex f : feature(D)\ninput x_t^f\nweight w_f^g\nindex g : feature(G)\n"
           "output y_t^g = Σ_{s ≤ t} x_s^f w_f^g\n")
MEAN = ("index t, s : time(T)\nindex f : feature(D)\ninput x_t^f\nmask z_{t s}^f : all\nz_{t s}^f = x_s^f - x_t^f\n"
        "output y_t^f = 1/T Σ_s z_{t s}^f\n")
HEAD = "index t, s : time(T)\nindex n : batch(B)\nindex f, p, q : feature(D)\nindex e : feature(E)\n"


def spec(room: Path, name: str, text: str) -> None:
    (room / f"{name}.ein").write_text(text, encoding="utf-8")


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder with small specs to call."""
    for name, text in {"scale": SCALE, "running": RUNNING, "average": MEAN}.items():
        spec(tmp_path, name, text)
    return tmp_path


def meant(room: Path, text: str, **arrays: Any) -> Arrays:
    spec(room, "main", HEAD + text)
    sizes = {key: arrays.pop(key) for key in list(arrays) if isinstance(arrays[key], int)}
    found = einc.interpret(room / "main.ein", arrays, sizes)
    made = einc.compile(room / "main.ein")(**{k: torch.from_numpy(a) for k, a in arrays.items()}, **sizes)
    (name,) = found
    assert np.allclose(found[name], made.numpy(), rtol=1e-12, atol=1e-12), "the compiled module says something else"
    return found


def wrong(room: Path, text: str) -> list[str]:
    spec(room, "main", HEAD + text)
    found = einc.check(room / "main.ein")
    assert all(p.span is not None for p in found), "\n".join(map(render, found))
    return [p.code for p in found]


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape)


# calls


def test_a_call_is_the_output_of_the_spec_and_asks_for_the_rest(room: Path) -> None:
    a, w = random(5, 3), random(3)
    found = meant(room, "input a_t^f\noutput b_t^f = 2 scale(x = a_t^f) + a_t^f\n", a=a, w=w)
    assert np.allclose(found["b"], 2 * a * w + a)


def test_indices_that_the_spec_does_not_have_pass_through(room: Path) -> None:
    a, w = random(2, 5, 3), random(3, 4)
    found = meant(room, "input a_{n t}^f\noutput b_{n t}^e = running(x = a_{n t}^f)\n", a=a, w=w)
    assert np.allclose(found["b"], np.cumsum(a, 1) @ w)
    inside = meant(room, "input a_{n t}^f\nfor n:\n    b_t^e = running(x = a_{n t}^f)\noutput b_{n t}^e\n", a=a, w=w)
    assert np.allclose(inside["b"], found["b"])


def test_a_call_stands_in_a_call_and_its_argument_may_be_any_value(room: Path) -> None:
    a, w, v = random(4, 3), random(3, 4), random(3)
    text = "input a_t^f\nweight v^f\noutput b_t^e = running(x = \"scale\"(x = a_t^f - 1, w = v^f) + a_t^f)\n"
    found = meant(room, text, a=a, w=w, v=v)
    assert np.allclose(found["b"], np.cumsum((a - 1) * v + a, 0) @ w)


def test_a_weight_that_is_given_is_not_asked_for(room: Path) -> None:
    a, u, v = random(4, 3), random(3), random(3)
    text = "input a_t^f\nweight u^f, v^f\noutput b_t^f = scale(x = scale(x = a_t^f, w = u^f), w = v^f)\n"
    assert np.allclose(meant(room, text, a=a, u=u, v=v)["b"], a * u * v)


def test_an_argument_may_have_other_letters(room: Path) -> None:
    a, w = random(4, 3), random(3)
    text = "index z : time(U)\nindex y : feature(M)\ninput a_z^y\noutput b_z^y = scale(x = a_z^y)\n"
    assert np.allclose(meant(room, text, a=a, w=w)["b"], a * w)


def test_the_names_of_a_spec_are_its_own(room: Path) -> None:
    spec(room, "own", SCALE.replace("output y_t^f = w^f x_t^f", "a_t^f = w^f x_t^f\noutput b_t^f = a_t^f + 1"))
    a, w = random(4, 3), random(3)
    assert np.allclose(meant(room, "input a_t^f\noutput b_t^f = own(x = a_t^f) a_t^f\n", a=a, w=w)["b"],
                       (a * w + 1) * a)


def test_an_extent_can_be_given(room: Path) -> None:
    spec(room, "near", "index t, s : time(T)\ndim W\ninput x_t\noutput y_t = Σ_{s ∈ (t - W, t]} x_s\n")
    a = random(6)
    for width, given in (("2", {}), ("K", {"K": 2})):
        found = meant(room, f"{'dim K' if given else ''}\ninput a_t\noutput b_t = near(x = a_t, W = {width})\n", a=a,
                      **given)
        assert np.allclose(found["b"], a + np.concatenate([[0], a[:-1]]))


def test_a_letter_of_the_spec_is_no_index_that_passes_through(room: Path) -> None:
    """The spec sums over a `t` of the caller's own set while the caller's `s` passes through."""
    spec(room, "total", "index s : time(T)\nindex f : feature(D)\ninput x^f, z_s\noutput y^f = Σ_{s ∈ 1..T} z_s x^f\n")
    a, z = random(4, 3), random(4)
    found = meant(room, "input a_s^f, c_t\noutput b_s^f = total(x = a_s^f, z = c_t)\n", a=a, c=z)
    assert np.allclose(found["b"], a * z.sum())


REFUSED = {
    "output b_t^f = scal(x = 2)\n": "E0212",
    "input a_t^f\noutput b_t^f = main(a = a_t^f)\n": "E0212",
    "input a_t^f\noutput b_t^f = scale(z = a_t^f)\n": "E0216",
    "input a_t^f\noutput b_t^f = scale(x = a_t^f, a_t^f = 2, 3)\n": "E0216",
    "input a_t\noutput b_t^f = scale(x = a_t)\n": "E0216",
    "input a_t^f\noutput b_t^f = scale(x = a_t^f, x = a_t^f)\n": "E0209",
    "input a_t^f, c_t^e\noutput b_t^f = scale(x = a_t^f, w = Σ_{s ∈ 1..T} c_s^e)\n": "E0401",
    "input a_t^f\ninput w^f\noutput b_t^f = scale(x = a_t^f) + w^f\n": "E0218",
    "input a_t^f\noutput b_t^f = scale(x = scale(x = a_t^f))\n": "E0218",
    "input a_t^f\ndef g(c) = scale(x = c)\noutput b_t^f = g(a_t^f)\n": "E0217",
    "input a_t^f\noutput b_t^f = two(x = a_t^f)\n": "E0217",
    "input a_t^f\noutput b_t^f = broken(x = a_t^f)\n": "E0201",
    "input a_t^f\nc_t^f = average(x = a_t^f)\noutput b_t^f = c_t^f\n": "",
    "input a_t^f\noutput b_t^f = ahead(x = a_t^f)\n": "E0501",
    "input a_t^f\noutput b_t^p = scale(x = a_t^f) scale(x = a_t^p, w = 1)\n": "E0216",
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("text", REFUSED)
def test_what_a_call_cannot_be(room: Path, text: str) -> None:
    spec(room, "two", SCALE + "output z_t^f = x_t^f\n")
    spec(room, "broken", SCALE.replace("w^f x_t^f", "w^f q_t^f"))
    spec(room, "ahead", SCALE.replace("w^f x_t^f", "w^f Σ_{s ≥ t} x_s^f").replace("index t", "index t, s"))
    assert wrong(room, text) == [REFUSED[text]] * bool(REFUSED[text])


def test_the_future_is_seen_through_a_call(room: Path) -> None:
    """A spec whose output has no time may sum over all of it; who spreads that over time reads the future."""
    spec(room, "total", "index t : time(T)\nindex f : feature(D)\ninput x_t^f\noutput y^f = Σ_t x_t^f\n")
    assert wrong(room, "input a_t^f\noutput c^f = total(x = a_t^f)\n") == []
    assert wrong(room, "input a_t^f\nc^f = total(x = a_t^f)\noutput b_t^f = a_t^f + c^f\n") == ["E0501"]


# rounds in order

LAYERS = "input a_t^f\nh_t^f = a_t^f\nfor ℓ in 1..N:\n    weight v_f^p\n    h_t^p ← {}\noutput b_t^f = 2 h_t^f\n"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_weights_of_a_block_have_the_round_as_their_first_axis(room: Path, count: int) -> None:
    a, v = random(4, 3), random(count, 3, 3)
    found = meant(room, LAYERS.format("Σ_{s ≤ t} h_s^f v_f^p"), a=a, v=v)
    for layer in v:
        a = np.cumsum(a, 0) @ layer
    assert np.allclose(found["b"], 2 * a)


def test_the_round_is_a_number(room: Path) -> None:
    a, v = random(4, 3), random(3, 3, 3)
    found = meant(room, LAYERS.format("ℓ h_t^p + 0 v_f^p a_t^f"), a=a, v=v)
    assert np.allclose(found["b"], 12 * a)
    zero = meant(room, "input a_t^f\nh_t^f = a_t^f\nfor ℓ in 0..N-1:\n    h_t^f ← h_t^f + ℓ\noutput h_t^f\n", a=a, N=4)
    assert np.allclose(zero["h"], a + 6)


def test_states_change_together_and_loops_follow_each_other(room: Path) -> None:
    a, w = random(4, 3), random(2, 3)
    text = ("input a_t^f\nh_t^f = a_t^f\ng_t^f = 1\nfor ℓ in 1..N:\n    h_t^f ← g_t^f + scale(x = h_t^f)\n    g_t^f ← "
            "h_t^f\n"
            "k_t^f = h_t^f g_t^f\nfor i in 1..2:\n    k_t^f ← k_t^f + a_t^f\noutput k_t^f\n")
    found = meant(room, text, a=a, w=w)
    h, g = a, np.ones_like(a)
    for each in w:
        h, g = g + h * each, h
    assert np.allclose(found["k"], h * g + 2 * a)


def test_what_the_start_is_made_of_stands_before_the_rounds(room: Path) -> None:
    """So does what is read after them as well."""
    a, w, v = random(4, 3), random(3, 3), random(2, 3)
    found = meant(room, "input a_t^f\nweight w_f^p\ng_t^p = a_t^f w_f^p\nh_t^p = exp(g_t^f) w_f^p\nfor ℓ in 1..N:\n"
                        "    weight v^f\n    h_t^f ← v^f h_t^f\noutput b_t^f = h_t^f + g_t^f\n", a=a, w=w, v=v)
    assert np.allclose(found["b"], np.exp(a @ w) @ w * v[0] * v[1] + a @ w)


def test_a_called_spec_may_have_rounds(room: Path) -> None:
    spec(room, "deep", "index t : time(T)\nindex f : feature(D)\ninput x_t^f\nh_t^f = x_t^f\n"
        "for ℓ in 1..N:\n    weight w^f\n    h_t^f ← w^f h_t^f\noutput h_t^f\n")
    a, w = random(2, 4, 3), random(2, 3)
    found = meant(room, "input a_{n t}^f\noutput b_{n t}^f = deep(x = a_{n t}^f) + 1\n", a=a, w=w)
    assert np.allclose(found["b"], a * w[0] * w[1] + 1)


BLOCK = "input a_t^f\nh_t^f = a_t^f\nfor ℓ in 1..N:\n    {}\noutput {}\n"
BAD = {
    BLOCK.format("g_t^f = 2 h_t^f", "h_t^f"): "E0118",
    BLOCK.format("g_t^f = 2 h_t^f\n    h_t^f ← g_t^f", "b_t^f = g_t^f"): "E0703",
    BLOCK.format("h_t^f ← h_t^f + Σ_s h_s^f", "h_t^f"): "E0501",
    BLOCK.format("h_t^f ← c_t^f\nc_t^f = 2 h_t^f", "h_t^f"): "E0406",
    BLOCK.format("a_t^f ← h_t^f", "h_t^f"): "E0405",
    BLOCK.format("k_t^f ← h_t^f", "h_t^f"): "E0702",
    BLOCK.format("g_{ℓ t}^f = h_t^f\n    h_t^f ← h_t^f", "h_t^f"): "E0118",
    BLOCK.format("override h_t^f = 2\n    h_t^f ← h_t^f", "h_t^f"): "E0118",
    BLOCK.format("h_t^f ← h_t^f", "b_t^f = ℓ h_t^f"): "E0201",
    BLOCK.format("h_t^f ← scale(x = scale(x = h_t^f))", "h_t^f"): "E0218",
    BLOCK.format("for s in 1..t:\n        h_t^f ← h_t^f", "h_t^f"): "E0118",
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("text", BAD)
def test_what_rounds_cannot_be(room: Path, text: str) -> None:
    assert wrong(room, text) == [BAD[text]]


def test_what_is_shown_parses_back(room: Path) -> None:
    a, v, w = random(4, 3), random(2, 3, 3), random(2, 3)
    text = LAYERS.format("scale(x = Σ_{s ≤ t} h_s^f v_f^p)")
    found = meant(room, text, a=a, v=v, w=w)
    program = pipeline.check(pipeline.read_source(room / "main.ein", Report()), Report())
    assert program is not None
    spec(room, "again", show(program))
    assert np.allclose(einc.interpret(room / "again.ein", {"a": a, "v": v, "w": w})["b"], found["b"])


def test_the_plan_counts_every_round(room: Path) -> None:
    """One function for the body, its steps printed once, and what all rounds cost."""
    spec(room, "main", HEAD + LAYERS.format("scale(x = h_t^f v_f^p)"))
    made = einc.compile(room / "main.ein")
    (rounds,) = (step for step in made.plan.steps if isinstance(step, Loop))
    sizes = {"T": 5, "D": 3}
    flops = [sum(step.cost.flops.at({**sizes, "N": n}) for step in taken(made.plan, {**sizes, "N": n}))
             for n in (0, 1, 4)]
    assert flops[2] - flops[0] == 4 * (flops[1] - flops[0]) > 0
    shown = table(made.plan, {**sizes, "N": 4})
    assert shown.count("for ℓ in 1..N: h after each round") == 1
    assert re.search(rf"all rounds: flops [^=]* = {flops[2] - flops[0]} ", shown)
    assert made.source.count("def _round(") == 1
    assert rounds.body.steps


def test_a_call_costs_what_the_lines_cost(room: Path) -> None:
    """A called spec is no wall: the plan has the kernels of a spec that has its lines."""
    spec(room, "used", 'use "attention"\noutput B_t^f = 3 A_t^f\n')
    spec(room, "called",
         "index t : time(T)\nindex f : feature(d_model)\ninput H_t^f\noutput B_t^f = 3 attention(X = H_t^f)\n")
    used, called = (einc.compile(room / f"{name}.ein").plan for name in ("used", "called"))
    assert [type(step) for step in used.steps] == [type(step) for step in called.steps]
