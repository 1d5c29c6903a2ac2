"""Claims about what rounds over positions make: which are proved, and that nothing false is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_prove import claims

import einc
from einc.meaning.counterexamples import search
from einc.meaning.prove import Open, Proved, Refuted, Verdict, by_form, by_induction, prove, prove_each

HEAD = """index t, s, u : time(T)
index d, k : feature(D)
index e : feature(E)
index h : head(H)
index c : feature(2)
input x_t, a_t, g_t, β_t, γ_h, q_t^d, k_t^d, v_t^e, w_t^c
"""
STATE = """S^{d e} = 0
for t in 1..T:
    N_t^{d e} = a_t S^{d e} + k_t^d v_t^e
    output y_t^e = q_{t d} N_t^{d e}
    S^{d e} ← N_t^{d e}
"""
DELTA = """S^{d e} = 0
for t in 1..T:
    R^{d e} = a_t S^{d e}
    U_t^e = β_t (v_t^e - k_{t d} R^{d e})
    N_t^{d e} = R^{d e} + k_t^d U_t^e
    S^{d e} ← N_t^{d e}
"""
GATED = "Σ_{s ≤ t} (∏_{u ∈ (s, t]} a_u) k_s^d v_s^e"
PROVED = {
    "a scan": ["z_0 = 0", "z_t = a_t z_{t-1} + x_t", "claim z_t = Σ_{s ≤ t} (∏_{u ∈ (s, t]} a_u) x_s"],
    "a start": ["z_0 = 3", "z_t = a_t z_{t-1} + x_t",
                "claim z_t = 3 (∏_{u ≤ t} a_u) + Σ_{s ≤ t} (∏_{u ∈ (s, t]} a_u) x_s"],
    "powers": ["z_{t h} = 1[t > 1] γ_h z_{t-1, h} + x_t", "claim z_{t h} = Σ_{s ≤ t} (γ_h)^{t-s} x_s"],
    "gates in logarithms": ["z_t = 1[t > 1] exp(g_t) z_{t-1} + x_t",
                            "claim z_t = Σ_{s ≤ t} exp(Σ_{u ∈ (s, t]} g_u) x_s"],
    "another letter": ["z_t = 1[t > 1] z_{t-1} + x_t", "claim z_s = Σ_{t ≤ s} x_t"],
    "values one by one": ["z_t^c = 1[t > 1] z_{t-1}^c + w_t^c", "claim z_t^c = Σ_{s ≤ t} w_s^c"],
    "numbers": ["n_t = 1[t > 1] n_{t-1} + 1", "z_t = 1[t > 1] z_{t-1} + n_t", "claim n_t = t",
                "claim z_t = t·(t + 1)/2", "claim z_t = Σ_{s ≤ t} n_s"],
    "from the third on": ["z_t = 1[t > 1] z_{t-1} + 1[t ≥ 3] x_t", "claim z_t = Σ_{s ≤ t, s ≥ 3} x_s"],
    "one before": ["z_t = 1[t > 1] z_{t-1} + 1[t > 1] x_{t-1}", "claim z_t = Σ_{s < t} x_s"],
    "the largest": ["m = -∞", "for t in 1..T:", "    M_t = max(m, x_t)", "    m ← M_t", "claim M_t = max_{s ≤ t} x_s",
                    "claim m = max_s x_s"],
    "the sides exchanged": ["z_t = 1[t > 1] z_{t-1} + x_t", "claim Σ_{s ≤ t} x_s = z_t"],
    "a mean": ["z_t = 1[t > 1] z_{t-1} + exp(g_t)", "y_t = (1[t > 1] z_{t-1} y_{t-1} + exp(g_t) x_t) / z_t",
               "claim z_t = Σ_{s ≤ t} exp(g_s)", "claim y_t = (Σ_{s ≤ t} exp(g_s) x_s) / z_t"],
    "a state": [STATE, f"claim N_t^{{d e}} = {GATED}",
                "claim y_t^e = Σ_{s ≤ t} q_{t d} k_s^d (∏_{u ∈ (s, t]} a_u) v_s^e",
                "claim S^{d e} = Σ_s (∏_{u > s} a_u) k_s^d v_s^e"],
    "a state before its round": ["z = 0", "for t in 1..T:", "    b_t = z", "    z ← z + x_t",
                                 "claim b_t = Σ_{s < t} x_s"],
    "what is written": [DELTA, "claim N_t^{d e} = Σ_{s ≤ t} (∏_{u ∈ (s, t]} a_u) k_s^d U_s^e",
                        "claim U_t^e = β_t (v_t^e - a_t Σ_{s < t} (∏_{u ∈ (s, t)} a_u) k_{t d} k_s^d U_s^e)"],
}
OPEN = [STATE, "claim y_t^e = Σ_{s ≤ t} q_{t d} k_s^d (∏_{u ∈ (s, t]} a_u) v_s^e"]
WRONG = {
    "the gate of its own round": ["z_t = 1[t > 1] a_t z_{t-1} + x_t", "claim z_t = Σ_{s ≤ t} (∏_{u ∈ [s, t]} a_u) x_s"],
    "the gate of the round before": ["z_t = 1[t > 1] a_t z_{t-1} + x_t",
                                     "claim z_t = Σ_{s ≤ t} (∏_{u ∈ [s, t)} a_u) x_s"],
    "one too few": ["z_t = 1[t > 1] z_{t-1} + x_t", "claim z_t = Σ_{s < t} x_s"],
    "from the third on": ["z_t = 1[t > 1] z_{t-1} + x_t", "claim z_t = Σ_{s ≤ t, s ≥ 3} x_s"],
    "another start": ["z_0 = 1", "z_t = z_{t-1} + x_t", "claim z_t = Σ_{s ≤ t} x_s"],
    "a power more": ["z_{t h} = 1[t > 1] γ_h z_{t-1, h} + x_t", "claim z_{t h} = Σ_{s ≤ t} (γ_h)^{t-s+1} x_s"],
    "two rounds": ["z = 0", "for t in 1..T:", "    b_t = z", "    z ← z + x_t", "claim b_t = b_s, s < t"],
    "after it": ["z = 0", "for t in 1..T:", "    b_t = z", "    z ← z + x_t", "claim b_t = Σ_{s ≤ t} x_s"],
    "what a round names": ["z = 0", "for t in 1..T:", "    r = x_t + z", "    b_t = r - z", "    z ← r",
                           "claim b_t = x_s"],
    "a state that no other line reads": ["z = 0", "for t in 1..T:", "    b_t = z", "    z ← z + x_t", "claim b_t = 0"],
}


def verdicts(lines: list[str]) -> list[Verdict]:
    return [found for _, found in prove_each(claims(HEAD + "\n".join(lines) + "\n"))]


@pytest.mark.parametrize("lines", PROVED.values(), ids=PROVED)
def test_what_rounds_make_is_proved(lines: list[str]) -> None:
    found = verdicts(lines)
    assert found and all(isinstance(x, Proved) for x in found), found


def test_what_is_missing_is_told() -> None:
    (found,) = verdicts(OPEN)
    assert isinstance(found, Open) and found.why.count("no claim before this one says what `N` is") == 1


@pytest.mark.parametrize("lines", WRONG.values(), ids=WRONG)
def test_what_is_wrong_has_no_proof(lines: list[str]) -> None:
    """The proofs themselves say so, whatever numbers say."""
    *_, found = claims(HEAD + "\n".join(lines) + "\n")
    assert not by_form(found)[0] and not by_induction(found, "")[0]
    assert isinstance(prove(found), Refuted)


def test_a_claim_that_is_wrong_proves_no_other() -> None:
    """What is refuted, or assumes something, is not known afterwards."""
    first, second = verdicts([STATE, f"claim N_t^{{d e}} = 2 {GATED}",
                              "claim y_t^e = Σ_{s ≤ t} q_{t d} k_s^d (∏_{u ∈ (s, t]} a_u) v_s^e"])
    assert isinstance(first, Refuted) and isinstance(second, Open) and "what `N` is" in second.why
    _, second = verdicts([STATE, f"claim N_t^{{d e}} = 2 {GATED} assuming a_t = 1",
                          "claim y_t^e = 2 Σ_{s ≤ t} q_{t d} k_s^d (∏_{u ∈ (s, t]} a_u) v_s^e"])
    assert isinstance(second, Refuted)


# drawn recurrences and sums, of which some belong together

GATES = {"1": "1", "a_t": "∏_{u ∈ END} a_u", "exp(g_t)": "exp(Σ_{u ∈ END} g_u)", "2": "2^{t-s}"}
ADDED = {"x_t": "x_s", "1": "1", "x_t β_t": "β_s x_s", "t x_t": "s x_s"}
ENDS = ["(s, t]", "[s, t]", "(s, t)", "[s, t)"]


@given(*(st.sampled_from(list(x)) for x in (GATES, GATES, ADDED, ADDED, ENDS)), st.sampled_from(["s ≤ t", "s < t"]),
       st.sampled_from([0, 2]))
@settings(max_examples=60)
def test_what_is_proved_of_drawn_rounds_is_true(gate: str, other: str, more: str, another: str, ends: str, upto: str,
                                                start: int) -> None:
    text = f"""{HEAD}z_0 = {start}
z_t = {gate} z_{{t-1}} + {more}
claim z_t = Σ_{{{upto}}} ({GATES[other].replace("END", ends)}) ({ADDED[another]})
"""
    (found,) = claims(text)
    how, _ = by_induction(found, "")
    differs = search(found, 0, enough=4).found is not None
    assert not (how and differs)
    if (gate, more, upto, start) == (other, another, "s ≤ t", 0) and ends == "(s, t]":
        assert how and not differs


def test_an_index_of_a_claim_is_not_bound_again() -> None:
    """An inner Σ over an index that is summed already binds no other index of its condition."""
    found = einc.check(HEAD + "y_t = x_t\nclaim y_t = Σ_{s ≤ t} x_s / Σ_{s ≤ t} x_s\n")
    assert [p.code for p in found if p.severity == "error"] == ["E0309"]
