"""One pass over a folded index: found from the algebra, whatever the source looks like; ranges of tiles are never unsound."""

from __future__ import annotations

from itertools import product

import pytest
from click.testing import CliRunner

from einc import front, pipeline
from einc.cli import main
from einc.errors import Report, Source
from einc.plan import Kernel, Map, Module
from einc.planning.ranges import full, reach
from einc.terms import Apply, Const, Fold, Position, Size, Term, conjuncts

HEAD = """
index h : head(H)
index t, s : time(T)
index d, k : feature(D)
dim W
input Q_{h t}^k, K_{h s}^k, V_{h s}^d
mask L_{h t s} : s ≤ t
L_{h t s} = 1/√D Q_{h t}^k K_{h s k}
"""
SPELLINGS = {
    "prelude": "output Y_{h t}^d = Σ_s softmax_s(L_{h t s}) V_{h s}^d",
    "no maximum": "z_{h t} = Σ_s exp(L_{h t s})\noutput Y_{h t}^d = (Σ_s exp(L_{h t s}) V_{h s}^d) / z_{h t}",
    "quotient inside": "z_{h t} = Σ_s exp(L_{h t s})\noutput Y_{h t}^d = Σ_s exp(L_{h t s}) (1 / z_{h t}) V_{h s}^d",
    "named weights": "A_{h t s} = softmax_s(L_{h t s})\noutput Y_{h t}^d = Σ_s A_{h t s} V_{h s}^d",
}


def plan(text: str) -> Module:
    report = Report()
    program = pipeline.check(Source("<text>", HEAD + text), report)
    assert program is not None, [p.message for p in report.problems]
    return front.plan(program)


def shape(module: Module) -> object:
    """What a plan is but for names: the roles of the axes, what is carried and how, the operations of the pass."""
    (kernel,) = (s for s in module.steps if isinstance(s, Kernel))
    carries = sorted((x.carry.fold, x.carry.reference is not None, len(x.axes)) for x in kernel.lets if x.carry)
    operations = sorted(x.op.op for x in kernel.lets if isinstance(x.op, Map) and x.kind != "scalar")
    return tuple(a.role for a in kernel.axes), carries, operations


@pytest.mark.parametrize("name", SPELLINGS)
def test_one_plan_for_every_spelling(name: str) -> None:
    assert shape(plan(SPELLINGS[name])) == shape(plan(SPELLINGS["prelude"]))


def test_one_exponential_for_each_logit() -> None:
    for text in SPELLINGS.values():
        (kernel,) = (s for s in plan(text).steps if isinstance(s, Kernel))
        assert sum(isinstance(x.op, Map) and x.op.op in ("exp", "exp2") for x in kernel.lets) == 1


def test_what_does_not_come_apart_is_named() -> None:
    text = "m_{h t} = max_s L_{h t s}\noutput y_{h t} = Σ_s tanh(L_{h t s} - m_{h t})"
    (kernel,) = (s for s in plan(text).steps if isinstance(s, Kernel))
    assert kernel.stream is None and any("two passes over s: tanh" in note for note in kernel.notes)


def test_each_folded_index_has_its_pass() -> None:
    """The backward pass written by hand: dQ streams over s, dK and dV over t, and no value of both is stored."""
    report = Report()
    program = pipeline.check(pipeline.read_source("attention_backward", report), report)
    assert program is not None
    module = front.plan(program)
    passes = [(s.grid.name, s.stream.name) for s in module.steps if isinstance(s, Kernel) and s.stream and s.grid]
    assert passes == [("t", "s"), ("s", "t")]
    assert not any({"t", "s"} <= set(b.axes) for b in module.buffers.values())


@pytest.mark.parametrize("tex", [False, True])
def test_derive_prints_the_recurrence(tex: bool) -> None:
    done = CliRunner().invoke(main, ["derive", "attention", *(["--tex"] if tex else [])])
    assert done.exit_code == 0
    said = (
        (r"z &\leftarrow \alpha \, z +", r"m' &= \max\left(m", r"\frac{N^{d}}{z}")
        if tex
        else ("z ← α z + Σ_{s ∈ B} exp(", "m' = max(m, max_{s ∈ B}", "α = exp(m - m')", "= N^{d} / z")
    )
    assert all(text in done.output for text in said), done.output


