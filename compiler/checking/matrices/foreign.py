"""Lines of index notation, in which the signs of matrices have no meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from einc.checking.declarations.names import left_of
from einc.checking.matrices.functions import parameters
from einc.checking.matrices.shapes import ENTRYWISE, TRANSPOSE, parts, words
from einc.errors.problems import BadDeclaration, UnknownMacro
from einc.errors.report import Help, Report, Span
from einc.syntax import tree as s
from einc.syntax.brackets import NORM
from einc.syntax.slices import WHOLE

_MATRIX = "matrix"
_FOREIGN = {_MATRIX: "a matrix that is written out, and here a tensor is written with its indices",
            TRANSPOSE: "a transpose, which tensors with named indices do not need",
            ENTRYWISE: "a product without indices: write both factors with theirs",
            WHOLE: "the whole of a side, which has a letter in index notation",
            NORM: "a norm: the length of a vector `q` of size d is written as `\\sqrt{\\sum_{i=1}^d (q_i)^2}`"}


def no_name(span: Span) -> BadDeclaration:
    """What is wrong with a function that is defined where a tensor is expected."""
    return BadDeclaration("a function is defined here, which is no name of a tensor", span, helps=(
        Help("a tensor is a name with indices: what it depends on stands in its scripts; or `def f(x) = …`"),))


def in_indices(statements: Iterable[s.Statement], report: Report) -> Iterator[s.Statement]:
    """The lines without those that hold a sign of matrices alone, a transpose or `⊙`, which are reported. Changes
    `report`."""
    for line in statements:
        if line.rank is not None and parameters(line) is not None:
            report.add(no_name(left_of(line.clauses[0].body).span))
            continue
        found = [sign for c in (*line.clauses, *line.tail) for sign in _signs(c.body)]
        for text, span in found:
            shown = text if text in (TRANSPOSE, ENTRYWISE) else span.text
            report.add(UnknownMacro(f"`{shown}` is {_FOREIGN[text]}", span, helps=(
                Help("write the equation with indices, or declare its tensors by `matrix NAME : ROWS × COLUMNS`"),)))
        if not found:
            yield replace(line, block=tuple(in_indices(line.block, report))) if line.block else line


def _signs(node: s.Expression) -> Iterator[tuple[str, Span]]:
    """The signs of matrices in an expression, and where they stand."""
    yield from ((w.text[:1], w.span) for w in words((node,)) if w.text[:1] in (TRANSPOSE, NORM, WHOLE))
    yield from ((_MATRIX, x.span) for x in parts(node) if isinstance(x, s.Matrix))
    yield from ((ENTRYWISE, x.span) for x in parts(node) if isinstance(x, s.Product) and ENTRYWISE in x.operators)
