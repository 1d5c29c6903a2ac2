"""Where the sentences of a document end, and whether their words deny or limit what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_ABBREVIATED = r"(?<!e\.g)(?<!i\.e)"
_SHOWN = r"\n[ \t>]*\n|\$\$|\\\[|\\\]|\\(?:begin|end)\{[A-Za-z]+\*?\}"
# What ends a sentence: a stop before a blank, an empty line, and a display.
SENTENCE = re.compile(rf"{_ABBREVIATED}[.!?;](?=[\s)]|\Z)|{_SHOWN}")
# What ends a part of it, which a colon does, too.
CLAUSE = re.compile(rf"{_ABBREVIATED}[.!?;:](?=[\s)]|\Z)|{_SHOWN}")
PARAGRAPH = re.compile(r"\n[ \t>]*\n")
_DENIES = re.compile(r"\b(?:not|never|neither|nor|instead|rather|unlike)\b|n't\b", re.I)
_LIMITS = re.compile(r"\b(?:no|if|whether|unless|without|would|could|may|might|suppose|example|most|least)\b", re.I)


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a text and where each begins."""
    ends = [0, *(x.end() for x in SENTENCE.finditer(text)), len(text)]
    return ((a, text[a:b]) for a, b in pairwise(ends) if a < b)


def around(text: str, start: int, end: int, reach: int = 400) -> tuple[str, str]:
    """What stands in a sentence before a place and behind it."""
    before = SENTENCE.split(text[max(start - reach, 0) : start])[-1]
    return before, SENTENCE.split(text[end : end + reach])[0]


def denied(words: str) -> bool:
    """Whether words deny what they speak of: "is not", "instead of"."""
    return _DENIES.search(words) is not None


def limited(words: str) -> bool:
    """Whether words deny what they speak of, or only suppose it or name an example."""
    return denied(words) or _LIMITS.search(words) is not None
