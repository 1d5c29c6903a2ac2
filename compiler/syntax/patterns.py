"""The strings of einsum and of einops: letters and words for axes."""

from __future__ import annotations

import re
from dataclasses import dataclass


class PatternError(Exception):
    """A string that is not read; the message says why, and `ways` are ways out."""

    def __init__(self, message: str, *ways: str) -> None:
        super().__init__(message)
        self.message, self.ways = message, ways


_PIECE = re.compile(r"\s*(?:(?P<open>\()|(?P<close>\))|(?P<name>[A-Za-z_]\w*|\d+)|(?P<dots>\.\.\.|…))")


@dataclass(frozen=True)
class Subscripts:
    """The letters of each operand, and those of the result in their order."""

    operands: tuple[tuple[str, ...], ...]
    out: tuple[str, ...]


def subscripts(text: str) -> Subscripts:
    """`bhtd,bhsd->bhts`, or without an arrow the letters that stand once, in the order of the alphabet. Raises
    PatternError."""
    compact = text.replace(" ", "")
    if "." in compact:
        raise PatternError("`...` in a string of einsum stands for axes whose number nothing says",
                           "write a letter for each axis")
    left, arrow, right = compact.partition("->")
    operands = tuple(tuple(part) for part in left.split(","))
    every = [x for part in operands for x in part]
    wrong = [x for x in (*every, *right) if not x.isalpha() or not x.isascii()]
    if wrong:
        raise PatternError(f"`{wrong[0]}` in a string of einsum is no letter")
    out = tuple(right) if arrow else tuple(sorted(x for x in set(every) if every.count(x) == 1))
    missing = [x for x in out if x not in every]
    if missing or len(set(out)) < len(out):
        raise PatternError(f"`{missing[0] if missing else right}` after the arrow " + (
            "stands in no operand" if missing else "has a letter twice"))
    return Subscripts(operands, out)


Names = tuple[str, ...]  # the words of one axis: several in parentheses, none for an axis of one element


def pattern(text: str) -> tuple[tuple[Names, ...], tuple[Names, ...]]:
    """`b t (h d) -> b h t d`: the axes before and after. Raises PatternError."""
    left, arrow, right = text.partition("->")
    if not arrow or "->" in right:
        raise PatternError("a pattern has one `->`")
    return axes(left), axes(right)


def axes(text: str) -> tuple[Names, ...]:
    """`b t (h d) 1` -> (b), (t), (h, d), (). Raises PatternError."""
    found: list[Names] = []
    group: list[str] | None = None
    at = 0
    text = text.rstrip()
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None or piece["dots"]:
            raise PatternError(f"`{text[at:].strip()[:10]}` in a pattern is not read", "write a name for each axis")
        at = piece.end()
        if (name := piece["name"]) is not None:
            if name.isdigit() and name != "1":
                raise PatternError(f"`{name}` in a pattern is no axis of one element")
            words = () if name == "1" else (name,)
            if group is None:
                found.append(words)
            else:
                group += words
        elif piece["open"] and group is None:
            group = []
        elif piece["close"] and group is not None:
            found.append(tuple(group))
            group = None
        else:
            raise PatternError("the parentheses of a pattern do not match")
    if group is not None:
        raise PatternError("the parentheses of a pattern do not match")
    return tuple(found)
