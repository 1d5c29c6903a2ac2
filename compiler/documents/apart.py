"""A display of which something cannot be read, cut where a left side begins: a broken row spoils itself alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from einc.documents.document import Formula

_MARKS = re.compile(r"\\begin\s*\{(?P<begin>[a-z*]+)\}|\\end\s*\{(?P<end>[a-z*]+)\}|(?P<cut>\\\\|\\q?quad(?![A-Za-z]))"
                    r"|\\.|(?P<open>[{(\[])|(?P<close>[})\]])", re.S)
_LAYOUT = ("aligned", "alignedat", "gathered", "split")
# A left side: names with scripts and what stands in their brackets, then a sign of equality.
_BEGINS = re.compile(rf"(?:[\s&]|\\[,;:! ]|\\(?:begin|end)\{{(?:{'|'.join(_LAYOUT)})\}}|\\q?quad(?![A-Za-z])|\\\\)*"
                     r"(?!\\(?:times|cdot|odot|circ|oplus|otimes|in|le|ge|leq|geq|implies|text)(?![A-Za-z]))[A-Za-z\\]"
                     r"[^=&+\-*/<>]*&?\s*(?:=|:=|\\equiv(?![A-Za-z])|\\coloneqq|\\leftarrow|\\gets)", re.S)


def parts(text: str, formula: Formula) -> list[tuple[int, int]]:
    """Where the pieces of a formula stand that each begin with a left side; the whole where there are no two."""
    start, end = formula.span.start, formula.span.end
    cuts = [start, *(x for x in _cuts(text, start, end) if _BEGINS.match(text, x, end) is not None), end]
    return [(a, b) for a, b in pairwise(cuts) if text[a:b].strip()]


def _cuts(text: str, start: int, end: int) -> Iterator[int]:
    """The places of line ends and wide spaces that stand in no brackets and no environment but one of layout."""
    depth = 0
    for found in _MARKS.finditer(text, start, end):
        match found.lastgroup:
            case "begin" | "end" if found[found.lastgroup] not in _LAYOUT:
                depth += 1 if found.lastgroup == "begin" else -1
            case "open" | "close":
                depth += 1 if found.lastgroup == "open" else -1
            case "cut" if depth <= 0:
                yield found.start()
