"""Bytes -> the text of a file; what is none is a problem, not a crash. And the column of a place in one."""

from __future__ import annotations

from einc.errors.problems import NotText
from einc.errors.report import Help, Report, Source, Span

MAX_CHARACTERS = 2_000_000
MAX_BYTES = 4 * MAX_CHARACTERS  # of a file of so many characters
MAX_STATEMENTS = 5_000  # of a text; of a document, formulas


def too_large(what: str, span: Span | None) -> NotText:
    """Builds the problem of a text with too many characters; `what` names it with its length."""
    return NotText(f"{what}, more than the {MAX_CHARACTERS:,} characters that are read", span,
                   helps=(Help("split it, and `use` the parts"),))


def too_many(what: str, span: Span | None) -> NotText:
    """Builds the problem of a text with too many statements; `what` names it with their number."""
    return NotText(f"{what}, more than the {MAX_STATEMENTS:,} that are read", span,
                   helps=(Help("split it into texts that are compiled one by one"),))


def read_bytes(name: str, data: bytes, report: Report, most: int = MAX_BYTES) -> Source:
    """The text of a file; what is too large or not UTF-8 is a problem, not a crash. Changes `report`."""
    if len(data) > most:
        report.add(too_large(f"{name} has more than {most:,} bytes", None))
        return Source(name, "")
    try:
        return Source(name, plain(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        report.add(NotText(f"{name} is not UTF-8: byte {data[error.start]:#04x} on line {line}", None,
                           helps=(Help("save it as UTF-8"),)))
        return Source(name, "")


def plain(text: str) -> str:
    """The text without a byte order mark and with one kind of line end."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def column(source: Source, at: int) -> int:
    """The column of a place, from 0; a tab leads to the next multiple of 8."""
    start = source.text.rfind("\n", 0, at) + 1
    return len(source.text[start:at].expandtabs(8))
