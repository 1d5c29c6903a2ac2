"""The shapes that comments of a Python source give."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"[A-Za-z_][\w.]*"
_SHAPE = re.compile(rf"(?:(?<![\w.])(?P<name>{_NAME})\s*(?::|=|is|of shape)?\s*)?"
                    rf"(?P<open>[\[(])(?P<inner>\s*(?:{_NAME}|\d+)(?:\s*[,×]\s*(?:{_NAME}|\d+))*\s*,?\s*)[\])]")


@dataclass(frozen=True)
class Shape:
    """`x[B, L, d]` in a comment: the name, where there is one, and the sizes."""

    name: str
    sizes: tuple[str, ...]


def shapes(comment: str) -> list[Shape]:
    """The shapes that a comment gives."""
    return [Shape(found["name"] or "", tuple(re.findall(r"[\w.]+", found["inner"])))
            for found in _SHAPE.finditer(comment)]
