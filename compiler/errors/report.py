"""Where a text comes from, what is wrong with it, and how that is shown.

A `Problem` is one error of one kind; a kind is a class in `problems` that owns the example which triggers it.
Problems are collected, not fatal: a pass reports what it finds and goes on.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar


@dataclass(frozen=True)
class Piece:
    """Where a stretch of a text that was put together comes from: from `start` on it is the file `name`, or a cell of
    that notebook, from an offset on, which is on a line at a column of it.
    """

    start: int
    name: str
    line: int = 1
    column: int = 1
    offset: int = 0
    cell: int = 0  # of a notebook, counted from 1


@dataclass(frozen=True)
class Place:
    """A place in the file that a person has: line and column are counted from 1, in a notebook within a cell."""

    name: str
    line: int
    column: int
    cell: int = 0
    offset: int = 0

    def __str__(self) -> str:
        if self.cell:
            return f"{self.name}, cell {self.cell}, line {self.line}, column {self.column}"
        return f"{self.name}:{self.line}:{self.column}"

    def within(self, name: str) -> str:
        """The line for a sentence about the text of this name: `line 3`, `cell 2, line 3`, `part.tex, line 3`."""
        if self.cell:
            return f"cell {self.cell}, line {self.line}"
        return f"line {self.line}" if self.name == name else f"{_last(self.name)}, line {self.line}"

    def short(self, name: str) -> str:
        """The line for a column of a table: `3`, `2:3`, `part.tex:3`."""
        if self.cell:
            return f"{self.cell}:{self.line}"
        return str(self.line) if self.name == name else f"{_last(self.name)}:{self.line}"


def _last(path: str) -> str:
    """The name of a file without its folders."""
    return path.replace("\\", "/").rpartition("/")[2]


@dataclass(frozen=True)
class Source:
    """A text with a name; positions are offsets in code points. One that was put together of several files or cells has
    their `pieces`, in the order of the text: messages tell places by these.
    """

    name: str
    text: str
    pieces: tuple[Piece, ...] = field(default=(), compare=False, repr=False)

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for at, char in enumerate(self.text):
            if char == "\n":
                starts.append(at + 1)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def place(self, offset: int, begun: int | None = None) -> Place:
        """Where an offset is for a person; with `begun` in the file or cell of that earlier offset."""
        line, column = self.position(offset)
        at = bisect_right(self.pieces, offset if begun is None else begun, key=lambda piece: piece.start) - 1
        if at < 0:
            return Place(self.name, line, column, 0, offset)
        piece = self.pieces[at]
        first, _ = self.position(piece.start)
        if line == first:
            column = piece.column + offset - piece.start
        return Place(piece.name, piece.line + line - first, column, piece.cell, piece.offset + offset - piece.start)

    def start(self, number: int) -> int:
        """Returns the offset of the first character of a line; lines are counted from 1."""
        return self._starts[number - 1]

    def line(self, number: int) -> str:
        """Returns the text of a line without its line end; lines are counted from 1."""
        start = self.start(number)
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")


@dataclass(frozen=True)
class Span:
    """A piece of a source, from `start` up to `end`."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters of the text between the start and the end of this span."""
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """Returns the smallest span that holds this one and the other."""
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    def meets(self, other: Span) -> bool:
        """Whether the two have a place in common, or touch."""
        return self.source == other.source and self.start <= other.end and other.start <= self.end

    def before(self) -> Span:
        """Returns the empty span at the start of this one."""
        return Span(self.source, self.start, self.start)

    def after(self) -> Span:
        """Returns the empty span at the end of this one."""
        return Span(self.source, self.end, self.end)


@dataclass(frozen=True)
class Label:
    """A second place that matters, with a word on why."""

    span: Span
    text: str = ""

    @property
    def caret(self) -> bool:
        """Whether what is wrong stands here, and not what it is held against."""
        return not self.text.startswith("declared")


@dataclass(frozen=True)
class Help:
    """One way out: a sentence, and the text to put in place of a span, to be applied
    without asking where it is `certain`."""

    text: str
    span: Span | None = None
    new: str | None = None
    certain: bool = True


