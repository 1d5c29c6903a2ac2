"""Expressions of arrays -> values: names by their declared axes, calls by their strings, the rest entry by entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from einc.checking.arrays.calls import Call, called, contracted
from einc.checking.arrays.naming import Naming
from einc.checking.arrays.values import Entry, Used, Value, along, at, entrywise, indexed, number
from einc.checking.declarations.names import Name, size_name
from einc.checking.matrices.factors import product
from einc.checking.matrices.shapes import is_name, parts, within
from einc.checking.matrices.uses import Use, split
from einc.checking.notation import BY_POSITION
from einc.errors.problems import BadPattern, NoShape, OpenReading
from einc.errors.report import Help, Span
from einc.syntax import tree as s
from einc.syntax.spelling import BUILT_IN, is_fold

AXIS = "axis"


class WaitingError(Exception):
    """What is read is defined by an equation that is not read yet."""


class LostError(Exception):
    """What is read is defined by an equation that cannot be read, which was told already."""


@dataclass
class Reader:
    """Reads the expressions of one text.

    `slots` are the axes of each name, one entry for each number of them, and `numbers` the names without axes.
    `pending` are names that equations define which are not read yet, `lost` those that cannot be. `inputs` gets what a
    string alone says of a name; where the text `infers` what nothing declares, that is an input by itself.
    `views` are names of arrays that others hold, which are never made where they are read by position, and `viewed`
    those that are so read.
    """

    naming: Naming
    slots: dict[Name, dict[int, tuple[int, ...]]]
    numbers: frozenset[str]
    infers: bool
    pending: set[Name] = field(default_factory=set)
    lost: set[Name] = field(default_factory=set)
    views: dict[Name, Value] = field(default_factory=dict)
    viewed: set[Name] = field(default_factory=set)
    inputs: dict[Name, tuple[s.Expression, tuple[int, ...]]] = field(default_factory=dict)

    def declared(self) -> Iterator[tuple[s.Expression, tuple[int, ...]]]:
        """The inputs that strings declare: all, or where the text infers inputs, those with an axis of tuples."""
        for node, axes in self.inputs.values():
            if not self.infers or any(map(self.naming.sets.composed, axes)):
                yield node, axes

    def value(self, node: s.Expression) -> Value:
        """What an expression is. Raises BadPattern, NoShape, OpenReading, ShapesDiffer, WaitingError."""
        match node:
            case s.Number() | s.Infinity():
                return number(node)
            case s.Group("(" | "[", _, (inner,)):
                return self._around(node, (inner,))
            case s.Root() | s.Fraction() | s.Sum():
                return self._around(node, within(node))
            case s.Product(factors, operators):
                return self._product(factors, operators, node.span)
            case s.Word() | s.Scripted() if is_name(node):
                return self._named(node)
            case s.Scripted(base, (), (s.Script("upper", power),)) if power is not None and not is_name(node):
                return entrywise(self.naming.sets, [self.value(base)], node.span,
                                 lambda nodes: replace(node, base=nodes[0]))
        raise BadPattern(f"`{node.span.text}` is not read beside arrays without letters", node.span, helps=(
            Help("write the letters of every array of this equation"),))

    def _around(self, node: s.Expression, inner: tuple[s.Expression, ...]) -> Value:
        """The value of a node that is entry by entry what it is of its inner expressions."""
        def build(nodes: tuple[s.Expression, ...]) -> s.Expression:
            """The node with these expressions in place of those that it is made of, in their order. A node of another
            kind than those below is given back as it is."""
            match node:
                case s.Group():
                    return replace(node, items=nodes)
                case s.Root():
                    return replace(node, inner=nodes[0])
                case s.Fraction():
                    return replace(node, above=nodes[0], below=nodes[1])
                case s.Sum():
                    return replace(node, terms=nodes)
            return node
        return entrywise(self.naming.sets, self._each([(x, None) for x in inner]), node.span, build)

    def _each(self, pairs: Sequence[tuple[s.Expression, s.Expression | None]]) -> list[Value]:
        """The values of expressions, and of names with what they are applied to: first of those in which a string
        stands, which may say what axes the names in the others have.
        """
        strings = [any(isinstance(x, s.Word) and x.text in BY_POSITION for y in pair if y is not None for x in parts(y))
                   for pair in pairs]
        found = {n: self._applied(*pairs[n]) if pairs[n][1] is not None else self.value(pairs[n][0])
                 for n in sorted(range(len(pairs)), key=lambda n: not strings[n])}
        return [found[n] for n in range(len(pairs))]

    def _product(self, factors: Sequence[s.Expression], operators: Sequence[str], span: Span) -> Value:
        """Factors entry by entry: a product of two arrays side by side is a question. Raises OpenReading or
        BadPattern."""
        found = list(applications(factors, operators))
        values = self._each([(x, y) for _, x, y in found])
        marks = tuple(mark for mark, _, _ in found)
        beside = [n for n in range(1, len(values)) if marks[n] == "" and values[n].axes and any(
            v.axes for v in values[:n])]
        if beside:
            later = beside[0]
            raise OpenReading(
                f"do the axes of `{found[later][1].span.text}` meet those of what stands before it?", span, helps=(
                    Help('say it: `einsum("…,…->…", A, B)`, or `A * B` entry by entry'),))
        for before, (mark, node, _) in zip(values, found[1:], strict=False):
            if mark == "" and before.axes and isinstance(node, s.Group) and node.open == "[":
                raise BadPattern(f"`{node.span.text}` takes a part of an array, which is not read here", node.span,
                                 helps=(Help("write the part with its letters, or parentheses for a factor"),))
        if len(values) == 1:
            return values[0]
        return entrywise(self.naming.sets, values, span, lambda nodes: product(nodes, marks, span))

    def _applied(self, name: s.Expression, group: s.Expression | None) -> Value:
        """A function of what stands in parentheses, or a call with a string. Raises BadPattern or OpenReading."""
        assert group is not None
        call = called(name, group)
        if call is not None:
            return contracted(self.naming, call, self.operand)
        assert isinstance(group, s.Group)
        span = name.span.to(group.span)
        functions = self.naming.supply.known.functions
        if isinstance(name, s.Word) and (name.text in functions or is_fold(name.text)):
            if is_fold(name.text) and any(x.operands[0].span.text != AXIS if isinstance(x, s.Relation) else n > 0
                                          for n, x in enumerate(group.items)):
                raise BadPattern(f"`{name.text}` is a fold, and is given an array and its axis alone", span, helps=(
                    Help(f"write `{name.text}(X, axis = -1)`"),))
            axis = [x for x in group.items if isinstance(x, s.Relation) and isinstance(
                x.operands[0], s.Word) and x.operands[0].text == AXIS]
            rest = tuple(x for x in group.items if isinstance(x, s.Relation) and x not in axis)
            plain = [x for x in group.items if not isinstance(x, s.Relation)]
            row = None if axis and is_fold(name.text) else functions.get(name.text)
            if axis and plain and (row is None or (row.lines and row.script)):
                value = self.value(plain[0])
                return along(self.naming, value, name, _whole(axis[0]), row is None or row.number,
                             (*plain[1:], *rest), span)
            if row is not None and not row.lines and not axis:
                return self._entries(name, plain, rest, span)
            raise OpenReading(f"along which axis does `{name.text}` run?", span, helps=(
                Help(f"say it: `{name.text}(X, axis = -1)`, or write the equation with its letters"),))
        left, right = self.value(name), self.value(group)
        if left.axes and right.axes:
            raise BadPattern(f"`{name.span.text}` is no function", name.span)
        return entrywise(self.naming.sets, [left, right], span, lambda nodes: product(nodes, ("", ""), span))

    def _entries(self, name: s.Word, plain: Sequence[s.Expression], rest: tuple[s.Expression, ...],
                 span: Span) -> Value:
        """A function of each entry."""
        def build(nodes: tuple[s.Expression, ...]) -> s.Expression:
            return s.Product((name, s.Group("(", ")", (*nodes, *rest), span)), ("", ""), span)
        return entrywise(self.naming.sets, [self.value(x) for x in plain], span, build)

    def operand(self, node: s.Expression, letters: Sequence[str], axes: tuple[int, ...]) -> Value:
        """An operand of a call: a name that nothing says anything of has the axes of its words. Changes `self.slots`
        and `self.inputs`."""
        use = self._use(node) if is_name(node) else None
        if use is not None:
            found = self.slots.get(use.name, {})
            if len(axes) in found:
                return self._read(node, found[len(axes)], letters)
            if not found and use.name not in {*self.pending, *self.lost} and not self._scalar(node):
                self.slots[use.name] = {len(axes): axes}
                self.inputs[use.name] = (node, axes)
                return self._read(node, axes, letters)
        return self.value(node)

    def _named(self, node: s.Expression) -> Value:
        """A name: all of an array, or a number. Raises OpenReading, WaitingError, LostError or NoShape."""
        use = None if node.span.text in BUILT_IN else self._use(node)
        array = use is not None and (use.name in self.slots or use.name in self.pending or use.name in self.lost)
        if use is None or (self._scalar(node) and not array):
            return number(node)
        found = self.slots.get(use.name, {})
        if len(found) > 1:
            counts = " and of one with ".join(map(str, found))
            raise OpenReading(f"`{node.span.text}` is the name of an array with {counts} axes", node.span, helps=(
                Help("give one of them a label"),))
        if found:
            (axes,) = found.values()
            return self._read(node, axes, [""] * len(axes))
        if use.name in self.pending:
            raise WaitingError
        if use.name in self.lost:
            raise LostError
        raise NoShape(f"nothing says which axes `{node.span.text}` has", node.span, helps=(
            Help("declare it: an `input` with a letter for each axis, a `dim` where it is a size"),))

    def _use(self, node: s.Expression) -> Use | None:
        """The name that stands for all of an array; None for what has a number above it. Raises OpenReading."""
        use = split(node, self.naming.supply.known.letters)
        if use is not None and use.places:
            raise OpenReading(f"`{node.span.text}` has letters beside arrays without any", node.span, helps=(
                Help("write the letters on the left side too, `Y_{…} = …`, and a string then speaks of those"),))
        return use

    def _scalar(self, node: s.Expression) -> bool:
        """Whether a name is that of a size or of a number."""
        return (size_name(node) or "") in self.numbers or node.span.text in BUILT_IN or node.span.text in ("e", "π")

    def _read(self, node: s.Expression, axes: tuple[int, ...], letters: Sequence[str]) -> Value:
        """A read of an array along these axes; of a view what it is a view of, which then counts as read."""
        use = split(node, self.naming.supply.known.letters)
        if use is not None and use.name in self.views:
            self.viewed.add(use.name)
            value = self.views[use.name]
            return replace(value, write=lambda entries, used: at(value.write(entries, used), node.span))
        hints = tuple(x or self.naming.sets.hints[axis] for x, axis in zip(letters, axes, strict=True))

        def write(entries: Sequence[Entry], used: Used) -> s.Expression:
            return indexed(node, entries)
        return Value(axes, hints, write, view=True)


def applications(factors: Sequence[s.Expression], operators: Sequence[str]
                 ) -> Iterator[tuple[str, s.Expression, s.Expression | None]]:
    """The factors of a product, each with its operator; a name with the parentheses behind it as one."""
    n = 0
    while n < len(factors):
        after = factors[n + 1] if n + 1 < len(factors) and operators[n + 1] == "" else None
        one = isinstance(factors[n], s.Word) and isinstance(after, s.Group) and after.open == "("
        yield operators[n], factors[n], after if one else None
        n += 2 if one else 1


def calls(node: s.Expression) -> Iterator[Call]:
    """The calls of an expression, those in others too. Raises BadPattern."""
    for x in parts(node):
        for _, name, group in applications(x.factors, x.operators) if isinstance(x, s.Product) else ():
            found = called(name, group) if group is not None else None
            if found is not None:
                yield found


def _whole(axis: s.Expression) -> int:
    """The number of an axis: `axis = -1`. Raises BadPattern where it is no whole number."""
    assert isinstance(axis, s.Relation)
    match axis.operands[1]:
        case s.Number(text) if text.isdigit():
            return int(text)
        case s.Sum((s.Number(text),), ("-",)) if text.isdigit():
            return -int(text)
    raise BadPattern("an axis is a whole number", axis.span, helps=(Help("write `axis = -1` for the last one"),))
