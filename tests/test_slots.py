"""Index expressions in slots: what is proved to be in range is so at every point, and what has indicators is proved."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch
from helpers import arrays, assert_close, called, meaning, tensors, typed

from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.errors.report import Report, Source

HEAD = "index t, s : time(T)\nindex b : feature({low}..{high})\nweight w_b\ninput L_{{t s}}\n"
LINE = "output y_t = Σ_s (L_{{t s}} + w_{{{sub}}}) : all"


def codes(text: str) -> list[str]:
    report = Report()
    pipeline.check(Source("<text>", text), report)
    return [p.code for p in report.problems]


def condition(random: Random) -> tuple[str, str]:
    """A condition in the language, and in Python."""
    sign, python = random.choice([("<", "<"), ("≤", "<="), (">", ">"), ("=", "=="), ("≥", ">=")])
    left = random.choice(["t - s", "abs(t - s)", "s", "t"])
    return f"{left} {sign} {(n := random.randint(0, 3))}", f"({left}) {python} {n}"


def whole(random: Random, depth: int) -> tuple[str, str]:
    """A whole number of t and s, in the language and in Python."""
    if depth == 0:
        found = random.choice(["t", "s", "t - s", str(random.randint(0, 4))])
        return f"({found})", f"({found})"
    (a, pa), (b, pb), (c, pc) = whole(random, depth - 1), whole(random, depth - 1), condition(random)
    n = random.randint(2, 4)
    return random.choice([
        (f"min({a}, {b})", f"min({pa}, {pb})"), (f"max({a}, {b})", f"max({pa}, {pb})"), (f"abs({a})", f"abs({pa})"),
        (f"({a} + {b})", f"({pa} + {pb})"), (f"({a} - {b})", f"({pa} - {pb})"),
        (f"floor({a} / {n})", f"({pa} // {n})"), (f"mod({a}, {n})", f"({pa} % {n})"),
        (f"1[{c}] {a}", f"({pc}) * {pa}"), (f"1[{c}] {a}", f"({pc}) * {pa}"),
    ])


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", range(60))
def test_what_is_proved_is_so(seed: int) -> None:
    """Random expressions in a slot: one that passes the check leaves the range nowhere, for no length."""
    random = Random(seed)
    sub, python = whole(random, 2)
    points = [(t, s, eval(python, {"t": t, "s": s, "min": min, "max": max, "abs": abs}))
              for size in (1, 2, 5, 9) for t in range(1, size + 1) for s in range(1, size + 1)]
    low, high = min(x for *_, x in points), max(x for *_, x in points)
    for top in (high, max(0, high - 1), 4):
        text = (HEAD + LINE).format(low=0, high=top, sub=sub)
        if "E0601" not in codes(text):
            assert low >= 0 and high <= top, (sub, low, high, top)


BUCKETS = [
    ("1[s = t]", 1), ("1 - 1[s = t]", 1), ("max(1[s < t], 1[t > 3])", 1), ("1[s < t] 1[t > 3]", 1),
    ("8 1[s > t] + min(abs(t - s), 7)", 15), ("min(floor(abs(t - s) / 2), 7)", 7),
    ("1[abs(t - s) < 4] abs(t - s) + 1[abs(t - s) ≥ 4] min(4 + floor((abs(t - s) - 4) / 2), 7)", 7),
    ("8 1[s > t] + 1[abs(t - s) < 4] abs(t - s) + 1[abs(t - s) ≥ 4] min(7, 4 + floor(abs(t - s) / 8))", 15),
    ("max(min(t - s, 3), -3) + 3", 6),
]


@pytest.mark.parametrize(("sub", "top"), BUCKETS)
def test_buckets_of_distances(sub: str, top: int) -> None:
    """A table of distances, its index in cases: proved to be in range, and the kernel agrees with the definition."""
    text = (HEAD + LINE).format(low=0, high=top, sub=sub)
    assert codes(text) == []
    assert codes((HEAD + LINE).format(low=0, high=top - 1, sub=sub)) == ["E0601"]
    program, sizes = typed(text), {"T": 12}
    given = arrays(program, sizes, {})
    made = load(front.emit(front.plan(program)), program.name)
    assert_close(called(made, program, tensors(given), sizes), meaning(program, given, sizes))


def test_buckets_inside_of_a_softmax() -> None:
    """An indicator in a slot is a part of a position, so a logit may have it; one that is a factor is refused still."""
    head = HEAD.format(low=0, high=15) + "mask L_{t s} : all\n"
    sub = "8 1[s > t] + min(abs(t - s), 7)"
    text = head + f"output y_t = Σ_s softmax_s(L_{{t s}} + w_{{{sub}}}) s"
    assert codes(text) == []
    assert codes(head + "output y_t = Σ_s softmax_s(L_{t s} + 1[s > t] w_{0}) s") == ["E0505"]
    program, sizes = typed(text), {"T": 9}
    given = arrays(program, sizes, {})
    made = load(front.emit(front.plan(program)), program.name)
    got = called(made, program, tensors(given), sizes)
    assert_close(got, meaning(program, given, sizes))
    t, s = np.arange(9)[:, None], np.arange(9)
    logits = given["L"] + given["w"][8 * (s > t) + np.minimum(abs(t - s), 7)]
    want = torch.softmax(torch.tensor(logits), 1) @ torch.arange(1.0, 10.0, dtype=torch.float64)
    assert_close(got, {"y": want.numpy()})


@pytest.mark.parametrize("seed", range(8))
def test_positions_of_earlier_rows_in_cases(seed: int) -> None:
    """x_{t - 1[t > 1]} is causal and in range; a step forward in a case is neither."""
    n = Random(seed).randint(1, 3)
    head = "index t : time(T)\ninput x_t\n"
    assert codes(head + f"output y_t = x_{{t - {n} 1[t > {n}]}}") == []
    assert codes(head + f"output y_t = x_{{t - {n} 1[t ≥ {n}]}}") == ["E0601"]
    assert "E0501" in codes(head + f"output y_t = x_{{min(t + 1[t > {n}], T)}}")
