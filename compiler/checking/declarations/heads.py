"""Which names stand on left sides of a paper, as they are written."""

from __future__ import annotations

import re
from functools import lru_cache

# The left side of a definition of a function, without spaces: `gelu(x)`, `\operatorname{gelu}(x)`.
_APPLIED = re.compile(r"(?:\\[A-Za-z]+\*?\{)?\\?(?P<name>[A-Za-z]+)\}?(?:\\left)?\(.*")


@lru_cache(maxsize=8192)  # Each formula of a paper asks it of what all the others define.
def head_of(text: str) -> str:
    """The name at the head of a text, without scripts."""
    return re.split(r"[_^]", "".join(text.split()).replace("{", "").replace("}", ""), maxsplit=1)[0]


@lru_cache(maxsize=4)
def heads_of(lefts: frozenset[str]) -> frozenset[str]:
    """The names of what is defined, without scripts."""
    return frozenset(map(head_of, lefts))


@lru_cache(maxsize=4)
def functions_of(lefts: frozenset[str]) -> frozenset[str]:
    """The functions of one argument or several that are defined."""
    found = map(_APPLIED.fullmatch, lefts)
    return frozenset(left["name"] for left in found if left is not None)
