"""Values are read where their equations have some: the verifier sees a read that leaves the domain of what it reads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers import examples, typed
from programs import Case
from random_programs import cascades

import einc
from einc.driver import compiling, gradients
from einc.errors.report import EincError
from einc.ir.existence import existence
from einc.ir.programs import NormalProgram
from einc.ir.terms import TRUE, Fold
from einc.ir.verify import existing
from einc.planning import halves, planner
from einc.transforms.gradients import running_products
from einc.transforms.normal.normalise import normalise

ATTENTION = """
index t, s : time(T)
index d : feature(D)
input q_t^d, k_s^d, v_s^d
mask L_{t s} : s ≤ t, s > t - 2
L_{t s} = q_t^d k_{s d}
output y_t^d = Σ_s softmax_s(L_{t s}) v_s^d
"""
HEAD = """
index t, s, u : time(T)
index r : request(R)
index p, q : time(T_r)
index f : feature(F)
index j : feature(1..n)
index v : vocab(0..V-1)
dim W
"""
# What planning once read outside: what leaves a sum, in which the sum has no points; rows that name nothing; gates.
TEXTS = (
    "input x_t\nm_t = max_{s, t + s ≤ T} x_s\noutput y_t = Σ_{s, t + s ≤ T} exp(x_s - m_t) 1[t > 1] x_t : all",
    "input z_{r p}\noutput y_{r p} = Σ_{q ≤ p} softmax_{q ≤ p}(z_{r q}) (1[q + W ≤ T_r] z_{r, q + W}) : all",
    "input w_t : int\ninput H_t^f\nweight O_{j f}^v\n"
    "output y = Σ_{t, j, t + j ≤ T} tanh(Σ_f H_t^f O_{j f}^{w_{t + j}}) : all",
    "input w_t, q_{t f}, x_t\nP_{s t} = ∏_{u ∈ (s, t]} w_u, s ≤ t\ny_{t f} = Σ_{s ≤ t} P_{s t} q_{s f}\n"
    "output z_t = Σ_f tanh(x_t 1[t > 1] y_{t - 1, f}) : all",
    "input g_t, x_s\noutput y_t = Σ_{s ∈ (t - W, t]} (∏_{u ∈ (s, t]} g_u) x_s",
)


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program that is planned, and what is left of it before its kernels are made, is held against its domains.
    Plans are not refused for it elsewhere: of drawn gradients some still read what nothing counts on.
    """
    module, nested = planner._module, planner.nested
    monkeypatch.setattr(planner, "_module", lambda program, *rest: module(existing(program), *rest))
    monkeypatch.setattr(planner, "nested", lambda *given: existing(nested(*given)))


def without_domains_of_folds(program: NormalProgram) -> NormalProgram:
    """The program with the domains of its sums gone: they run over everything."""
    return program.but(equations=[
        replace(e, domain=TRUE, body=replace(e.body, domain=TRUE)) if isinstance(e.body, Fold) else e
        for e in program.equations])


def test_a_read_outside_is_told_with_its_point() -> None:
    program = normalise(typed(ATTENTION))
    assert existing(program) is program
    assert (found := existence(program)).proved and not found.open
    with pytest.raises(EincError, match=r"`\w+` reads `E` where it has no value, at s = 2, t = 1, T = 2"):
        existing(without_domains_of_folds(program))


def test_what_data_decide_is_no_fault_and_is_counted() -> None:
    text = ATTENTION.replace("s ≤ t, s > t - 2", "doc_s = doc_t").replace("mask", "input doc_t : int\nmask")
    program = normalise(typed(text.replace("output y_t^d =", "y_t^d =") + "output y_t^d : all"))
    assert (found := existence(program)).proved and not found.open
    found = existence(without_domains_of_folds(program))
    assert found.open and not found.outside


@pytest.mark.parametrize("text", TEXTS)
def test_what_was_read_outside(text: str) -> None:
    program = typed(HEAD + text)
    compiling.plan(program, compiling.choices(compiling.Options()))
    gradients.gradient(program)


def test_a_value_of_a_recurrence_that_is_none_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slopes of products over intervals in a window were wrong because of such a read."""
    made = running_products.with_recurrences

    def cut(program: NormalProgram) -> NormalProgram:
        program = made(program)
        return program.but(equations=[
            replace(e, domain=e.body.condition, body=e.body.then) if hasattr(e.body, "then") and e.domain == TRUE else e
            for e in program.equations])

    monkeypatch.setattr(halves, "with_recurrences", cut)
    with pytest.raises(EincError, match="where it has no value"):
        einc.compile(HEAD + TEXTS[-1], grad=True)


@examples(5, 300, cascades())
def test_random_programs_read_what_exists(case: Case) -> None:
    try:
        program = typed(case.text)
    except AssertionError:
        return  # refused by the checker
    compiling.plan(program, compiling.choices(compiling.Options()))
    if not all(t.constant for t in program.inputs()):
        gradients.gradient(program)
