"""One equation of matrices -> index notation: of the readings that its vectors allow, the one that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from einc.checking.declarations.names import left_of
from einc.checking.matrices import typed as y
from einc.checking.matrices.barred import named
from einc.checking.matrices.entries import Part, hidden, open_side, part
from einc.checking.matrices.factors import product
from einc.checking.matrices.known import Known
from einc.checking.matrices.laid import unlisted
from einc.checking.matrices.lines import above, names
from einc.checking.matrices.masks import Mask, mask
from einc.checking.matrices.shapes import ONE, Key, Shape, Symbol, Waiting, plain, shapes_of, words
from einc.checking.matrices.supply import Supply
from einc.checking.matrices.typing import Typing
from einc.checking.matrices.uses import Use, keyed, split
from einc.checking.matrices.writing import Writing
from einc.errors.problems import NoShape, OpenReading, ShapesDiffer
from einc.errors.report import Help, Label, Problem, Span
from einc.syntax import tree as s

Side = Literal["columns", "rows"]
_SIDES: tuple[Side, ...] = ("columns", "rows")
EITHER = "are vectors columns or rows here? Both fit"  # the one question that a preferred side answers
_ENTRYWISE = "vectors side by side are multiplied entry by entry, for nothing else has the declared shape"


@dataclass(frozen=True)
class Reading:
    """What an equation defines, the lines that it is in index notation, and what it does not say and is read as."""

    symbol: Symbol
    lines: tuple[s.Statement, ...]
    guessed: tuple[str, ...]
    mask: Mask | None = None
    read: frozenset[Key] = frozenset()  # the masks that it reads by their entries
    side: Side | None = None  # as which its vectors lie, where they fit as one alone


@dataclass(frozen=True)
class Reader:
    """What equations are read with. `unknown` are what equations define whose shapes are not known yet, `multiplied`
    the symbols whose columns a product sums wherever they stand, `masks` what equations give by cases,
    `lies` how vectors lie in the equations that were read, None for those that lie as columns here and as rows there.
    """

    known: Known
    symbols: Mapping[Key, Symbol]
    supply: Supply
    unknown: frozenset[Key]
    multiplied: frozenset[Key]
    masks: Mapping[Key, Mask]
    lies: Mapping[Key, Side | None]
    prefer: str = ""  # as which vectors lie where nothing says it

    def read(self, line: s.Statement) -> Reading:
        """The equation in index notation: of the sides that its vectors may have, the one that fits. Raises Problem
        where none or several do, Waiting where the shape of something is not known yet.
        """
        body = line.clauses[0].body
        assert isinstance(body, s.Relation)
        if len(body.operands) != 2:
            raise NoShape("an equation of matrices has one equals sign", body.span)
        left = split(body.operands[0], self.known.letters)
        if isinstance(body.operands[0], s.Matrix) and None in (x for row in body.operands[0].cells for x in row):
            raise unlisted(body.operands[0].span)
        if left is None or left.turned or left.letters is None:
            raise NoShape(f"`{body.operands[0].span.text}` is no name of a matrix", body.operands[0].span)
        if (whole := hidden(left, self.symbols)) is not None:
            place, name = body.operands[0].span, whole.key.name.python
            raise OpenReading(f"is `{place.text}` an entry of `{name}`, or is the script a label?", place, helps=(
                Help("use letters that stand for nothing else, such as i and j; a label is `\\text{…}`"),))
        if any(map(open_side, left.places)) and (Key(left.name, len(left.places) - 2) not in self.symbols):
            return self._one(body, list(self._sliced(line, left, body)))
        if (inside := part(left, self.symbols, self.known)) is not None:
            return self._one(body, list(self._parts(line, left, inside, body)))
        assumed = list(self._assumed(left, body)) if left.key in self.unknown and self._reads(
            body.operands[1], left) else []
        if assumed:
            own = replace(self, unknown=self.unknown - {left.key})
            return self._one(body, [reading for symbol in assumed for reading in replace(
                own, symbols={**self.symbols, left.key: symbol})._all(line, left, body, [])])
        faults: list[Problem] = []
        found = self._all(line, left, body, faults)
        if not found:
            raise faults[0]
        return self._one(body, found)

    def vectors(self, body: s.Expression) -> Iterator[Key]:
        """The symbols of one side in an expression."""
        for node in names(body):
            found = split(node, self.known.letters)
            key = keyed(found, self.symbols) if found is not None else None
            if key is not None and len(self.symbols[key].sides) == 1 and not self.symbols[key].diagonal:
                yield key

    def _one(self, body: s.Relation, found: list[Reading]) -> Reading:
        """The one reading of an equation, of those that differ by more than places: of columns and rows the one as
        which its vectors lie where they are defined. Raises OpenReading for several.
        """
        if len(_differing(found)) > 1:
            sides = {side for key in self.vectors(body) if (side := self.lies.get(key)) is not None}
            found = [x for x in found if len(sides) == 1 and x.side in sides] or found
        if len(_differing(found)) > 1 and self.prefer:
            found = [x for x in found if x.side == self.prefer]
        if len(_differing(found)) > 1:
            raise OpenReading(EITHER, body.span, helps=(
                Help("declare them by `matrix`: `matrix b : 1 × d` is a row, `matrix b : d × 1` a column"),))
        if not found:
            raise NoShape("no term of this tells the shape of what it defines", body.span, helps=(
                Help("declare it: `matrix NAME : ROWS × COLUMNS`"),))
        return found[0] if len(found) == 1 else replace(found[0], side=None)

    def _sliced(self, line: s.Statement, left: Use, body: s.Relation) -> Iterator[Reading]:
        """The readings of what defines the rows or columns of a matrix of which no more is known, `Y_{i,:} = …`.
        Raises NoShape or ShapesDiffer where neither rows nor columns can be meant."""
        *stack, first, second = left.places if len(left.places) > 1 else (*left.places, *left.places)
        letters = [x.text for x in (first, second) if isinstance(x, s.Word) and x.text in self.known.letters]
        if len(letters) != 1 or open_side(first) == open_side(second):
            raise NoShape(f"`{body.operands[0].span.text}` is no row and no column", body.operands[0].span)
        faults: list[Problem] = []
        for side in _SIDES:
            try:
                right = Typing(self.known, self.symbols, self.unknown, side).of(body.operands[1])
                open_ = [x for x in (right.shape.rows, right.shape.columns) if x != ONE]
                if len(open_) != 1:
                    raise ShapesDiffer(f"`{body.operands[0].span.text}` is a row or a column, and the right side "
                                       f"{right.shape}", right.span)
                counted = (self.known.letters[letters[0]],)
                sides = (open_[0], counted) if open_side(first) else (counted, open_[0])
                names = tuple(x.text for x in stack if isinstance(x, s.Word))
                symbol = Symbol(Key(left.name, len(stack)), sides, names, left_of(body).span)
                at = (None if open_side(first) else first, None if open_side(second) else second)
                yield replace(self._written(line, left, right, (), Part(symbol, tuple(stack), at)), side=side)
            except Problem as problem:
                faults.append(problem)
        if len(faults) == len(_SIDES):
            raise faults[0]

    def _parts(self, line: s.Statement, left: Use, inside: Part, body: s.Relation) -> Iterator[Reading]:
        """The readings of what defines the entries or rows of a symbol. Raises what is wrong with the first."""
        faults: list[Problem] = []
        read = 0
        for side in _SIDES:
            try:
                right = Typing(self.known, self.symbols, self.unknown, side).of(body.operands[1])
                whole = shapes_of(replace(inside.symbol, sides=inside.open))
                if right.shape not in [Shape(self.known.whole(x.rows), self.known.whole(x.columns)) for x in whole]:
                    message = f"`{body.operands[0].span.text}` is {whole[0]}, and the right side {right.shape}"
                    raise ShapesDiffer(message, right.span, "", Label(inside.symbol.span, "declared here"))
                found = self._written(line, left, right, (), inside)
                yield replace(found, mask=mask(body.operands[1], inside.at), side=side)
                read += 1
            except Problem as problem:
                faults.append(problem)
        if not read:
            raise faults[0]

    def _all(self, line: s.Statement, left: Use, body: s.Relation, faults: list[Problem]) -> list[Reading]:
        """The readings of an equation; adds to the faults of the others."""
        found = list(self._readings(line, left, body, False, faults))
        if not found and left.key in self.symbols:  # its declared shape decides
            found = list(self._readings(line, left, body, True, faults))
        return found

    def _reads(self, node: s.Expression, left: Use) -> bool:
        """Whether an expression reads what a left side names."""
        found = (split(x, self.known.letters) for x in names(node))
        return any(x is not None and keyed(x, [left.key]) is not None for x in found)

    def _assumed(self, left: Use, body: s.Relation) -> Iterator[Symbol]:
        """What an equation that reads itself may define: a term of its right side that does not has its shape, or an
        argument of a function of each entry.
        """
        for term in self._terms(body.operands[1]):
            if self._reads(term, left):
                continue
            for side in _SIDES:
                try:
                    shape = Typing(self.known, self.symbols, self.unknown - {left.key}, side).of(term).shape
                except Problem:
                    continue
                yield _symbol(left, shape, body)
            return

    def told(self, line: s.Statement) -> Symbol | None:
        """What an equation that waits for others may define: a term of its right side, or of the argument of a function
        of each entry, that waits for none has its shape. None where no term or a number tells it.
        """
        body = line.clauses[0].body
        left = split(left_of(body), self.known.letters)
        if not isinstance(body, s.Relation) or left is None or left.key not in self.unknown or left.letters is None:
            return None
        for term in self._inner(body.operands[-1]):
            for side in _SIDES:
                try:
                    shape = Typing(self.known, self.symbols, self.unknown, side).of(term).shape
                except (Problem, Waiting):
                    continue
                if not shape.number:
                    return _symbol(left, shape, body)
        return None

    def _inner(self, right: s.Expression) -> Iterator[s.Expression]:
        """The terms of a sum, also below functions of each entry and parentheses."""
        match right:
            case s.Sum(terms):
                yield from terms
            case s.Group(items=(inner,)):
                yield from self._inner(inner)
            case _:
                yield from (x for one in self._terms(right) for x in self._inner(one))

    def _terms(self, right: s.Expression) -> tuple[s.Expression, ...]:
        """The parts of a right side that have the shape of the whole."""
        match right:
            case s.Sum(terms):
                return terms
            case s.Product((s.Word(name) | s.Scripted(s.Word(name)), s.Group(items=items))) if (
                    applied := self.known.functions.get(name)) is not None and not applied.lines:
                return items
        return ()

    def _readings(self, line: s.Statement, left: Use, body: s.Relation, entrywise: bool,
                  faults: list[Problem]) -> Iterator[Reading]:
        """The readings of an equation by the sides that its vectors may have; adds to the faults of the others. Raises
        OpenReading."""
        for side in _SIDES:
            try:
                right = Typing(self.known, self.symbols, self.unknown, side, entrywise).of(body.operands[1])
                lines = isinstance(right, y.Lines) and right.side is None and not right.inner.shape.number
                if isinstance(right, y.Lines) and lines and left.key in self.multiplied:
                    right = replace(right, side="columns", guessed=True)
                self._fits(left, body, right)
                if left.key not in self.symbols and y.across(right):
                    raise OpenReading("vectors side by side have no product here, unless one of them is a row and this "
                                      "a matrix", right.span, helps=(
                        Help("write the transpose: `a^\\top b` is a number, `a b^\\top` a matrix"),))
                if left.key not in self.symbols and _rows_apart(right):
                    raise OpenReading("are the rows columns here, as vectors mostly are, or is this a matrix for each "
                                      "pair of them?", right.span, helps=(
                        Help("say the shape of the left side, or write the matrices: `Q K^\\top`"),))
                yield replace(self._written(line, left, right, (_ENTRYWISE,) if entrywise else ()), side=side)
            except Problem as problem:
                faults.append(problem)

    def _fits(self, left: Use, body: s.Relation, right: y.Typed) -> None:
        """Raises ShapesDiffer where the left side is declared with another shape."""
        symbol = self.symbols.get(left.key)
        if symbol is not None:
            shapes = [Shape(self.known.whole(x.rows), self.known.whole(x.columns)) for x in shapes_of(symbol)]
            if right.shape not in shapes:
                message = f"`{body.operands[0].span.text}` is {shapes[0]}, and the right side {right.shape}"
                raise ShapesDiffer(message, right.span, "", Label(symbol.span, "declared here"))

    def _written(self, line: s.Statement, left: Use, right: y.Typed, guessed: tuple[str, ...],
                 partly: Part | None = None) -> Reading:
        """The symbol that an equation defines, and the line with both sides in index notation."""
        clause = line.clauses[0]
        assert isinstance(clause.body, s.Relation)
        stack, shape = left.letters or (), right.shape
        symbol = partly.symbol if partly else self.symbols.get(left.key) or _symbol(left, shape, clause.body)
        if isinstance(right, y.Diagonal):  # what lies on the diagonal, and whose uses are those of the matrix
            symbol = Symbol(left.key, (shape.rows,), stack, symbol.span, True)
            right = _on_diagonal(right)
            shape = right.shape
        for side in symbol.sides:
            if len(whole := self.known.whole(side)) > 1:
                self.supply.composite(whole)
        used = frozenset(x for x in (*stack, *y.letters(right)) if x.rstrip("'") in self.known.letters)
        row = self.supply.fresh(shape.rows, used)
        column = self.supply.fresh(shape.columns, used | {*row})
        inside = used | {*row, *column}
        writing = Writing(self.supply, inside, left.name.python, whole=line.rank is not None,
                          above=frozenset((*above(clause.body.operands[1]), *y.cut(right))), masks=self.masks,
                          sizes=frozenset(x for k in self.symbols.values() for side in k.sides for x in side))
        place = left_of(clause.body).span
        given, at = (partly.stack, partly.at) if partly else (left.places, ())
        meant = writing.whole_side(right, row, column, inside)
        lone = sorted({w.text for w in words(x for x in at if x is not None)} - {*y.letters(right)})
        meant = meant if not lone else product((*(_there(x, right.span) for x in lone), meant), (
            "", *("" for _ in lone)), right.span)
        body = replace(clause.body, operands=(writing.shown(symbol, given, at, row, column, place), meant))
        first = [s.Statement("", False, (s.Clause(x, None, x.span),), (), x.span, rank=line.rank)
                 for x in writing.parts]
        last = replace(line, clauses=(replace(clause, body=body), *line.clauses[1:]))
        barred = None if partly or len(symbol.sides) != 2 else named(right, self.masks, writing.sizes, row, column)
        return Reading(symbol, (*first, last), (*guessed, *writing.guessed), barred, frozenset(writing.read))


def _there(letter: str, span: Span) -> s.Expression:
    """`1[i = i]`, which is 1 and has the letter i, for an entry that does not depend on its row."""
    word = s.Word(letter, span)
    same = s.Group("[", "]", (s.Relation((word, word), ("=",), span),), span)
    return s.Product((s.Number("1", span), same), ("", ""), span)


def _rows_apart(node: y.Typed) -> bool:
    """Whether it is the outer product of rows of two matrices, `Q_i^⊤ K_j`."""
    match node:
        case y.Times(y.Turned(y.Leaf(at=one)), y.Leaf(at=other)) if not node.shape.number:
            return any(x is not None for x in one) and any(x is not None for x in other)
    return False


def _differing(found: list[Reading]) -> dict[object, Reading]:
    """The readings that differ by more than places."""
    return {plain(tuple(x.clauses[0].body for x in reading.lines)): reading for reading in reversed(found)}


def _on_diagonal(matrix: y.Diagonal) -> y.Typed:
    """The vector on the diagonal of a matrix."""
    inner = matrix.inner
    if not matrix.inverse:
        return inner
    one = y.Plain(s.Number("1", matrix.span), Shape(), matrix.span)
    return y.Entries("product", (one, inner), ("", "/"), inner.shape, matrix.span)


def _symbol(left: Use, shape: Shape, body: s.Relation) -> Symbol:
    """The symbol that an equation defines whose right side has this shape."""
    sides = tuple(x for x in (shape.rows, shape.columns) if x != ONE)
    whole = (shape.rows, shape.columns) if len(sides) == 2 else sides
    return Symbol(left.key, whole, left.letters or (), left_of(body).span)
