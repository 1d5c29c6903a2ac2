"""Places inside a matrix: `A_{ij}` is an entry, `Q_i` a row, where i counts the rows."""

from __future__ import annotations

from einc.checking.matrices.known import Known
from einc.checking.matrices.shapes import Dimension, Symbol, words
from einc.syntax import tree as s


def at_sides(known: Known, symbol: Symbol, given: tuple[s.Expression, ...]) -> tuple[s.Expression | None, ...] | None:
    """The place of each side of a symbol, None for a side that is open; None as a whole where the sizes that the
    letters count do not tell of which sides the places are.
    """
    sides = [known.whole(x) for x in symbol.sides]
    if len(given) == len(sides):
        return given if all(map(_fits, given, sides, (known,) * len(given))) else None
    if len(given) != 1 or len(sides) != 2:
        return None
    fits = [isinstance(given[0], s.Word | s.Sum) and _fits(given[0], side, known) for side in sides]
    return tuple(given[0] if x else None for x in fits) if sum(fits) == 1 else None


def _fits(place: s.Expression, side: Dimension, known: Known) -> bool:
    """Whether a place may be one of a side: a letter that counts it, a sum of such letters, or what is computed."""
    if not isinstance(place, s.Word | s.Sum):
        return True
    letters = [w.text for w in words((place,)) if w.text in known.letters]
    return all(known.whole((known.letters[x],)) == side for x in letters)