# ranges, against brute force

PREDICATES = (
    "s ≤ t",
    "s < t",
    "s ≤ t + 2",
    "t - W < s, s ≤ t",
    "s ≤ t or s ≤ W",
    "s ≥ t",
    "s + W ≤ t",
    "mod(t - s, 2) = 0, s ≤ t",
    "floor((s - 1) / W) = floor((t - 1) / W)",
    "not (s = t), s ≤ t",
    "2 s ≤ t",
    "s ≤ min(t, W)",
    "t ≤ s, s ≤ t + W",
    "s ≤ 2 t",
)


def value(term: Term, places: dict[str, int], sizes: dict[str, int]) -> int | bool:
    """A whole-number term or a condition at given positions."""
    match term:
        case Const(number):
            return int(number)
        case Size(extent):
            return int(extent.at(sizes))
        case Position(index):
            return places[index.name]
        case Apply(op, args):
            if op == "floor" and isinstance(args[0], Apply) and args[0].op == "div":
                above, below = (value(a, places, sizes) for a in args[0].args)
                return above // below
            found = [value(a, places, sizes) for a in args]
            return {
                "add": lambda: sum(found),
                "sub": lambda: found[0] - found[1],
                "neg": lambda: -found[0],
                "mod": lambda: found[0] % found[1],
                "mul": lambda: found[0] * found[1],
                "min": lambda: min(found),
                "max": lambda: max(found),
                "le": lambda: found[0] <= found[1],
                "lt": lambda: found[0] < found[1],
                "eq": lambda: found[0] == found[1],
                "ne": lambda: found[0] != found[1],
                "and": lambda: all(found),
                "or": lambda: any(found),
                "not": lambda: not found[0],
            }[op]()
    raise AssertionError(term)


def domain(predicate: str) -> Fold:
    report = Report()
    text = f"index t, s : time(T)\ndim W\ninput x_s\noutput y_t = Σ_{{s, {predicate}}} x_s : all"
    program = pipeline.check(Source("<text>", text), report)
    assert program is not None, [p.message for p in report.problems]
    body = program.equations[-1].body
    assert isinstance(body, Fold)
    return body


@pytest.mark.parametrize("predicate", PREDICATES)
def test_reach_and_fullness_are_sound(predicate: str) -> None:
    fold = domain(predicate)
    (s,) = fold.bound
    grid = next(i for c in conjuncts(fold.domain) for i in _indices(c) if i.name == "t")
    bound, whole = reach([fold.domain], s, grid), full(fold.domain, s, grid)
    for extent, width, rows, columns in product((1, 5, 8), (1, 2, 3), (1, 3), (1, 4)):
        sizes = {"T": extent, "W": width}
        for first in range(1, extent + 1, rows):
            last = min(first + rows - 1, extent)
            ends = {"first": first, "last": last}
            everywhere = product(range(first, last + 1), range(1, extent + 1))
            points = {(t, x) for t, x in everywhere if value(fold.domain, {"t": t, s.name: x}, sizes)}
            if bound is not None:
                low = max([1, *(value(b, ends, sizes) for b in bound.low)])
                high = min([extent, *(value(b, ends, sizes) for b in bound.high)])
                assert all(low <= x <= high for _, x in points)
            for begin in range(1, extent + 1, columns):
                stop = min(begin + columns - 1, extent)
                tile = {(t, x) for t in range(first, last + 1) for x in range(begin, stop + 1)}
                at = {**ends, "stream_first": begin, "stream_last": stop}
                if whole is not None and all(value(w, at, sizes) >= 0 for w in whole):
                    assert tile <= points


def _indices(term: Term) -> list:  # type: ignore[type-arg]
    return [term.index] if isinstance(term, Position) else [i for a in getattr(term, "args", ()) for i in _indices(a)]
