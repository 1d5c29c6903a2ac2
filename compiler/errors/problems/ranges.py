"""Errors E06xx: index expressions."""

from __future__ import annotations

from einc.errors.report import Problem


class OutOfRange(
    Problem, code="E0601", section="7.1", title="an index expression that may leave its range",
    example="index t : time(T)\nindex j : feature(n)\ninput w_t\noutput y_{t j} = w_{t+j} : all",
    explanation="Say what happens there: `, t + j ≤ T` (those do not exist), `1[t + j ≤ T] w_{t+j}` (0), or `w_{min(t "
                "+ j, T)}`.",
): ...


class BadMap(
    Problem, code="E0602", section="7.3", title="a map that is not one",
    example="index h : head(H)\nmap π(h) = h / 2 : h",
    explanation=(
        "A map is an exact integer expression of one or more indices: `map β(t, s) = min(t - s, W)`. Where it gives an "
        "element of an index, that is its target: `map π(h) = ceil(h G / H) : g`."
    ),
): ...


class BadPart(
    Problem, code="E0604", section="2.5", title="a direct sum whose parts do not fit",
    example="index c : feature(C)\nindex r : feature(R)\nindex e : feature = c ⊕ r\ninput x^c\noutput y^e = x^c ⊕ x^c",
    explanation="For `e = c ⊕ ρ` the right side is `… ⊕ …`, each part known by its own index, in order.",
): ...
