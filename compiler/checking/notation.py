"""Which notation a text is in: index notation, which the checker reads, or another one, which is written with indices
first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from einc.checking.matrices.shapes import ENTRYWISE, TRANSPOSE, parts
from einc.errors.report import Span
from einc.syntax import tree as s
from einc.syntax.spelling import SHAPED

BY_POSITION = ("einsum", "rearrange", "reduce", "repeat")  # the functions that take a string of axes


@dataclass(frozen=True)
class Elaborated:
    """A text in index notation. `guessed`: of equations, by their places, what they do not say and are read as.
    `inlined`: the definitions of functions that are read where they are applied, and have no value of their own.
    `inferred`: where inputs stand first of which nothing says a shape and the equations leave one.
    """

    tree: s.SyntaxTree
    guessed: Mapping[Span, str] = field(default_factory=dict)
    inlined: frozenset[Span] = frozenset()
    inferred: frozenset[Span] = frozenset()


def is_indexed(tree: s.SyntaxTree) -> bool:
    """Whether a text is in index notation as it stands: no line declares a name by the sizes of its axes, no sign of
    matrices and no function of strings stands in it, and it is no paper, which may use all of them undeclared.
    """
    return all(map(_indexed, tree.statements))


def _indexed(line: s.Statement) -> bool:
    bodies = (clause.body for clause in (*line.clauses, *line.tail))
    return (line.rank is None and line.keyword not in SHAPED and not _foreign(bodies)
            and all(map(_indexed, line.block)))


def _foreign(bodies: Iterable[s.Expression]) -> bool:
    """Whether something in some expressions is of another notation."""
    for node in (x for body in bodies for x in parts(body)):
        match node:
            case s.Word(text) if text == TRANSPOSE or text in BY_POSITION:
                return True
            case s.Product(_, operators) if ENTRYWISE in operators:
                return True
            case s.Matrix():
                return True
    return False
