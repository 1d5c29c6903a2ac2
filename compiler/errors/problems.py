"""Every kind of error, each with the smallest text that triggers it and a paragraph that teaches.

`section` is the section of grammar/README.md, the reference of the language, that has the rule which the text breaks.
`einc explain CODE` and the error index are made from this page; a test runs every example and looks up every section.
"""

from __future__ import annotations

from einc.errors.report import Problem

# E01xx: how a text is written


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


# E02xx: names and scripts


class Undeclared(
    Problem, code="E0201", section="3.1", title="a name that nothing declares or defines",
    example="index t : time(T)\ny_t = q_t",
    explanation="Every tensor on a right side is an input, a weight, or the left side of an equation.",
): ...


class NotApplicable(
    Problem, code="E0202", section="6.4", title="an application of something that is not a function",
    example="index t : time(T)\ninput x_t\ny_t = t(x_t)",
    explanation=(
        "`name(…)` applies a function, a map or a spec, and is a product otherwise; with an index both readings are "
        "likely, so write a space and an operator."
    ),
): ...


class AmbiguousScript(
    Problem, code="E0203", section="3.3", title="a script with several readings",
    example="index k, v : feature(D)\nindex kv : head(G)\ninput C_{kv}",
    explanation="A run of letters in a script is split into declared names and must have exactly one reading. Spaces "
                "settle it.",
): ...


class UnreadableScript(
    Problem, code="E0204", section="3.3", title="a script without a reading",
    example="index t, h : time(T)\ninput x_{t h}\ny_{t h} = x_{thq}",
    explanation="The letters of a script must be declared indices, or labels of the name they hang on.",
): ...


class NoSuchSignature(
    Problem, code="E0205", section="3.4", title="a tensor with other slots",
    example="index t : time(T)\nindex f : feature(D)\ninput x_t^f\ny_t = x_t",
    explanation="A name with its labels and the sets of its slots is one thing; no declaration of this name has these "
                "slots.",
): ...


class NoSuchLabel(
    Problem, code="E0207", section="3.2", title="a label that the name does not have",
    example="index h : head(H)\nweight W_{Q h}, W_{K h}\ny_h = W_{R h}",
    explanation="Labels are part of a name: `W_Q` and `W_K` are two weights, and `W_R` is neither.",
): ...


class TwoMeanings(
    Problem, code="E0208", section="3.4", title="a bare name with two meanings",
    example="index t : time(t)\ninput x_t\ny_t = t x_t",
    explanation="A bare name is an index (its position), an extent or a scalar. If it could be two of them, rename "
                "one.",
): ...


class DefinedTwice(
    Problem, code="E0209", section="3.4", title="two definitions of one signature",
    example="index t : time(T)\ninput x_t\ny_t = x_t\ny_t = 2 x_t",
    explanation="Each signature has one equation. To replace one that a `use` brought in, say `override`.",
): ...


class BadDeclaration(
    Problem, code="E0210", section="1.4", title="a declaration that does not declare",
    example="index t : moment(T)",
    explanation=(
        "`index t, s : time(T)`, `dim W`, `input X_t^f`, `weight W_{Q f}^d`, `mask L_{t s} : s ≤ t`, `map π(h) = … : "
        "g`, `def f(x) = …`."
    ),
): ...


class Reserved(
    Problem, code="E0211", section="1.5", title="a reserved name",
    example="index t : time(T)\ninput softmax_t\ny_t = 2",
    explanation="The names of the prelude and of the primitive functions cannot be given to tensors, indices or "
                "extents.",
): ...


class CannotUse(
    Problem, code="E0212", section="10.1", title="a spec that cannot be used",
    example='use "no_such_spec"',
    explanation=(
        "`use`, and a call, look beside the file, then among the specs that come with einc. Specs may not use or call "
        "each other "
        "in a circle."
    ),
): ...


class OverridesNothing(
    Problem, code="E0213", section="10.2", title="an override of nothing",
    example="index t : time(T)\ninput x_t\noverride y_t = x_t",
    explanation="`override` replaces the one equation (or mask) of a signature that came before it, usually through "
                "`use`.",
): ...


