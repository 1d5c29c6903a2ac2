"""Document: what a paper holds that is mathematics, each piece where it stands in the file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

from einc.errors.report import Problem, Source, Span
from einc.syntax.macros import NONE, Macros

Holes = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: its words without markup, 1 for the highest level."""

    title: str
    level: int
    span: Span


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula: `span` is what stands between its dollars or in its environment.

    `section` is the place of its heading in the document's, -1 before the first. `holes` are stretches of the
    file inside the span that are no part of it, such as the `> ` of a quotation. `skip` says why it is not read,
    where the author said so. `problem` is that of a formula that has no end: then the span is its beginning
    alone, and what follows is read as prose. `code`: it is a line of Python, and no mathematics.
    """

    span: Span
    display: bool
    section: int
    holes: Holes = ()
    skip: str = ""
    problem: Problem | None = None
    code: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """The text inside an `ein` fence: declarations for the whole document."""

    span: Span
    section: int
    holes: Holes = ()


@dataclass(frozen=True, slots=True)
class Macro:
    """A `\\newcommand`: how many arguments it takes, what it stands for, with #1 … #9 in it, and the default of the
    first argument where that is optional.
    """

    arguments: int
    body: str
    span: Span
    default: str | None = None


@dataclass(frozen=True)
class Ignored:
    """The words of an `ignore` line of a side file, and the sentences in which they stand."""

    words: str
    sentences: tuple[Span, ...]


@dataclass(frozen=True)
class Document:
    """A paper, its pieces in the order of the file, and what of it could not be read.

    `algorithms` are displays that are sections of their own, numbered behind the headings, and `parents` the sections
    in which they stand. `ignored` has sentences that a side file says change no formula.
    """

    source: Source
    headings: tuple[Heading, ...]
    formulas: tuple[Formula, ...]
    fences: tuple[Fence, ...] = ()
    macros: Macros = NONE
    problems: tuple[Problem, ...] = ()
    algorithms: tuple[Heading, ...] = ()
    parents: tuple[int, ...] = ()
    ignored: tuple[Ignored, ...] = ()

    @cached_property
    def words(self) -> str:
        """The text with blanks for the sentences that are ignored."""
        text = self.source.text
        for x in {y: None for line in self.ignored for y in line.sentences}:
            text = text[: x.start] + "".join(c if c.isspace() else " " for c in x.text) + text[x.end :]
        return text

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text of each formula as it stands in the document."""
        return tuple(x.span.text for x in self.formulas)

    def formula_at(self, place: int) -> Formula | None:
        """The formula at a place inside it or of its last mark; None where none stands there."""
        at = bisect_left(self.formulas, place - 1, key=lambda x: x.span.end)
        return next((x for x in self.formulas[at : at + 1] if x.span.start <= place), None)

    def formula_behind(self, place: int) -> Formula | None:
        """The first formula that begins at a place or behind it; None where none does."""
        at = bisect_left(self.formulas, place, key=lambda x: x.span.start)
        return next(iter(self.formulas[at : at + 1]), None)

    def title(self, section: int) -> str:
        """The words of a section's heading, "" before the first."""
        return (*self.headings, *self.algorithms)[section].title if section >= 0 else ""

    def parent(self, section: int) -> int | None:
        """The section in which an algorithm stands; None for another section."""
        return self.parents[section - len(self.headings)] if section >= len(self.headings) else None

    def around(self, section: int) -> tuple[int, ...]:
        """A section, those in which it stands from the inside out, and what comes before the first heading."""
        if (parent := self.parent(section)) is not None:
            return (section, *self.around(parent))
        found = [section]
        for at in range(section - 1, -1, -1):
            if self.headings[at].level < self.headings[found[-1]].level:
                found.append(at)
        return (*found, -1) if section >= 0 else (-1,)

    def definitions(self) -> list[Span]:
        """Where macros are defined, which is no prose."""
        return [m.span for _, meanings in self.macros.lines.values() for m in meanings if isinstance(m, Macro)]

    def text(self, span: Span) -> str:
        """What stands in a piece of a formula, without its holes."""
        at = bisect_right(self.formulas, span.start, key=lambda f: f.span.start) - 1
        holes = self.formulas[at].holes if at >= 0 else ()
        inside = [(start, end) for start, end in holes if span.start <= start < span.end]
        starts = [span.start, *(end for _, end in inside)]
        ends = [*(start for start, _ in inside), span.end]
        return "".join(self.source.text[a:b] for a, b in zip(starts, ends, strict=True))
