"""Shapes that no line says and the equations of a paper determine: `W` of `Q = X W`, the vector `x` of `x W + b`.

Sides that have to be equal, in products, sums and definitions, are unified, and a name whose sides are all known then
is an input of that shape. A name whose letter the text declares with other labels is none, `W_3` beside `W_1`: it may
be a slip.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from einc.checking.declarations.names import Name, head, left_of, size_name
from einc.checking.matrices.factors import apart, binds
from einc.checking.matrices.functions import Function, chosen, defined
from einc.checking.matrices.known import Known
from einc.checking.matrices.lines import names
from einc.checking.matrices.shapes import ENTRYWISE, ONE, TRANSPOSE, Dimension, Key, Symbol, is_name, parts, words
from einc.checking.matrices.slots import sized
from einc.checking.matrices.uses import Use, declared, keyed, split, turned
from einc.errors.report import Problem, Span
from einc.syntax import tree as s

_MOST = 8  # functions applied in functions
Side = Dimension | int  # of a number it is not known yet what it is


@dataclass(frozen=True)
class Lies:
    """The shape of an expression: two sides, or one of a vector, which may lie either way; none is a number."""

    sides: tuple[Side, ...] = ()


NUMBER = Lies()


class _Differ(Exception):  # noqa: N818
    """Two sides of an equation that have to be equal are not."""


@dataclass
class _Sides:
    """What is known of sides: those that were found to be equal, and how large they are."""

    found: dict[int, Side] = field(default_factory=dict)
    many: int = 0
    lengths: set[Side] = field(default_factory=set)  # of rows of which there may be any number

    def new(self) -> int:
        """A side of which nothing is known."""
        self.many += 1
        return self.many

    def of(self, side: Side) -> Side:
        """The size that a side was found to have, or the last side that it was found equal to."""
        while isinstance(side, int) and side in self.found:
            side = self.found[side]
        return side

    def equal(self, one: Side, other: Side) -> None:
        """Makes two sides equal. Raises _Differ where they are not."""
        one, other = self.of(one), self.of(other)
        if one == other:
            return
        if isinstance(one, int):
            self.found[one] = other
        elif isinstance(other, int):
            self.found[other] = one
        elif sorted(one) != sorted(other):
            raise _Differ


@dataclass
class Unifier:
    """The names of a text with their shapes, as far as they are known. `open` are those that nothing says and nothing
    defines, each with where it stands first, and `spoilt` those of equations whose sides differ.
    """

    known: Known
    symbols: Mapping[Key, Symbol]
    functions: Mapping[Name, Function | None]
    sizes: Container[str]
    own: Container[Name]
    arguments: Container[Name]  # what stands in the brackets of definitions
    applied: Container[Name]  # the functions that equations apply
    sides: _Sides = field(default_factory=_Sides)
    made: dict[Key, Lies] = field(default_factory=dict)
    open: dict[Key, s.Expression] = field(default_factory=dict)
    spoilt: set[Key] = field(default_factory=set)
    shaped: set[Key] = field(default_factory=set)  # what stands where a vector or a matrix does, and no number

    def read(self, body: s.Relation) -> None:
        """Makes equal what has to be equal in an equation; what stands in one in which it cannot be is spoilt."""
        left = body.operands[0]
        named = left.factors[0] if isinstance(left, s.Product) and left.factors else left
        use = split(named, self.known.letters) if is_name(named) else None
        for right in body.operands[1:]:
            try:
                found = self.of(right, dict.fromkeys(self._apart(left)))
                if found is not None and use is not None and not use.turned:
                    self._define(use.key, found, isinstance(left, s.Product))
            except _Differ:
                uses = (split(x, self.known.letters) for x in names(right))
                self.spoilt |= {x.key for x in uses if x is not None}

    def free(self) -> None:
        """Gives the rows of matrices in the brackets of definitions, of which there may be any number, a size of their
        own where their columns are known: `Q_len` of Q.
        """
        for key in self.open:
            rows, *columns = map(self.sides.of, self.made[key].sides)
            if isinstance(rows, int) and key.name in self.arguments and key not in self.spoilt and columns and not (
                    isinstance(columns[0], int)):
                self.sides.equal(rows, (f"{key.name.base}_len",))
                self.sides.lengths |= {(f"{key.name.base}_len",)}

    def _apart(self, left: s.Expression) -> tuple[Name, ...]:
        """The names in the brackets of a definition that are none of the text's, since others apply the function."""
        name = split(left, self.known.letters) if is_name(left) else None
        function = self.functions.get(name.name) if name is not None and name.name in self.applied else None
        return function.parameters if function is not None else ()

    def _define(self, key: Key, found: Lies, function: bool) -> None:
        """Gives what an equation defines its shape, or makes its own equal to that of the right side."""
        symbol = self.symbols.get(key)
        if function and symbol is None:
            return
        before = self.made.setdefault(key, found) if symbol is None else Lies(symbol.sides)
        self._same(before, found)

    def of(self, node: s.Expression, given: Mapping[Name, Lies | None], depth: int = 0) -> Lies | None:
        """The shape of an expression, where it has one that the names tell; `given` are the shapes of arguments."""
        match node:
            case s.Number():
                return NUMBER
            case s.Word() | s.Scripted(s.Word()):
                return self._name(node, given)
            case s.Scripted(base, _, (s.Script("upper", s.Word(text)),)) if text in (TRANSPOSE, "T"):
                inner = self.of(base, given, depth)
                return inner if inner is None or len(inner.sides) < 2 else Lies(inner.sides[::-1])
            case s.Group("(" | "[" | "{", _, (only,)):
                return self.of(only, given, depth)
            case s.Fraction(above, below):
                found, divisor = (self.of(x, given, depth) for x in (above, below))
                return found if divisor == NUMBER else None
            case s.Root(inner):
                return NUMBER if self.of(inner, given, depth) == NUMBER else None
            case s.Sum(terms):
                self._beside(terms)
                return self._sum([self.of(x, given, depth) for x in terms])
            case s.Product():
                return self._product(node, given, depth)
        return None

    def _beside(self, nodes: Iterable[s.Expression]) -> None:
        """Remembers the names among what has one shape: terms, and factors entry by entry."""
        uses = (split(x, self.known.letters) for x in nodes if is_name(x))
        self.shaped |= {x.key for x in uses if x is not None}

    def _name(self, node: s.Expression, given: Mapping[Name, Lies | None]) -> Lies | None:
        """The shape of a name, by what is said of it; that of one of which nothing is said is open. Remembers the
        name."""
        use = self._use(node)
        if use is not None and use.name in given and not use.places:
            found = given[use.name]
            return found if found is None or not use.turned else Lies(found.sides[::-1])
        if size_name(node) in self.sizes:
            return NUMBER
        if use is None:
            return None
        key = keyed(use, self.symbols)
        if key is not None:
            found = Lies(self.symbols[key].sides) if key.letters == len(use.places) else None
        elif use.key in self.made:
            found = self.made[use.key]
        elif use.key in self.open or self._is_open(node, use.name):
            self.open.setdefault(use.key, node)
            self.shaped |= {use.key} if use.places or use.name in self.arguments else set()
            many = 1 if use.name.base.islower() else 2
            found = self.made[use.key] = Lies(tuple(self.sides.new() for _ in range(many)))
        else:
            return None
        return found if found is None or not use.turned else Lies(found.sides[::-1])

    def _use(self, node: s.Expression) -> Use | None:
        """A name where it stands; `K^T` is K turned."""
        use = split(node, self.known.letters)
        whole = turned(use.name) if use is not None else None
        return use if use is None or whole is None else replace(use, name=whole, turned=not use.turned)

    def _is_open(self, node: s.Expression, name: Name) -> bool:
        """Whether nothing says what a name is that may be a vector or a matrix: one letter, of which no other labels
        are said, and that is no function.
        """
        base = name.base
        taken = {*self.known.letters, *self.known.functions, "e", "I", *(x.name.base for x in self.symbols)}
        return len(base) == 1 and base.isascii() and base.isalpha() and name not in self.own and base not in taken

    def _same(self, one: Lies, other: Lies) -> None:
        """Makes two shapes equal; a row or a column may be a vector. Raises _Differ."""
        a, b = ([x for x in found.sides if self.sides.of(x) != ONE] for found in (one, other))
        if len(one.sides) == len(other.sides) == 2:
            a, b = list(one.sides), list(other.sides)
        if len(a) == len(b):
            for x, y in zip(a, b, strict=True):
                self.sides.equal(x, y)

    def _sum(self, terms: list[Lies | None]) -> Lies | None:
        """The shape of a sum: every term has it, but for numbers."""
        if None in terms:
            return None
        shaped = [x for x in terms if x is not None and x != NUMBER]
        whole = next((x for x in shaped if len(x.sides) == 2), shaped[0] if shaped else NUMBER)
        line = len(whole.sides) == 2 and ONE not in map(self.sides.of, whole.sides)
        for x in shaped:
            if line and len(x.sides) == 1:
                return None if any(isinstance(self.sides.of(y), int) for y in x.sides) else whole
            self._same(whole, x)
        return whole

    def _product(self, node: s.Product, given: Mapping[Name, Lies | None], depth: int) -> Lies | None:
        """The shape of a product of factors, of which some are functions of what follows them."""
        first = next((n for n, x in enumerate(node.factors) if binds(x)), len(node.factors))
        if (cut := next((n for n, o in enumerate(node.operators) if o == ENTRYWISE and n <= first), None)) is not None:
            halves = [replace(node, factors=node.factors[a:b], operators=("", *node.operators[a + 1 : b]))
                      for a, b in ((0, cut), (cut, len(node.factors)))]
            self._beside(x.factors[0] for x in halves if len(x.factors) == 1)
            one, other = (self._product(x, given, depth) for x in halves)
            return self._times(one, other, ENTRYWISE)
        pieces: list[tuple[str, Lies | None]] = []
        at = 0
        while at < len(node.factors):
            factor, sign = node.factors[at], node.operators[at]
            after = node.factors[at + 1] if at + 1 < len(node.factors) and node.operators[at + 1] == "" else None
            if binds(factor):
                rest = node.factors[at + 1 :]
                inner = s.Product(rest, ("", *node.operators[at + 2 :]), node.span) if rest else None
                pieces.append((sign, self.of(inner, given, depth) if inner is not None else None))
                break
            inside = after.base if isinstance(after, s.Scripted) else after
            called = self._called(factor, inside, given, depth) if isinstance(inside, s.Group) else ()
            if isinstance(inside, s.Group) and (inside is not after if called else self._maybe_function(factor)):
                return None
            pieces.append((sign, called[0] if called else self.of(factor, given, depth)))
            at += 2 if called else 1
        found: Lies | None = pieces[0][1]
        for sign, piece in pieces[1:]:
            found = self._times(found, piece, sign)
        return found

    def _called(self, node: s.Expression, arguments: s.Group, given: Mapping[Name, Lies | None],
                depth: int) -> tuple[Lies | None, ...]:
        """The shape of a function of what stands in parentheses; nothing where it is none."""
        name = node.base if isinstance(node, s.Scripted) else node
        if isinstance(name, s.Word) and (applied := self.known.functions.get(name.text)) is not None:
            found = [self.of(x, given, depth) for x in arguments.items]
            shaped = [x for x in found if x != NUMBER]
            return (None if len(shaped) > 1 or applied.number else shaped[0] if shaped else NUMBER,)
        use = split(node, self.known.letters) if is_name(node) else None
        function = self.functions.get(use.name) if use is not None and not use.places else None
        if function is None:
            return () if use is None or use.name not in self.functions else (None,)
        if len(function.parameters) != len(arguments.items) or depth > _MOST:
            return (None,)
        inner = {x: self.of(y, given, depth) for x, y in zip(function.parameters, arguments.items, strict=True)}
        return (self.of(function.body, {**given, **inner}, depth + 1),)

    def _maybe_function(self, node: s.Expression) -> bool:
        """Whether a name in front of parentheses may be a function of which nothing is said."""
        use = split(node, self.known.letters) if is_name(node) else None
        return use is not None and keyed(use, self.symbols) is None and use.name not in self.own

    def _times(self, one: Lies | None, other: Lies | None, sign: str) -> Lies | None:
        """The shape of a product. Raises _Differ."""
        if one is None or other is None:
            return None
        if sign == "/" or other == NUMBER:
            return one if other == NUMBER else None
        if one == NUMBER:
            return other
        if sign == ENTRYWISE:
            self._same(one, other)
            return one if len(one.sides) >= len(other.sides) else other
        match one.sides, other.sides:
            case (rows, inner), (within, columns):
                self.sides.equal(inner, within)
                return Lies((rows, columns))
            case (row,), (within, columns):
                self.sides.equal(row, within)
                return Lies((ONE, columns))
            case (rows, inner), (column,):
                self.sides.equal(inner, column)
                return Lies((rows, ONE))
        return None


