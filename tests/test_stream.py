"""One pass over a folded index: found from the algebra, whatever the source looks like;
ranges of tiles are never unsound."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from einc.driver import front, pipeline
from einc.driver.cli import main
from einc.errors.report import Report, Source
from einc.ir.plan import Kernel, Map, Module

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
