"""Pieces of a side that is a product of sizes: `[q_1; …; q_h] = q` says that q_i is the i-th of h pieces of q."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from einc.checking.declarations.names import index_name, left_of, size_name
from einc.checking.matrices import typed as y
from einc.checking.matrices.known import Known
from einc.checking.matrices.laid import Laid
from einc.checking.matrices.progressions import listing
from einc.checking.matrices.shapes import ONE, Shape, is_name, plain, words
from einc.checking.matrices.slots import substituted
from einc.errors.problems import OpenReading, ShapesDiffer
from einc.errors.report import Span
from einc.syntax import tree as s

PIECE, EACH, PART = "piece@", "each@", "part@"  # the names of functions that no text can write


def pieced(statements: Iterable[s.Statement], known: Known) -> tuple[s.Statement, ...]:
    """The lines, in which a listing on a left side is the equation of its general term: a piece of the right side.
    Where other equations define the term, and none the right side, it defines the right side.
    """
    lines = tuple(statements)
    lefts = {id(line): plain(left_of(line.clauses[0].body)) for line in lines if line.keyword in ("", "output")}
    return tuple(_pieced(line, known, [x for key, x in lefts.items() if key != id(line)]) for line in lines)


def _pieced(line: s.Statement, known: Known, others: Sequence[object]) -> s.Statement:
    """The line, where it lists its left side as the equation of the general term; `others` are other left sides."""
    body = line.clauses[0].body if line.keyword in ("", "output") else None
    if not isinstance(body, s.Relation) or len(body.operands) != 2 or body.operators[0] not in ("=", ":="):
        return line
    left, right = body.operands
    counted = listing(left, "")
    letter = None if counted is None else next((x for x, size in known.letters.items() if size == counted[1]), None)
    found = None if letter is None else listing(left, letter)
    if letter is None or found is None or counted is None or counted[1] in known.shifted:
        return line
    term = replace(found[0], span=left.span)
    if plain(term) in others and is_name(right) and plain(right) not in others:
        made = replace(body, operands=(right, left))
    else:
        given = s.Group("(", ")", (s.Word(letter, left.span), right), right.span)
        made = replace(body, operands=(term, s.Product((s.Word(PIECE, right.span), given), ("", ""), right.span)))
    return replace(line, clauses=(replace(line.clauses[0], body=made), *line.clauses[1:]))


def piece(laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """The piece of a matrix at a letter, which counts the outer part of one of its sides. Raises OpenReading or
    ShapesDiffer."""
    place, whole = given.items
    inner = laid.one(whole)
    found = cut(laid.known, place, inner, span)
    if len(found) > 1:
        raise OpenReading("do the pieces stand below or beside each other?", span)
    if not found:
        size = laid.known.letters.get(index_name(place) or "", "")
        raise ShapesDiffer(f"no side of `{whole.span.text}` ({inner.shape}) has {size} pieces", whole.span)
    return found[0]


def equal_part(laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """One of so many equal parts of a matrix, along the side that is so many times another size. Raises ShapesDiffer
    where no side is, and OpenReading where both are."""
    place, many, whole = given.items
    inner = laid.one(whole)
    size, shape = many.span.text if not isinstance(many, s.Number) else many.text, inner.shape
    found: list[y.Typed] = []
    if shape.rows[:1] == (size,):
        found.append(y.Piece(place, inner, "rows", Shape(shape.rows[1:], shape.columns), span))
    if shape.columns[:1] == (size,):
        found.append(y.Piece(place, inner, "columns", Shape(shape.rows, shape.columns[1:]), span))
    if len(found) > 1:
        raise OpenReading("do the parts stand below or beside each other?", span)
    if not found or size in laid.known.shifted:
        raise ShapesDiffer(f"no side of `{whole.span.text}` ({shape}) has {size} equal parts", whole.span)
    return found[0]


def each(laid: Laid, given: s.Group, span: Span) -> y.Typed:
    """A matrix times a column, or times each of the pieces of which that consists. A letter that is given is that of
    the column in the matrix too, whatever it is called there. Raises OpenReading or ShapesDiffer.
    """
    letter, matrix, vector, runs = given.items
    x = laid.one(vector)
    if isinstance(letter, s.Number):
        if any(w.text in laid.known.letters for w in words((matrix,))):
            raise OpenReading(f"is `{matrix.span.text}` that of what it multiplies?", vector.span)
    else:
        size = laid.known.letters.get(index_name(letter) or "")
        mine = {w for w in y.letters(x, free=True) if size is not None and laid.known.letters.get(w) == size}
        if len(mine) != 1:
            raise OpenReading(f"at which `{letter.span.text}` is `{matrix.span.text}` taken here?", vector.span)
        matrix = substituted(matrix, {letter.span.text: mine.pop()})
    m = laid.one(matrix)
    many = len(x.shape.rows) - len(m.shape.columns)
    outer = x.shape.rows[:many] if many >= 0 else ()
    told = size_name(runs)
    each_of = outer == () if told is None else m.shape.columns == laid.known.whole((told,))
    if x.shape.columns != ONE or x.shape.rows != (*outer, *m.shape.columns) or not each_of:
        raise ShapesDiffer(f"`{matrix.span.text}` ({m.shape}) times `{vector.span.text}` ({x.shape})", vector.span)
    inner: y.Typed = x
    letters = [f"i@{vector.span.start}e{n}" for n in range(len(outer))]
    for name, _ in zip(letters, outer, strict=True):
        shape = Shape(inner.shape.rows[1:], ONE)
        inner = y.Piece(s.Word(name, vector.span), inner, "rows", shape, vector.span)
    inner = y.Times(m, inner, Shape(m.shape.rows, ONE), span)
    for name, size in zip(reversed(letters), reversed(outer), strict=True):
        inner = laid.stacked(name, size, inner, "rows")
    return inner


def cut(known: Known, place: s.Expression, inner: y.Typed, span: Span) -> list[y.Piece]:
    """The pieces of a matrix at a letter, one of each side of which it counts the outer part."""
    size = known.letters.get(index_name(place) or "")
    shape = inner.shape
    out: list[y.Piece] = []
    if size is not None and shape.rows[:1] == (size,):
        out.append(y.Piece(place, inner, "rows", Shape(shape.rows[1:], shape.columns), span))
    if size is not None and shape.columns[:1] == (size,):
        out.append(y.Piece(place, inner, "columns", Shape(shape.rows, shape.columns[1:]), span))
    return out


def lone(known: Known, leaf: y.Leaf, given: Sequence[s.Expression], span: Span) -> y.Piece | None:
    """A symbol with one letter more than it has, `k_{t,i}` of a vector `k_t`: the piece at a letter that counts those
    of a listing, and of which the symbol has as many along one side. None for others.
    """
    size = known.letters.get(index_name(given[0]) or "") if len(given) == 1 else None
    found = cut(known, given[0], leaf, span) if size in known.outer and size is not None else []
    whole = ONE in (leaf.shape.rows, leaf.shape.columns)
    return replace(found[0], guessed=True) if len(found) == 1 and whole and not found[0].shape.number else None