def unified(tree: s.SyntaxTree, known: Known) -> Iterator[tuple[Span, s.Statement]]:
    """The `matrix` or `vector` line of each name of a paper that nothing says and whose shape its equations determine,
    with the place where it stands first.
    """
    solver, lines = _solver(tree, known)
    if solver is None:
        return
    bodies = [x.clauses[0].body for x in lines if x.rank is not None and x.keyword in ("", "output")]
    for _ in range(3):
        for body in bodies:
            if isinstance(body, s.Relation) and {*body.operators} <= {"=", ":="}:
                solver.read(body)
    blocked = {*map(_letter, tree.unknown), *(_letter(x) for x in tree.shaped - {*dict(tree.lines)})}
    solver.free()
    for key, node in solver.open.items():
        found = tuple(map(solver.sides.of, solver.made[key].sides))
        whole = tuple(x for x in found if not isinstance(x, int))
        use = split(node, known.letters)
        counted = {known.letters.get(x) for x in (use.letters or () if use is not None else ())}
        if any(x in counted for side in whole for x in side):  # a vector of as many entries as there are of it
            continue
        if len(whole) == 2 and key.name in solver.arguments and whole[0] not in solver.sides.lengths:
            continue  # a function is of any number of rows: as many as a weight has columns may be a slip
        number = len(whole) == 1 and key not in solver.shaped  # it may be one: `a X`
        if len(whole) < len(found) or ONE in whole or number or key in solver.spoilt or key.name.base in blocked:
            continue
        symbol = _symbol(node)
        shape = tuple(_size(x, node.span) for x in whole)
        sides = shape[0] if len(shape) == 1 else s.Product(shape, ("", "*"), node.span)
        yield node.span, s.Statement("vector" if len(shape) == 1 else "matrix", False, (s.Clause(
            symbol, None, node.span),), (s.Clause(sides, None, node.span),), node.span, rank=s.LEAST + 1)


