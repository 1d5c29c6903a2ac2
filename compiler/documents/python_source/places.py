"""Where a part of a Python text stands: `ast` counts bytes, a source counts characters."""

from __future__ import annotations

from einc.errors.report import Source


def offset(source: Source, line: int, column: int) -> int:
    """The offset of a place that `ast` gives: a line from 1, and the bytes of UTF-8 before it in the line. `ast` also
    ends a line at a carriage return alone: a place behind the source's last line is the text's end.
    """
    if line > source.position(len(source.text))[0]:
        return len(source.text)
    return source.start(line) + len(source.line(line).encode()[:column].decode(errors="ignore"))
