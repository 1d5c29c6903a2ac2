"""Whether what a document says of its indices agrees with what its side file declares."""

from __future__ import annotations

from einc.checking.declarations.names import index_name, left_of
from einc.checking.declarations.sets import extent_of
from einc.documents.sections import Paper
from einc.documents.sentences import index_lines
from einc.errors.problems import DeclaredOtherwise
from einc.errors.report import Help, Label, Problem
from einc.ir.indices import Extent
from einc.ir.indices import number as constant
from einc.syntax import tree as s


def unlike(paper: Paper) -> list[Problem]:
    """Letters that the text and its side file let run over different ranges."""
    out: list[Problem] = []
    declared: dict[str, s.Clause] = {}
    for line in paper.lines:
        if line.keyword == "index":
            for n, clause in enumerate(line.clauses):
                name = index_name(clause.body)
                if name is not None:
                    declared[name] = line.tail[n if len(line.tail) > 1 else 0] if line.tail else clause
    for _, line in index_lines(paper.document, paper.said):
        for clause in line.clauses:
            name = index_name(clause.body) or ""
            mine, own = _extent(declared[name]) if name in declared else None, _extent(line.tail[0])
            if mine is not None and own is not None and mine != own:
                alone = Help("let them agree, or declare it for one section alone: `section \"…\":`")
                said = f"`{name}` runs over {own} here, and over {mine} where it is declared"
                out.append(DeclaredOtherwise(said, line.span,
                                             "", Label(declared[name].span, "declared here"), helps=(alone,)))
    return out


def _extent(clause: s.Clause) -> Extent | None:
    """How many elements the index set in a declaration has."""
    body = left_of(clause.body)
    try:
        match body:
            case s.Product((_, s.Group("(", ")", (s.Range(low, high),)))):
                return extent_of(high) + constant(1) + extent_of(low) * constant(-1)
            case s.Product((_, s.Group("(", ")", (inner,)))):
                return extent_of(inner)
    except Problem:
        pass
    return None
