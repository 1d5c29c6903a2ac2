"""Claims about sums over intervals: which are proved, and that nothing false is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_prove import claims

import einc
from einc.meaning.prove import Proved, by_form, prove

HEAD = """index t, s, u, w : time(T)
index d : feature(D)
dim W
input g_u^d, x_s^d, p_t
c_t^d = Σ_{u ≤ t} g_u^d
"""
TRUE = [
    "Σ_{u ∈ (s, t]} g_u^d = c_t^d - c_s^d, s ≤ t",
    "Σ_{u ∈ (s, t)} g_u^d = c_t^d - c_s^d - g_t^d, s < t",
    "Σ_{u ∈ [s, t]} g_u^d = Σ_{u ∈ (s, t]} g_u^d + g_s^d, s ≤ t",
    "Σ_{u ∈ [s, t)} g_u^d = Σ_{u ∈ (s, t]} g_u^d + g_s^d - g_t^d, s ≤ t",
    "Σ_{u ≤ t} g_u^d = Σ_{u < t} g_u^d + g_t^d",
    "Σ_{s ≤ t} exp(Σ_{u ∈ (s, t]} g_u^d) x_s^d = exp(c_t^d) Σ_{s ≤ t} exp(-c_s^d) x_s^d",
    "Σ_{u ∈ (s, t]} g_u^d = Σ_{u ∈ (s, w]} g_u^d + Σ_{u ∈ (w, t]} g_u^d, s ≤ w, w ≤ t",
    "Σ_{u ∈ (s, t]} g_u^d x_u^d = Σ_{u ≤ t} g_u^d x_u^d - Σ_{u ≤ s} x_u^d g_u^d, s ≤ t",
    "Σ_{s ≤ t} (Σ_{u ∈ (s, t]} g_u^d) x_s^d = Σ_{u ≤ t} g_u^d Σ_{s < u} x_s^d",
    "c_t^d = 1[t > 1] Σ_{u ≤ t - 1} g_u^d + g_t^d",  # the gate says what the sum says
    "∏_{u ∈ (s, t]} exp(g_u^d) = exp(Σ_{u ∈ (s, t]} g_u^d)",
    "∏_{u ∈ (s, t]} exp(g_u^d) (x_u^d)^2 = exp(Σ_{u ∈ (s, t]} g_u^d) (∏_{u ∈ (s, t]} x_u^d) ∏_{w ∈ (s, t]} x_w^d",
    "∏_{u ∈ (s, t]} 2 x_u^d = (∏_{u ∈ (s, t]} 2) ∏_{u ∈ (s, t]} x_u^d",
]
FALSE = [
    "Σ_{u ∈ (s, t]} g_u^d = c_t^d - c_s^d",  # where s is behind t the interval is empty
    "Σ_{u ∈ [s, t]} g_u^d = c_t^d - c_s^d, s ≤ t",
    "Σ_{u ∈ (s, t)} g_u^d = c_t^d - c_s^d - g_t^d, s ≤ t",  # at s = t the interval is empty, and g_t is not 0
    "Σ_{u ∈ (s, t]} g_u^d = Σ_{u ∈ (s, w]} g_u^d + Σ_{u ∈ (w, t]} g_u^d, s ≤ t",
    "Σ_{u ≤ t} g_u^d = Σ_{u < t} g_u^d + g_s^d",
    "∏_{u ∈ (s, t]} exp(g_u^d) = exp(c_t^d - c_s^d)",
    "∏_{u ∈ (s, t]} (g_u^d + x_u^d) = (∏_{u ∈ (s, t]} g_u^d) + ∏_{u ∈ (s, t]} x_u^d",
    "∏_{u ∈ (s, t]} 2 x_u^d = 2 ∏_{u ∈ (s, t]} x_u^d",
    "c_t^d = 1[t > 2] Σ_{u ≤ t - 1} g_u^d + g_t^d",
    # Ends that are no whole numbers: what is below one is not what is at most the number before it.
    "Σ_{u ∈ [s/2, t]} g_u^d = Σ_{u ≤ t} g_u^d - Σ_{u ≤ s/2 - 1} g_u^d, s ≤ t, 9 ≤ s",
    "Σ_{u ∈ [s/2, t/2)} g_u^d = Σ_{u ≤ t/2 - 1} g_u^d - Σ_{u ≤ s/2 - 1} g_u^d, s ≤ t, 9 ≤ s",
    "Σ_{u ∈ (p_s, p_t)} g_u^d = Σ_{u ≤ p_t - 1} g_u^d - Σ_{u ≤ p_s} g_u^d, 3 ≤ p_s, p_s ≤ p_t - 1",
]


@pytest.mark.parametrize("claim", TRUE, ids=map(str, range(len(TRUE))))
def test_true_claims_are_proved(claim: str) -> None:
    (found,) = claims(f"{HEAD}claim {claim}\n")
    assert isinstance(prove(found), Proved)


@pytest.mark.parametrize("claim", FALSE, ids=map(str, range(len(FALSE))))
def test_false_claims_have_no_proof(claim: str) -> None:
    """The normal form itself says so, before any number is tried."""
    (found,) = claims(f"{HEAD}claim {claim}\n")
    assert by_form(found)[0] == ""
    assert not isinstance(prove(found), Proved)


ENDS = ["(s, t]", "[s, t]", "(s, t)", "[s, t)", "(t - W, t]", "[t, s]"]
UPTO = ["c_t^d", "c_s^d", "g_t^d", "g_s^d", "Σ_{u < t} g_u^d", "Σ_{u < s} g_u^d"]
WHERE = ["", ", s ≤ t", ", s < t", ", t ≤ s"]


@settings(max_examples=40)
@given(left=st.sampled_from(ENDS), right=st.lists(st.tuples(st.sampled_from(["+", "-"]), st.sampled_from(UPTO)),
                                                  min_size=1, max_size=3), where=st.sampled_from(WHERE))
def test_drawn_claims_are_proved_only_where_they_hold(left: str, right: list[tuple[str, str]], where: str) -> None:
    """What the normal form proves, no numbers refute."""
    other = " ".join(f"{sign} {term}" for sign, term in right)
    (found,) = claims(f"{HEAD}claim Σ_{{u ∈ {left}}} g_u^d = 0 {other}{where}\n")
    if by_form(found)[0]:
        assert isinstance(prove(found), Proved)


@pytest.mark.parametrize(("claim", "code"), [
    ("Σ_{r u} x_{r t} = Σ_{r u} x_{r t}", "E0408"),
    ("Σ_{r' u, u < t} x_{r' u} = Σ_{r' u, u ≤ t} x_{r' u} - Σ_{r'} x_{r' t}", "E0408"),
    ("Σ_{u ∈ (s, t]} x_{r u} = c_{r t} - c_{r s}, s ≤ t", "E0116"),
    ("Σ_{u < t} x_{r u} + x_{r t} = c_{r t}", ""),
])
def test_claims_about_requests(claim: str, code: str) -> None:
    head = "index r : request(R)\nindex t, s, u : time(T_r)\ninput x_{r t}\nc_{r t} = Σ_{u ≤ t} x_{r u}\n"
    problems = einc.check(f"{head}claim {claim}\n")
    assert [p.code for p in problems if p.code.startswith("E")] == ([code] if code else [])


@pytest.mark.parametrize(("claim", "verdict"), [
    ("Σ_{s ≤ t} g_{r s} x_{r s} = Σ_{s ≤ t} x_{r s} g_{r s}", "Proved"),
    ("Σ_{s ≤ t} g_{r s} x_{r s} = Σ_{s < t} x_{r s} g_{r s}", "Refuted"),
    ("Σ_{s ≤ t} exp(Σ_{u ∈ (s, t)} g_{r u}) x_{r s} = Σ_{s ≤ t} exp(Σ_{u ∈ (s, t]} g_{r u}) x_{r s}", "Refuted"),
])
def test_a_position_that_stands_in_bounds_alone_is_of_the_only_request(claim: str, verdict: str) -> None:
    head = "index r : request(R)\nindex t, s, u : time(T_r)\ninput g_{r u}, x_{r u}\n"
    (found,) = claims(f"{head}claim {claim}\n")
    assert type(prove(found)).__name__ == verdict
