"""Words beside a display that say under which condition it holds: then it may be no definition."""

from __future__ import annotations

import re

from einc.syntax import tree as s

_WHEN = r"\b(?:for|if|when|whenever|where|provided(?:\s+that)?|assuming(?:\s+that)?|unless|as|on|in)\s+"
_KIND = r"(?:(?:every|all|any|very|sufficiently)\s+)?(?:positive|negative|large|small|non-?negative|non-?zero)\b"
_COMPARED = r"(?:\$|\\\()[^$.]{,30}(?:[<>≤≥≪≫]|\\(?:[lg](?:[eglt]|eq|eqslant)|approx|to|[lg](?:ess|tr)sim)(?![A-Za-z]))"
_ORDER = r"\b(?:first|second|leading|lowest)[\s-]+order\b|\bapproximat\w*|\broots?\b|\bnear\s+(?:zero|0)\b"
_CONDITION = re.compile(rf"{_WHEN}(?:{_KIND}|{_COMPARED})|{_ORDER}", re.I)
_BREAK = re.compile(r"\n\s*\n")


def restricted(body: s.Relation) -> str:
    """The words beside a display that say under which condition it holds, in its paragraph; "" without such."""
    text, span = body.span.source.text, body.span
    before = _BREAK.split(text[max(span.start - 160, 0) : span.start])
    near = before[-1] if before[-1].strip(" \t\n$\\[") or len(before) < 2 else before[-2]
    near = re.split(r"\.\s", near)[-1]
    behind = re.split(r"\.(?:\s|\Z)|\n\s*\n", text[span.end : span.end + 80].lstrip(" ,$\\]"))[0]
    found = _CONDITION.search(near) or _CONDITION.search(behind)
    return " ".join(found[0].split()) if found is not None else ""
