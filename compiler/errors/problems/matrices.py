"""Errors E023x: matrix notation."""

from __future__ import annotations

from einc.errors.report import Problem


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
