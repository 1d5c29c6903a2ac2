"""The shapes that comments of a Python source give."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"[A-Za-z_][\w.]*"
_SHAPE = re.compile(rf"(?:(?<![\w.])(?:(?P<names>{_NAME}(?:\s*,\s*{_NAME})+)\s*[:=]|"
                    rf"(?P<name>{_NAME})\s*(?::|=|is|of shape)?)\s*)?"
                    rf"(?P<open>[\[(])(?P<inner>\s*(?:{_NAME}|\d+)(?:\s*[,×]\s*(?:{_NAME}|\d+))*\s*,?\s*)[\])]")


@dataclass(frozen=True)
class Shape:
    """`x[B, L, d]` in a comment: the name, where there is one, and the sizes. Names that share sizes share a place."""

    name: str
    sizes: tuple[str, ...]
    start: int = 0  # where the name begins in the comment
    end: int = 0  # and where the sizes end


def shapes(comment: str) -> list[Shape]:
    """The shapes that a comment gives; `q, k: (T, d)` gives one to each of its names."""
    return [Shape(name, tuple(re.findall(r"[\w.]+", found["inner"])), found.start(), found.end())
            for found in _SHAPE.finditer(comment)
            for name in (re.split(r"\s*,\s*", found["names"]) if found["names"] else [found["name"] or ""])]