class OnePythonName(
    Problem, code="E0214", section="3.2", title="two tensors with one Python name",
    example="index t : time(T)\nindex f : feature(D)\ninput x_t, x_t^f\ny_t^f = x_t x_t^f",
    explanation="Inputs and outputs are passed by their Python names. `input x_t as x0` chooses one.",
): ...


class UnknownIndex(
    Problem, code="E0215", section="2.1", title="an index that is not declared",
    example="index t : time(T)\ninput x_t\ny = sum_{q} x_q",
    explanation="Every index is declared with its class and extent: `index q : time(T)`.",
): ...


class WrongArguments(
    Problem, code="E0216", section="6.5", title="arguments that do not fit",
    example="index t : time(T)\ninput x_t\ny_t = softcap(x_t)",
    explanation=(
        "A call gives one argument for each parameter, in their order or by name; one with a value of its own may be "
        "left out. A parameter with an index needs an argument that has one to give. What is "
        "hashed, such as the seed of a dropout, is a whole number."
    ),
): ...


class CannotCall(
    Problem, code="E0217", section="10.3", title="a spec that cannot be called here",
    example="index t : time(T)\nindex f : feature(D)\ninput x_t^f\ndef g(a) = attention(X = a)\noutput y_t^f = "
            "g(x_t^f)",
    explanation=(
        "`attention(X = H_t^f)` is the only output of the spec `attention`. Its names are its own, its inputs are "
        "given by their "
        "Python names, and what the call does not give is asked of the caller. Indices of an argument that the spec "
        "does not have "
        "pass through."
    ),
): ...


class AskedTwice(
    Problem, code="E0218", section="10.3", title="one name is asked of the caller twice",
    example=(
        "index t : time(T)\nindex f : feature(d_model)\ninput X_t^f\nY_t^f = attention(X = X_t^f)\n"
        "output Z_t^f = attention(X = Y_t^f)"
    ),
    explanation=(
        "What a call of a spec does not give is asked of the caller under the same Python name. Where another call "
        "asks for that "
        "name too, or an input has it, two readings are possible: one tensor for both, or one for each. Declare what "
        "is meant "
        "and give it: `attention(X = Y_t^f, W_Q = W_{Q h f}^d)`."
    ),
): ...


class Transposed(
    Problem, code="E0219", section="3.3", title="a transpose",
    example="index f, g : feature(D)\ninput W_{f g}, x^f\noutput y^g = W_{f g}^T x^f",
    explanation=(
        "In index notation nothing is transposed: `W_{f g} x^f` sums over the first axis and `W_{f g} x^g` over the "
        "second. After "
        "a name `^` begins a script, and a power of a name stands in parentheses: `(x)^T`."
    ),
): ...


# E023x: matrix notation


class NoShape(
    Problem, code="E0230", section="3.6", title="a matrix whose shape nothing says",
    example="index t : time(T)\nmatrix X : T × d\noutput Y = X W",
    explanation=(
        "In matrix notation the letters are left out, so the shapes say what meets what: each symbol is declared by "
        "`matrix NAME : ROWS × COLUMNS` or `vector NAME : SIZE`, or defined by an equation whose right side has a "
        "shape. "
        "What matrix notation has no sign for is written with its indices, in an equation of its own; both kinds stand "
        "side by side in one text."
    ),
): ...


class ShapesDiffer(
    Problem, code="E0231", section="3.6", title="matrices that do not fit",
    example="index t : time(T)\nmatrix Q, K : T × d\noutput S = Q K",
    explanation=(
        "A product needs as many columns on its left as rows on its right, told by their sizes' names; a sum needs "
        "equal shapes, or a number, a row or a column beside a matrix. A transpose is written `Kᵀ`, `K^⊤` or `K^\\top`."
    ),
): ...


