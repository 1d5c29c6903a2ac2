r"""Rows of a display that say in words what names stand for, `\mathbf{K} \text{ and } \mathbf{V} \text{ are text
embedding}`: nothing is computed by them.
"""

from __future__ import annotations

import re

FACT = "what names stand for"
# What a name may be called without anything being said of its numbers.
ROLES = ("embedding", "feature", "token", "patch", "image", "text", "query", "key", "value", "input", "output",
         "activation", "parameter", "weight")
_NAME = r"(?:\\[A-Za-z]+\s*)?\{?[A-Za-z]\}?(?:[_^](?:\{[^{}$]*\}|\w))?"
_WORDS = r"\\(?:text|mathrm|textrm)\s*\{{\s*{}\s*\}}"
_AND = rf"(?:\s*,\s*|\s*{_WORDS.format('and')}\s*)"
# Words that end in -ed, and those that deny, say what is done to a name, or that it is not so.
_PLAIN = r"(?:(?!not\b|no\b|never\b|only\b|all\b|zero\b|same\b|[a-z]+ed\b)[a-z-]+\s+){0,2}"
_NOUN = rf"(?:{'|'.join(ROLES)}|queries|patches)s?"
_CALLED = re.compile(rf"\s*{_NAME}(?:{_AND}{_NAME})*\s*&?\s*"
                     + _WORDS.format(rf"(?:is|are)\s+(?:an?\s+|the\s+)?{_PLAIN}{_NOUN}") + r"\s*[.,;]?\s*\Z")


def called_so(text: str) -> bool:
    """Whether a row says of names what they are called, and no more."""
    return _CALLED.match(text) is not None
