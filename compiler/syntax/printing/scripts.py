"""The scripts of a name, as a text has them."""

from __future__ import annotations

from einc.ir.programs import Slot
from einc.syntax.printing.declarations import is_letter


def scripts(slots: list[tuple[Slot, str]]) -> str:
    """The scripts of a name, lower ones first within each run of one level."""
    out, at = "", 0
    while at < len(slots):
        lower = slots[at][0].level == "lower"
        run = []
        while at < len(slots) and (slots[at][0].level == "lower") == lower:
            slot, shown = slots[at]
            run.append(f"({shown})" if slot.level == "label" and is_letter(shown) else shown)
            at += 1
        out += ("_" if lower else "^") + "{" + row(run)[1:-1] + "}"
    return out


def _enclosed(text: str) -> bool:
    """Whether one pair of parentheses stands around the whole text, with no comma in it."""
    depth = [text[:n].count("(") - text[:n].count(")") for n in range(1, len(text))]
    return text.startswith("(") and text.endswith(")") and "," not in text and min(depth, default=0) > 0


def row(parts: list[str]) -> str:
    """The entries of a script in parentheses; one that is no name or list of names stands between commas."""
    simple = all(is_letter(x) or _enclosed(x) for x in parts)
    return f"({(' ' if simple else ', ').join(parts)})"
