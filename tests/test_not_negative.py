"""Places that functions of positions give stay in their range where that follows, and what follows is true."""

from __future__ import annotations

from itertools import combinations_with_replacement
from random import Random

import numpy as np
import pytest
import torch
from helpers import meaning, typed

import einc
from einc.ir.domains import proves
from einc.ir.indices import Index, IndexSet, size
from einc.ir.terms import ZERO, Apply, Const, Position, Term, const
from einc.meaning.functions import function

HEAD = "index t, s : time(T)\nindex b : feature(0..15)\ninput w_b, x_s\noutput y_t = Σ_{s ≤ t} x_s w_{min(15, PLACE)}"
LETTERS = [Index(name, IndexSet("time", size("T"))) for name in "ts"]


def errors(place: str) -> list[str]:
    return [p.code for p in einc.check(HEAD.replace("PLACE", place)) if p.severity == "error"]


@pytest.mark.parametrize("place", [
    "⌊log(t)⌋", "⌊log(t - s + 1) / log(2)⌋", "⌊√(t - s)⌋", "⌈2 log1p(t - s)⌉", "⌊log(t) √(s) tanh(s)⌋", "3 - ⌈-log(s)⌉",
    "1[t - s < 8] (t - s) + 1[t - s ≥ 8] (8 + ⌊8 log((t - s) / 8) / log(16)⌋)"])
def test_what_stays_in_its_range(place: str) -> None:
    """Accepted, and the same in compiled kernels."""
    assert not errors(place)
    text, random = HEAD.replace("PLACE", place), np.random.default_rng(1)
    inputs = {"w": random.normal(size=16), "x": random.normal(size=37)}
    want = meaning(typed(text), inputs, {})["y"]
    for backend in ("torch", "cpp"):
        got = einc.compile(text, backend=backend)(**{key: torch.from_numpy(x) for key, x in inputs.items()})
        np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("place", [
    "⌊log(t / 2)⌋", "⌊log(t - s)⌋", "⌊√(s - 2)⌋", "⌊t / (t - s)⌋", "⌊1 / log(s)⌋", "⌊t / exp(-t)⌋",
    "⌊log(s) log(s / 2)⌋", "⌊log(s) expm1(99 t)⌋"])
def test_what_may_leave_its_range_is_refused(place: str) -> None:
    assert errors(place) == ["E0601"]


def drawn(random: Random, depth: int) -> Term:
    """A term of positions and small numbers."""
    if depth == 0 or random.random() < 0.2:
        return random.choice([*map(Position, LETTERS), const(random.randint(-1, 9))])
    op = random.choice(["add", "sub", "mul", "div", "log", "log1p", "sqrt", "exp", "expm1", "tanh", "floor", "ceil"])
    count = 2 if op in ("add", "sub", "mul", "div") else 1
    return Apply(op, tuple(drawn(random, depth - 1) for _ in range(count)))


def value(term: Term, at: dict[str, np.float32]) -> np.float32:
    """The value of a term in single digits, each result rounded."""
    match term:
        case Position(index):
            return at[index.name]
        case Const(number):
            return np.float32(float(number))
        case Apply(op, args):
            return np.float32(function(op)(*(value(x, at) for x in args)))
    raise AssertionError(term)


def test_what_is_proved_is_true() -> None:
    random, found, order = Random(3), 0, Apply("le", (Position(LETTERS[1]), Position(LETTERS[0])))
    for _ in range(600):
        term = drawn(random, 3)
        if proves(order, Apply("le", (ZERO, term))):
            found += 1
            with np.errstate(all="ignore"):
                for t, s in combinations_with_replacement(range(11, 0, -1), 2):
                    assert value(term, {"t": np.float32(t), "s": np.float32(s)}) >= 0, (term, t, s)
    assert found > 60
