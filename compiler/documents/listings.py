r"""Matrices written out by their rows: `K = \underbrace{\begin{bmatrix} - & k_1 & - \\ … \end{bmatrix}}_{m \times d}`.

Such a display says which shape a name has, and no more that an equation could read.
"""

from __future__ import annotations

import re

from einc.documents import shapes

_KIND = r"\{(?:[bp]?matrix|array)\}"
_WRITTEN = re.compile(
    rf"(?P<left>[^=]*?)\s*&?\s*(?:=|\\equiv(?![A-Za-z]))\s*&?\s*\\underbrace\s*\{{\s*(?:\\left\s*[\[(]\s*)?\\begin\s*"
    rf"{_KIND}(?:\s*\{{[lcr]+\}})?(?P<rows>(?:(?!\\begin|\\end).)*)\\end\s*{_KIND}(?:\s*\\right\s*[\])])?\s*\}}\s*_\s*"
    r"\{\s*(?:\\in\s*\\mathbb\s*\{?R\}?\s*\^\s*)?(?P<shape>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
    r"(?:\s|\\\\|\\q?quad(?![A-Za-z])|\\[,;: ]|[,.]|\\(?:tag|label)\s*\{[^{}]*\}|\(\d{1,4}[a-z]?\)"
    r"|\\(?:begin|end)\{(?:aligned|alignedat|gathered|split)\})*", re.S)
_DASH = re.compile(r"[-–—~\s]*|\\(?:[vcld]?dots|ddots|text\s*\{[-–—\s]*\}|rule(?:\[[^\]]*\])?\{[^{}]*\}\{[^{}]*\}"
                   r"|horzbar)\s*")
_ONE = re.compile(r"(?<![A-Za-z\d])1(?!\d)")


def rows(text: str) -> bool:
    """Whether a piece of a formula is a name, and the rows of a matrix from the first to the last above its shape."""
    found = _WRITTEN.fullmatch(text.strip(" \t\r\n&"))
    if found is None:
        return False
    sides = re.split(r"\\times(?![A-Za-z])|×", re.sub(r"\A\{(.*)\}\Z", r"\1", found["shape"].strip(), flags=re.S))
    lines = [x for x in map(_row, re.split(r"\\\\", found["rows"])) if x != ""]
    if len(sides) != 2 or None in lines or len(lines) not in (1, 2):
        return False
    first, last, many = str(lines[0]), str(lines[-1]), shapes.named(sides[0])
    if len(lines) == 1:
        return many == "1" and first == shapes.named(found["left"])
    return many != "1" and _ONE.search(first) is not None and any(
        first[: x.start()] + many + first[x.end() :] == last for x in _ONE.finditer(first))


def _row(text: str) -> str | None:
    """The name that a row is of, between dashes; "" of one that only says that there are more, None of another one."""
    cells = [x for x in re.split(r"(?<!\\)&", text) if _DASH.fullmatch(x.strip()) is None]
    return "" if not cells else shapes.named(cells[0]) if len(cells) == 1 else None
