"""Errors E02xx: names and scripts."""

from __future__ import annotations

from einc.errors.report import Problem


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
