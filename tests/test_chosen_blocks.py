"""Folds over positions whose block is one of few: only these are computed, and the result is that of the formula."""

from __future__ import annotations

import re
from itertools import product

import pytest
import torch
from helpers import arrays, assert_close, called, distance, meaning, tensors, typed, typed_of
from programs import FILES
from test_recurrent import slopes

from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.ir.domains import linear
from einc.ir.indices import Index, IndexSet, size
from einc.ir.plan import Module, RowBlocks
from einc.ir.programs import NormalProgram
from einc.ir.terms import Apply, Fold, Position, Term, const, substitute
from einc.transforms.normal import chosen_values
from einc.transforms.normal.preimages import image

HEAD = """
index t, s : time(T)
index k, d : feature(D)
dim n, m, B, W
index j    : time(⌈T/B⌉)
index i    : time(⌈2 T/3⌉)
input Q_t^k, K_s^k, V_s^d, G_{t j}, P_{t j}, R_{t s}, U_{t i}
map β(s) = ceil(s / B) : j
map γ(s) = ceil(2 s / 3) : i
set S_t = topk_{B j ≤ t}(G_{t j}, n)
set A_t = topk_{j, j ≤ ⌈T/B⌉}(G_{t j}, n)
set C_t = topk_{j, j ≤ ⌈T/B⌉}(P_{t j}, m)
set E_t = topk_{s ≤ t}(R_{t s}, m)
set F_t = topk_{i, i ≤ ⌈2 T/3⌉}(U_{t i}, n)
L_{t s} = Q_t^k K_{s k}
"""
# What each domain of s says; all but the last leave a number of values that no position changes.
DOMAINS = {
    "blocks that have ended": "β(s) ∈ S_t",
    "any blocks": "s ≤ t and β(s) ∈ A_t",
    "own and chosen": "s ≤ t and (β(s) = β(t) or β(s) ∈ S_t)",
    "own and any": "s ≤ t and (β(s) = β(t) or β(s) ∈ A_t)",
    "first, near and chosen": "s ≤ t and (β(s) = 1 or β(s) > β(t) - 2 or β(s) ∈ A_t)",
    "a run of blocks, too": "s ≤ t and (β(s) ≥ β(t) - W or β(s) ∈ A_t)",
    "later ones": "s ≥ t and (β(s) < β(t) + 2 or β(s) ∈ A_t)",
    "of two sets": "s ≤ t and (β(s) ∈ A_t or β(s) ∈ C_t)",
    "of both": "s ≤ t and β(s) ∈ A_t and β(s) ∈ C_t",
    "chosen under a condition": "s ≤ t and (β(s) = β(t) or (β(s) ∈ A_t and β(s) < β(t) - 1))",
    "cut by another bound": "s ≤ t and s > t - W and β(s) ∈ A_t",
    "every other one of a block": "s ≤ t and mod(s, 2) = 0 and (β(s) = β(t) or β(s) ∈ A_t)",
    "intervals of unlike lengths": "s ≤ t and γ(s) ∈ F_t",
    "positions and the own one": "s = t or s ∈ E_t",
    "positions of a window, and chosen": "s ≤ t and (s > t - W or s ∈ E_t)",
    "blocks from behind": "s ≤ t and ceil((t - s + 1) / B) ∈ A_t",
    "moved blocks": "s ≤ t and floor((s + B - 1) / B) ∈ A_t",
    "positions in place of blocks": "s ≤ t and (s > t - W or β(s) ∈ A_t)",
}
DENSE = {"positions in place of blocks"}
# A last block that is not full, one block alone, fewer blocks than are chosen, one position.
ROWS = ((23, 4, 2, 2, 3), (5, 8, 3, 2, 2), (12, 3, 9, 1, 5), (1, 1, 1, 1, 1))
SIZES = [dict(zip("TBnmW", row, strict=True)) for row in ROWS]


