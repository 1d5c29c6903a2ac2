r"""Rows of a display that say in words what names stand for, `\mathbf{K} \text{ and } \mathbf{V} \text{ are text
embedding}`: nothing is computed by them.
"""

from __future__ import annotations

import re

FACT = "what names stand for"
# Words that say something of the numbers or the shape of what they are said of, or of other names.
NUMBERS = ("transpose", "inverse", "zero", "one", "identity", "diagonal", "orthogonal", "symmetric", "square",
           "triangular", "same", "equal", "identical", "sum", "mean", "average", "product", "row", "column", "scalar",
           "number", "constant", "negative", "positive", "unit", "random", "half", "double", "rest", "first", "last",
           "left", "right", "upper", "lower", "larger", "smaller", "other", "copy", "maximum", "minimum", "norm")
_NAME = r"(?:\\[A-Za-z]+\s*)?\{?[A-Za-z]\}?(?:[_^](?:\{[^{}$]*\}|\w))?"
_WORDS = r"\\(?:text|mathrm|textrm)\s*\{{\s*{}\s*\}}"
_AND = rf"(?:\s*,\s*|\s*{_WORDS.format('and')}\s*)"
# Neither these, nor a denial, nor a word that says what was done to a name, which ends in -ed.
_PLAIN = rf"(?!(?:not|no|never|only|all|both|{'|'.join(NUMBERS)})(?:e?s)?\b|[a-z]+ed\b)[a-z]+(?:-[a-z]+)*"
_IS = _WORDS.format(rf"(?:is|are)\s+(?:an?\s+|the\s+)?{_PLAIN}(?:\s+{_PLAIN}){{0,2}}")
_CALLED = re.compile(rf"\s*{_NAME}(?:{_AND}{_NAME})*\s*&?\s*{_IS}\s*[.,;]?\s*\Z")


def called_so(text: str) -> bool:
    """Whether a row says of names what they are called, and no more."""
    return _CALLED.match(text) is not None
