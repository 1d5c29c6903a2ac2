"""Syntax -> typed: the shape of every part of a matrix expression, or why it has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from einc.checking.declarations.names import Name, head, literal, size_name
from einc.checking.declarations.raised import unraised
from einc.checking.matrices import applied as on
from einc.checking.matrices import typed as y
from einc.checking.matrices.along import along, at_letter, shown
from einc.checking.matrices.entries import a_list, at_sides, listed, orders, stacked, taken
from einc.checking.matrices.factors import applied, binds, bound, unapplied, unbarred
from einc.checking.matrices.known import Applied, Known
from einc.checking.matrices.laid import Laid
from einc.checking.matrices.pieces import lone
from einc.checking.matrices.shapes import (
    ENTRYWISE,
    ONE,
    TRANSPOSE,
    Dimension,
    Key,
    Shape,
    Symbol,
    Waiting,
    power,
    shapes_of,
    told,
    words,
)
from einc.checking.matrices.told import misplaced, run_together, shown_name, turned_entry, turned_help
from einc.checking.matrices.units import beside, free, identity
from einc.checking.matrices.uses import Use, fitting, keyed, split, turned
from einc.errors.problems import NoShape, OpenReading, ShapesDiffer
from einc.errors.report import Help, Label, Problem, Span
from einc.syntax import tree as s

_NUMBER = Shape()
_ENTRIES = Help("an entry has a letter or a number for its row and one for its column: `(A B)_{i j}`, `(A B)_{1,2}`")
_POWERS = Help("of a matrix there is a transpose, `Aᵀ`; powers are of numbers")


@dataclass(frozen=True)
class Typing:
    """How the expressions of one equation are read: `vectors` is the side that symbols of one size have in it."""

    known: Known
    symbols: Mapping[Key, Symbol]
    waiting: frozenset[Key]  # what an equation defines whose shape is not known yet
    vectors: Literal["columns", "rows"]
    entrywise: bool = False  # whether two columns or two rows side by side are multiplied entry by entry
    order: frozenset[tuple[str, str]] = frozenset()  # pairs of letters, the lower first, as a condition says
    unit: Dimension | None = None  # the side of what stands beside an identity in a sum

    def of(self, node: s.Expression) -> y.Typed:
        """The typed expression. Raises NoShape, ShapesDiffer, OpenReading or Waiting where it has no one reading."""
        match node:
            case s.Number("1") if node.span.text.startswith("\\"):
                raise on.ones_of(node.span)
            case s.Number() | s.Infinity():
                return y.Plain(node, _NUMBER, node.span)
            case s.Word():
                return self._symbol(node)
            case s.Scripted(s.Word()):
                raised = None if any(x.name.base == "e" for x in self.symbols) else power(node)
                return self._symbol(node) if raised is None else self._power(raised, node)
            case s.Scripted(s.Number("1"), (), (s.Script("lower", content), *rest)) if content is not None:
                sized = on.ones(self.known, self._sizes, content, node.span, self.vectors == "rows")
                return self._marked(sized, tuple(rest), node)
            case s.Scripted(base, _, scripts):
                return self._marked(self.of(base), scripts, node)
            case s.Group("[" | "{", _, (s.Range(),)):
                raise a_list(node.span)
            case s.Group("(" | "[" | "{", _, (inner,)):
                return replace(self.of(inner), span=node.span)
            case s.Sum(terms, signs):
                found = beside(lambda side: replace(self, unit=side or self.unit).of, terms)
                return self._entries("sum", found, signs, node.span)
            case s.Product(factors, operators):
                return self._product(factors, operators, node.span)
            case s.Fraction(above, below):
                return self._divided(self.of(above), self.of(below), node.span)
            case s.Range(low, high):
                return listed(self.of(low), self.of(high), self.order, node.span)
            case s.Matrix(cells, form):
                return replace(self._laid(node.span, form).matrix(cells), span=node.span)
            case s.Root(inner):
                return self._called("sqrt", (self.of(inner),), node)
        raise NoShape(f"`{node.span.text}` is no matrix", node.span, helps=(
            Help("write it with its indices, in an equation of its own"),))

    def _symbol(self, node: s.Word | s.Scripted) -> y.Typed:
        """A symbol, a size, a letter or a number of the text. Raises NoShape for a name without a shape, and for a
        power of a matrix that is none of each entry."""
        found = split(node, self.known.letters)
        text = node.text if isinstance(node, s.Word) else node.span.text
        bare = unraised(node)
        whole = split(bare[0], self.known.letters) if bare is not None and isinstance(bare[1], s.Number) else None
        if whole is not None and keyed(whole, (*self.symbols, *self.waiting)) is not None:
            if (raised := self._raised(node)) is None:
                raise NoShape(f"`{text}` is a power of a matrix", node.span, helps=(_POWERS,))
            return raised
        size = size_name(node)
        if size in self._sizes and found is not None and found.key not in self.symbols:
            return y.Plain(node, _NUMBER, node.span)
        if (leaf := self._used(found, node.span) if found is not None else None) is not None:
            return leaf
        if (raised := self._raised(node)) is not None:
            return raised
        same = [k for k in (*self.symbols, *self.waiting) if found is not None and k.name == found.name]
        entries = found is not None and bool(found.places) and (found.name, True) in self.known.indexed
        if found is not None and same and not (entries and not any(k.letters for k in same)):
            raise misplaced(self.known.letters, found, same[0], self.symbols.get(same[0]), node.span)
        base = head(node)
        if found is None and base is not None and any(k.name == base[0] for k in self.symbols):
            place = node.scripts[-1].span if isinstance(node, s.Scripted) else node.span
            raise NoShape(f"`{place.text}` stands after a matrix", place, helps=(_POWERS,))
        if size in self.known.classes or text in self.known.letters or size in self._sizes or (
                base is not None and (base[0].base in ("e", "π") or self.known.numbered(*base))):
            return y.Plain(self.known.powered(node), _NUMBER, node.span)
        if free(self.known, (*self.symbols, *self.waiting)) and (
                unit := identity(node, {*self._sizes, *self.known.classes}, self.unit)) is not None:
            return unit
        if base is not None and (base[0].base in self.known.functions or base[0].base in on.MATRIX):
            raise unapplied(node)
        raise NoShape(f"nothing says which shape `{text}` has", node.span, helps=(
            Help(f"write it in a line of its own: `matrix {text} : … × …`, `vector {text} : …`"),
            Help(f"a number is `input {text}`")))

    def _power(self, raised: s.Expression, node: s.Scripted) -> y.Typed:
        """`e^{S - m}` is the power of each entry. Raises OpenReading for a square S, of which it may be the series."""
        inner = self.of(raised)
        if not isinstance(inner, y.Plain) and inner.shape.rows == inner.shape.columns != ONE:
            raise OpenReading("is this of each entry, or the power series of a square matrix?", node.span, helps=(
                Help(f"write `exp({raised.span.text.strip('{}')})` for each entry"),))
        return y.Plain(node, _NUMBER, node.span) if isinstance(inner, y.Plain) else self._called("exp", (inner,), node)

    def _used(self, use: Use, span: Span) -> y.Typed | None:
        """A symbol where it stands, whole or at places of its sides; None where there is none such. Raises Waiting."""
        for name in (x for x in (use.name, turned(use.name)) if x is not None):
            for key in fitting(replace(use, name=name), (*self.symbols, *self.waiting)):
                if key in self.waiting:
                    raise Waiting(key)
                places = stacked(self.known, self.symbols[key], use.places)
                if (leaf := self._leaf(self.symbols[key], places, span) if places is not None else None) is not None:
                    flipped = use.turned != (name != use.name)
                    if flipped and isinstance(leaf, y.Leaf) and len(leaf.at) == 2 and None not in leaf.at:
                        raise turned_entry(key.name.base, span)
                    return y.Turned(leaf, leaf.shape.turned, span) if flipped else leaf
        return None

    def _leaf(self, symbol: Symbol, given: tuple[s.Expression, ...], span: Span) -> y.Typed | None:
        """A symbol with its shape, at the places that are given beside those of its stack: one of each side that it
        has, or of one side, which the sizes that their letters count tell, or a piece of it. None where they do not.
        A vector lies as those of the equation do, a row of a matrix is a row.
        """
        stack, inside = given[: symbol.key.letters], given[symbol.key.letters :]
        at = at_sides(self.known, symbol, inside) if inside else ()
        if at is None:
            whole = self._leaf(symbol, stack, span)
            return lone(self.known, whole, inside, span) if isinstance(whole, y.Leaf) else None
        left = tuple(ONE if at and at[n] is not None else side for n, side in enumerate(symbol.sides))
        shapes = shapes_of(replace(symbol, sides=left))
        shape = self._whole(shapes[-1] if self.vectors == "rows" else shapes[0])
        if self.known.upright and len(symbol.sides) == 2 and [x is None for x in at] == [False, True]:
            shape = shape.turned
        leaf = y.Leaf(symbol, stack, at, shape, span)
        side = self.known.whole(symbol.sides[0]) if symbol.diagonal else ONE
        return y.Diagonal(leaf, False, Shape(side, side), span) if symbol.diagonal and not at else leaf

    def _raised(self, node: s.Word | s.Scripted) -> y.Raised | y.Diagonal | None:
        """A power of a number that is a symbol, `γ^{n-m}`, and the inverse of a diagonal matrix."""
        if (bare := unraised(node)) is None:
            return None
        base, power = bare
        found = split(base, self.known.letters)
        inner = self._used(found, node.span) if found is not None else None
        if isinstance(inner, y.Diagonal) and literal(power) == -1:
            return replace(inner, inverse=not inner.inverse, span=node.span)
        if inner is None:
            return None
        if isinstance(inner, y.Diagonal) and not any(words((power,))):
            return replace(inner, inner=y.Raised(inner.inner, power, inner.inner.shape, node.span), span=node.span)
        if not inner.shape.number:
            return None
        return y.Raised(inner, power, _NUMBER, node.span)

    @property
    def _sizes(self) -> frozenset[str]:
        """The sizes of the declared shapes."""
        return frozenset(x for symbol in self.symbols.values() for side in symbol.sides for x in side)

    def _whole(self, shape: Shape) -> Shape:
        return Shape(self.known.whole(shape.rows), self.known.whole(shape.columns))

    def _laid(self, span: Span, form: str) -> Laid:
        """How a matrix is read that is written out."""
        return Laid(self.known, lambda known, x: replace(self, known=known).of(x), span, form == "list", form == "rows")

    def _marked(self, inner: y.Typed, scripts: tuple[s.Script, ...], node: s.Scripted) -> y.Typed:
        """What stands in parentheses, transposed or to a power. Raises NoShape for any other script."""
        for one in scripts:
            content = one.content
            content = content.items[0] if isinstance(content, s.Group) and len(content.items) == 1 else content
            if one.kind == "upper" and isinstance(content, s.Word) and content.text in (TRANSPOSE, "T"):
                inner = y.Turned(inner, inner.shape.turned, node.span)
            elif isinstance(inner, y.Diagonal) and one.span.text.strip("^{} ") in ("-1", "−1"):
                inner = replace(inner, inverse=not inner.inverse, span=node.span)
            elif isinstance(inner, y.Plain) and one.kind == "upper":
                inner = y.Plain(node, _NUMBER, node.span)
            elif inner.shape.number and one.kind == "upper" and content is not None:
                inner = y.Raised(inner, content, _NUMBER, node.span)
            elif content is not None and one.kind == "lower" and (at := taken(self.known, inner, content, node.span)):
                inner = at
            else:
                raise NoShape(f"`{one.span.text}` stands after a matrix of shape {inner.shape}", one.span, helps=(
                    *run_together(node, content), _ENTRIES if one.kind == "lower" else _POWERS))
        return inner

    # products

    def _product(self, factors: tuple[s.Expression, ...], operators: tuple[str, ...], span: Span) -> y.Typed:
        """A product from left to right; `⊙` binds looser than what stands side by side."""
        if ENTRYWISE in operators:
            first = next((n for n, x in enumerate(factors) if binds(x)), len(factors))  # which takes all behind it
            cuts = [0, *(n for n, o in enumerate(operators) if o == ENTRYWISE and n <= first), len(factors)]
            if len(cuts) == 2:
                return self._side_by_side(factors, operators, span)
            parts = tuple(self._product(factors[a:b], ("", *operators[a + 1 : b]),
                                        factors[a].span.to(factors[b - 1].span)) for a, b in pairwise(cuts))
            return self._entries("product", parts, ("", *("*" for _ in parts[1:])), span, alike=True)
        if (order := orders(factors)) - self.order:
            return replace(self, order=self.order | order)._product(factors, operators, span)
        return self._side_by_side(factors, operators, span)

    def _side_by_side(self, factors: tuple[s.Expression, ...], operators: tuple[str, ...], span: Span) -> y.Typed:
        """A product without `⊙`, but for what a big operator takes. Raises OpenReading where a divisor may go on."""
        factors, operators = applied(factors, operators, self.known.functions, self.known.letters)
        out: y.Typed | None = None
        at, divided = 0, False
        while at < len(factors):
            operator = operators[at]
            one, at = (self._summed(factors[at:], operators[at:], span), len(factors)) if binds(
                factors[at]) else self._factor(factors, at)
            if divided and operator == "" and one.shape.number:
                raise OpenReading("is what follows the divisor in it, or a factor of the whole?", one.span,
                                  helps=(Help("write a fraction, or parentheses"),))
            place = factors[0].span.to(one.span)
            if out is None:
                out = one
            elif operator == "/":
                out, divided = self._divided(out, one, place), True
            else:
                on.unambiguous(out, one, operator)
                out, divided = self._times(*(on.inner(out, one) if operator == "*" else (out, one)), place), False
        assert out is not None
        return out

    def _summed(self, factors: tuple[s.Expression, ...], operators: tuple[str, ...], span: Span) -> y.Typed:
        """`Σ_i` with the rest of its product. Raises NoShape where that has not the letter of the sum."""
        binder, *_ = factors
        if len(factors) == 1:
            raise NoShape("nothing is summed", binder.span)
        rest = self._product(factors[1:], ("", *operators[2:]), binder.span.to(span))
        missing = [x for x in bound(binder) if x not in y.letters(rest)]
        if missing:
            raise NoShape(f"`{missing[0]}` is no letter of what is summed", binder.span, helps=(
                Help("a side is summed by `rowsum(A)`, or in an equation with indices"),))
        return y.Summed(binder, rest, rest.shape, binder.span.to(span))

    def _factor(self, factors: tuple[s.Expression, ...], at: int) -> tuple[y.Typed, int]:
        """The factor at a place, with its arguments where it is applied, and the place after it."""
        node, after = factors[at], factors[at + 1] if at + 1 < len(factors) else None
        if isinstance(node, s.Number) and node.text == "1" and isinstance(after, s.Group) and after.open == "[":
            span = node.span.to(after.span)
            return y.Plain(s.Product((node, after), ("", ""), span), _NUMBER, span), at + 2
        found, given = head(node), after.base if isinstance(after, s.Scripted) else after
        named = split(node, self.known.letters)
        if named is not None and named.name in self.known.defined and isinstance(given, s.Group) and given.open == "(":
            applied = self._applied(named.name, node, given)
            return self._marked(applied, after.scripts, after) if isinstance(after, s.Scripted) else applied, at + 2
        if found is None or not isinstance(given, s.Group) or given.open not in ("(", "[") or (
                found[0].base not in self.known.functions and found[0].base not in on.MATRIX):
            return self.of(node), at + 1
        called = unbarred(self._call(node, found[0].base, given), found[0].base, node, given)
        return self._marked(called, after.scripts, after) if isinstance(after, s.Scripted) else called, at + 2

    def _times(self, a: y.Typed, b: y.Typed, span: Span) -> y.Typed:
        """A product. A function of lines on the left runs along the side that is summed. Raises ShapesDiffer."""
        if isinstance(a, y.Diagonal) or isinstance(b, y.Diagonal):
            return on.scaled(a, b, span)
        if a.shape.number or b.shape.number:
            return self._entries("product", (a, b), ("", ""), span)
        if self.entrywise and a.shape == b.shape and ONE in (a.shape.rows, a.shape.columns):
            return self._entries("product", (a, b), ("", ""), span)
        if a.shape.columns != b.shape.rows:
            other = "ᵀ" if a.shape.columns == b.shape.columns else ""
            helps = (Help(f"write `{a.span.text} {shown_name(b)}ᵀ`"),) if other else ()
            inner = f"{told(a.shape.columns)} is not {told(b.shape.rows)}"
            raise ShapesDiffer(f"{shown(a)} times {shown(b)}: {inner}", span, helps=helps)
        a = on.summed_along(a)
        return y.Times(a, b, Shape(a.shape.rows, b.shape.columns), span)

    def _divided(self, a: y.Typed, b: y.Typed, span: Span) -> y.Typed:
        if not b.shape.number and not (a.shape == b.shape and ONE in (a.shape.rows, a.shape.columns)):
            raise ShapesDiffer(f"{shown(a)} is divided by {shown(b)}", b.span, helps=(
                Help("a divisor is a number; rows are scaled by `diag(v)^{-1} A`"),))
        return self._entries("product", (a, b), ("", "/"), span)

    def _entries(self, kind: Literal["sum", "product", "call"], parts: tuple[y.Typed, ...], marks: tuple[str, ...],
                 span: Span, alike: bool = False) -> y.Typed:
        """Entry by entry; a side of 1 is repeated. Raises ShapesDiffer where no part has the shape of the whole."""
        if all(isinstance(x, y.Plain) for x in parts) and kind != "call":
            return y.Plain(on.combined(kind, parts, marks, span), _NUMBER, span)
        rows, columns = (on.common(getattr(x.shape, side) for x in parts) for side in ("rows", "columns"))
        shape = Shape(rows, columns) if rows is not None and columns is not None else None
        inner_ = kind == "sum" and shape is not None and not shape.number and any(
            isinstance(x, y.Times) and x.shape.number for x in parts)  # what `q^⊤ k` makes is added to no matrix
        if shape is None or shape not in [x.shape for x in parts] or inner_ or (
                alike and any(x.shape != shape for x in parts)):
            raise ShapesDiffer(" and ".join(map(shown, parts)) + {"sum": " are added", "call": " are arguments"}.get(
                kind, " are multiplied entry by entry"), span, helps=turned_help(parts))
        return y.Entries(kind, parts, marks, shape, span)

    # functions

    def _applied(self, name: Name, node: s.Expression, given: s.Group) -> y.Typed:
        """A function that the text defines, of its arguments. Raises ShapesDiffer where its definition does not take
        them, and OpenReading where it is not clear how it would."""
        function, span = self.known.defined[name], node.span.to(given.span)
        if function is None:
            raise OpenReading(f"which of its definitions does `{node.span.text}` have here?", span, helps=(
                Help("give each of them a name of its own"),))
        same = function.check(node, given, self.known.letters)
        said = [self.symbols.get(Key(x, 0)) for x in function.parameters]
        others = {key: x for key, x in self.known.defined.items() if key != name}
        inner = replace(self, known=replace(self.known, defined=others))
        shapes = [inner.of(x).shape for x in given.items]
        if any(x is not None and sum(map(bool, x.sides)) == 1 and ONE not in (shape.rows, shape.columns)
               for x, shape in zip(said, shapes, strict=True)):
            raise OpenReading(f"`{node.span.text}` is defined of a vector, and here it has a matrix", span, helps=(
                Help("write it for its rows or its columns: `f(x_i) = …`"),))
        sizes = {size for x in shapes for size in (*x.rows, *x.columns)}
        if not same and (strange := function.strange(self.symbols, sizes)):
            asked = f"is `{strange}` in the definition of `{node.span.text}` a size of what it has here?"
            raise OpenReading(asked, span, helps=(Help("write the formula out for these arguments"),))
        try:
            return replace(on.apart_letters(inner.of(function.of(given.items, self.known.letters))), span=span)
        except Problem as problem:
            labels = () if problem.span is None else (Label(problem.span, "in its definition"),)
            message = f"`{node.span.text}` does not take these: {problem.message}"
            raise ShapesDiffer(message, span, "", *labels) from None

    def _call(self, node: s.Expression, name: str, given: s.Group) -> y.Typed:
        """A function applied: of matrices as such, of each entry, or of lines. Raises NoShape for other arguments."""
        span = node.span.to(given.span)
        applied = self.known.functions.get(name)
        takes = applied is not None and applied.script
        if not isinstance(node, s.Word) and not (takes and isinstance(node, s.Scripted) and len(node.scripts) == 1
                                                 and head(node) == (Name(name), node.scripts)):
            raise NoShape(f"`{node.span.text}` has a script, and `{name}` takes none here", node.span, helps=(
                Help("leave it out, or write the equation with its indices"),))
        if name in on.MATRIX:
            return on.MATRIX[name](self._laid(span, ""), given, span)
        named = tuple(x for x in given.items if isinstance(x, s.Relation))
        arguments = tuple(self.of(x) for x in given.items if not isinstance(x, s.Relation))
        if not arguments or applied is None:
            raise NoShape(f"`{name}` has no argument", span)
        if isinstance(given.items[0], s.Group) and given.items[0].open == "{" and not arguments[0].shape.number:
            raise unapplied(node)
        if not applied.lines:
            called = self._entries("call", arguments, (name,), span)
            return replace(called, named=named) if isinstance(called, y.Entries) else called
        if len(arguments) > 1:
            raise NoShape(f"`{name}` of {len(arguments)} matrices", span, helps=(
                Help("write it with indices, in an equation of its own"),))
        return self._lines(node, name, applied, arguments[0], named, span)

    def _lines(self, node: s.Expression, name: str, applied: Applied, inner: y.Typed, named: tuple[s.Relation, ...],
               span: Span) -> y.Typed:
        """A function of each line, or of a number at each value of a letter. Raises OpenReading: rows or columns?"""
        if (letters := at_letter(node, inner)) is not None and applied.script:
            return y.Lines(s.Word(name, node.span), inner, None, True, letters, named, inner.shape, span)
        side, domain = along(self.known, node, inner, not applied.script)
        shape = inner.shape
        if applied.number:
            if side is None:
                raise OpenReading(f"does `{name}` run along rows or columns?", span, helps=(
                    Help(f"the script says it where they have different sizes: `{name}_s(A)`"),))
            shape = Shape(shape.rows, ONE) if side == "columns" else Shape(ONE, shape.columns)
        return y.Lines(s.Word(name, node.span), inner, side, applied.script, domain, named, shape, span,
                       barred=applied.barred)

    def _called(self, name: str, arguments: tuple[y.Typed, ...], node: s.Expression) -> y.Typed:
        if all(isinstance(x, y.Plain) for x in arguments) and isinstance(node, s.Root):
            return y.Plain(node, _NUMBER, node.span)
        return self._entries("call", arguments, (name,), node.span)
