"""One number for each row is kept in more digits than the data has; what a caller gives
and gets stays in the data's type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers import Arrays, Outputs, arrays, called, distance, examples, meaning, tensors, typed
from hypothesis import given, settings
from programs import SPECS, Case
from random_programs import cascades, contractions
from test_backends import QUICK, ignoring, possible
from triton_modes import interpreted, tiled

from einc.backends.torch.load import load
from einc.driver import front, pipeline
from einc.errors.report import Report, Source
from einc.ir.elements import WIDE
from einc.ir.plan import Loop, Module
from einc.ir.programs import TypedProgram

HEAD = """
index t, s : time(T)
index f, d : feature(D)
index e    : feature(E)
index x    : expert(X)
index h    : head(H)
input X_t^f, Q_{h t}^d, K_{h s}^d, V_s^f, β_t
input C_t : int
weight W_{x f}^e, W_{O f}^e, γ_h
"""
NEAR = 2**-7
DIGITS = {  # what is far off where the statistic has 8 bits
    "a normaliser's logarithm": (
        "mask L_{h t s} : s ≤ t\nL_{h t s} = 9 Q_{h t}^d K_{h s d}\nz_{h t} = logsumexp_s(L_{h t s})\n"
        "output c_{h s} = Σ_{t ≥ s} exp(L_{h t s} - z_{h t}) : all\noutput Y_{h t}^f = Σ_s exp(L_{h t s} - z_{h t}) "
        "V_s^f"
    ),
    "a mean": "m_t = 1/D Σ_f X_t^f\noutput Z_t^e = Σ_f (X_t^f - m_t) W_{O f}^e",
    "a mean, twice": "m_t = 1/D Σ_f X_t^f\noutput Z_t^e = Σ_f (X_t^f - m_t) W_{O f}^e\n"
    "output U_s^f = Σ_{t ≥ s} (X_t^f - m_t) : all",
    "a mean of everything": "m = 1/(T D) Σ_{t f} X_t^f\noutput Z_t^f = X_t^f - m : all",
    "a scale": "r_t = 1/sqrt(1/D Σ_f X_t^f X_{t f})\noutput Z_t^e = (Σ_f X_t^f W_{O f}^e) r_t - X_t^f W_{O f}^e / 100",
    "a product": "r_t = X_t^f X_{t f}\noutput Z^{f e} = Σ_t (r_t - 10^4 D) X_t^f W_O^{f e}",
    "a difference": "a_h = Σ_{t d} Q_{h t}^d Q_{h t d}\nb_h = Σ_{t d} Q_{h t}^d Q_{h t d} + γ_h / 10\noutput y_h = b_h "
                    "- a_h",
    "chosen matrices": "u_t = Σ_{f e} X_t^f W_{C_t f}^e\nv_t = Σ_{f e} W_{C_t f}^e\noutput y_t = u_t - 100 v_t",
    "rounds": "z_t = 0\nfor ℓ in 1..N:\n    z_t ← z_t + β_t / 64\noutput y_t^f = z_t X_t^f / N",
}


@pytest.fixture(scope="module", autouse=True)
def interpreter() -> Iterator[None]:
    with interpreted():
        yield


def function(plan: Module, backend: str) -> Callable[..., Any]:
    source = front.emit(plan, backend)
    return tiled(source, plan.name) if backend == "triton" else load(source, plan.name)


def halves(program: TypedProgram, sizes: Mapping[str, int], offset: float = 0.0) -> tuple[Outputs, Arrays]:
    """Inputs in bfloat16, and the very same numbers in float64."""
    made = {k: x + offset if k == "X" else x for k, x in arrays(program, sizes, {"C": ("1", "X")}).items()}
    inputs = tensors(made, torch.bfloat16)
    return inputs, {k: (x.double() if x.is_floating_point() else x).numpy() for k, x in inputs.items()}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("name", DIGITS)
def test_statistics_keep_their_digits(name: str, backend: str) -> None:
    program = typed(HEAD + DIGITS[name])
    plan = front.plan(program)
    sizes = {"T": 19, "D": 6, "E": 5, "H": 3, "X": 4, "N": 128}
    inputs, same = halves(program, sizes, 100.0 if "X" in {t.key for t in program.inputs()} else 0.0)
    got, want = called(function(plan, backend), program, inputs, sizes), meaning(program, same, sizes)
    assert all(y.dtype == torch.bfloat16 for y in got.values())
    far = {key: distance(y.double().numpy(), want[key]) for key, y in got.items()}
    assert max(far.values()) < NEAR, far


def runs_in_halves(one: Case, backend: str) -> None:
    """Types never clash, and the results are near: all that is left to lose is the digits of the last step."""
    program = pipeline.check(Source("<text>", one.text), Report())
    if program is None or not possible(one, one.sizes) or all(t.integer for t in program.inputs()):
        return
    inputs = tensors(arrays(program, one.sizes, one.ranges), torch.bfloat16)
    same = {k: (x.double() if x.is_floating_point() else x).numpy() for k, x in inputs.items()}
    got = called(function(front.plan(program), backend), program, inputs, one.sizes)
    assert all(y.dtype == torch.bfloat16 for y in got.values())
    known, want = ignoring({key: y.double() for key, y in got.items()}, meaning(program, same, one.sizes))
    assert all(distance(y, want[key], 1.0) < 0.1 for key, y in known.items())


@pytest.mark.parametrize("backend", ["torch", "triton"])
@settings(phases=QUICK, max_examples=6, deadline=None)
@given(one=cascades())
def test_cascades_in_half_precision(backend: str, one: Case) -> None:
    runs_in_halves(one, backend)


@examples(6, 50, contractions(), phases=QUICK)
def test_contractions_in_half_precision(one: Case) -> None:
    runs_in_halves(one, "torch")


# what a caller gives in more digits


BACKWARD = (SPECS / "attention_backward.ein").read_text(encoding="utf-8")


def with_wide(program: TypedProgram, *keys: str) -> TypedProgram:
    return replace(program,
                   tensors={k: replace(t, element=WIDE) if k in keys else t for k, t in program.tensors.items()})


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_an_input_may_be_wide(backend: str) -> None:
    """A saved log-sum-exp in float32 beside data in bfloat16: the gradients are those of the same numbers."""
    program, sizes = with_wide(typed(BACKWARD), "lse"), {"T": 37, "H": 2, "d_k": 8}
    plan = front.plan(program)
    inputs = tensors(arrays(program, sizes, {}), torch.bfloat16)
    logits = torch.einsum("htk,hsk->hts", 9 * inputs["Q"].double(), inputs["K"].double()) / 8**0.5
    inputs["Q"] = 9 * inputs["Q"]
    inputs["lse"] = torch.where(torch.ones(37, 37).tril() > 0, logits, -torch.inf).logsumexp(-1).float()
    run = function(plan, backend)
    want = meaning(program, {k: x.double().numpy() for k, x in inputs.items()}, sizes)
    got = called(run, program, inputs, sizes)
    assert all(y.dtype == torch.bfloat16 for y in got.values())
    assert all(distance(y.double().numpy(), want[key]) < 2 * NEAR for key, y in got.items())
    with pytest.raises(TypeError, match=r"lse holds torch\.bfloat16, torch\.float32 is expected"):
        called(run, program, {**inputs, "lse": inputs["lse"].bfloat16()}, sizes)
    double = {k: x.double() for k, x in inputs.items()}
    assert all(distance(y.numpy(), want[key]) < 1e-9 for key, y in called(run, program, double, sizes).items())


def test_an_output_may_be_wide() -> None:
    text = HEAD + "mask L_{h t s} : s ≤ t\nL_{h t s} = 9 Q_{h t}^d K_{h s d}\noutput z_{h t} = logsumexp_s(L_{h t s})"
    program, sizes = with_wide(typed(text), "z"), {"T": 9, "D": 3, "H": 2}
    inputs, same = halves(program, sizes)
    for backend in ("torch", "triton"):
        (got,) = called(function(front.plan(program), backend), program, inputs, sizes).values()
        assert got.dtype == torch.float32 and distance(got.double().numpy(), meaning(program, same, sizes)["z"]) < 1e-6


def test_the_type_of_the_data_is_that_of_what_is_not_wide() -> None:
    program = with_wide(typed("index t : time(T)\nindex f : feature(D)\ninput r_t, X_t^f\noutput Z_t^f = X_t^f / r_t"),
                        "r")
    given_ = {"r": torch.full((3,), 1.001), "X": torch.ones(3, 2, dtype=torch.bfloat16)}
    for backend in ("torch", "triton"):
        (got,) = called(function(front.plan(program), backend), program, given_, {}).values()
        assert got.dtype == torch.bfloat16 and torch.equal(got, (given_["X"] / given_["r"][:, None]).bfloat16())


def test_what_is_wide_is_one_number_for_each_row() -> None:
    for name, text in DIGITS.items():
        plan = front.plan(typed(HEAD + text))
        bodies = [plan, *(s.body for s in plan.steps if isinstance(s, Loop))]
        wide = [b for body in bodies for b in body.buffers.values() if b.element == WIDE]
        assert wide or name.startswith("a mean")
        assert all(sum(s.cls == "time" for s in b.sets) < 2 and not any(s.cls == "feature" for s in b.sets)
                   for b in wide)
