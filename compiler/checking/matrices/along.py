"""The side along which a function of lines runs: by its script, by the words of a paper, else it is open."""

from __future__ import annotations

from collections.abc import Mapping

from einc.checking.declarations.names import head
from einc.checking.matrices import typed as y
from einc.checking.matrices.barred import holds_barred
from einc.checking.matrices.factors import first_words, script
from einc.checking.matrices.known import COLUMNS, COUNTED, PAST, TOKENS, Known
from einc.checking.matrices.masks import Mask
from einc.checking.matrices.shapes import ONE, Key, Shape
from einc.errors.problems import NoShape, OpenReading
from einc.errors.report import Help
from einc.syntax import tree as s

_WISE: dict[str, y.Side] = {"row": "columns", "col": "rows", "column": "rows"}


def along(known: Known, node: s.Expression, inner: y.Typed, own: bool) -> tuple[y.Side | None, s.Expression | None]:
    """The side along which a function of lines runs, None where nothing says it, and the domain in its script. Raises
    OpenReading or NoShape."""
    content, domain = script(node)
    shape = inner.shape
    letter = next((w for w in first_words(content) if w in known.letters), None)
    wise = content.text.lower().rstrip("s") if isinstance(content, s.Word) and letter is None else ""
    if wise in _WISE and not own:  # `f_{row}`, of each row
        return _WISE[wise], None
    if content is not None and letter is None:
        raise OpenReading(f"`{content.span.text}` is no letter that counts something", content.span, helps=(
            Help("the script of a function of lines is the letter along which it runs; leave a label out"),))
    if ONE in (shape.columns, shape.rows):
        return ("rows" if shape.columns == ONE else "columns"), domain
    sides = [side for side in ("rows", "columns") if letter is not None
             and known.whole((known.letters[letter],)) == getattr(shape, side)]
    if letter is not None and not sides:
        raise NoShape(f"`{letter}` counts no side of {shown(inner)}", node.span)
    if len(sides) == 1:
        return ("rows" if sides[0] == "rows" else "columns"), domain
    return (_normal(known, node, inner) if own else _worded(known, node, shape, frozenset({TOKENS}))), domain


def at_letter(node: s.Expression, inner: y.Typed) -> s.Expression | None:
    """What stands in the script of a function of a number, where it begins with a letter of that number; else None."""
    content, _ = script(node)
    letter = next(iter(first_words(content)), None)
    if not inner.shape.number or not isinstance(node, s.Scripted) or letter not in {*y.letters(inner, free=True)}:
        return None
    return node.scripts[0].content


def _normal(known: Known, node: s.Expression, inner: y.Typed) -> y.Side:
    """The side along which a function of what belongs to one token runs, where its words say none: along rows, but
    where the words call the columns tokens. Raises OpenReading where these are of another matrix than the argument.
    """
    shape = inner.shape
    side = _worded(known, node, shape)
    if side is not None:
        return side
    upright = known.axes.get(COLUMNS, frozenset())
    if isinstance(inner, y.Leaf) and not inner.at and inner.symbol.key.name.python in upright:
        return "rows"
    counted = [any(x in known.axes.get(COUNTED, ()) for x in of) for of in (shape.rows, shape.columns)]
    if upright or counted == [False, True] or _said(known, node):
        raise OpenReading(f"does `{node.span.text}` run along rows or columns of {shown(inner)}, of which the words "
                          "speak as tokens?", node.span, helps=(
            Help(f"say it in the text: `{node.span.text}` is of each row, or of each column"),))
    return "columns"


def _said(known: Known, node: s.Expression) -> frozenset[str]:
    """What the words say that a function runs along."""
    found = head(node)
    return known.axes.get(found[0].base.lower(), frozenset()) - {PAST} if found is not None else frozenset()


def _worded(known: Known, node: s.Expression, shape: Shape, without: frozenset[str] = frozenset()) -> y.Side | None:
    """The side along which the words say that a function runs, but for what they say of other things; None where they
    say nothing or not which. Raises OpenReading.
    """
    said = _said(known, node) - without
    sides: dict[y.Side, set[str]] = {"columns": {"row"}, "rows": {"column"}}
    for side, words in sides.items():
        words |= {size for size in said if known.whole((size,)) == getattr(shape, side)}
    fits = [side for side, words in sides.items() if words.issuperset(said)]
    if not fits:
        clear = f": {' and '.join(sorted(said - {'?'}))}" if said - {"?"} else ""
        raise OpenReading(f"the words do not settle along what `{node.span.text}` runs{clear}", node.span, helps=(
            Help("say it in the formula, by the letter of the side: `f_s(A)`"),))
    return fits[0] if len(fits) == 1 else None


def not_before(known: Known, node: y.Lines, positions: bool, masks: Mapping[Key, Mask]) -> None:
    """Raises OpenReading for a function of a whole line of `positions` where the formula has a mask that leaves no
    domain, or where the words speak of one or of the past and the formula has none: nothing is added to what it is of.
    """
    summed = isinstance(node.inner, y.Entries) and node.inner.kind == "sum" and sum(
        not x.shape.number for x in node.inner.parts) > 1
    spoken = not summed and PAST in known.axes.get(node.function.text, ())
    if positions and (spoken or holds_barred(node.inner, masks)):
        raise OpenReading(f"does `{node.function.text}` run over all positions here, or over those up to its own?",
                          node.span, helps=(Help(f"write the domain: `{node.function.text}_{{s ≤ t}}(…)`"),))


def shown(part: y.Typed) -> str:
    """A part with its shape, for a message."""
    return f"`{part.span.text}` ({part.shape})"