@pytest.fixture(autouse=True)
def whatever_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen blocks alone are computed at sizes at which all positions cost less, too."""
    monkeypatch.setattr(chosen_values, "GATHERED", 0)


def text(name: str) -> str:
    return f"{HEAD}output Y_t^d : all\nY_t^d = Σ_s softmax_{{s, {DOMAINS[name]}}}(L_{{t s}}) V_s^d\n"


def dense(program: NormalProgram) -> bool:
    """Whether something is folded over positions s for each position t."""
    return any(isinstance(e.body, Fold) and any(i.name.startswith("s") for i in e.body.bound)
               and any(i.name == "t" for i in e.indices) for e in program.equations)


@pytest.mark.parametrize("name", DOMAINS)
def test_chosen_blocks_alone_are_computed(name: str) -> None:
    program = typed(text(name))
    normal = pipeline.normal(program)
    assert dense(normal) == (name in DENSE)
    plan = front.plan(program)
    function = load(front.emit(plan), plan.name)
    for seed, some in enumerate(SIZES):
        sizes = {**some, "D": 3}
        given = arrays(program, sizes, {}, seed)
        want = meaning(program, given, sizes)
        assert_close(meaning(normal, given, sizes), want)
        assert_close(called(function, program, tensors(given), sizes), want)


def chosen(scores: torch.Tensor, count: int, allowed: list[int]) -> set[int]:
    """The blocks of the largest scores."""
    return set(sorted(allowed, key=lambda j: -float(scores[j - 1]))[:count])


def by_loops(name: str, x: dict[str, torch.Tensor], sizes: dict[str, int]) -> torch.Tensor:
    """Position by position, what a domain that looks at blocks leaves."""
    steps, width, rows = len(x["Q"]), sizes["B"], []
    for t in range(1, steps + 1):
        own = -(-t // width)
        ended = chosen(x["G"][t - 1], sizes["n"], [j for j in range(1, own + 1) if width * j <= t])
        any_ = chosen(x["G"][t - 1], sizes["n"], list(range(1, -(-steps // width) + 1)))
        seen = {"blocks that have ended": ended, "own and chosen": ended | {own},
                "first, near and chosen": any_ | {1, own - 1, own}}[name]
        points = [s for s in range(1, t + 1) if -(-s // width) in seen]
        at = [s - 1 for s in points]
        rows.append(torch.softmax(x["K"][at] @ x["Q"][t - 1], 0) @ x["V"][at])
    return torch.stack(rows)


@pytest.mark.parametrize("name", ["blocks that have ended", "own and chosen", "first, near and chosen"])
def test_values_and_slopes_are_those_of_a_loop(name: str) -> None:
    """Autograd goes through the loop; no slope reaches what chooses."""
    function = front.compile(text(name), grad=True)
    for seed, some in enumerate(SIZES[:3]):
        sizes = {**some, "D": 3}
        program = typed(text(name))
        given = tensors(arrays(program, sizes, {}, seed))
        inputs = {key: x.requires_grad_(key in "QKV") for key, x in given.items()}
        followed = {key: inputs[key] for key in "QKV"}
        want = by_loops(name, inputs, sizes)
        got = called(function, program, inputs, sizes)["Y"]
        assert distance(got.detach().numpy(), want.detach().numpy()) <= 1e-12
        found = slopes(got, followed)
        for key, slope in slopes(want, followed).items():
            assert distance(found[key].numpy(), slope.numpy()) <= 1e-12, key


def number_of(term: Term) -> int:
    """The whole number that a term without letters is."""
    form = linear(term)
    assert form is not None and not form.atoms
    assert form.constant.constant is not None
    return int(form.constant.constant)


HERE = Index("s", IndexSet("time", size("T")))


def rounded(op: str, by: int, inner: Term, plus: int, below: int) -> Term:
    over = Apply("add", (Apply("mul", (const(by), inner)), const(plus)))
    return Apply(op, (Apply("div", (over, const(below))),))


@pytest.mark.parametrize("op", ["floor", "ceil"])
def test_the_positions_of_a_value_are_an_interval(op: str) -> None:
    """⌊(a s + c) / b⌋ and ⌈(a s + c) / b⌉ of positions and of each other, rising and falling."""
    inner = [Position(HERE), rounded("floor", 1, Position(HERE), 1, 2), rounded("ceil", 2, Position(HERE), 1, 3)]
    for a, b, c, x in product((-3, -2, -1, 1, 2, 3), (1, 2, 3, 4), (-1, 0, 2), inner):
        term = rounded(op, a, x, c, b)
        found = image(term, HERE)
        assert found is not None
        length = number_of(Apply("ceil", (const(found.length.constant or 0),)))
        values = {s: number_of(substitute(term, {HERE: const(s)})) for s in range(-20, 21)}
        for value in set(values.values()):
            first, own = number_of(found.before(const(value))), [s for s, v in values.items() if v == value]
            assert first < own[0] and own[-1] <= first + length, (a, b, c)
            if found.exact and own[0] > -20 and own[-1] < 20:
                assert own == list(range(first + 1, first + length + 1)), (a, b, c)


def test_what_is_no_such_map_has_no_interval() -> None:
    assert image(rounded("floor", 1, Apply("mod", (Position(HERE), const(3))), 0, 2), HERE) is None
    assert image(Apply("mul", (const(2), Position(HERE))), HERE) is None


def planned(name: str) -> Module:
    plan: Module = front.plan(typed_of(next(case for case in FILES if case.name == name)))
    return plan


@pytest.mark.parametrize("name", ["moba", "nsa"])
def test_the_work_over_values_does_not_grow_with_pairs(name: str) -> None:
    """What is left of T² is the choice of blocks: a score and its rank for each block."""
    for step in planned(name).steps:
        pairs = [m for m, _ in step.cost.flops.smooth.terms if dict(m).get("T", 0) >= 2]
        assert all(dict(m).get("B", 0) < 0 for m in pairs), step


def test_a_sum_over_each_block_is_one_over_all_positions() -> None:
    (means,) = (step for step in planned("moba").steps if step.reads == ("K",))
    assert not [m for m, _ in means.cost.flops.smooth.terms if dict(m).get("T", 0) >= 2]


def test_the_list_of_blocks_is_made_once() -> None:
    """One step reads what is chosen, and makes the list of all blocks that a query sees."""
    (rows,) = (step for step in planned("moba").steps if isinstance(step, RowBlocks))
    assert sum("S_chosen" in step.reads for step in rows.body.steps) == 1


def test_all_positions_are_computed_where_that_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """One chosen place costs as much as many that all rows share; the sizes decide where they are known."""
    monkeypatch.undo()
    assert dense(pipeline.normal(typed(text("own and chosen"))))
    long = text("own and chosen").replace("time(T)", "time(1000000)").replace("dim n, m, B, W\n", "dim m, W\n")
    known = re.sub(r"(?<=[^A-Za-z])B(?=[^A-Za-z])", "64", long).replace("T/64", "1000000/64").replace("}, n)", "}, 4)")
    assert not dense(pipeline.normal(typed(known.replace("2 T/3", "2000000/3"))))
