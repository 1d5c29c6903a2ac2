"""SyntaxTree -> the text of a file: one statement a line, indented by blocks, with the
comments and the blank lines of the author.

A display stays a display. Comments inside a statement go above it. Lines of a `plan` are the same in every spelling.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from einc.errors.report import Report, Source, Span
from einc.syntax import tree as s
from einc.syntax.parse import parse
from einc.syntax.printing.names import Names
from einc.syntax.printing.writer import Spelling, Writer
from einc.syntax.spelling import SHAPED
from einc.syntax.texts import column
from einc.syntax.tokens import trivia, words

_INDENT = "    "
_BLANK = re.compile(r"\n[^\S\n]*\n")


@dataclass(frozen=True, slots=True)
class _Row:
    """A piece of the file: where it stood, how deep it stands, and its text; `column`
    tells the depth of comments beside it."""

    start: int
    end: int
    depth: int
    column: int
    text: str
    comment: bool = False


def printed(tree: s.SyntaxTree, spelling: Spelling, names: Names) -> str:
    """The text of a tree in one spelling."""
    text = tree.source.text
    marks = [(kind, start, end) for kind, start, end in trivia(text)
             if kind == "comment" or not any(plan.span.start <= start < plan.span.end for plan in tree.plans)]
    displays = [start for kind, start, _ in marks if kind == "display"]
    pairs = list(zip(displays[::2], displays[1::2], strict=False))
    rows = sorted(_rows(tree.statements, Writer(spelling, names), pairs, 0), key=lambda r: r.start)
    for plan in reversed(tree.plans):
        at = sum(row.start < plan.span.start for row in rows)
        rows[at:at] = _plan(plan, _depth(rows, at - 1, plan.span.start, text))
    return _joined(_commented(rows, [(a, b) for kind, a, b in marks if kind == "comment"], text), text)


def _plan(plan: s.Plan, depth: int) -> Iterator[_Row]:
    """A row for the head of a plan and for each of its lines."""
    source, head = plan.span.source, plan.span.start
    end = source.text.index(":", plan.name.span.end) + 1
    yield _Row(head, end, depth, column(source, head), f"plan {plan.name.text}:")
    for line in plan.lines:
        start, end = line.span.start, line.span.end
        yield _Row(start, end, depth + 1, column(source, start), " ".join(line.span.text.split()))


def _rows(statements: tuple[s.Statement, ...], writer: Writer, displays: list[tuple[int, int]],
          depth: int) -> Iterator[_Row]:
    """A row for each statement and for each mark of a display."""
    pad = _INDENT * depth
    for at, statement in enumerate(statements):
        start, end = statement.span.start, statement.span.end
        here = bisect_right(displays, (start, end)) - 1
        around = displays[here] if here >= 0 and start < displays[here][1] else None
        place = column(statement.span.source, around[0] if around else start)
        if around and not (at and statements[at - 1].span.start > around[0]):
            yield _Row(around[0], around[0] + 2, depth, place, "$$")
        last = around is None or not (at + 1 < len(statements) and statements[at + 1].span.start < around[1])
        shown = said(statement, replace(writer, pad=pad + _INDENT), pad if around else None)
        yield _Row(start, end, depth, place, shown if last else f"{shown} \\\\")
        if around and last:
            yield _Row(around[1], around[1] + 2, depth, place, "$$")
        yield from _rows(statement.block, writer, displays, depth + 1)


# comments and blank lines


def _commented(rows: list[_Row], comments: list[tuple[int, int]], text: str) -> list[_Row]:
    """The rows with the comments: at a row's end where it stands there, else a row of its own before the next one."""
    out = list(rows)
    above: list[tuple[int, _Row]] = []
    for start, end in comments:
        at = bisect_right(out, start, key=lambda row: row.start) - 1
        shown = text[start:end].rstrip()
        if at >= 0 and out[at].end <= start and "\n" not in text[out[at].end : start]:
            out[at] = replace(out[at], end=end, text=f"{out[at].text}  {shown}")
        elif at >= 0 and start < out[at].end:
            above.append((at, _Row(out[at].start, out[at].start, out[at].depth, out[at].column, shown, True)))
        else:
            above.append((at + 1, _Row(start, end, _depth(out, at, start, text), 0, shown, True)))
    for at, row in reversed(above):
        out.insert(at, row)
    return out


