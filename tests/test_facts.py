"""What another model must agree on with the part of a spec that it runs: constants, positions read, distances."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from einc.driver.front import built, part
from einc.errors.report import EincError

BARE = """index t, s : time(T)
index k, d : feature(D), feature(E)
input Q_t^k, K_s^k, V_s^d
"""


def spec(scores: str, domain: str = "s ≤ t", result: str = "softmax_s(L_{t s})") -> str:
    return f"{BARE}mask L_{{t s}} : {domain}\nL_{{t s}} = {scores}\noutput Y_t^d = Σ_s {result} V_s^d"


@pytest.mark.parametrize(("scores", "result", "scale"), [
    ("Q_t^k K_{s k}", "softmax_s(L_{t s})", 1),
    ("1/√D Q_t^k K_{s k}", "softmax_s(L_{t s})", 1 / 4),
    ("(Q_t^k K_{s k} + t - s) / 3", "softmax_s(L_{t s})", 1 / 3),
    ("-(Q_t^k K_{s k}) / √(D + E)", "softmax_s(-2 L_{t s})", 2 / sqrt(21)),
    ("softcap(Q_t^k K_{s k} / 4, 30)", "softmax_s(L_{t s})", 1 / 4),
    ("1/√D Q_t^k K_{s k}", "exp(L_{t s})", 1 / 4),
    ("log(t) Q_t^k K_{s k} / 5", "softmax_s(L_{t s})", 1 / 5),
])
def test_the_constants_before_the_first_function(scores: str, result: str, scale: float) -> None:
    found = part(spec(scores, result=result))
    assert found.scale({"Q": (1, 1, 16), "K": (1, 1, 16), "V": (1, 1, 5)}, {}) == pytest.approx(scale)


@pytest.mark.parametrize(("scores", "said"), [
    ("exp(Q_t^k) K_{s k}", "takes a function of `Q` before it meets `K`"),
    ("Q_t^k K_{s k} + cos(2 Q_t^k K_{s k})", "multiplies `Q` by one number here and by another there"),
])
def test_a_part_that_no_scale_fits_is_refused(scores: str, said: str) -> None:
    with pytest.raises(EincError) as told:
        part(spec(scores))
    assert said in str(told.value)


@pytest.mark.parametrize(("domain", "seen"), [
    ("s ≤ t", lambda t, s: s <= t),
    ("s ∈ (t - 3, t]", lambda t, s: (s <= t) & (s > t - 3)),
    ("s ≤ 2 or s = t", lambda t, s: ((s <= 2) | (s == t)) & (s <= t)),
    ("s ≤ t and mod(t - s, 2) = 0", lambda t, s: (s <= t) & ((t - s) % 2 == 0)),
])
def test_what_is_seen(domain: str, seen: object) -> None:
    found = built(part(spec("Q_t^k K_{s k}", domain if "≤ t" in domain or "∈" in domain
                            else f"({domain}) and s ≤ t")).facts.seen)
    t, s = np.meshgrid(np.arange(5, 9), np.arange(1, 9), indexing="ij")
    assert callable(seen) and np.array_equal(found(T=4, past=4).numpy() == 1, seen(t, s))


@pytest.mark.parametrize(("scores", "domain", "absolute"), [
    ("Q_t^k K_{s k}", "s ≤ t", False),
    ("Q_t^k K_{s k} - (t - s) / 2", "s ∈ (t - 3, t]", False),
    ("Q_t^k K_{s k} - (t - 1) / 2 + (s + 3) / 2", "s ≤ t", False),
    ("log(t) Q_t^k K_{s k}", "s ≤ t", True),
    ("Q_t^k K_{s k}", "s ≤ t and (s ≤ 4 or s > t - 3)", True),
    ("Q_t^k K_{s k}", "s ≤ t and mod(t - s, 2) = 0", False),
    ("Q_t^k K_{s k}", "s ≤ t and floor((t - 1) / 4) = floor((s - 1) / 4)", True),
])
def test_whether_distances_are_enough(scores: str, domain: str, absolute: bool) -> None:
    assert part(spec(scores, domain)).facts.absolute is absolute
