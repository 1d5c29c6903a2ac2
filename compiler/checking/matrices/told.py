"""Parts of expressions as messages show them."""

from __future__ import annotations

from einc.checking.matrices import typed as y
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Span


def letters(n: int) -> str:
    """How many letters a name has, in words."""
    return "no letter" if n == 0 else "a letter" if n == 1 else f"{n} letters"


def shown_name(part: y.Typed) -> str:
    """A part as a factor of a message."""
    text = part.span.text
    return text if isinstance(part, y.Leaf) else f"({text})"


def turned_help(parts: tuple[y.Typed, ...]) -> tuple[Help, ...]:
    """A transpose, where with it two parts fit."""
    if len(parts) == 2 and parts[0].shape == parts[1].shape.turned:
        return (Help(f"write `{shown_name(parts[1])}ᵀ`"),)
    return ()


def turned_entry(name: str, span: Span) -> OpenReading:
    """The question of `A^⊤_{ij}`: some mean the entry of the transpose, others write the sign of it in vain."""
    return OpenReading(f"is `{span.text}` an entry of `{name}` or of its transpose?", span, helps=(
        Help(f"write `{name}_{{i j}}` or `{name}_{{j i}}`, without the transpose"),))
