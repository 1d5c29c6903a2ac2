"""Parts of expressions as messages show them."""

from __future__ import annotations

from collections.abc import Mapping

from einc.checking.matrices import typed as y
from einc.checking.matrices.entries import open_side
from einc.checking.matrices.shapes import Key, Symbol, told
from einc.checking.matrices.uses import Use
from einc.errors.problems import NoShape, OpenReading
from einc.errors.report import Help, Span
from einc.syntax import tree as s


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


def misplaced(counted: Mapping[str, str], use: Use, key: Key, symbol: Symbol | None, span: Span) -> NoShape:
    """What is wrong with a name that stands with other letters than it is declared with: a slice `K_{:,t}` in which
    the letter, as `counted`, does not count that side, or more or fewer letters.
    """
    if symbol is not None and any(map(open_side, use.places)) and len(use.places) == key.letters + len(symbol.sides):
        at = zip(use.places[key.letters :], ("rows", "columns"), symbol.sides, strict=False)
        for place, side, size in at:
            known = counted.get(place.span.text.strip())
            if known is not None and (known,) != size:
                return NoShape(f"`{place.span.text}` counts {known}, and the {side} of `{key.name.python}` are "
                               f"{told(size)}", span, helps=(Help("use a letter that counts this side"),))
    message = f"`{span.text}` has {letters(len(use.places))} beside its rows and columns"
    return NoShape(f"{message}, and it is declared with {letters(key.letters)}", span, helps=(
        Help("give it the letters with which it is declared"),))


def turned_entry(name: str, span: Span) -> OpenReading:
    """The question of `A^⊤_{ij}`: some mean the entry of the transpose, others write the sign of it in vain."""
    return OpenReading(f"is `{span.text}` an entry of `{name}` or of its transpose?", span, helps=(
        Help(f"write `{name}_{{i j}}` or `{name}_{{j i}}`, without the transpose"),))


def turned_over(key: Key, side: str) -> str:
    """What is told of a vector that lies in two ways."""
    one, other = ("column", "row") if side == "columns" else ("row", "column")
    return f"`{key.name.python}` is a {one} here and a {other} in another equation"


def run_together(node: s.Expression, content: s.Expression | None) -> tuple[Help, ...]:
    """The way to write an entry for what has two digits side by side, `(A B)_{12}`."""
    if not isinstance(content, s.Number) or len(content.text) != 2 or not isinstance(node, s.Scripted):
        return ()
    row, column = content.text[0], content.text[1]
    return (Help(f"the entry in row {row} and column {column} is `{node.base.span.text}_{{{row},{column}}}`"),)