class OpenReading(
    Problem, code="E0232", section="3.6", title="matrix notation with several readings",
    example="index t, s : time(T)\nmatrix S : T × T\noutput P = softmax(S) : all",
    explanation=(
        "Where the shapes leave a choice open, such as the side along which a softmax runs, or whether a vector is a "
        "row or a column, nothing is guessed. A softmax in front of a product, `softmax(S) V`, runs along what the "
        "product sums; a softmax of a matrix with two different sides says its letter: `softmax_s(S)`. A vector that "
        "is declared as a matrix with one row or one column has its side."
    ),
): ...


class BadPattern(
    Problem, code="E0233", section="3.7", title="a string of axes that cannot be read",
    example='index t, s : time(T)\nindex d : feature(D)\ninput Q_{t d}\noutput Y = einsum("td,sd", Q)',
    explanation=(
        "A string says the axes of each operand in their order, and those of the result behind an arrow: "
        "`einsum(\"td,sd->ts\", Q, K)` has a letter for each axis, `rearrange(X, \"t (h d) -> h t d\")` a word, "
        "several in parentheses for an axis that is made of several. What the result leaves out is summed by `einsum` "
        "and folded by `reduce`; what it adds is repeated by `repeat`."
    ),
): ...


# E03xx: balance of indices


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


# E04xx: sets, extents, dtypes


class WrongSet(
    Problem, code="E0401", section="3.4", title="an index in a slot of another set",
    example="index t : time(T)\nindex f : feature(D)\ninput x_f\ny_t = x_t",
    explanation="A slot takes any index of its set: the same class, the same extent, the same first value.",
): ...


class WrongData(
    Problem, code="E0402", section="2.4", title="data that does not fit the spec",
    example=(
        "index t : time(T)\nindex d : feature(D) = (i a)\nindex i : feature(D / 3)\nindex a : feature(2)\n"
        "input x_t^d\ny_t^d = x_t^d"
    ),
    explanation=(
        "Extents are equal or it is an error: an extent of 1 is never stretched. The product of a composite's parts is "
        "its extent."
    ),
): ...


class WrongType(
    Problem, code="E0404", section="3.5", title="an element type that does not fit",
    example="index t : time(T)\nindex v : vocab(V)\nindex f : feature(D)\ninput E_v^f, w_t\ny_t^f = E_{w_t}^f",
    explanation="What stands in a slot or a map is an integer: declare the tensor `: int`.",
): ...


class AssignsInput(
    Problem, code="E0405", section="3.1", title="an equation for an input",
    example="index t : time(T)\ninput x_t\nx_t = 1",
    explanation="Inputs and weights are given by the caller.",
): ...


class Circular(
    Problem, code="E0406", section="3.1", title="definitions in a circle",
    example="index t : time(T)\nx_t = y_t\ny_t = x_t",
    explanation="Outside recurrences the order of lines means nothing, so nothing may depend on itself.",
): ...


class NoNumber(
    Problem, code="E0407", section="6.3", title="an index without a number where one is needed",
    example="index n : batch(B)\nindex t : time(T)\ninput x_{n t}\ny_{n t} = n x_{n t}",
    explanation=(
        "Indices of time stand for the numbers 1, 2, …, and so do features and heads; batch entries and requests are "
        "only the same "
        "or not, so that no program depends on how they are numbered."
    ),
): ...


class NoRequest(
    Problem, code="E0408", section="2.6", title="a position whose request is not told",
    example="index r : request(R)\nindex t : time(T_r)\ninput x_t\noutput y_{r t} = x_t",
    explanation=(
        "With `index t : time(T_r)` every request r has its own positions 1, …, T_r, so a position stands after its "
        "request: "
        "`x_{r t}`. In an equation one letter belongs to one request; a second one is primed, `K_{r' s'}`."
    ),
): ...


# E05xx: domains, causality, isolation


