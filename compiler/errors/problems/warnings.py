"""Errors W09xx: what is sound and still looks like a slip."""

from __future__ import annotations

from einc.errors.report import Problem


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


class CutOff(
    Problem, code="W0911", section="14.4", severity="warning", title="a rounding that may cut off",
    example="input x_t\noutput y_t = int8(x_t)",
    explanation=(
        "A type of few bits has a largest number, and what lies beyond is rounded to it. Numbers are known to lie "
        "within where they are divided by a scale that is the largest of them over the largest of the type, or by "
        "`min` and `max`. `--strict` refuses it."
    ),
): ...


class ScaleLeft(
    Problem, code="W0912", section="14.4", severity="warning", title="a scale that does not come out",
    example="index d : feature(D)\ninput x_t^d, w_d\nσ_t = max_d |x_t^d| / 127\noutput y_t = int8(x_t^d / σ_t) w_d",
    explanation=(
        "What is divided by a scale to be rounded is multiplied by it again, once, and by the scale of the same "
        "position: else the result changes with the scale. A scale may be forgotten, applied twice, or of another "
        "letter. `--strict` refuses it."
    ),
): ...