def _solver(tree: s.SyntaxTree, known: Known) -> tuple[Unifier | None, tuple[s.Statement, ...]]:
    """What unifies the shapes of a text, with its lines, in which letters side by side stand apart."""
    said: dict[Key, Symbol] = {}
    for line in (x for x in tree.statements if x.keyword in ("matrix", "vector")):
        try:
            said |= {x.key: x for x in declared(line, known.letters)}
        except Problem:
            continue
    if not said:
        return None, ()
    runs = _letters(tree.statements, {x.name.base for x in said})
    lines = apart(tree.statements, known.functions, {*(x for pair in tree.rows for x in pair), *runs})
    sizes = {x for symbol in said.values() for side in symbol.sides for x in side}
    functions, values, _ = defined(lines, known.letters, sizes)
    lefts = (left_of(x.clauses[0].body) for x in values if x.keyword in ("", "output"))
    own = {found[0] for x in lefts if (found := head(x)) is not None}
    own |= {found[0] for x in tree.statements if x.keyword in ("input", "weight", "def", "dim") for c in x.clauses
            if (found := head(left_of(c.body))) is not None}
    arguments = {x for _, function in functions.values() for x in function.parameters}
    applied = {use.name for x in values if x.keyword in ("", "output") for node in _heads(x.clauses[0].body)
               if (use := split(node, known.letters)) is not None}
    return Unifier(known, said, chosen(values, functions), sizes, own, arguments, applied), values