class Problem(Exception):  # noqa: N818, it is the noun of the whole house
    """One error: a message that says one thing, and the places that matter."""

    code: ClassVar[str] = ""
    title: ClassVar[str] = ""
    example: ClassVar[str] = ""
    example_name: ClassVar[str] = "example.ein"  # a document's ends in .md
    explanation: ClassVar[str] = ""
    section: ClassVar[str] = ""  # of grammar/README.md, such as "4.3"
    severity: ClassVar[str] = "error"
    registry: ClassVar[dict[str, type[Problem]]] = {}

    def __init__(self, message: str, span: Span | None = None, label: str = "", *labels: Label,
                 notes: tuple[str, ...] = (), helps: tuple[Help, ...] = (), once: object = None,
                 against: tuple[Span, ...] = ()) -> None:
        """`once` is the slip behind a problem: another one with the same slip is not told again. `against` are lines
        that it was held against: where one of them is wrong itself, this follows from it.
        """
        super().__init__(message)
        self.message = message
        self.span = span
        self.label = label
        self.labels = labels
        self.notes = notes
        self.helps = helps
        self.once = once
        self.against = against

    def __init_subclass__(cls, *, code: str = "", section: str = "", title: str = "", example: str = "",
                          explanation: str = "",
                          severity: str = "error", example_name: str = "example.ein") -> None:
        """Takes the columns of a kind of error from the line of its class."""
        cls.code, cls.section, cls.severity, cls.title = code, section, severity, title
        cls.example, cls.example_name, cls.explanation = example, example_name, explanation
        if code:
            Problem.registry[code] = cls


class Silent(Problem):
    """What is wrong here follows from a problem that was told elsewhere, so it is not told again."""


@dataclass
class Report:
    """The problems found so far, in the order they were found."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what is as it should be, and worth a word
    told: set[tuple[str, str, Span | None]] = field(default_factory=set, init=False)

    def add(self, problem: Problem) -> None:
        """Takes a problem in, unless it was told already, in other words or the same."""
        key = (problem.code, problem.message, problem.span)
        if not isinstance(problem, Silent) and key not in self.told:
            self.told.add(key)
            self.problems.append(problem)

    def settle(self) -> None:
        """Leaves out what follows from another problem: the same slip told before, or
        held against a line that is wrong."""
        told: set[object] = set()
        wrong = {_line(p.span): p for p in reversed(self.sorted()) if p.span is not None and p.severity == "error"}
        kept: set[int] = set()
        for problem in self.sorted():
            same = (problem.code, problem.message, problem.span)
            known = problem.once in told or same in told
            blamed = [wrong.get(_line(span), problem) for span in problem.against]
            if not known and all(p is problem or p.against for p in blamed):
                kept.add(id(problem))
                told.update({problem.once, same} - {None})
        self.problems = [p for p in self.problems if id(p) in kept]

    @property
    def errors(self) -> list[Problem]:
        """The problems that are errors."""
        return [p for p in self.problems if p.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        """The problems that are warnings."""
        return [p for p in self.problems if p.severity == "warning"]

    def sorted(self) -> list[Problem]:
        """Returns the problems by source and place; those without a place come first."""
        return sorted(self.problems, key=lambda p: (p.span.source.name, p.span.start) if p.span else ("", -1))


def _line(span: Span) -> tuple[str, int]:
    return span.source.name, span.source.position(span.start)[0]


class EincError(Exception):
    """What the front door raises: every problem of one run, rendered."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n" + "\n".join(render(p) for p in problems))


class FaultError(EincError):
    """A rule that einc has to keep is broken, whatever the text says."""


def failure(message: str, *helps: str) -> EincError:
    """One line on what went wrong, and ways out, to be raised."""
    return EincError([Problem(message, helps=tuple(map(Help, helps)))])


def listed(names: Iterable[str]) -> str:
    """Names in backquotes with commas between them: `a`, `b`; the word none where there are none."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def width(text: str) -> int:
    """Columns a terminal gives to `text`: combining marks take none, wide characters two."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


_MAX_LINE = 160


def _clip(line: str, start: int, end: int) -> tuple[str, int, int]:
    """A long line is cut round the place that matters."""
    line = line.replace("\t", " ")
    if len(line) <= _MAX_LINE:
        return line, start, end
    left = max(0, min(start - 40, len(line) - _MAX_LINE))
    shown = line[left : left + _MAX_LINE]
    return ("…" if left else "") + shown + "…", start - left + bool(left), min(end - left, _MAX_LINE) + bool(left)


