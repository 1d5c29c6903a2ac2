"""Errors E01xx: how a text is written."""

from __future__ import annotations

from einc.errors.report import Problem


class Unclosed(
    Problem, code="E0101", section="1.4", title="a bracket is not closed",
    example="input x_{t",
    explanation=(
        "Every `(`, `[`, `{` and `$$` needs its partner in the same statement. `(` may close with `]`, as in the "
        "interval `(t-W, t]`."
    ),
): ...


class StrayCloser(
    Problem, code="E0102", section="1.4", title="a bracket closes nothing",
    example="index t : time(T)\ninput x_t\ny_t = x_t)",
    explanation="There is no open bracket for it to close.",
): ...


class Unexpected(
    Problem, code="E0103", section="1.4", title="a statement stops or goes on where it should not",
    example="index t : time(T)\ninput x_t\ny_t = x_t +",
    explanation="An operator needs something on both sides, a declaration needs what it declares, and an equation its "
                "right side.",
): ...


class TwoEquals(
    Problem, code="E0104", section="6.1", title="two equals signs in one equation",
    example="index t : time(T)\ninput x_t\ny_t = z_t = x_t",
    explanation="An equation defines one name. Write two equations; the second may use the first.",
): ...


class Unbound(
    Problem, code="E0106", section="4.4", title="a big operator without an index",
    example="index t : time(T)\ninput x_t\ny = sum x_t",
    explanation=(
        "`sum`, `max`, `min` and `prod` over elements say over which index they run: `sum_{s ≤ t} x_s`. `max(a, b)` of "
        "two values needs none."
    ),
): ...


class DoubleScript(
    Problem, code="E0107", section="6.2", title="a script on what has none",
    example="index t : time(T)\ninput x_t\ny_t = (x_t + 1)_t",
    explanation=(
        "Names have scripts; what stands in parentheses has values, and `^` after it is a power. Give the inner "
        "expression a "
        "name in an equation of its own."
    ),
): ...


class BadScript(
    Problem, code="E0108", section="3.2", title="a script that needs braces",
    example="index t, h : time(T)\ninput x_th",
    explanation=(
        "After a bare `_` or `^` one letter or number is a script; several letters are a label, part of the name "
        "(`d_model`, "
        "`K_hat`). So `x_th` could be meant as `x_{t h}` or as `x_t h`, and a prime after a bare script as `x'_t` or "
        "`x_{t'}`."
    ),
): ...


class UnknownMacro(
    Problem, code="E0109", section="1.3", title="a macro that is not known",
    example="index t : time(T)\ninput x_t\ny_t = \\fraq{1}{2} x_t",
    explanation=(
        "The language reads the macros of grammar/README.md §1.3. A macro is its whole run of letters: `\\left` is not "
        "`\\le` and `ft`."
    ),
): ...


class RelationAsValue(
    Problem, code="E0110", section="5.1", title="a comparison where a number is needed",
    example="index t, s : time(T)\ninput x_t\ny_{t s} = x_t (s <= t)",
    explanation=(
        "A comparison is not a number. `1[s <= t]` is 1 where it holds and 0 elsewhere; as a restriction it stands "
        "after a comma, in a `mask`, or under a big operator."
    ),
): ...


class NeedsArguments(
    Problem, code="E0111", section="6.4", title="a function without its arguments",
    example="index t : time(T)\ninput x_t\ny_t = exp x_t",
    explanation="A function is applied with parentheses: `exp(x_t)`.",
): ...


class UnreadableCharacter(
    Problem, code="E0112", section="1.2", title="a character without meaning",
    example="index t : time(T)\ninput x_t\ny_t = x_t @ 2",
    explanation="The character is no letter, digit, bracket or operator of the language.",
): ...


class TooDeep(
    Problem, code="E0113", section="1.2", title="nested too deeply",
    example="y = " + "(" * 101 + "1" + ")" * 101,
    explanation="Nobody can read it. Name an inner expression in an equation of its own.",
): ...


class NotText(
    Problem, code="E0114", section="1.2", title="nothing to read",
    example="",
    explanation="A spec is a UTF-8 text of at most 2 MB with at least one statement.",
): ...


class PlanLine(
    Problem, code="E0119", section="12.1", title="a line of a plan that asks for nothing",
    example="index t : time(T)\ninput x_t\noutput y_t = 2 x_t\nplan serve:\n    cache K paged 16",
    explanation=(
        "A `plan` block says how a file is made, not what it means. In `plan serve:` the line `cache K, V paged 16` "
        "names the "
        "tensors that are kept of each position, and how many positions a page of memory has, where these are shared. "
        "A line that begins with a word that einc does not know is refused, whatever the plan is called, since nothing "
        "would be done for it."
    ),
): ...


class PlansDisagree(
    Problem, code="E0120", section="12.2", title="two lines of plans that contradict each other",
    example=(
        "index t, s : time(T)\ninput x_t, w_t\noutput y_t = sum_{s <= t} x_s w_s\n"
        "plan serve:\n    cache x paged 16\n    cache w paged 32"
    ),
    explanation=(
        "What several lines say is joined: `cache K` and `cache V` keep both. The blocks that `--plan serve,long` "
        "chooses are joined in the same way. A page of memory has one size."
    ),
): ...


class TwoBars(
    Problem, code="E0121", section="6.4", title="bars with two readings",
    example="index t : time(T)\ninput x_t, y_t, z_t\noutput w_t = |x_t| y_t |z_t|",
    explanation=(
        "`|x|` is the absolute value of x. A bar does not say whether it opens or closes, so `|a| b |c|` is two of "
        "them to some readers and one inside of another to others, and `||x||` is a norm. `abs(…)` has one reading, "
        "and a norm is written with its sum."
    ),
): ...


class AmbiguousQuotient(
    Problem, code="E0115", section="6.1", title="a quotient with two readings",
    example="index t : time(T)\ninput x_t, y_t, z_t\nw_t = x_t / y_t z_t",
    explanation="`a / b c` is (a / b) c by rule and a / (b c) to many readers, so it is refused unless a or b is a "
                "number.",
): ...


class NotYet(
    Problem, code="E0116", section="13.3", title="read, but not compiled here",
    example='section "FlashAttention":\n    y = 1',
    explanation=(
        "The statement belongs to the language, but this release does not compile it here. What stands below a section "
        "belongs to "
        "that section of a document: give the file beside it, `einc doc paper.md --with side.ein`."
    ),
): ...


class BadLoop(
    Problem, code="E0118", section="9.2", title="a `for` that cannot be read",
    example="index t, s : time(T)\ninput x_s\nz = 0\nfor B ⊆ {s ≤ t}:\n    z ← z + Σ_{s ∈ B} x_s\noutput z",
    explanation=(
        "`for t, h:` fixes indices. `for B ⊆ {s ≤ t}:` runs rounds over blocks of a domain, `for s in 1..t:` over its "
        "elements in "
        "order; both take one index piece by piece, so every other index in the domain is fixed around them. `for ℓ in "
        "1..N:`, "
        "with an ℓ that nothing declares, runs N rounds of whatever stands below, a layer each."
    ),
): ...


class BadNumber(
    Problem, code="E0117", section="1.2", title="a number that no computer holds",
    example="y = 1e999",
    explanation="Numbers have at most 40 digits and lie between 1e-300 and 1e300, the range of a float64.",
): ...
