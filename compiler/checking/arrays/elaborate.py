"""A text with strings of einsum and einops -> the same text in index notation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from einc.checking.arrays.calls import Call, contracted
from einc.checking.arrays.naming import Naming
from einc.checking.arrays.reading import LostError, Reader, WaitingError, calls
from einc.checking.arrays.sets import Sets
from einc.checking.arrays.values import Value, indexed, opened
from einc.checking.declarations.names import Name, left_of, size_name
from einc.checking.matrices.known import Known, known
from einc.checking.matrices.lines import index, names, taken
from einc.checking.matrices.shapes import Dimension, Symbol, dimensions, mapped, words
from einc.checking.matrices.supply import Supply
from einc.checking.matrices.uses import declared, split
from einc.checking.notation import BY_POSITION
from einc.errors.problems import BadDeclaration, BadPattern, NoShape, ShapesDiffer
from einc.errors.report import Help, Label, Problem, Report, Span
from einc.syntax import tree as s

TENSOR = "tensor"


def positional(tree: s.SyntaxTree, prelude: Iterable[s.Statement], report: Report) -> s.SyntaxTree:
    """The tree with every equation in which a string stands in index notation, with inputs for what only strings
    declare, and index lines for letters that nothing declares. What cannot be read is in the report, and its names are
    lost.
    """
    said = any(w.text in BY_POSITION for line in tree.statements if line.keyword in ("", "output")
               for w in words(c.body for c in line.clauses))
    if not said and not any(line.keyword == TENSOR for line in tree.statements):
        return tree
    found = known(prelude, tree)
    work = _Work(tree, found, report)
    work.read()
    work.naming.settle()
    lines = [x for line in tree.statements for x in work.lines(line)]
    made = [work.input(node, axes) for node, axes in work.reader.declared()]
    return replace(tree, statements=(*work.indices(), *made, *lines), lost=tree.lost | work.lost)


@dataclass
class _Work:
    """The equations of a text that are read by position, by their identity, with what they define."""

    tree: s.SyntaxTree
    known: Known
    report: Report
    values: dict[int, Value | dict[Span, Value]] = field(default_factory=dict)
    arrays: dict[Name, tuple[s.Expression, tuple[int, ...]]] = field(default_factory=dict)  # those of `tensor` lines
    shapes: dict[Name, tuple[tuple[Dimension, ...], Span]] = field(default_factory=dict)  # of the same
    lost: frozenset[str] = frozenset()
    naming: Naming = field(init=False)
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        sets = Sets(self.known)
        self.naming = Naming(sets, Supply(self.known, taken(self.tree.statements)), taken(self.tree.statements))
        numbers = {*self.known.letters.values(), *self.known.parts}
        numbers |= {x for line in self.tree.statements if line.keyword == "dim" for c in line.clauses
                    if (x := size_name(left_of(c.body))) is not None}
        self.reader = Reader(self.naming, {}, frozenset(numbers), self.tree.own is not None)
        self._slots()

    def _slots(self) -> None:
        """Notes the axes of what lines declare, and of what equations with letters define."""
        for line in self.tree.statements:
            if line.keyword in ("matrix", "vector"):
                with suppress(Problem):  # what is wrong with such a line is told where matrices are read
                    self._sides(list(declared(line, self.known.letters)))
            elif line.keyword == TENSOR:
                self._tensor(line)
            elif line.keyword in ("input", "weight", "", "output"):
                for clause in line.clauses if line.keyword in ("input", "weight") else line.clauses[:1]:
                    self._slot(left_of(clause.body), line)

    def _sides(self, symbols: Iterable[Symbol]) -> None:
        """Notes the axes of matrices and vectors: the letters that they carry, then their sides."""
        sets = self.naming.sets
        for symbol in symbols:
            sides = tuple(sets.composite(tuple(sets.sized(x, symbol.span) for x in side), symbol.span)
                          for side in symbol.sides if side)
            own = tuple(sets.sized(self.known.letters[x], symbol.span, x) for x in symbol.stack)
            self.reader.slots.setdefault(symbol.key.name, {})[len(own) + len(sides)] = (*own, *sides)

    def _tensor(self, line: s.Statement) -> None:
        """Notes the axes of `tensor x : B × L × d`, by their sizes. What is wrong goes to the report."""
        try:
            if len(line.tail) != 1:
                raise BadDeclaration("nothing says which sizes these arrays have", line.span, helps=(
                    Help("write them after a colon: `tensor x : B × L × d`"),))
            sides = dimensions(line.tail[0].body)
            if () in sides:
                raise BadDeclaration("an axis of one element is not read", line.tail[0].span, helps=(
                    Help("leave it out: an array has the axes that its equations need"),))
            for clause in line.clauses:
                use = split(clause.body, self.known.letters)
                if use is None or use.places:
                    raise BadDeclaration(f"`{clause.span.text}` is no name of a tensor", clause.span, helps=(
                        Help("write it as in `tensor x : B × L × d`"),))
                before = self.shapes.setdefault(use.name, (sides, clause.span))
                if before[0] != sides:
                    raise ShapesDiffer(f"`{clause.span.text}` has two shapes", clause.span, "",
                                       Label(before[1], "declared here"), helps=(Help("give one of them a label"),))
                sets = self.naming.sets
                axes = tuple(sets.composite(tuple(sets.sized(x, clause.span) for x in side), clause.span)
                             for side in sides)
                self.arrays[use.name] = (clause.body, axes)
                self.reader.slots.setdefault(use.name, {})[len(axes)] = axes
                self.reader.numbers |= {x for side in sides for x in side}
        except Problem as problem:
            self.report.add(problem)
            self.lost |= {w.text for w in words(c.body for c in line.clauses)}

    def _slot(self, node: s.Expression, line: s.Statement) -> None:
        use = split(node, self.known.letters)
        if use is None or (line.keyword in ("", "output") and not use.places):
            return
        axes = []
        for place in use.places:
            letters = (w.text for w in words((place,)) if w.text in self.known.letters)
            sets = [self.naming.sets.sized(self.known.letters[x], place.span, x) for x in letters]
            axes.append(self.naming.sets.composite(tuple(sets), place.span))
        self.reader.slots.setdefault(use.name, {})[len(axes)] = tuple(axes)

    # the equations

    def read(self) -> None:
        """Reads the equations by position, each after those that define what it reads. Writes what they mean into
        `self.values`, and tells what waits for itself."""
        pending = list(self._equations())
        self.reader.pending = {name for line in pending if (name := self._defined(line)) is not None}
        while pending:
            left = [line for line in pending if not self._try(line)]
            if len(left) == len(pending):
                for line in left:
                    self._wrong(NoShape("the axes of what this reads are not known before its own",
                                        line.clauses[0].body.span), line)
                break
            pending = left

    def _equations(self) -> Iterator[s.Statement]:
        """The equations in which a call stands, and those without letters that read what such an equation defines."""
        rest = [x for x in self.tree.statements if x.keyword in ("", "output") and not x.block
                and isinstance(body := x.clauses[0].body, s.Relation) and body.operators[0] in ("=", ":=")]
        found = [x for x in rest if self._calls(x)]
        more = rest
        while more:
            names_made = {*self.arrays, *(name for x in found if (name := self._defined(x)) is not None)}
            more = [x for x in rest if x not in found and self._defined(x) is not None
                    and names_made & set(self._read(x))]
            found = [*found, *more]
        return (x for x in self.tree.statements if any(x is y for y in found))

    def _calls(self, line: s.Statement) -> bool:
        """Whether a call stands in an equation; one that cannot be read is reported."""
        try:
            return any(True for c in line.clauses for _ in calls(c.body))
        except Problem as problem:
            self._wrong(problem, line)
            return False

    def _defined(self, line: s.Statement) -> Name | None:
        """The name that an equation without letters defines."""
        use = split(left_of(line.clauses[0].body), self.known.letters)
        return use.name if use is not None and not use.places else None

    def _read(self, line: s.Statement) -> Iterator[Name]:
        """The names without letters on the right of an equation."""
        body = line.clauses[0].body
        assert isinstance(body, s.Relation)
        for node in (x for right in body.operands[1:] for x in names(right)):
            use = split(node, self.known.letters)
            if use is not None and not use.places:
                yield use.name

    def _try(self, line: s.Statement) -> bool:
        """Reads an equation; False where it waits for another. What is wrong goes to the report. Writes its value into
        `self.values`."""
        body = line.clauses[0].body
        assert isinstance(body, s.Relation)
        try:
            if len(body.operands) > 2 or len(line.clauses) > 1:
                raise BadPattern("an equation of arrays without letters has two sides and no conditions", body.span,
                                 helps=(Help("write the letters of its arrays"),))
            use = split(body.operands[0], self.known.letters)
            if use is not None and use.places:
                self.values[id(line)] = {call.span: self._lettered(call) for call in calls(body.operands[1])}
            else:
                value = self.reader.value(body.operands[1])
                if value.repeats and (line.keyword == "output" or not value.view):
                    what = "an output" if line.keyword == "output" else "what is computed here"
                    raise BadPattern(f"{what} repeats along axis {min(value.repeats)}", body.span, helps=(
                        Help("compute it as it is: what reads it repeats it"),))
                self.values[id(line)] = value
                if use is not None and value.view:
                    self.reader.views[use.name] = value
                if use is not None:
                    self._agrees(use.name, value, body)
                    self.reader.slots[use.name] = {len(value.axes): value.axes}
                    self.reader.pending.discard(use.name)
        except WaitingError:
            return False
        except LostError:
            self._lose(line)
        except Problem as problem:
            self._wrong(problem, line)
        return True

    def _agrees(self, name: Name, value: Value, body: s.Relation) -> None:
        """Raises ShapesDiffer where the axes of an array are not those that its line declares."""
        if name not in self.arrays:
            return
        axes = self.arrays[name][1]
        if len(axes) != len(value.axes):
            raise ShapesDiffer(f"`{body.operands[0].span.text}` is declared with {len(axes)} axes, and the right side "
                               f"has {len(value.axes)}", body.span)
        for one, two in zip(axes, value.axes, strict=True):
            self.naming.sets.join(one, two)

    def _lettered(self, call: Call) -> Value:
        """A call in an equation with letters: the words of its result are those letters. Raises BadPattern where one
        of them is no declared index or is several words."""
        wrong = [x for names in call.out for x in names if x not in self.known.letters]
        if wrong:
            raise BadPattern(f"`{wrong[0]}` is no declared index", call.string, helps=(
                Help("declare it, or leave the letters of the left side out"),))
        if any(len(names) > 1 for names in call.out):
            raise BadPattern("an axis of several words has no letter of its own", call.string, helps=(
                Help("leave the letters of the left side out"),))
        return contracted(self.naming, call, self.reader.operand)

    def _wrong(self, problem: Problem, line: s.Statement) -> None:
        self.report.add(problem)
        self._lose(line)

    def _lose(self, line: s.Statement) -> None:
        """Leaves an equation out, with what it defines."""
        self.values[id(line)] = {}
        self.lost |= {w.text for w in words((left_of(line.clauses[0].body),))}
        if (name := self._defined(line)) is not None:
            self.reader.pending.discard(name)
            self.reader.lost.add(name)
            self.lost |= {name.base}

    # the lines

    def lines(self, line: s.Statement) -> Iterator[s.Statement]:
        """The statements that take the place of one line: those of the arrays that it defines, or the line as it is."""
        value = self.values.get(id(line))
        if isinstance(value, Value):
            name = self._defined(line)
            if name in self.reader.viewed and line.keyword != "output" and name not in self._named:
                return
            body = line.clauses[0].body
            assert isinstance(body, s.Relation)
            entries = self.naming.entries(value.axes, value.letters)
            left = indexed(body.operands[0], entries)
            try:
                right = opened(value.write(entries, frozenset(x for entry in entries for x in entry)))
            except Problem as problem:
                self._wrong(problem, line)
                return
            yield self._with(line, replace(body, operands=(left, right)))
        elif value:
            body = line.clauses[0].body
            around = frozenset(w.text for w in words((body,)))
            yield self._with(line, self._written(body, value, around))
        elif line.keyword == TENSOR:
            made = self._lettered_left | {self._defined(x) for x in self.tree.statements
                                          if x.keyword in ("", "output") and isinstance(x.clauses[0].body, s.Relation)}
            for name, (node, axes) in self.arrays.items():
                if node.span in {c.span for c in line.clauses} and name not in made:
                    yield self.input(node, axes)
        elif value is None:
            clauses = tuple(self._returned(c) for c in line.clauses) if line.keyword == "output" else line.clauses
            yield replace(line, clauses=clauses)

    def _with(self, line: s.Statement, body: s.Expression) -> s.Statement:
        return replace(line, clauses=(replace(line.clauses[0], body=body),))

    def _written(self, node: s.Expression, values: dict[Span, Value], around: frozenset[str]) -> s.Expression:
        """An expression with letters, each call in it written with those of its string."""
        if isinstance(node, s.Product):
            factors: list[s.Expression] = []
            marks: list[str] = []
            at = 0
            while at < len(node.factors):
                after = node.factors[at + 1] if at + 1 < len(node.factors) else None
                span = node.factors[at].span.to(after.span) if after is not None else None
                value = values.get(span) if span is not None else None
                marks.append(node.operators[at])
                if value is not None:
                    entries = tuple((x,) for x in value.letters)
                    factors.append(value.write(entries, around | set(value.letters)))
                    at += 2
                else:
                    factors.append(self._written(node.factors[at], values, around))
                    at += 1
            return s.Product(tuple(factors), tuple(marks), node.span) if len(factors) > 1 else factors[0]
        return mapped(node, lambda x: self._written(x, values, around))

    def _returned(self, clause: s.Clause) -> s.Clause:
        """`output Y` of an array that an equation by position defines, with letters."""
        use = split(clause.body, self.known.letters)
        if use is None or use.places or use.name not in self._made:
            return clause
        ((_, axes),) = self.reader.slots[use.name].items()
        return replace(clause, body=indexed(clause.body, self.naming.entries(
            axes, [self.naming.sets.hints[x] for x in axes])))

    @property
    def _lettered_left(self) -> set[Name | None]:
        """The names that equations with letters define."""
        found = (split(left_of(x.clauses[0].body), self.known.letters) for x in self.tree.statements
                 if x.keyword in ("", "output") and isinstance(x.clauses[0].body, s.Relation))
        return {use.name for use in found if use is not None and use.places}

    @cached_property
    def _named(self) -> frozenset[Name]:
        """The names that stand with letters in some equation, or in an `output` line without one."""
        found = ((split(x, self.known.letters), line.keyword == "output" and not isinstance(c.body, s.Relation))
                 for line in self.tree.statements for c in line.clauses for x in names(c.body))
        return frozenset(use.name for use, returned in found if use is not None and (use.places or returned))

    @property
    def _made(self) -> set[Name]:
        """The names that lines of arrays define, each of which becomes an equation over letters."""
        return {name for line in self.tree.statements if isinstance(self.values.get(id(line)), Value)
                and (name := self._defined(line)) is not None}

    def input(self, node: s.Expression, axes: tuple[int, ...]) -> s.Statement:
        """The declaration of what only a string declares."""
        entries = self.naming.entries(axes, [self.naming.sets.hints[x] for x in axes])
        clause = s.Clause(indexed(node, entries), None, node.span)
        return s.Statement("input", False, (clause,), (), node.span)

    def indices(self) -> list[s.Statement]:
        """The index lines of letters that the text does not declare: `batch`, where nothing says their class."""
        span = Span(self.tree.source, 0, 0)
        supply = self.naming.supply
        made = [index(letter, "feature", dimension, supply.fresh(dimension, set()), span)
                for dimension, letter in supply.made.items()]
        return [index(letter, self.known.classes.get(size, "batch"), (size,), (), span)
                for letter, size in supply.new.items()] + made