class ReadsFuture(
    Problem, code="E0501", section="5.6", title="an output reads the future",
    example="index t, s : time(T)\ninput x_s\noutput y_t = sum_{s >= t} x_s",
    explanation=(
        "An output at t may only read positions up to t, unless `mask L : all` or `output y : all` says that the "
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
        "≤ t}`, or by `mask L : all`."
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


# E06xx: index expressions


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


# E07xx: state


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


# E08xx: documents


_LAYER = "# A layer\n\n```ein\nindex t : time(T)\ninput x_t\n```\n\n"


class NotAccounted(
    Problem, code="E0801", section="13.2", title="a display equation that is neither compiled nor skipped",
    example=_LAYER + "$$ y_t = 2 x_t $$\n\n$$ x \\mapsto y $$\n",
    example_name="example.md",
    explanation=(
        "Every display equation of a document is compiled, proved to restate another, or skipped with a reason: "
        "nothing is passed "
        "over in silence. Where an equation is for readers alone, `<!-- ein: skip reason -->` before it says so; in "
        "TeX a line "
        "`%! skip reason` does."
    ),
): ...


class DeclaredOtherwise(
    Problem, code="E0802", section="13.1", title="a symbol declared in two ways for one section",
    example=_LAYER + "For $t \\in \\{1..N\\}$ the layer is\n\n$$ y_t = 2 x_t $$\n",
    example_name="example.md",
    explanation=(
        "Papers use a letter again for something else, but within one section it means one thing. What a side file or "
        "an `ein` "
        "fence declares, and what the text itself says of index sets, must agree there; a declaration for one section "
        "alone "
        'stands below `section "…":` in the side file.'
    ),
): ...


class NotRestated(
    Problem, code="E0803", section="13.2", title="a restated equation that is not equal to the first",
    example=_LAYER + "$$ y_t = 2 x_t $$\n\nThat is,\n\n$$ y_t = x_t + 2 x_t $$\n",
    example_name="example.md",
    explanation=(
        "A second equation for one tensor in one section restates the first, and is proved equal to it after "
        "normalising. A later "
        "section may define the tensor anew, as a variant."
    ),
): ...


class NoSuchSection(
    Problem, code="E0804", section="13.3", title="a section or an equation that the document does not have",
    example=_LAYER.replace("input x_t\n", 'input x_t\nsection "Another layer":\n    output y_t\n')
    + "$$ y_t = 2 x_t $$\n",
    example_name="example.md",
    explanation=(
        '`--section "…"` and a line `section "…":` of a side file name a section by its title, by how the title '
        'begins, or by a '
        "part of it, whatever the case of its letters. It has to be one section. `--equation NAME` names an equation "
        "by its label, `eq:scores`, by its number or tag, `3` or `(3)`, or all displays of a section by its title."
    ),
): ...


class NotTaken(
    Problem, code="E0805", section="13.5", title="a file that the document names and that is not read",
    example="%! index t : time(T)\n%! input x_t\n\\input{../macros}\n$$ y_t = 2 x_t $$\n",
    example_name="example.tex",
    explanation=(
        "`\\input`, `\\include`, `\\subfile` and `\\import` are read from the folder of the document, or from the "
        "archive that it came in, and from nowhere else: no absolute path, no `..`, no link and no command. A file may "
        "not take itself in, and how many files there are, how deep they stand and how long they are together is "
        "bounded. The rest of the document is read."
    ),
): ...


class Unpacked(
    Problem, code="E0806", section="13.5", title="a notebook, an archive or a folder with no document in it",
    example='{"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "$$ y_t = 2 x_t $$"}',
    example_name="example.ipynb",
    explanation=(
        "A notebook is JSON of format 4. An archive is unpacked in memory, and has no more members and bytes than are "
        "read, none of them outside of its folder. A folder or an archive has one `.tex` file with `\\documentclass`; "
        "where there are several, the path says which is meant: `paper.tar.gz/main.tex`."
    ),
): ...


class NotThere(
    Problem, code="W0805", section="13.5", severity="warning",
    title="a file that the document names and that is not there",
    example="%! index t : time(T)\n%! input x_t\n\\input{macros}\n$$ y_t = 2 x_t $$\n",
    example_name="example.tex",
    explanation=(
        "`\\input{macros}` takes in `macros.tex` or `macros`, from the folder of the document or from that of the file "
        "that says so. Where neither is there the rest of the document is read; macros that the file defines are not "
        "known then."
    ),
): ...


class Damaged(
    Problem, code="W0801", section="13.4", severity="warning",
    title="a document that was decoded as something it is not",
    example=_LAYER + "â€¢ The layer is\n\n$$ y_t = 2 x_t $$\n",
    example_name="example.md",
    explanation=(
        "Where a file in UTF-8 was read as Windows-1252, `•` has become `â€¢`, and some characters are lost. Equations "
        "in plain "
        "letters are read all the same; Greek letters and signs that were damaged are not what they were."
    ),
): ...


# W09xx: what is sound and still looks like a slip


class Unused(
    Problem, code="W0903", section="14.1", severity="warning", title="a declaration that nothing uses",
    example="index t : time(T)\ninput x_t, z_t\noutput y_t = 2 x_t",
    explanation=(
        "An input, a weight, a set, a size, a map or a definition that no line uses is often a misspelled one. What a "
        "`use` "
        "brought along is not meant, and indices are letters, which cost nothing. `--strict` refuses it."
    ),
): ...


class IdleDelta(
    Problem, code="W0905", section="14.2", severity="warning", title="a delta that renames nothing",
    example="index t : time(T)\ninput x_t\noutput y_t = δ_t^t x_t",
    explanation=(
        "`δ_t^t` is 1 everywhere. A gate names two indices of one set: `δ_r^{r'}` holds where both are the same. "
        "`--strict` "
        "refuses it."
    ),
): ...


class Unread(
    Problem, code="W0906", section="14.3", severity="warning", title="an equation that nothing reads",
    example="index t : time(T)\ninput x_t\nz_t = 3 x_t\noutput y_t = 2 x_t",
    explanation=(
        "What no output reads is not compiled, and neither are the weights that stand behind it. Often another tensor "
        "of the same "
        "name is read in its place. `--strict` refuses it."
    ),
): ...


class OtherLine(
    Problem, code="W0907", section="14.3", severity="warning", title="shares along one index, summed along another",
    example=("index t, s : time(T)\ninput L_{t s}, V_s\nmask L_{t s} : all\n"
               "output Y_t = sum_s softmax_t(L_{t s}) V_s"),
    explanation=(
        "A value that was divided by its own sum over one index adds up to 1 along that index. As weights of a sum "
        "over another "
        "index it does not: `softmax_t` is written where `softmax_s` was meant. `--strict` refuses it."
    ),
): ...


class OtherTensor(
    Problem, code="W0908", section="14.3", severity="warning",
    title="a tensor of a used spec in place of one of the same name",
    example=('use "attention"\nindex g : head(G)\nweight U_{g f}^d\nV_{s g}^d = X_s^f U_{g f}^d\n'
               "override Y_{t h}^d = sum_s A_{t s}^{(h)} V_{s h}^d"),
    explanation=(
        "A text that defines a tensor which nothing reads, and reads one of the same name and as many indices that a "
        "used spec "
        "has, mostly means its own: `V_{s h}` is the used one where `V_{s, π(h)}` was meant. `--strict` refuses it."
    ),
): ...


class CapturedExtent(
    Problem, code="W0909", section="14.3", severity="warning", title="a size that is the extent of a used spec",
    example='use "sdpa"\ndim B\nmask L_{n h t s} : s > t - B',
    explanation=(
        "A name of a size means one size in a text and all that it uses. A `dim` that names the extent of another's "
        "index asks "
        "nobody for a number: it is read from the shapes of that one's tensors. `--strict` refuses it."
    ),
): ...


class NotBrought(
    Problem, code="W0910", section="10.1", severity="warning", title="a letter that a used spec does not bring",
    example='use "rope"\nweight W_{a d}\ninput x_t^d\noutput y_t = W_{a d} x_t^d',
    explanation=(
        "Of a used spec come the letters of its inputs, weights and outputs, and those that a line asks for. Another "
        "letter of it in the script of a new name is a label: `a` is an index inside of `rope`, and `W_a` a weight of "
        "the text. An `index` line of the text itself says that the index is meant, `\\text{a}` that the label is. "
        "`--strict` refuses it."
    ),
): ...
