"""Errors E04xx: sets, extents, dtypes."""

from __future__ import annotations

from einc.errors.report import Problem


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
