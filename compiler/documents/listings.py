r"""Matrices written out by their rows: `K = \underbrace{\begin{bmatrix} - & k_1 & - \\ … \end{bmatrix}}_{m \times d}`.

Such a display says which shapes names have, and that `k_i` is the i-th row of `K`; it is no equation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from einc.documents import shapes

_KIND = r"\{(?:[bp]?matrix|array)\}"
_DEEP = r"(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*"
_MATRIX = re.compile(
    rf"(?P<brace>\\underbrace\s*\{{\s*)?(?:\\left\s*[\[(]\s*)?\\begin\s*{_KIND}(?:\s*\{{[lcr]+\}})?"
    rf"(?P<rows>(?:(?!\\begin|\\end).)*)\\end\s*{_KIND}(?:\s*\\right\s*[\])])?(?(brace)\s*\}})\s*_\s*"
    rf"\{{\s*(?:\\in\s*\\mathbb\s*\{{?R\}}?\s*\^\s*)?(?:(?P<part>[^{{}}:]*(?:\{{[^{{}}]*\}}[^{{}}:]*)*):)?"
    rf"(?P<shape>{_DEEP})\}}", re.S)
_LEFT = re.compile(r"(?P<left>(?:(?!\\begin|\\underbrace|\\left)[^=])*?)\s*&?\s*"
                   r"(?:=|\\equiv(?![A-Za-z]))\s*&?\s*", re.S)
_BETWEEN = re.compile(
    r"(?:\s|\\\\|\\q?quad(?![A-Za-z])|\\[,;: ]|[,.]|\\(?:[lc]?dots)(?![A-Za-z])|\\(?:tag|label)\s*\{[^{}]*\}"
    r"|\(\d{1,4}[a-z]?\)|\\(?:begin|end)\{(?:aligned|alignedat|gathered|split)\})*", re.S)
_DASH = re.compile(r"[-–—~\s]*|\\(?:[vcld]?dots|ddots|text\s*\{[-–—\s]*\}|rule(?:\[[^\]]*\])?\{[^{}]*\}\{[^{}]*\}"
                   r"|horzbar)\s*")
_ROW, _PLAIN = re.compile(r"_1(\\?[A-Za-z]+)"), re.compile(r"\\?[A-Za-z]+")
_ONE = re.compile(r"(?<![A-Za-z\d])1(?!\d)")


@dataclass(frozen=True)
class Rows:
    """The rows of one matrix: the first of them as it is named, without spaces and fonts, how many there are, and the
    name of the matrix, "" where it has none.
    """

    first: str
    many: str
    whole: str
    named: bool = True  # whether an equals sign stands before it

    @property
    def alias(self) -> tuple[str, str] | None:
        """The letter of a row and of its matrix, k and K where `k_1` is the first row of K; None for other names."""
        found = _ROW.fullmatch(self.first)
        return (found[1], self.whole) if found is not None and _PLAIN.fullmatch(self.whole) else None


def rows(text: str) -> tuple[Rows, ...]:
    """What a piece of a formula says that is names, if any, and the rows of matrices from the first to the last, each
    above or beside its shape; none of what says anything else.
    """
    found = list(_matrices(text.strip(" \t\r\n&")))
    if not found or None in found:
        return ()
    listed = [x for x in found if x is not None]
    # `K = [rows] … [rows]` says of which parts K is made, and not that the rows are its own.
    return tuple(replace(x, whole="") if after is not None and not after.named else x
                 for x, after in zip(listed, (*listed[1:], None), strict=True))


def _matrices(text: str) -> Iterator[Rows | None]:
    """Each matrix; None for what is no list of rows."""
    at = 0
    if (begin := _BETWEEN.match(text)) is not None:
        at = begin.end()
    while at < len(text):
        left = _LEFT.match(text, at)
        start = left.end() if left is not None else at
        name = shapes.named(left["left"]) if left is not None else ""
        found = _MATRIX.match(text, start)
        if found is None:
            yield None
            return
        yield from _matrix(found, name, left is not None)
        between = _BETWEEN.match(text, found.end())
        at = between.end() if between is not None else found.end()


def _matrix(found: re.Match[str], name: str, named: bool) -> Iterator[Rows | None]:
    """The rows of one matrix: of each kind that stand side by side."""
    inner = re.sub(r"\A\{(.*)\}\Z", r"\1", found["shape"].strip(), flags=re.S)
    sides = re.split(r"\\times(?![A-Za-z])|×", inner, maxsplit=1)
    lines = [x for x in map(_cells, re.split(r"\\\\", found["rows"])) if x]
    if len(sides) != 2 or len(lines) not in (1, 2) or len({len(x) for x in lines}) > 1:
        yield None
        return
    many = shapes.named(sides[0])
    for first, last in zip(lines[0], lines[-1], strict=True):
        alone = len(lines) == 1 and many == "1" and first == name
        counted = len(lines) == 2 and many != "1" and any(
            first[: x.start()] + many + first[x.end() :] == last for x in _ONE.finditer(first))
        whole = name if len(lines[0]) == 1 else ""
        yield Rows(first, many, whole, named) if alone or counted else None


def _cells(text: str) -> list[str]:
    """The names in a row, between dashes or behind one; none in a row that only says that there are more."""
    cells = (x.strip() for x in re.split(r"(?<!\\)&", text))
    return [shapes.named(x.removeprefix("-")) for x in cells if _DASH.fullmatch(x) is None]