def _heads(body: s.Expression) -> Iterator[s.Expression]:
    """The names in front of parentheses on the right side of an equation."""
    for node in (x for right in body.operands[1:] for x in parts(right)) if isinstance(body, s.Relation) else ():
        if isinstance(node, s.Product):
            yield from (x for x, given in pairwise(node.factors) if is_name(x) and isinstance(
                given.base if isinstance(given, s.Scripted) else given, s.Group))


def _letters(lines: Iterable[s.Statement], said: set[str]) -> set[str]:
    """Letters that stand in front of a name with a shape, as factors do: x of `xW_1`, where the text has W_1."""
    out: set[str] = set()
    for line in (x for x in lines if x.rank is not None):
        runs = (w.text for c in line.clauses for w in words((c.body,)) if not w.quoted and len(w.text) == 2)
        out |= {x for run in runs if run.isascii() and run.isalpha() and {*run} & said for x in run}
    return out


def _letter(text: str) -> str:
    """The last letter of a name as it is written, without its scripts and braces."""
    return re.split(r"[_^'(]", text, maxsplit=1)[0].rstrip("}")[-1:]


def _symbol(node: s.Expression) -> s.Expression:
    """A name as a line declares it: without the sign of a transpose."""
    if not isinstance(node, s.Scripted):
        return node
    kept = tuple(x for x in node.scripts if not (x.kind == "upper" and isinstance(x.content, s.Word)
                                                 and x.content.text in (TRANSPOSE, "T")))
    return replace(node, scripts=kept) if kept or node.accents else node.base


def _size(side: Dimension, span: Span) -> s.Expression:
    """A side as it stands in a line."""
    found = tuple(sized(x, span) for x in side)
    return found[0] if len(found) == 1 else s.Group("(", ")", (s.Product(found, ("",) * len(found), span),), span)
