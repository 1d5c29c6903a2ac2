"""Errors E05xx: domains, causality, isolation."""

from __future__ import annotations

from einc.errors.report import Problem


class ReadsFuture(
    Problem, code="E0501", section="5.6", title="an output reads the future",
    example="index t, s : time(T)\ninput x_s\noutput y_t = sum_{s >= t} x_s",
    explanation=(
        "An output at t may only read positions up to t, unless `mask L_{t s} : all` or `output y : all` says that the "
        "future is meant."
    ),
): ...


class CrossesRequests(
    Problem, code="E0502", section="5.6", title="an output reads another request",
    example="index r : request(R)\nindex f : feature(D)\ninput x_r^f\noutput y_r^f = x_r^f + sum_{r'} x_{r'}^f",
    explanation="An output of request r may only read what belongs to r. A gate `δ_r^{r'}` or a domain `r' = r` says "
                "so.",
): ...


class NoDomain(
    Problem, code="E0503", section="5.3", title="a function of a line over time without a domain",
    example="index t, s : time(T)\ninput L_{t s}\noutput A_{t s} = softmax_s(L_{t s})",
    explanation=(
        "Which positions a softmax runs over decides what the layer means, so it is said: by a `mask`, by `softmax_{s "
        "≤ t}`, or by `mask L_{t s} : all`."
    ),
): ...


class EmptyDomain(
    Problem, code="E0504", section="5.1", title="a domain without a point",
    example="index t, s : time(T)\ninput x_s\noutput y_t = sum_{s <= t, s > t} x_s",
    explanation=(
        "What runs over no point whatever the sizes are is a slip: two conditions that exclude each other, a mask "
        "against a sum's "
        "own domain, an interval whose ends are the same. A row that happens to be empty is fine and gives 0."
    ),
): ...


class IndicatorFactor(
    Problem, code="E0505", section="5.4", title="an indicator where a domain was meant",
    example="index t, s : time(T)\ninput L_{t s}\nmask L_{t s} : s <= t\noutput A_{t s} = softmax_{s}(1[s < t] L_{t "
            "s})",
    explanation=(
        "`1[p] x` is 0 where p fails, and exp(0) is 1: the place still takes part. A restriction stands in a `mask` or "
        "under the function."
    ),
): ...


class ForeignIndex(
    Problem, code="E0506", section="5.1", title="a domain with an index that is not in scope",
    example="index t, s, u : time(T)\ninput x_s\noutput y_t = sum_{s <= t, u > s} x_s",
    explanation="A domain speaks of the index it restricts and of the indices around it.",
): ...


class PartialOutput(
    Problem, code="E0507", section="5.3", title="restrictions that differ, or an output with gaps",
    example="index t, s : time(T)\ninput x_s\noutput y_{t s} = x_t x_s, s <= t",
    explanation=(
        "An expression exists where all its parts exist. Two different restrictions in one sum, and an output that "
        "does not exist everywhere, are refused."
    ),
): ...


class CutDomain(
    Problem, code="E0508", section="5.3", title="a mask that nothing reads, or a sum that cuts one",
    example=(
        "index t, s : time(T)\ninput L_{t s}\nmask L_{t s} : all\n"
        "A_{t s} = softmax_s(L_{t s})\noutput y_t = sum_{s <= t} A_{t s}"
    ),
    explanation=(
        "A mask that no reduction reads does nothing, and a sum over fewer points than its body was normalised over no "
        "longer sums to one."
    ),
): ...


class CasesLeaveOut(
    Problem, code="E0509", section="5.4", title="cases that leave something out",
    example="input x\noutput y = \\begin{cases} 1 & x > 0 \\\\ 0 & x < 0 \\end{cases}",
    explanation=(
        "Of the rows of a choice the first counts whose conditions hold. Where none holds nothing says what the value "
        "is, so a last row has no condition, or `\\text{otherwise}`; conditions that compare the same two numbers and "
        "leave no order out are enough too."
    ),
): ...
