"""A paragraph -> its formulas: dollars, `\\( \\)`, `\\[ \\]` and environments that stand in prose.

One pass from left to right, each mark looked at a bounded number of times: a search that
finds no end is not made again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from einc.documents.pieces import BEGINS

Kind = Literal["inline", "display", "skip", "unclosed"]

# A comment that says why the formula after it is not to be read.
SKIP = re.compile(r"<!--\s*ein\s*:\s*skip\b:?(?P<reason>.*?)-->", re.S)
OPENING = re.compile(BEGINS)

_MARKS = re.compile(rf"{BEGINS}|\\.|\$\$?|`+|<!--|</?[A-Za-z]", re.S)
_PLAIN = re.compile(rf"{BEGINS}|\\.|\$\$?", re.S)
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>")
_SILENT = re.compile(r"<(pre|code|script|style|textarea)\b", re.I)
_MATHEMATICAL = re.compile(r"[\\_^=<>]|^\s*[A-Za-z]\s*$")
_PROSE = re.compile(r"\s.*[A-Za-z]{2}|[A-Za-z]{2}.*\s", re.S)
_SURELY = re.compile(r"[\\^=]")
MAX_TAG = 1_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A formula's inside, or a reason to skip the next, between two places of the text."""

    kind: Kind
    start: int
    end: int
    text: str = ""


def scan(text: str, markup: bool = True) -> Iterator[Piece]:
    """The pieces of a paragraph in order. `markup`: code between backticks and HTML are not prose."""
    return _Scanner(text, markup).pieces()


@dataclass
class _Scanner:
    """`absent` are ends that stand nowhere in the rest of the text; `ticks` the places of
    runs of backticks by their length."""

    text: str
    markup: bool
    absent: set[str] = field(default_factory=set)
    ticks: dict[int, list[int]] | None = None

    def pieces(self) -> Iterator[Piece]:
        """The pieces from left to right. It changes `absent` and `ticks`, so one scanner serves for one pass."""
        at, marks = 0, _MARKS if self.markup else _PLAIN
        while found := marks.search(self.text, at):
            mark, start = found[0], found.start()
            piece: Piece | None = None
            match mark[:2]:
                case "$$":
                    at, piece = self._between("$$", "$$", start)
                case "$":
                    at, piece = self._dollar(start)
                case "\\[":
                    at, piece = self._between("\\[", "\\]", start)
                case "\\(":
                    at, piece = self._between("\\(", "\\)", start)
                case "\\b" if len(mark) > 2:
                    at, piece = self._environment(start)
                case "<!":
                    at, piece = self._comment(start)
                case _ if mark[0] == "`":
                    at = self._code(start, len(mark))
                case _ if mark[0] == "<":
                    at = self._tag(start)
                case _:
                    at = found.end()
            if piece is not None:
                yield piece

    def _find(self, what: str, at: int) -> int:
        """The next place of a text that no backslash stands before, or -1."""
        while what not in self.absent:
            end = self.text.find(what, at)
            if end < 0:
                self.absent.add(what)
                break
            if what[0] == "\\" or not _escaped(self.text, end):
                return end
            at = end + 1
        return -1

    def _between(self, opener: str, closer: str, start: int) -> tuple[int, Piece | None]:
        begin = start + len(opener)
        end = self._find(closer, begin)
        if end < 0:
            told = opener == "$$" and not self.text[self.text.rfind("\n", 0, start) + 1 : start].strip()
            return begin, Piece("unclosed", start, begin, "$$") if told else None
        inner = self.text[begin:end]
        if not inner.strip() or (opener[0] == "\\" and not _MATHEMATICAL.search(inner)):
            return begin, None
        return end + len(closer), Piece("inline" if opener == "\\(" else "display", begin, end)

    def _dollar(self, start: int) -> tuple[int, Piece | None]:
        """A single dollar: the next one closes it where both can be those of a formula rather than of prices."""
        end = self._find("$", start + 1)
        if end < 0:
            return start + 1, None
        inner = self.text[start + 1 : end]
        if not inner.strip() or (self.text[end + 1 : end + 2].isdigit() and not _SURELY.search(inner)):
            return start + 1, None
        if _PROSE.search(inner) and not _MATHEMATICAL.search(inner):
            return start + 1, None
        spaces = inner[0].isspace() + inner[-1].isspace()
        if (spaces == 2 and not _MATHEMATICAL.search(inner)) or (spaces == 1 and not _SURELY.search(inner)):
            return start + 1, None
        quoted = len(inner) > 2 and inner[0] == inner[-1] == "`" and self.markup
        return end + 1, Piece("inline", start + 1 + quoted, end - quoted)

    def _environment(self, start: int) -> tuple[int, Piece | None]:
        opening = OPENING.match(self.text, start)
        assert opening is not None
        closer = rf"\end{{{opening['math']}}}"
        end = self._find(closer, opening.end())
        if end < 0:
            return opening.end(), Piece("unclosed", start, opening.end(), closer)
        return end + len(closer), Piece("inline" if opening["math"] == "math" else "display", opening.end(), end)

    def _comment(self, start: int) -> tuple[int, Piece | None]:
        end = self._find("-->", start)
        if end < 0:
            return start + 4, None
        said = SKIP.match(self.text, start, end + 3)
        return end + 3, Piece("skip", start, end + 3, reason(said["reason"])) if said else None

    def _code(self, start: int, length: int) -> int:
        """After a run of backticks, and after the run of the same length that closes it, where there is one."""
        if self.ticks is None:
            self.ticks = {}
            for run in re.finditer("`+", self.text):
                self.ticks.setdefault(len(run[0]), []).append(run.start())
            for places in self.ticks.values():
                places.reverse()
        places = self.ticks.get(length, [])
        while places and places[-1] <= start:
            places.pop()
        return places[-1] + length if places else start + length

    def _tag(self, start: int) -> int:
        """After a tag, or after the element where its text is not prose."""
        tag = _TAG.match(self.text, start, start + MAX_TAG)
        if tag is None:
            return start + 1
        if silent := _SILENT.match(tag[0]):
            closer = f"</{silent[1].lower()}>"
            end = self._find(closer, tag.end())
            return end + len(closer) if end >= 0 else tag.end()
        return tag.end()


def reason(text: str) -> str:
    """Why a formula is skipped, in the author's words."""
    return " ".join(text.split()).strip(":,- ") or "the author skips it"


def _escaped(text: str, at: int) -> bool:
    """Whether an odd number of backslashes stands before a place."""
    before = at
    while before > 0 and text[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 1