def _marked(source: Source, marks: list[tuple[Span, str, str]], gutter: int) -> list[str]:
    """The lines that the marks touch, each with its carets under it."""
    out: list[str] = []
    by_line: dict[int, list[tuple[int, int, str, str]]] = {}
    for span, char, text in marks:
        line, column = source.position(span.start)
        last, _ = source.position(span.end)
        end = column + (span.end - span.start) if last == line else len(source.line(line)) + 1
        by_line.setdefault(line, []).append((column - 1, max(end - 1, column), char, text))
    previous = 0
    for line in sorted(by_line):
        if previous and line > previous + 1:
            out.append(f"{'':>{gutter}} ⋮")
        previous = line
        items = sorted(by_line[line])
        text = source.line(line)
        told = _number(source, line, items[0][0])
        shown, start, _ = _clip(text, items[0][0], items[0][1])
        shift = start - items[0][0]
        out.append(f"{told:>{gutter}} | {shown}".rstrip())
        out.extend(f"{'':>{gutter}} | {row}"
                   for row in _caret_rows(shown, [(a + shift, b + shift, c, t) for a, b, c, t in items]))
    return out


def _number(source: Source, line: int, column: int) -> int:
    """The number of a line in the file that it is from, at a column counted from 0."""
    return source.place(source.start(line) + column).line if source.pieces else line


def _caret_rows(line: str, items: list[tuple[int, int, str, str]]) -> list[str]:
    """One row of carets, the last mark's words on it, and a row of words for each earlier mark."""
    row = [" "] * (width(line) + 2)
    places: list[tuple[int, str]] = []
    for start, end, char, text in items:
        left = width(line[:start])
        for at in range(left, max(width(line[: min(end, len(line))]), left + 1)):
            if at < len(row) and row[at] != "^":
                row[at] = char
        places.append((left, text))
    carets = "".join(row).rstrip()
    rows = [carets + (f" {places[-1][1]}" if places[-1][1] else "")]
    rows += [" " * left + text for left, text in reversed(places[:-1]) if text]
    return rows


def render(problem: Problem) -> str:
    """The whole message as plain text: the author's own line, carets, notes, help."""
    head = (f"{problem.severity}[{problem.code}]: {problem.message}" if problem.code
            else f"{problem.severity}: {problem.message}")
    out = [head]
    if problem.span is not None and problem.span.source.name:
        source = problem.span.source
        spans = [problem.span, *(label.span for label in problem.labels)]
        gutter = max(len(str(s.source.place(s.start).line)) for s in spans)
        out.append(f"{'':>{gutter}}--> {source.place(problem.span.start)}")
        marks = [(problem.span, "^", problem.label)]
        marks += [(label.span, "^" if label.caret else "-", label.text)
                  for label in problem.labels if label.span.source == source]
        out += [f"{'':>{gutter}} |", *_marked(source, marks, gutter)]
        for label in problem.labels:
            if label.span.source != source:
                out.append(f"{'':>{gutter}}::: {label.span.source.place(label.span.start)}")
                out += _marked(label.span.source, [(label.span, "-", label.text)], gutter)
    else:
        gutter = 1
    out += [f"{'':>{gutter}} = note: {note}" for note in problem.notes]
    for help_ in problem.helps:
        out.append(f"help: {help_.text}")
        out += _edited(help_, gutter)
    return "\n".join(out) + "\n"


def _edited(help_: Help, gutter: int) -> list[str]:
    """The line as it would read with the help applied, the new text underlined with plus signs."""
    if help_.span is None or help_.new is None or "\n" in help_.new:
        return []
    source = help_.span.source
    line, column = source.position(help_.span.start)
    text = source.line(line)
    if len(text) > _MAX_LINE:
        return []
    begin, end = column - 1, column - 1 + help_.span.end - help_.span.start
    edited = text[:begin] + help_.new + text[end:]
    plus = " " * width(text[:begin]) + "+" * max(width(help_.new.rstrip()), 1)
    return [f"{'':>{gutter}} |", f"{_number(source, line, begin):>{gutter}} | {edited}", f"{'':>{gutter}} | {plus}"]


def as_json(problem: Problem) -> dict[str, Any]:
    """The problem as plain data, for editors."""

    def place(span: Span | None) -> dict[str, Any] | None:
        if span is None:
            return None
        first, last = span.source.place(span.start), span.source.place(span.end, span.start)
        return {"file": first.name, **({"cell": first.cell} if first.cell else {}), "line": first.line,
                "column": first.column, "end_line": last.line, "end_column": last.column, "start": first.offset,
                "end": last.offset}

    return {
        "code": problem.code, "severity": problem.severity, "message": problem.message, "span": place(problem.span),
        "label": problem.label, "labels": [{"span": place(x.span), "text": x.text} for x in problem.labels],
        "notes": list(problem.notes),
        "helps": [{"text": h.text, "span": place(h.span), "new": h.new, "certain": h.new is not None and h.certain}
                  for h in problem.helps],
    }
