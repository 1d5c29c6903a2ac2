"""Shapes that no line says and a use tells: `M_{ij} = …` beside `A + M` or `A ⊙ M`, where A has rows and columns.

What has an entry for each i and j has both sides, and so lies in full beside what it is added to or multiplied with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from einc.checking.declarations.names import Name, head, left_of
from einc.checking.matrices.known import Known
from einc.checking.matrices.lines import names
from einc.checking.matrices.shapes import ENTRYWISE, ONE, Dimension, Key, Shape, Symbol, parts, words
from einc.checking.matrices.slots import sized
from einc.checking.matrices.typing import Typing
from einc.checking.matrices.uses import split
from einc.errors.report import Problem, Span
from einc.syntax import tree as s

_SIDES: tuple[Literal["columns", "rows"], ...] = ("columns", "rows")
COUNTED = "it is what its entries say, and its letters count its sides"
GUESSED = "it has the shape of what it is added to or multiplied with, entry by entry"


def open_entries(statements: Iterable[s.Statement], known: Known) -> dict[Name, s.Statement]:
    """The equations of a paper for entries of what no line gives a shape, by the names of the matrices."""
    statements = tuple(statements)
    shaped = {found[0] for line in statements if line.keyword in ("matrix", "vector", "input", "weight")
              for c in line.clauses if (found := head(c.body)) is not None}
    out: dict[Name, s.Statement] = {}
    for line in statements:
        left = left_of(line.clauses[0].body) if line.rank is not None and line.keyword in ("", "output") else None
        name = _entries(left) if left is not None else None
        if name is not None and name not in shaped:
            out[name] = line
    return out


def _entries(left: s.Expression) -> Name | None:
    """M of `M_{ij}` and `M_{i,j}`, v of `v_i`, where i and j are letters; None for what is no such entry."""
    if not isinstance(left, s.Scripted) or not isinstance(left.base, s.Word):
        return None
    lower = [x.content for x in left.scripts if x.kind == "lower" and x.content is not None]
    others = tuple(x for x in left.scripts if x.kind != "lower")
    found = [w.text for x in lower for w in parts(x) if isinstance(w, s.Word)]
    letters = [*found[0]] if len(found) == 1 else found
    plain = all(isinstance(x, s.Word | s.Group | s.Product) for content in lower for x in parts(content))
    apart = len({*letters}) == len(letters) in (1, 2) and all(len(x) == 1 and x.islower() for x in letters)
    if len(lower) != 1 or not plain or not apart:
        return None
    named = head(replace(left, scripts=others) if others or left.accents else left.base)
    return named[0] if named is not None and not named[1] else None


def told_shapes(wanted: Mapping[Name, s.Statement], statements: Iterable[s.Statement],
                symbols: Mapping[Key, Symbol], known: Known) -> Iterator[tuple[s.Statement, s.Statement, str]]:
    """The equation and the line of each of them whose uses tell one shape, and no other, with what is told of it."""
    lines = tuple(statements)
    for name, line in wanted.items():
        counted = _counted(line, name, lines, known)
        found = {*counted}
        if len(_letters(line, known)) == 1 and not _vector(line, name, symbols, known):
            continue
        bodies = (c.body for x in lines if x.keyword in ("", "output") and x is not line for c in x.clauses)
        for body in bodies if len(_letters(line, known)) != 1 else ():
            for node in parts(body):
                for others in _beside(node, name, known):
                    found |= {shape for x in others for shape in _shapes(x, symbols, known)}
        if len(found) == 1 and ((shape := found.pop()).columns == ONE) == (len(_letters(line, known)) == 1):
            yield line, _line(line, shape), COUNTED if counted else GUESSED


def _vector(line: s.Statement, name: Name, symbols: Mapping[Key, Symbol], known: Known) -> bool:
    """Whether what an equation says of `v_i` may be the entries of a vector: `v_i` is a number and not computed of its
    own neighbours, and no size is called so, as d of `d_h` is.
    """
    own = symbols.get(Key(name, 1))
    sides = (x for symbol in symbols.values() for side in symbol.sides for x in side)
    sizes = {x.partition("_")[0] for x in (*known.classes, *sides)}
    body = line.clauses[0].body
    rights = body.operands[1:] if isinstance(body, s.Relation) else ()
    itself = any(found[0] == name for right in rights for x in names(right) if (found := head(x)) is not None)
    return not (own is not None and own.sides) and name.base not in sizes and not itself


def _line(line: s.Statement, shape: Shape) -> s.Statement:
    """The line that declares what an equation says the entries of."""
    left = left_of(line.clauses[0].body)
    assert isinstance(left, s.Scripted)
    kept = tuple(x for x in left.scripts if x.kind != "lower")
    symbol = replace(left, scripts=kept) if kept or left.accents else left.base
    sizes = [_size(x, left.span) for x in (shape.rows, shape.columns) if x != ONE]
    sides = s.Product(tuple(sizes), ("", "*"), left.span) if len(sizes) == 2 else sizes[0]
    return s.Statement("matrix" if len(sizes) == 2 else "vector", False, (s.Clause(symbol, None, left.span),),
                       (s.Clause(sides, None, left.span),), left.span, rank=line.rank)


def _letters(line: s.Statement, known: Known) -> list[str]:
    """The letters below the name that an equation defines, those side by side apart."""
    left = left_of(line.clauses[0].body)
    hung = (k.content for k in left.scripts if k.content is not None) if isinstance(left, s.Scripted) else ()
    return [x for w in words(hung) for x in ([w.text] if w.text in known.letters else [*w.text])]


def _counted(line: s.Statement, name: Name, lines: tuple[s.Statement, ...], known: Known) -> set[Shape]:
    """The shape that the letters of the entries count, where lines declare both and the name stands alone elsewhere."""
    letters = [x for x in _letters(line, known) if x in known.letters]
    others = (x for x in lines if x is not line and x.keyword in ("", "output"))
    bare = any(use is not None and use.key == Key(name, 0) for x in others for c in x.clauses for y in names(c.body)
               for use in [split(y, known.letters)])
    whole = bool(letters) and len(letters) == len(_letters(line, known))
    return {Shape(*((known.letters[x],) for x in letters))} if bare and whole else set()


def _beside(node: s.Expression, name: Name, known: Known) -> Iterator[tuple[s.Expression, ...]]:
    """What stands beside a name in a sum, and in a product entry by entry."""
    def is_it(x: s.Expression) -> bool:
        use = split(x, known.letters)
        return use is not None and use.key == Key(name, 0) and not use.turned

    match node:
        case s.Sum(terms) if any(map(is_it, terms)):
            yield tuple(x for x in terms if not is_it(x))
        case s.Product(factors, operators) if ENTRYWISE in operators:
            cuts = [0, *(n for n, x in enumerate(operators) if x == ENTRYWISE), len(factors)]
            pieces = [(factors[a:b], ("", *operators[a + 1 : b])) for a, b in pairwise(cuts)]
            if any(len(x) == 1 and is_it(x[0]) for x, _ in pieces):
                yield tuple(x[0] if len(x) == 1 else s.Product(x, signs, x[0].span.to(x[-1].span))
                            for x, signs in pieces if not (len(x) == 1 and is_it(x[0])))


def _shapes(node: s.Expression, symbols: Mapping[Key, Symbol], known: Known) -> set[Shape]:
    """The shapes that an expression may have; none for a number, and none where it is not read."""
    found: set[Shape] = set()
    for side in _SIDES:
        try:
            found.add(Typing(known, symbols, frozenset(), side).of(node).shape)
        except Problem:
            continue
    return {x for x in found if not x.number}


def _size(side: Dimension, span: Span) -> s.Expression:
    """A dimension as it stands in a line."""
    sizes = tuple(sized(x, span) for x in side)
    return sizes[0] if len(sizes) == 1 else s.Group("(", ")", (s.Product(sizes, ("",) * len(sizes), span),), span)
