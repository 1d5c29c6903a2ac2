"""Typed -> index notation: every side of a matrix gets a letter, every product its sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from einc.checking.declarations.names import Name
from einc.checking.matrices import slots
from einc.checking.matrices import typed as y
from einc.checking.matrices.along import not_before
from einc.checking.matrices.barred import Barred, at_letters, kept, whole_mask
from einc.checking.matrices.factors import enclosed, product, ranges
from einc.checking.matrices.following import folds, moved, stretches, within
from einc.checking.matrices.masks import Mask
from einc.checking.matrices.shapes import ONE, Dimension, Key, Symbol, words
from einc.checking.matrices.slots import Letters, braced, entered, label, places, sized, spelled, substituted
from einc.checking.matrices.supply import Supply
from einc.errors.problems import NoShape, OpenReading
from einc.errors.report import Help, Span
from einc.ir.indices import INDEX_CLASSES
from einc.syntax import tree as s

_DIVIDED = "vectors are divided entry by entry, for a quotient of vectors has no other meaning"
_NTH = "abcdefghijklmnopqrstuvwxyz"  # of the parts of one equation that have a name of their own


@dataclass(frozen=True)
class Writing:
    """Writes the typed expression of one equation. `free` are the letters of its left side, and `parts` gets equations
    of parts that need one of their own, with names that begin with `name`. `guessed` gets what the text does not say.
    `above` are letters that hang above a number of the text. `whole`: a line over a sequence without a domain means all
    of it, as papers mean it. `masks` are the symbols that equations give by cases.
    """

    supply: Supply
    free: frozenset[str] = frozenset()
    name: str = ""
    parts: list[s.Relation] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)
    above: frozenset[str] = frozenset()
    whole: bool = False
    masks: Mapping[Key, Mask] = field(default_factory=dict)
    read: set[Key] = field(default_factory=set)  # the masks that stand in what is written
    ranges: Mapping[str, s.Expression] = field(default_factory=dict)  # the domains of the big operators around
    sizes: frozenset[str] = frozenset()  # the names that are numbers above 0

    def whole_side(self, node: y.Typed, row: Letters, column: Letters, used: frozenset[str]) -> s.Expression:
        """The right side of an equation, which alone may be a direct sum."""
        if isinstance(node, y.Joined) and self._parts(node) and not {*self._parts(node)} & {*row, *column}:
            return self._summed(node, row, column, used)
        return self.write(node, row, column, used)

    def write(self, node: y.Typed, row: Letters, column: Letters, used: frozenset[str]) -> s.Expression:
        """The expression with these letters for rows and columns. Notes what it reads and guesses. Raises NoShape."""
        match node:
            case y.Plain(expression):
                return expression
            case y.Ones(span=span):
                return s.Number("1", span)
            case y.Leaf():
                return self._leaf(node, row, column)
            case y.Raised(inner, power, _, span):
                script = s.Script("upper", s.Group("{", "}", (power,), span), "", span)
                base = s.Group("(", ")", (self.write(inner, row, column, used),), span)
                return s.Scripted(base, (), (script,), span)
            case y.Turned(inner):
                return self.write(inner, column, row, used)
            case y.Times():
                return self._times(node, row, column, used)
            case y.Entries():
                return self._entries(node, row, column, used)
            case y.Lines():
                return self._lines(node, row, column, used)
            case y.Summed(binder, inner, _, span):
                bound = replace(self, ranges={**self.ranges, **ranges(binder)})
                return s.Product((binder, enclosed(bound.write(inner, row, column, used))), ("", ""), span)
            case y.Listed(letter, low, high, inner, _, span):
                bounds = (low, places((letter,), span)[0], high)
                between = s.Relation(bounds, ("<=", "<="), span)
                return self._sum("prod", (letter,), self.write(inner, (), (), used | {letter}), span, between)
            case y.Folded(fold, inner, _, span):
                letters = self.supply.fresh(inner.shape.columns, used)
                return self._sum(fold, letters, self.write(inner, row, letters, used | {*letters}), span)
            case y.Taken(inner, (first, second)):
                rows, columns = (a if x is None else (slots.letter(x),) for x, a in ((first, row), (second, column)))
                return self.write(inner, rows, columns, used)
            case y.Traced(inner):
                letters = self.supply.fresh(inner.shape.rows, used)
                return self._sum("sum", letters, self.write(inner, letters, letters, used | {*letters}), node.span)
            case y.Triangle(inner, _, span, above):
                inside = _gated(kept(node, column, row, span), enclosed(self.write(inner, row, column, used)), span)
                return inside if above is None else _with_above(inside, above, row, column, span)
            case y.Stacked(letter, inner, side):
                one, rows, columns = _outer(side, row, column)
                return self.write(y.substituted(inner, {letter: one}), rows, columns, used)
            case y.Piece(place, inner, side):
                one = slots.letter(place)
                self.guessed.extend([f"`{node.span.text}` is one of the pieces of a vector"] * node.guessed)
                rows, columns = ((one, *row), column) if side == "rows" else (row, (one, *column))
                return self.write(inner, rows, columns, used)
            case y.Banded(letter, inner, _, span):
                inside = enclosed(self.write(y.substituted(inner, {letter: row[0]}), row[1:], column[1:], used))
                same = s.Relation((*spelled((row[0], column[0]), span),), ("=",), span)
                return s.Product((s.Number("1", span), s.Group("[", "]", (same,), span), inside), ("", "", ""), span)
            case y.Joined(alike=True):
                return self._blocks(node, row, column, used)
            case y.Joined():
                return self._following(node, row, column, used)
            case y.Diagonal(span=span):
                raise stands_alone(span)
            case _:
                assert_never(node)

    # one kind each

    def _leaf(self, node: y.Leaf, row: Letters, column: Letters) -> s.Expression:
        """A symbol, with the condition under which an equation by cases makes it more than 0."""
        found = self.shown(node.symbol, node.stack, node.at, row, column, node.span)
        mask = whole_mask(node, self.masks)
        self.read.update({node.symbol.key} & self.masks.keys())
        if mask is None or mask.barred or mask.support is None:
            return found
        there = s.Group("[", "]", (at_letters(mask.support, mask, row, column),), node.span)
        return s.Product((s.Number("1", node.span), there, found), ("", "", ""), node.span)

    def _times(self, node: y.Times, row: Letters, column: Letters, used: frozenset[str]) -> s.Expression:
        """A product: the sum over the letters of the side that its factors share. Below a triangle it is cut."""
        letters = self.supply.fresh(node.left.shape.columns, used)
        inside = used | {*letters}
        left, domain = node.left, None
        if isinstance(left, y.Triangle) and left.above is None and letters:
            domain = kept(left, letters, row, node.span)
            left = left.inner
        factors = (self.write(left, row, letters, inside), self.write(node.right, letters, column, inside))
        body = product(factors, ("", ""), node.span)
        return self._sum("sum", letters, body, node.span, domain)

    def _sum(self, fold: str, letters: Letters, body: s.Expression, span: Span,
             domain: s.Expression | None = None) -> s.Expression:
        for at, letter in enumerate(reversed(letters)):
            content = domain if domain is not None and at == 0 else s.Word(letter, span)
            binder = s.Scripted(s.Word(fold, span), (), (s.Script("lower", braced(content), "", span),), span)
            rest = body.factors if isinstance(body, s.Product) else (enclosed(body),)
            operators = body.operators[1:] if isinstance(body, s.Product) else ()
            body = s.Product((binder, *rest), ("", "", *operators), span)
        return body

    def _entries(self, node: y.Entries, row: Letters, column: Letters, used: frozenset[str]) -> s.Expression:
        """A sum, product or quotient that is computed entry by entry, at one row and one column."""
        parts = tuple(self.write(x, row if x.shape.rows else (), column if x.shape.columns else (), used)
                      for x in node.parts)
        if node.kind == "sum":
            return s.Sum(tuple(s.Group("(", ")", (x,), x.span) if isinstance(x, s.Sum) else x for x in parts),
                         node.marks, node.span)
        if node.kind == "product":
            self.guessed.extend([_DIVIDED] * any(
                mark == "/" and not x.shape.number for x, mark in zip(node.parts, node.marks, strict=True)))
            return product(parts, node.marks, node.span)
        given = s.Group("(", ")", (*parts, *node.named), node.span)
        return s.Product((s.Word(node.marks[0], node.span), given), ("", ""), node.span)

    def _at_letter(self, node: y.Lines, domain: s.Expression, used: frozenset[str]) -> s.Expression:
        """A function of a number that runs at one of its letters."""
        known = self.supply.known
        inner = domain.items[0] if isinstance(domain, s.Group) and len(domain.items) == 1 else domain
        inner = self.ranges.get(inner.text, inner) if isinstance(inner, s.Word) else inner
        if isinstance(inner, s.Word):
            not_before(known, node, self._sequence((known.letters.get(inner.text, ""),)), self.masks)
        if isinstance(inner, s.Word) and self.whole and self._sequence((known.letters.get(inner.text, ""),)):
            size = known.letters[inner.text]
            self.guessed.append(_all_of(node.function.text, size))
            inner = self._every(inner, size, node.span)
        content = inner if isinstance(inner, s.Group) and inner.open == "{" else braced(inner)
        function = s.Scripted(node.function, (), (s.Script("lower", content, "", node.span),), node.span)
        given = s.Group("(", ")", (self.write(node.inner, (), (), used), *node.named), node.span)
        return s.Product((function, given), ("", ""), node.span)

    def _lines(self, node: y.Lines, row: Letters, column: Letters, used: frozenset[str]) -> s.Expression:
        """A function of lines at the letter of its side; one that makes a number of a line binds a letter for it.
        Raises OpenReading or NoShape."""
        if node.inner.shape.number and node.side is None and node.domain is not None:
            return self._at_letter(node, node.domain, used)
        if node.side is None:
            raise OpenReading(f"does `{node.function.text}` run along rows or columns?", node.span, helps=(
                Help(f"`{node.function.text}(A) B` runs along what the product sums, and where rows and columns have "
                     f"different sizes the script may say which: `{node.function.text}_s(A)`"),))
        side = node.inner.shape.columns if node.side == "columns" else node.inner.shape.rows
        own = column if node.side == "columns" else row
        if node.guessed:
            self.guessed.append(f"`{node.function.text}` runs along what the product beside it sums")
        applied = self.supply.known.functions.get(node.function.text)
        if self.whole and applied is not None and applied.unless and not node.named:
            self.guessed.append(f"`{node.function.text}` has {applied.unless[0]}, and nothing that is learned but what "
                                "the equation itself has")
        if not node.indexed and not self.free >= {*own}:
            return self._apart(node, row, column, node.function.text)
        if node.shape != node.inner.shape:
            own = self.supply.fresh(side, used)
            used |= {*own}
        if len(own) != 1:
            raise NoShape(f"`{node.function.text}` runs along a side that is a product of sizes", node.span)
        rows, columns = (row, own) if node.side == "columns" else (own, column)
        within, conditions = self._open(node, rows, columns, own[0])
        lying = not node.indexed and node.side == "rows" and node.inner.shape.columns != ONE
        inner = self.write(within, rows, columns, used) if not lying else self._apart(
            y.Turned(within, within.shape.turned, node.span), columns, rows, node.function.text)
        function: s.Expression = node.function
        if node.indexed:
            other = row if node.side == "columns" else column
            every = self._every(next(spelled(own, node.span)), side[0], node.span)
            content = s.Group("{", "}", (every, *conditions), node.span) if conditions else (
                self._domain(node, side, own[0], other))
            function = s.Scripted(node.function, (), (s.Script("lower", braced(content), "", node.span),), node.span)
        called = (function, s.Group("(", ")", (inner, *node.named), node.span))
        there = () if not conditions else (s.Number("1", node.span), s.Group("[", "]", conditions, node.span))
        return s.Product((*there, *called), ("",) * (len(there) + 2), node.span)

    def _open(self, node: y.Lines, row: Letters, column: Letters,
              own: str) -> tuple[y.Typed, tuple[s.Expression, ...]]:
        """What a function of lines reads without what is −∞ in it, and the conditions that this leaves; all of it where
        a point at −∞ is more than none.
        """
        if not (node.barred and node.indexed and node.domain is None):
            return node.inner, ()
        inner, conditions = Barred(self.masks, self.sizes, row, column, own, node.span).opened(node.inner)
        return (node.inner, ()) if inner is None else (inner, conditions)

    def _domain(self, node: y.Lines, side: Dimension, own: str, other: Letters) -> s.Expression:
        """What stands in the script of a function: its letter alone, or a domain, whose first letter is that of the
        line and whose others are those across. Along one sequence across another the whole of it is meant, for nothing
        of the one comes before something of the other. Changes `self.guessed`. Raises NoShape.
        """
        letters = self.supply.known.letters
        across = node.inner.shape.rows if node.side == "columns" else node.inner.shape.columns
        if node.domain is None:
            line = len(side) == 1 and (across == side or self._sequence(side))
            not_before(self.supply.known, node, line, self.masks)
            apart = self.whole or (across not in (ONE, side) and len(across) == 1 and self._sequence(across))
            if apart := apart and len(side) == 1 and self._sequence(side):
                self.guessed.append(_all_of(node.function.text, side[0]))
            word = next(spelled((own,), node.span))
            return self._every(word, side[0], node.span) if apart else word
        names = [w.text for w in words((node.domain,)) if w.text in letters]
        if not names or letters[names[0]] != side[0]:
            raise NoShape(f"`{node.domain.span.text}` begins with no letter of the side along which "
                          f"`{node.function.text}` runs", node.domain.span)
        change = {names[0]: own}
        for name in names[1:]:
            if name not in change and len(other) == 1 and letters[name] == across[0]:
                change[name] = other[0]
        return substituted(node.domain, change)

    def _every(self, letter: s.Expression, size: str, span: Span) -> s.Expression:
        """`1 ≤ s ≤ T`, which says that the whole line is meant."""
        if size in self.supply.beside:  # of time that a person declares it stays to be said
            return s.Relation((letter, sized(size, span)), ("<=",), span)
        first = s.Number(str(self.supply.known.start(size) or 0), span)
        return s.Relation((first, letter, sized(size, span)), ("<=", "<="), span)

    def _sequence(self, side: Dimension) -> bool:
        return INDEX_CLASSES[self.supply.known.kind(side[0])].sequence

    def _blocks(self, node: y.Joined, row: Letters, column: Letters, used: frozenset[str]) -> s.Expression:
        """Matrices of one size, of which a letter tells which is meant: `1[a = 1] A + 1[a = 2] B`."""
        one, rows, columns = _outer(node.side, row, column)
        terms: list[s.Expression] = []
        for n, part in enumerate(node.parts, 1):
            chosen = s.Relation((next(spelled((one,), node.span)), s.Number(str(n), node.span)), ("=",), node.span)
            inner = enclosed(self.write(part, rows, columns, used))
            factors = inner.factors if isinstance(inner, s.Product) else (inner,)
            operators = inner.operators if isinstance(inner, s.Product) else ("",)
            condition = (s.Number("1", node.span), s.Group("[", "]", (chosen,), node.span))
            terms.append(s.Product((*condition, *factors), ("", "", *operators), node.span))
        return s.Sum(tuple(terms), ("+",) * len(terms), node.span)

    def _summed(self, node: y.Joined, row: Letters, column: Letters, used: frozenset[str]) -> s.DirectSum:
        """Matrices of different sizes, the whole right side of an equation: each has the letter of its own size."""
        rows = node.side == "rows"
        letters = self._parts(node)
        parts = [self.write(x, (one,) if rows else row, column if rows else (one,), used | {one})
                 for x, one in zip(node.parts, letters, strict=True)]
        return s.DirectSum(tuple(parts), node.span)

    def _following(self, node: y.Joined, row: Letters, column: Letters, used: frozenset[str]) -> s.Expression:
        """A direct sum, or matrices that follow each other: `1[i ≤ T] A_{min(i, T)} + 1[T + 1 ≤ i] b`."""
        if self._parts(node):
            return self._apart(node, row, column, "".join(node.shape.rows + node.shape.columns))
        rows = node.side == "rows"
        (one,), (whole,) = (row, node.shape.rows) if rows else (column, node.shape.columns)
        found = [x.shape.rows if rows else x.shape.columns for x in node.parts]
        terms: list[s.Expression] = []
        for part, side, (condition, place) in zip(
                node.parts, found, stretches(self.supply.known, whole, found, one, node.span), strict=True):
            own = self.supply.fresh(side, used | {one})
            r, c = (own, column) if rows else (row, own)
            inner = self._apart(part, r, c, "") if folds(part) else self.write(part, r, c, used | {one, *own})
            there = moved(inner, own[0], place) if own else inner
            terms.append(s.Product((*condition.factors, enclosed(there)), ("",) * 3, node.span))
        return s.Sum(tuple(terms), ("+",) * len(terms), node.span)

    def _parts(self, node: y.Joined) -> Letters:
        """The letters of the parts of a direct sum."""
        side = node.shape.rows if node.side == "rows" else node.shape.columns
        return self.supply.parts(*side) if len(side) == 1 else ()

    def _apart(self, node: y.Typed, row: Letters, column: Letters, called: str) -> s.Expression:
        """A part under a name of its own: its function takes the letter of its argument, which is bound here, or it is
        a direct sum.
        """
        known = {*self.supply.known.letters, *self.supply.new}
        stack = tuple(dict.fromkeys(x for x in y.letters(node, free=True) if x in known))
        sides = tuple(x for x in (node.shape.rows, node.shape.columns) if x != ONE)
        named = (_NTH[int(x)] if x.isdigit() else x for x in self.name + called if x.isalnum())
        label = "".join(named) + _NTH[len(self.parts)]
        name = Name("N", lower=(label,))
        symbol = Symbol(Key(name, len(stack)), sides, stack, node.span)
        own = places(stack, node.span)
        inside = {*self._parts(node)} if isinstance(node, y.Joined) else set()
        r = self.supply.fresh(node.shape.rows, {*stack, *inside})
        c = self.supply.fresh(node.shape.columns, {*stack, *r, *inside})
        alone = replace(self, free=frozenset({*stack, *r, *c}))
        right = alone.whole_side(node, r, c, alone.free)
        self.parts.append(s.Relation((self.shown(symbol, own, (), r, c, node.span), right), ("=",), node.span))
        return self.shown(symbol, own, (), row, column, node.span)

    def shown(self, symbol: Symbol, stack: tuple[s.Expression, ...], at: tuple[s.Expression | None, ...], row: Letters,
              column: Letters, span: Span) -> s.Expression:
        """A symbol between rows and columns, at some places of its sides. What has one open side has the letter of
        whichever side it lies along.
        """
        given = at or (None,) * len(symbol.sides)
        single = sum(x is None for x in given) == 1
        ends = ((row or column) if single else row, (row or column) if single else column)
        sides = tuple(ends[n] if x is None else x for n, x in enumerate(given))
        return self.symbol(symbol, stack, sides, span)

    def symbol(self, symbol: Symbol, stack: tuple[s.Expression, ...], given: tuple[Letters | s.Expression, ...],
               span: Span) -> s.Expression:
        """A name with its labels, the places of its stack and of its sides."""
        name = symbol.key.name
        lower = [self._place(x) for x in stack]
        upper: list[s.Expression] = []
        sides = tuple(self.supply.known.whole(x) for x in symbol.sides)
        shaped = [(place, side, at) for at, (place, side) in enumerate(zip(given, sides, strict=False)) if side != ONE]
        for place, side, at in shaped:
            above = self.supply.summed(side) and (at == 1 or len(symbol.sides) == 1)
            # A free letter below is no half of a pair, even where it stands above in another factor.
            letter = place[0] if isinstance(place, tuple) and len(place) == 1 else (
                place.text if isinstance(place, s.Word) else "")
            alone = not above and self.supply.summed(side) and letter in self.free
            entry = entered(place, span, alone) if isinstance(place, tuple) else within(
                self.supply.known, place, side) or (
                entered((place.text,), span, alone) if isinstance(place, s.Word) else place)
            (upper if above else lower).append(entry)
        scripts = [s.Script("prime", None, "'" * name.primes, span)] if name.primes else []
        scripts += [label("lower", x, span) for x in name.lower]
        scripts += [label("upper", x, span) for x in name.upper]
        scripts += [s.Script("lower", braced(*lower), "", span)] if lower else []
        scripts += [s.Script("upper", braced(*upper), "", span)] if upper else []
        word = s.Word(name.base, span, quoted=len(name.base) > 1)
        return s.Scripted(word, name.accents, tuple(scripts), span) if scripts or name.accents else word

    def _place(self, node: s.Expression) -> s.Expression:
        """A place of a stack in a slot."""
        return entered((node.text,), node.span, node.text in self.above) if isinstance(node, s.Word) else node


def _all_of(name: str, size: str) -> str:
    """What is told of a function without a domain."""
    return f"`{name}` runs over all of {size}, for nothing says over which part"


def _outer(side: y.Side, row: Letters, column: Letters) -> tuple[str, Letters, Letters]:
    """The outer letter of a side, and the letters of rows and columns without it."""
    return (row[0], row[1:], column) if side == "rows" else (column[0], row, column[1:])


def stands_alone(span: Span) -> NoShape:
    """What is wrong with a diagonal matrix that scales nothing."""
    return NoShape(f"`{span.text}` stands alone: a diagonal matrix is never made", span, helps=(
        Help("multiply it with a matrix, whose rows or columns it scales"),))


def _with_above(below: s.Expression, above: s.Expression, row: Letters, column: Letters, span: Span) -> s.Expression:
    """What stands below a diagonal, and one number above it."""
    later = s.Relation((entered(row, span), entered(column, span)), ("<",), span)
    return s.Sum((below, _gated(later, enclosed(above), span)), ("+", "+"), span)


def _gated(condition: s.Relation, node: s.Expression, span: Span) -> s.Expression:
    """What a gate leaves of a number where its condition holds."""
    return s.Product((s.Number("1", span), s.Group("[", "]", (condition,), span), node), ("", "", ""), span)
