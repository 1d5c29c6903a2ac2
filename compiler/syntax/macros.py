"""Macros of an author, and what a macro takes."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ARGUMENT = re.compile(r"\s*(?:(\{)|(\\[A-Za-z]+|\\.|[^\s\\{}$&#]))", re.S)
_BRACE = re.compile(r"\\.|[{}]", re.S)

# Of each macro: how many arguments it takes, and what it stands for, with #1 … #9 in it.
Macros = Mapping[str, tuple[int, str]]


def argument(text: str, at: int) -> tuple[str, int] | None:
    """What a macro takes at a place: a group without its braces, a macro or a character; and the place after it."""
    found = _ARGUMENT.match(text, at)
    if found is None:
        return None
    if found[2] is not None:
        return found[2], found.end()
    depth = 1
    for brace in _BRACE.finditer(text, found.end()):
        depth += (brace[0] == "{") - (brace[0] == "}")
        if depth == 0:
            return text[found.end() : brace.start()], brace.end()
    return None
