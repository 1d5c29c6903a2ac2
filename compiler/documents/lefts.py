"""What a display that is not read leaves unknown: the names on its left sides."""

from __future__ import annotations

import re

_DEEP = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_PRIME = re.compile(r"\^\s*(?:\\prime(?![A-Za-z])|\{\s*(?:\\prime\s*)+\})")
_SCRIPT = re.compile(rf"\s*[_^]\s*(?:{_DEEP}|\\[A-Za-z]+|\S)")
_EQUALS = re.compile(r"(?<![<>!]):?=|≔|≡|←|\\(?:leftarrow|gets|equiv|coloneqq)(?![A-Za-z])")
_LAYOUT = re.compile(r"\\(?:begin|end)\s*\{[A-Za-z]+\*?\}(?:\s*\{[lcr|\s]*\})?"
                     r"|\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])"
                     r"|\\text\s*\{[^{}]*\s[^{}]*\}|&|(?<!\\)\\[,;:! ]")
_ROW = re.compile(r"\\\\|\n\s*\n|;|\\q?quad(?![A-Za-z])")
_DRESSED = (r"\\(?:math[a-z]+|text[a-z]*|operatorname\*?|bm|boldsymbol|(?:wide)?(?:hat|tilde)|(?:over|under)line"
            r"|bar|vec|d?dot)")
_NAME = re.compile(rf"(?:{_DRESSED}(?![A-Za-z])\s*(?:\{{[^{{}}]*\}}|\\[A-Za-z]+|[A-Za-z])|\\?[A-Za-z]+|[^\W\d_])\s*'*")
# A function that is no name of its own: what it is applied to may be what an equation means to define.
_FUNCTION = re.compile(r"\\(?:log|ln|exp|sin|cos|tan|tanh|sinh|cosh|max|min|det|sqrt|frac|[dt]frac)(?![A-Za-z])")
_DERIVED = re.compile(r"\\[dt]?frac\s*\{[^{}]*\}\s*\{\s*(?:\\partial|d)(?![A-Za-z])[^{}]*\}"
                      r"|\\(?:nabla|partial)(?![A-Za-z])·*")
_GIVEN = re.compile(rf"(?P<name>{_NAME.pattern})\s*\([^()]*\)")


def unknown(text: str) -> frozenset[str]:
    r"""The names on the left sides of what a text says, bare and without scripts: u and w of `u_t, w_t = …`, of
    `\begin{cases} u_t = … \\ w_t = … \end{cases}`, of `2u_t + w_t = …`; of `f(x) = …` the function alone, and none of a
    derivative. A prime behind scripts may be of the name: x and x' of `x_t' = …`.
    """
    plain = _LAYOUT.sub(lambda x: "\n\n" if x[0].startswith(r"\begin") else " ", _PRIME.sub("'", text))
    lefts = _EQUALS.split(_DERIVED.sub(" ", _SCRIPT.sub("·", plain)))[:-1]
    out: set[str] = set()
    for n, left in enumerate(lefts):
        rows = _ROW.split(_alone(left))
        parts = rows[-1:] if n == 0 else (rows[-1].split(",")[-1:] if len(rows) > 1 or "," in rows[0] else [])
        for part in parts:
            names = _NAME.finditer(_FUNCTION.sub(" ", _hung(part)))
            out |= {re.sub(r"[\s{}]", "", found[0]) for found in names}
    return frozenset(out)


def _alone(text: str) -> str:
    """The text with functions that it names without what they are applied to."""
    def name(found: re.Match[str]) -> str:
        """The function, or what it is applied to where that is what is meant."""
        return found[0] if _FUNCTION.match(found["name"]) else found["name"]

    return _GIVEN.sub(name, text)


def _hung(text: str) -> str:
    """The text without the marks of scripts; of a name with a prime behind them, both that it may be."""
    return re.sub(rf"({_NAME.pattern})·+\s*('+)", r"\1 \1\2", text).replace("·", " ")
