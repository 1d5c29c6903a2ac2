"""Which of two values or shapes that one section gives a name holds is a question."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from einc.documents import shapes
from einc.documents.said import Said, left_text
from einc.errors.problems import BadDeclaration
from einc.errors.report import Help
from einc.syntax import tree as s


def single(found: list[Said], declared: Container[str] = ()) -> Iterator[Said]:
    """The equations; which of two values of one name in one section holds is a question, and so are two shapes of a
    name that lines beside the text do not declare.
    """
    told: dict[tuple[int, str, str], set[object]] = {}
    for x in found:
        if (given := _given(x)) is not None:
            told.setdefault((x.formula.section, x.fact, given[0]), set()).add(given[1])
    for x in found:
        given = _given(x)
        is_declared = given is not None and x.fact == shapes.FACT and given[0] in declared
        if given is not None and not is_declared and len(told[x.formula.section, x.fact, given[0]]) > 1:
            name = x.statement.clauses[0].span.text if x.fact == shapes.FACT and x.statement else given[0]
            wrong = BadDeclaration(f"this section gives `{name}` two {x.fact.removeprefix('a ')}s", x.span, helps=(
                Help("say which holds, or give one of them a section of its own"),))
            yield replace(x, statement=None, fact="", problem=wrong)
        else:
            yield x


def _given(found: Said) -> tuple[str, object] | None:
    """The name of which a fact gives a value or a shape, and that; None for others."""
    if found.statement is None:
        return None
    if found.fact == shapes.FACT:
        return shapes.written(found.statement), shapes.sides(found.statement)
    return (left_text(found), _right(found)) if found.fact == "a value" else None


def _right(found: Said) -> str:
    body = found.statement.clauses[0].body if found.statement is not None else None
    return "".join(body.operands[-1].span.text.split()) if isinstance(body, s.Relation) else ""
