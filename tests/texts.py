"""What the tests of the front share: a text checked, its problems, and the meaning of a
program without its spelling."""

from __future__ import annotations

from typing import Any

from einc.driver import pipeline
from einc.errors.report import Problem, Report, Source, render
from einc.ir.programs import Program, TypedProgram
from einc.ir.terms import canonical

INDICES = """index t, s, u : time(T)
index h : head(H)
index g : head(G)
index f : feature(D)
index d, k : feature(d_k)
index e : feature(E)
index v : vocab(V)
index n : batch(B)
index r : request(R)
index a, b : feature(2)
"""


def problems(text: str, indices: str = INDICES, strict: bool = False) -> list[Problem]:
    """What is wrong with a text, in its order."""
    report = Report()
    program = pipeline.check(Source("spec.ein", indices + text), report, strict=strict)
    assert (program is None) == bool(report.errors or (strict and report.warnings))
    return report.sorted()


def codes(text: str, indices: str = INDICES, strict: bool = False) -> list[str]:
    """The codes of what is wrong; texts of one test share their declarations, so some use not all of them."""
    return [p.code for p in problems(text, indices, strict) if p.code not in ("W0903", "W0906")]


def typed(text: str, indices: str = INDICES) -> TypedProgram:
    """The program of a text that has no errors."""
    report = Report()
    program = pipeline.check(Source("spec.ein", indices + text), report)
    assert program is not None, "\n".join(map(render, report.problems))
    return program


def meaning(program: Program) -> dict[str, Any]:
    """Everything of a program but how it was written: bound indices have no names here."""
    return {
        "tensors": {key: (tensor.slots, tensor.role, tensor.integer) for key, tensor in program.tensors.items()},
        "equations": [(e.target, e.axes, canonical(e.domain), canonical(e.body)) for e in program.equations],
        "outputs": program.outputs,
        "sizes": program.sizes,
        "splits": program.splits,
        "sums": program.sums,
    }


def grouped(batch: bool, domain: str) -> str:
    """Heads that share keys and values, with or without a batch, over the keys of a domain."""
    n, first, line = ("n ", "n, ", "index n : batch(B)\n") if batch else ("", "", "")
    return f"""
{line}index h : head(H)
index g : head(G)
index t : time(T)
index s : time(S)
index d, k : feature(D)
map π(h) = ceil(h G / H) : g
input Q_{{{n}h t}}^d, K_{{{n}g s}}^d, V_{{{n}g s}}^d
mask L_{{{n}h t s}} : {domain}
L_{{{n}h t s}} = 1/√D Q_{{{n}h t}}^k K_{{{first}π(h), s k}}
output Y_{{{n}h t}}^d = Σ_s softmax_s(L_{{{n}h t s}}) V_{{{first}π(h), s}}^d
"""
