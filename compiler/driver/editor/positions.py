"""Places as editors count them: lines from 0, and characters of a line from 0 in units of UTF-16."""

from __future__ import annotations

from dataclasses import dataclass

from einc.errors.report import Source, Span


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A place between two characters."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Range:
    """What stands from `start` up to `end`."""

    start: Position
    end: Position

    def meets(self, other: Range) -> bool:
        """Whether the two have a place in common, or touch."""
        return self.start <= other.end and other.start <= self.end


START = Range(Position(0, 0), Position(0, 0))


def units(text: str) -> int:
    """How many units of UTF-16 a text has: a character beyond the first 65536 has two."""
    return len(text) + sum(character > "\uffff" for character in text)


def position(source: Source, offset: int) -> Position:
    """The line and the UTF-16 column of an offset in code points, both counted from 0."""
    line, column = source.position(offset)
    start = source.start(line)
    return Position(line - 1, units(source.text[start:start + column - 1]))


def offset(source: Source, place: Position) -> int:
    """The offset of a place; one behind the end of its line, or of the text, is that end."""
    lines = source.text.count("\n") + 1
    if place.line >= lines:
        return len(source.text)
    start, left = source.start(place.line + 1), place.character
    text = source.line(place.line + 1)
    for at, character in enumerate(text):
        left -= units(character)
        if left < 0:
            return start + at
    return start + len(text)


def range_of(span: Span) -> Range:
    """The places of a span in its text."""
    return Range(position(span.source, span.start), position(span.source, span.end))


def whole(source: Source) -> Range:
    """The range from the first to the last character of a source."""
    return Range(START.start, position(source, len(source.text)))
