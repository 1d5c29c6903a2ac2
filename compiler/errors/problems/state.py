"""Errors E07xx: state."""

from __future__ import annotations

from einc.errors.report import Problem


class ChosenLater(
    Problem, code="E0701", section="8.1", title="a set whose candidates come later than what it is of",
    example=(
        "index t, s : time(T)\ndim n\ninput x_{t s}, v_s\nset S_t = topk_{s}(x_{t s}, n)\n"
        "output y_t = Σ_{s ∈ S_t} v_s : all"
    ),
    explanation=(
        "Which elements are the largest depends on all candidates. The set of position t is chosen among s ≤ t, or "
        "what is chosen "
        "at t would depend on the future: `topk_{s ≤ t}(…)`. Where the future is meant, say so of what is compared: "
        "`mask … : all`."
    ),
): ...


class UpdateOutside(
    Problem, code="E0705", section="9.2", title="an update outside of rounds",
    example="index s : time(T)\ninput x_s\nz = 0\nz ← z + Σ_{s in 1..T} x_s",
    explanation="`X ← …` gives X its value for the next round, so it stands in a block of rounds: `for B ⊆ {s ≤ t}:`.",
): ...


class NeverStarted(
    Problem, code="E0702", section="9.2", title="a state without a value before the first round",
    example="index s : time(T)\ninput x_s\nfor s in 1..T:\n    z ← z + x_s\noutput z",
    explanation=(
        "Before the first round a state is what an equation above the block says, `z = 0` for instance; where the "
        "domain is "
        "empty that is its value."
    ),
): ...


class RoundValue(
    Problem, code="E0703", section="9.2", title="a value of one round read outside",
    example="index s : time(T)\ninput x_s\nz = 0\nfor s in 1..T:\n    y = z + x_s\n    z ← y\noutput w = 2 y",
    explanation=(
        "What a block defines with `=` is made anew in each round and has no value after the last. What is to be known "
        "afterwards is a state: it starts above the block and is updated with `←`."
    ),
): ...


class CutDependent(
    Problem, code="E0704", section="9.2", title="rounds that are not the fold of their blocks",
    example=(
        "index s : time(T)\ninput x_s\nm = -∞\nz = 0\nfor B ⊆ {s}:\n    m' = max(m, max_{s ∈ B} x_s)\n"
        "    z ← z + Σ_{s ∈ B} exp(x_s - m')\n    m ← m'\n"
        "output z"
    ),
    explanation=(
        "Rounds over blocks are compiled where their result is proved not to depend on how the domain is cut: a round "
        "over D, then one over B, must give what one round over both gives. What earlier rounds summed relative to an "
        "old reference is rescaled when the reference changes, `z ← z exp(m - m') + …`. `einc derive` shows both sides."
    ),
): ...


class OrderDependent(
    Problem, code="W0704", section="9.2", severity="warning", title="a sum relative to a reference that changes",
    example=(
        "index s : time(T)\ninput x_s\nm = -∞\nz = 0\nfor s in 1..T:\n    m' = max(m, x_s)\n    z ← z + exp(x_s - "
        "m')\n    m ← m'\n"
        "output z"
    ),
    explanation=(
        "Rounds of one element each run in order where they are not proved to be one fold, so they mean something. "
        "Where a state is scaled by a function of another one, and only what the last round leaves is read, such "
        "rounds are mostly meant as a fold: then what earlier rounds summed is rescaled when the reference changes, "
        "`z ← z exp(m - m') + …`. `--strict` refuses it."
    ),
): ...
