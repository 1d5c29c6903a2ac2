"""Places inside a matrix: `A_{ij}` is an entry, `Q_i` a row, where i counts the rows."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from einc.checking.matrices import typed as y
from einc.checking.matrices.following import counts, within
from einc.checking.matrices.known import Known
from einc.checking.matrices.shapes import ONE, Dimension, Key, Shape, Symbol, plain, words
from einc.checking.matrices.uses import Use, fitting, letters_in
from einc.errors.problems import NoShape, OpenReading
from einc.errors.report import Help, Span
from einc.syntax import tree as s
from einc.syntax.slices import WHOLE

_CENTRED = re.compile(r"\\(?:cdots|dotsm|dotsb)(?![A-Za-z])|⋯")  # the dots of a product


def at_sides(known: Known, symbol: Symbol, given: tuple[s.Expression, ...]) -> tuple[s.Expression | None, ...] | None:
    """The place of each side of a symbol, None for a side that is open, as `:` says; None as a whole where the sizes
    that the letters count do not tell of which sides the places are.
    """
    sides = [known.whole(x) for x in symbol.sides]
    if len(given) == len(sides):
        fits = [_fits(known, x, side) or within(known, x, side) for x, side in zip(given, sides, strict=True)]
        return tuple(None if open_side(x) else x for x in given) if all(fits) else None
    if len(given) != 1 or len(sides) != 2:
        return None
    said = known.lines.get(symbol.key.name.python, known.lines.get("", frozenset()))
    for test in (_fits, counts, within):
        places = tuple(given[0] if isinstance(given[0], s.Word | s.Sum) and test(known, given[0], side)
                       and said <= {word} else None for side, word in zip(sides, ("row", "column"), strict=True))
        if places.count(None) == 1:
            return places
    return None


def stacked(known: Known, symbol: Symbol, given: tuple[s.Expression, ...]) -> tuple[s.Expression, ...] | None:
    """The places of a name, those of the symbol's stack first, where the sizes that letters count tell which these are,
    `Q_t^{(i)}` of `Q^{(i)}`; None where none of them may be one of the stack.
    """
    rest = list(given)
    out: list[s.Expression] = []
    for letter in symbol.stack:
        size = known.letters.get(letter)
        at = next((n for n, x in enumerate(rest) if _may(x, size, known)), None)
        if at is None:
            return None
        out.append(rest.pop(at))
    return (*out, *rest)


def _may(place: s.Expression, size: str | None, known: Known) -> bool:
    """Whether a place may be one of a letter that counts a size: its own letter counts that, or nobody knows what."""
    if open_side(place):
        return False
    return not isinstance(place, s.Word) or size is None or known.letters.get(place.text, size) == size


@dataclass(frozen=True)
class Part:
    """Places inside a symbol, `L_{ij}`, where an equation defines its entries or rows."""

    symbol: Symbol
    stack: tuple[s.Expression, ...]
    at: tuple[s.Expression | None, ...]

    @property
    def open(self) -> tuple[Dimension, ...]:
        """The sides of the symbol that its scripts give no place: those of the row, column or matrix that is meant."""
        return tuple(side for side, x in zip(self.symbol.sides, self.at, strict=True) if x is None)


def part(use: Use, symbols: Mapping[Key, Symbol], known: Known) -> Part | None:
    """The part of a symbol that a name is; None where it is a whole one, or none."""
    key = next((k for k in fitting(use, symbols) if stacked(known, symbols[k], use.places) is not None), None)
    if key is None or key == use.key or use.turned:
        return None
    symbol = symbols[key]
    at = at_sides(known, symbol, use.places[key.letters :])
    return None if at is None else Part(symbol, use.places[: key.letters], at)


def hidden(use: Use, symbols: Mapping[Key, Symbol]) -> Symbol | None:
    """The symbol of which a name with letters in its label may be an entry, `L_{nd}` of a declared `L` with two sides;
    None where the name has a shape of its own.
    """
    label = use.name.lower[-1] if use.name.lower else ""
    symbol = symbols.get(Key(replace(use.name, lower=use.name.lower[:-1]), len(use.places)))
    if symbol is None or use.key in symbols or len(label) < 2 or not (label.isalpha() and label.islower()):
        return None
    return symbol if len(label) == len(symbol.sides) else None


def open_side(place: s.Expression) -> bool:
    """Whether a place is the whole of a side, `:`."""
    return isinstance(place, s.Word) and place.text == WHOLE


def taken(known: Known, inner: y.Typed, content: s.Expression, span: Span) -> y.Taken | y.Turned | None:
    """The entry of an expression that stands in parentheses, `(A B)_{ij}`, `(A v)_i`, or its row `(A B)_{i,:}`; None
    where the letters below it count other sizes.
    """
    found = list(letters_in(content, known.letters))
    sides = (inner.shape.rows, inner.shape.columns)
    if ONE in sides and len(found) == 1:
        found = [found[0] if side != ONE else None for side in sides]
    if inner.shape.number or len(found) != 2 or not all(
            x is None or open_side(x) or (len(side) == 1 and _fits(known, x, side)) for x, side in zip(
                found, sides, strict=True)):
        return None
    at = tuple(None if x is None or open_side(x) else x for x in found)
    rows, columns = (side if x is None else ONE for x, side in zip(at, sides, strict=True))
    found_ = y.Taken(inner, (at[0], at[1]), Shape(rows, columns), span)
    return y.Turned(found_, found_.shape.turned, span) if known.upright and at[1] is None else found_


def _fits(known: Known, place: s.Expression, side: Dimension) -> bool:
    """Whether a place may be one of a side: a letter that counts it, a sum of such letters, or what is computed."""
    if not isinstance(place, s.Word | s.Sum) or open_side(place):
        return True
    letters = [w.text for w in words((place,)) if w.text in known.letters]
    return all(known.whole((known.letters[x],)) == side for x in letters)


def _ordered(ends: list[tuple[s.Expression, s.Expression]], order: Container[tuple[str, str]]) -> tuple[
        s.Expression, s.Expression] | None:
    """The lower and the higher end of what is listed from one place to another; `order` are pairs of letters of which
    the first is at most the second. None where nothing says which is lower, or where several places differ.
    """
    if len(ends) != 1:
        return None
    (first, last), = ends
    a, b = _shifted(first), _shifted(last)
    if a is None or b is None:
        return None
    if a[0] == b[0]:
        return (first, last) if a[1] <= b[1] else (last, first)
    if not a[0] or (a[0], b[0]) in order:
        return first, last
    return (last, first) if not b[0] or (b[0], a[0]) in order else None


def _shifted(place: s.Expression) -> tuple[str, int] | None:
    """The letter and the number of `i`, `j + 1`, `1`; None for another place."""
    match place:
        case s.Number(text) if text.isdigit():
            return "", int(text)
        case s.Word(letter):
            return letter, 0
        case s.Sum((s.Word(letter), s.Number(text)), ("+", sign)) if text.isdigit():
            return letter, int(text) if sign == "+" else -int(text)
    return None


def orders(factors: tuple[s.Expression, ...]) -> frozenset[tuple[str, str]]:
    """The pairs of letters that the indicators of a product compare, the lower first: (j, i) of `1[i > j]`."""
    found: set[tuple[str, str]] = set()
    for x in factors:
        match x:
            case s.Group("[", _, (s.Relation((s.Word(a), s.Word(b)), (sign,)),)) if sign in ("<", "<=", ">", ">="):
                found.add((a, b) if sign in ("<", "<=") else (b, a))
    return frozenset(found)


def a_list(span: Span) -> NoShape:
    """What is wrong with numbers side by side that are not multiplied."""
    return NoShape(f"`{span.text}` is a list, and no value", span, helps=(
        Help("a product has dots in the middle, `\\cdots`, and a vector is said by its general term, `v_i = …`"),))


def listed(first: y.Typed, last: y.Typed, order: Container[tuple[str, str]], span: Span) -> y.Listed:
    """`a_i ⋯ a_{j+1}`: the product of what lies between, where a condition beside it says which end is the lower.
    Raises NoShape or OpenReading."""
    if not isinstance(first, y.Leaf) or not isinstance(last, y.Leaf) or not first.shape.number or (
            first.symbol != last.symbol):
        raise NoShape(f"`{span.text}` is no product of numbers", span)
    if _CENTRED.search(span.source.text, first.span.end, last.span.start) is None:
        raise a_list(span)
    pairs = list(zip(_all_places(first), _all_places(last), strict=True))
    found = _ordered([(x, z) for x, z in pairs if plain(x) != plain(z)], order)
    if found is None or not (letter := next((x.text for x in words(found)), "")):
        raise OpenReading("does this count up or down?", span, helps=(
            Help("a condition beside it says which end is the lower: `1[j < i]`"),))
    low, high = found
    mark = s.Scripted(s.Word(letter, span), (), (s.Script("prime", None, "'", span),), span)
    changed = tuple(mark if plain(x) != plain(z) else x for x, z in pairs)
    inner = replace(first, stack=changed[: len(first.stack)], at=changed[len(first.stack) :])
    return y.Listed(letter + "'", low, high, inner, Shape(), span)


def _all_places(leaf: y.Leaf) -> tuple[s.Expression, ...]:
    """The places of a number's stack and sides."""
    return (*leaf.stack, *(x for x in leaf.at if x is not None))
