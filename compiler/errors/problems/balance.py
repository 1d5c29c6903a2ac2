"""Errors E03xx: balance of indices."""

from __future__ import annotations

from einc.errors.report import Problem


class FreeOnRight(
    Problem, code="E0301", section="4.2", title="an index on the right that is not on the left",
    example="index t : time(T)\nindex f : feature(D)\ninput x_t^f\ny_t = 2 x_t^f",
    explanation=(
        "An index that stands once in a term and not on the left is neither free nor summed. Put it on the left, or "
        "sum over it."
    ),
): ...


class FreeOnLeft(
    Problem, code="E0302", section="4.2", title="an index on the left that is not on the right",
    example="index t : time(T)\nindex f : feature(D)\ninput x_t\ny_t^f = x_t",
    explanation="A term may lack an index of the left side, but at least one term must have it. There is no silent "
                "broadcast.",
): ...


class ThreeTimes(
    Problem, code="E0304", section="4.1", title="an index three times in one term",
    example="index j : feature(D)\ninput a_j, b^j, c_j\ny = a_j b^j c_j",
    explanation=(
        "Einstein's convention pairs one upper with one lower index; with three it says nothing. Write the sum, or "
        "rename one pair."
    ),
): ...


class TwoReadings(
    Problem, code="E0305", section="4.2", title="a pair that is also on the left",
    example="index j : feature(D)\ninput a_j, b^j\ny_j = a_j b^j",
    explanation=(
        "An up/down pair of a summed class is summed, an index on the left is free; here both would hold. `a_{(j)}` in "
        "parentheses is a label and free; `Σ_j` sums."
    ),
): ...


class TemporalSum(
    Problem, code="E0306", section="4.3", title="a temporal index summed implicitly",
    example="index t, s : time(T)\ninput A_{t s}, V_s\ny_t = A_{t s} V_s",
    explanation=(
        "Indices of time, request and batch are never summed implicitly, whatever their position. Write the sum and "
        "its domain."
    ),
): ...


class BoundAndFree(
    Problem, code="E0308", section="4.5", title="an index both bound and free",
    example="index t, s : time(T)\ninput a_s, b_s\ny = (sum_s a_s) b_s",
    explanation="The sum ends with its product or its parenthesis; outside it the index means nothing. Rename one of "
                "the two.",
): ...


class BoundTwice(
    Problem, code="E0309", section="4.5", title="an index bound again inside its own scope",
    example="index s : time(T)\ninput a_s\ny = sum_s (a_s sum_s a_s)",
    explanation="A binder inside may not take an index that is bound around it. Write `s'` for the inner one.",
): ...


class IdleBinder(
    Problem, code="W0310", section="14.2", severity="warning",
    title="a big operator over an index that its body does not have",
    example="index t, s : time(T)\ninput x_t\noutput y_t = sum_{s <= t} x_t",
    explanation=(
        "A sum of the same thing again and again is a slip more often than it is meant. Of plain numbers it is a count "
        "and fine: "
        "`(sum_{s <= t} 1) x_t`. `--strict` refuses it."
    ),
): ...


class SameLevel(
    Problem, code="W0301", section="4.1", severity="warning", title="a pair on one level",
    example="index h : head(H)\ninput a_h, b_h\ny = a_h b_h",
    explanation=(
        "Both occurrences stand on one level. It is summed, as the paper's own merge is, but the explicit form says "
        "so. `--strict` refuses it."
    ),
): ...