def _depth(rows: list[_Row], at: int, start: int, text: str) -> int:
    """How deep a comment of its own stands: as deep as its column says, between the rows around it."""
    least = rows[at + 1].depth if at + 1 < len(rows) else 0
    place = len(text[text.rfind("\n", 0, start) + 1 : start].expandtabs(8))
    while at >= 0 and rows[at].depth > least:
        if rows[at].column <= place:
            return rows[at].depth
        at -= 1
    return least


def _joined(rows: list[_Row], text: str) -> str:
    out: list[str] = []
    before: _Row | None = None
    for row in rows:
        if before is not None and _BLANK.search(text[before.end : row.start]):
            out.append("")
        out.append(_INDENT * row.depth + row.text)
        before = row
    return "".join(f"{line}\n" for line in out)


def alike(one: Span, other: Span) -> bool:
    """Whether two lines are one line, however it is spelled and laid out."""
    return one.text == other.text or _plain(one) == _plain(other)


def _plain(span: Span) -> list[tuple[str, str]]:
    """The words of a line in the one spelling."""
    tree = parse(Source("", f"$${span.text}$$"), Report())
    text = "\n".join(said(statement, Writer("unicode", Names())) for statement in tree.statements)
    return [(w.type, w.value) for w in words(Source("", text), Report())]


# statements


def said(statement: s.Statement, writer: Writer, pad: str | None = None) -> str:
    """One statement; `pad` is what further equations of a display start with, where the
    author gave them lines of their own."""
    head = [*(["override"] if statement.override else []), *([statement.keyword] if statement.keyword else [])]
    if statement.keyword in ("use", "section", "ignore"):
        first = statement.clauses[0].body
        name = first.text if isinstance(first, s.Word) else ""
        return f'{statement.keyword} "{name}"' + (":" if statement.keyword == "section" else "")
    listing = replace(writer, run=True) if statement.keyword in ("index", "dim", "for") else writer
    shown = " ".join([*head, _clauses(statement.clauses, listing, pad)])
    if statement.keyword == "for":
        return f"{shown}:"
    return shown + _tail(statement, writer)


def _clauses(clauses: tuple[s.Clause, ...], writer: Writer, pad: str | None) -> str:
    """Writes the clauses of a statement, with `with` or a comma between; `pad` starts a line that continues one."""
    out = ""
    before: s.Clause | None = None
    apart = replace(writer, pad=pad)
    for clause in clauses:
        if before is not None and clause.after == "with":
            out += f"{(writer if pad is None else apart).between(before, clause)}{writer.sign('with')} "
        elif before is not None:
            out += apart.comma(before, clause)
        out += writer.text(clause.body) + (f" as {clause.alias}" if clause.alias else "")
        before = clause
    return out


def _tail(statement: s.Statement, writer: Writer) -> str:
    """What follows the colon; of a claim, what it assumes and for what it holds."""
    out = ""
    before = statement.clauses[-1]
    for joint, clause in joints(statement):
        out += writer.comma(before, clause) if joint == "," else " : " if joint == ":" else f" {joint} "
        out += _kind(_shaped(clause.body) if statement.keyword in SHAPED else clause.body, writer)
        before = clause
    return out


def _shaped(node: s.Expression) -> s.Expression:
    """A shape, with `×` between its sides."""
    if not isinstance(node, s.Product):
        return node
    return replace(node, operators=tuple("×" if x == "*" else x for x in node.operators))


def joints(statement: s.Statement) -> Iterator[tuple[str, s.Clause]]:
    """The clauses behind the head, each with what stands before it."""
    end = statement.clauses[-1].span.end
    for at, clause in enumerate(statement.tail):
        gap = statement.span.source.text[end : clause.span.start].split()
        joint = "assuming" if "assuming" in gap else "for all" if "for" in gap else "," if at else ":"
        yield joint, clause
        end = clause.span.end


def _kind(node: s.Expression, writer: Writer) -> str:
    """A class with its extent, a type, a condition: words of the language stay plain in every spelling."""
    match node:
        case s.Word():
            return replace(writer, run=True).text(node)
        case s.Product((s.Word(name), s.Group() as extent), ("", "")):
            return f"{name}{writer.group(extent)}" if name.isascii() else writer.text(node)
        case s.Relation((s.Product((s.Word(), s.Group())) | s.Word() as left, right), ("=",)):
            return f"{_kind(left, writer)} = {replace(writer, run=True).text(right)}"
    return writer.text(node)
