"""Python text -> HTML with its comments, strings, words and numbers told apart."""

from __future__ import annotations

import keyword
import re
from html import escape

_MARKS = re.compile(
    r'(?P<c>\#[^\n]*)|(?P<s>"""[\s\S]*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    rf"|(?P<k>(?<![\w.])(?:{'|'.join(keyword.kwlist)})(?!\w))|(?P<n>(?<![\w.])\d[\w.]*)")


def highlighted(text: str) -> str:
    """The text, escaped, its marks in spans of the classes c, s, k and n."""
    out, at = [], 0
    for found in _MARKS.finditer(text):
        out += [escape(text[at : found.start()]), f'<span class="{found.lastgroup}">{escape(found[0])}</span>']
        at = found.end()
    return "".join([*out, escape(text[at:])])
