"""Closed forms as text: what each back end writes for the ends of a tile is, as Python
computes it, what the plan means."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import pytest

from einc.backends.host.bounds import Spelling, limits, search, text
from einc.backends.torch.bounds import Numbers as TorchNumbers
from einc.backends.triton.bounds import Numbers as TritonNumbers
from einc.backends.writer import Writer
from einc.ir.indices import Index, IndexSet, number, size
from einc.ir.plan import Axis, Interval, end
from einc.ir.terms import TRUE, Apply, Const, Fold, Position, Read, Size, Term

SET = IndexSet("time", size("T"), 1)
S, T = Index("s", SET), Index("t", SET)
TRITON = {"tl": SimpleNamespace(minimum=min, maximum=max, abs=abs, full=lambda _, n, kind: n, int64=None),
          "_floordiv": lambda a, b: a // b, "_mod": lambda a, b: a % b}


def torch_spelling() -> Spelling:
    reader: Any = SimpleNamespace(tile=SimpleNamespace(ranges={"t": ("t0", "t1")}))
    return TorchNumbers(reader, Writer())


def triton_spelling() -> Spelling:
    scribe: Any = SimpleNamespace(helpers=set(), arguments=SimpleNamespace(size=lambda extent: None))
    return TritonNumbers(scribe, {"t": ("t0", "(t1 - 1)")})


SPELLINGS = {"torch": torch_spelling, "triton": triton_spelling}


def drawn(chance: random.Random, depth: int = 3) -> Term:
    """A closed form of sizes, numbers and the ends of a tile of t."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice([Const(number(chance.randint(-9, 9)).constant), Size(size("T")), end(T, "first"),
                              end(T, "last"),
                              Const(number(10**11).constant)])
    inner = [drawn(chance, depth - 1) for _ in range(chance.randint(2, 3))]
    some = Const(number(chance.randint(1, 7)).constant)
    return chance.choice([
        Apply("add", tuple(inner)), Apply("sub", tuple(inner[:2])), Apply("neg", tuple(inner[:1])),
        Apply("mul", (some, inner[0])),
        Apply("min", tuple(inner)), Apply("max", tuple(inner)), Apply("abs", tuple(inner[:1])),
        Apply("mod", (inner[0], some)),
        Apply(chance.choice(["floor", "ceil"]), (Apply("div", (inner[0], some)),)),
    ])


def meaning(term: Term, space: dict[str, int]) -> Any:
    """What a closed form is, where the tile is t0 to t1 - 1 in storage positions."""
    match term:
        case Const(value):
            return value
        case Size(extent):
            return extent.at(space)
        case Position(index):
            return (space["t0"] if index.name.startswith("first") else space["t1"] - 1) + index.set.start
        case Apply("div", (a, b)):
            return meaning(a, space) / meaning(b, space)
        case Apply("mod", (a, b)):
            return meaning(a, space) % meaning(b, space)
        case Apply(op, args):
            values = [meaning(a, space) for a in args]
            known = {"add": sum, "sub": lambda v: v[0] - v[1], "neg": lambda v: -v[0], "mul": math.prod, "min": min,
                     "max": max,
                     "abs": lambda v: abs(v[0]), "floor": lambda v: math.floor(v[0]), "ceil": lambda v: math.ceil(v[0])}
            return known[op](values)
    raise AssertionError(term)


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_closed_form_is_written_as_what_it_means(name: str) -> None:
    chance = random.Random(18)
    for _ in range(400):
        term, shift = drawn(chance), chance.randint(-3, 3)
        space = {"T": chance.randint(1, 99), "t0": chance.randint(0, 40), "t1": chance.randint(41, 80)}
        written = text(term, SPELLINGS[name](), shift)
        assert eval(written, {**TRITON, **space}) == meaning(term, space) + shift, (term, written)


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_span_ends_in_storage_positions(name: str) -> None:
    """From t - 2 up to t + 1 of a tile of t that has the storage positions 10 to 19; sets are counted from 1."""
    low = Apply("sub", (end(T, "first"), Const(number(2).constant)))
    high = Apply("add", (end(T, "last"), Const(number(1).constant)))
    lows, highs = limits(Axis("s", SET, "stream"), Interval((low,), (high,)), SPELLINGS[name]())
    assert [eval(x, {**TRITON, "t0": 10, "t1": 20}) for x in (*lows, *highs)] == [8, 21]


def test_a_fold_over_positions_under_a_condition_is_a_search() -> None:
    read, limit = Read("p", (Position(S),)), end(T, "last")
    first = Fold("min", (S,), Apply("le", (limit, read)), Position(S))
    last = Fold("max", (S,), Apply("le", (read, limit)), Position(S))
    assert [(x.read, x.limit, x.axis, x.first) for x in (search(first), search(last)) if x] == [
        (read, limit, S, True), (read, limit, S, False)]
    assert search(Fold("max", (S,), TRUE, read)) is None
