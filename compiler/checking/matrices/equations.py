"""The equations of matrices of a text, read one after another, each after those that define what it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from einc.checking.declarations.names import Name, left_of
from einc.checking.matrices.entries import hidden, open_side, part
from einc.checking.matrices.factors import binds, bound
from einc.checking.matrices.foreign import no_name
from einc.checking.matrices.functions import Function, names_in
from einc.checking.matrices.known import Known
from einc.checking.matrices.lines import names, placed
from einc.checking.matrices.reading import EITHER, Reader
from einc.checking.matrices.shapes import Dimension, Key, Symbol, Waiting, lettered, parts, words
from einc.checking.matrices.slots import Letters, places
from einc.checking.matrices.supply import Supply
from einc.checking.matrices.told import turned_over
from einc.checking.matrices.uses import declared, keyed, reads, split
from einc.checking.matrices.work import Result, Table
from einc.checking.matrices.writing import Writing, stands_alone
from einc.errors.problems import NoShape, OpenReading, ShapesDiffer
from einc.errors.report import Help, Label, Problem, Report
from einc.syntax import tree as s

_KEYWORDS = ("matrix", "vector")


@dataclass
class Work:
    """The symbols of a text, the equations that were read, and what stands in place of each line, by its identity."""

    known: Known
    statements: tuple[s.Statement, ...]
    report: Report
    functions: Mapping[int, tuple[Name, Function]]  # what lines of functions define, by their identity
    supply: Supply
    own: tuple[int, ...] | None = None
    written: frozenset[Name] = frozenset()  # the functions that are written out where they are applied
    multiplied: frozenset[Key] = frozenset()
    prefer: str = ""
    table: Table = field(default_factory=Table)
    result: Result = field(default_factory=Result)

    @cached_property
    def mine(self) -> frozenset[Key]:
        """What the equations that are asked for define."""
        lines = (x for x in self.statements if x.rank is not None and x.keyword in ("", "output") and self._asked(x))
        return frozenset(key for x in lines if (key := self._left(x)) is not None)

    def declare(self, line: s.Statement) -> None:
        """Adds the symbols of a `matrix` or `vector` line. Raises ShapesDiffer where one of them has another shape
        already."""
        try:
            for symbol in declared(line, self.known.letters):
                if line.rank == s.LEAST and symbol.key in self.mine:
                    continue
                self.table.elsewhere |= {symbol.key} if line.rank == s.LEAST else frozenset()
                before = self.table.symbols.get(symbol.key)
                if before is not None and before.sides != symbol.sides:
                    raise ShapesDiffer(f"`{symbol.span.text}` has two shapes", symbol.span, "",
                                       Label(before.span, "declared here"), helps=(Help("give one of them a label"),))
                self.table.symbols[symbol.key] = symbol
        except Problem as problem:
            self._wrong(problem, (c.body for c in line.clauses))

    def unite(self) -> None:
        """Finds the vectors that are the rows of a matrix of their name: `B_t : N` of `B : T × N`, where t counts T."""
        for key, symbol in list(self.table.symbols.items()):
            whole = self.table.symbols.get(Key(key.name, 0))
            counted = tuple((self.known.letters[x],) for x in symbol.stack)
            if whole is not None and len(counted) == 1 and (*counted, *symbol.sides) == whole.sides:
                self.table.rows[key] = whole.key

    def _wrong(self, problem: Problem, lost: Iterable[s.Expression]) -> None:
        self.report.add(problem)
        self.result.lost |= {w.text for w in words(lost)}

    def equations(self) -> list[s.Statement]:
        """The equations of matrices: some symbol stands in them without the letters of its sides, which a line declares
        or another such equation defines.
        """
        found: set[int] = set()
        rest = [line for line in self.statements if line.keyword in ("", "output") and not line.block]
        rest = [line for line in rest if isinstance(body := line.clauses[0].body, s.Relation)
                and body.operators[0] in ("=", ":=")]
        while more := [line for line in rest if self._holds(line.clauses[0].body) or self._part(line)]:
            found |= {id(line) for line in more}
            rest = [line for line in rest if id(line) not in found]
            self.table.named |= {key for line in more if (key := self._left(line)) is not None}
        return [line for line in self.statements if id(line) in found]

    def _part(self, line: s.Statement) -> bool:
        """Whether an equation of a paper defines entries of a matrix, `L_{ij} = …`, or reads some at letters that are
        free on its left or that a sum binds: what others mean is summed as index notation has it.
        """
        if line.rank is None or not isinstance(body := line.clauses[0].body, s.Relation):
            return False
        left = split(body.operands[0], self.known.letters)
        if left is None or part(left, self.table.symbols, self.known) or hidden(left, self.table.symbols):
            return left is not None
        mine = {w.text for w in words(left.places)} | {x for node in parts(body) if binds(node) for x in bound(node)}
        uses = [use for right in body.operands[1:] for x in names(right) for use in reads(x, self.known.letters)]
        inside = [x.places for x in uses if part(x, self.table.symbols, self.known) is not None]
        return bool(inside) and all(w.text in mine for x in inside for w in words(x) if w.text in self.known.letters)

    def _asked(self, line: s.Statement) -> bool:
        """Whether an equation is of the section that is asked for, or of no paper."""
        if line.rank is None or self.own is None:
            return True
        return line.rank in self.own or line.rank > max(self.own, default=line.rank)

    def _bare(self, node: s.Expression) -> bool:
        """Whether a name stands for a matrix: one that an equation defines, or declared with sides and without their
        letters.
        """
        found = split(node, self.known.letters)
        if found is None:
            return False
        known = [x for x in self.table.symbols.values() if x.key.name == found.name and any(x.sides)]
        full = any(len(found.places) == x.key.letters + len(x.sides) for x in known)
        return found.turned or any(map(open_side, found.places)) or found.key in self.table.named or (
            bool(known) and not full)

    def read(self, equations: list[s.Statement]) -> None:
        """Reads the equations, each after those that define what it reads; what waits for itself has no shape. Writes
        what they become, or what is wrong with them, into `self.result`."""
        self.multiplied, own = self._multiplied(equations), {*map(id, equations)}
        used: set[Key | None] = {
            key for line in self.statements if line.keyword in ("", "output") for x in names(line.clauses[0].body)
            for found in reads(x, self.known.letters) if (key := keyed(found, self.table.symbols)) is not None
            and (id(line) in own or not any(self.table.symbols[key].sides))}
        self.table.used = used | {whole for key, whole in self.table.rows.items() if key in used}
        pending = equations
        while pending:
            unknown = frozenset(key for line in pending if (key := self._left(line)) is not None and (
                key not in self.table.symbols or self._part(line)))
            left = [line for line in pending if not self._try(line, unknown)]
            if len(left) == len(pending) and self._assumed(left, unknown):
                continue
            if len(left) == len(pending):
                for line in left:
                    body = line.clauses[0].body
                    span = body.operands[-1].span if isinstance(body, s.Relation) else body.span
                    self.result.made[id(line)] = ()
                    self.result.faults[id(line)] = NoShape(
                        "the shape of what this reads is not known before its own", span,
                        helps=(Help("declare it: `matrix NAME : ROWS × COLUMNS`"),))
                break
            pending = left
        self._lonely(equations)
        self._tell(equations)

    def _assumed(self, lines: list[s.Statement], unknown: frozenset[Key]) -> bool:
        """Gives what equations define that wait for each other the shape that their other terms tell; whether one has
        it now. Each equation is then read against it.
        """
        found = [x for line in lines if line.rank is not None and (x := self._reader(unknown).told(line)) is not None]
        more = {x.key: x for x in found if x.key not in self.table.symbols}
        self.table.symbols |= more
        return bool(more)

    def _reader(self, unknown: frozenset[Key]) -> Reader:
        """A reader of one equation with all that is known so far; the UNKNOWN names have no shape yet."""
        return Reader(self.known, self.table.symbols, self.supply, unknown, self.multiplied, self.table.masks,
                      self.table.lies, self.prefer)

    def _lonely(self, equations: list[s.Statement]) -> None:
        """Finds what is never made: diagonal matrices that nothing reads, and masks that are domains and no more.
        Takes their equations out of `self.result`."""
        rights = (x for line in equations if isinstance(body := line.clauses[0].body, s.Relation) for x in
                  body.operands[1:])
        used = {keyed(found, self.table.symbols) for right in rights for x in names(right)
                for found in reads(x, self.known.letters)}
        for key, line in self.table.defined.items():
            if self.table.symbols[key].diagonal and key not in used:
                self.result.made[id(line)] = ()
                self.result.faults[id(line)] = stands_alone(line.clauses[0].span)
            mask = self.table.masks.get(key)
            if mask is not None and mask.nothing and mask.barred and key in used and key not in self.table.entries:
                self.result.made[id(line)] = ()
                self.result.inlined |= {line.span}

    def _tell(self, equations: list[s.Statement]) -> None:
        """Reports what is wrong with equations, but for functions that others apply. Writes into `self.result` which
        of them are of no use."""
        read = {name for line in equations if self.result.made.get(id(line)) for x in line.clauses
                for name in names_in(x.body, self.known.letters)} | self.written
        while more := {x for name, function in self.functions.values() if name in read
                       for x in names_in(function.body, self.known.letters)} - read:
            read |= more
        for line in self.statements:
            if id(line) in self.functions and id(line) not in self.result.made:
                self.result.made[id(line)] = ()
                self.result.faults[id(line)] = no_name(line.clauses[0].body.span)
            fault = self.result.faults.get(id(line))
            if fault is not None and id(line) in self.functions and self.functions[id(line)][0] in read:
                self.result.inlined |= {line.span}
            elif fault is not None and not self._asked(line):
                self.result.unread |= {"".join(left_of(line.clauses[0].body).span.text.split())}
            elif fault is not None:
                left = left_of(line.clauses[0].body)
                self._wrong(fault, (left,))
                found = split(left, self.known.letters)
                whole = hidden(found, self.table.symbols) if found is not None else None
                if found is not None:
                    self.result.broken |= {found.name, whole.key.name if whole else found.name}

    def begin(self) -> None:
        """Reads the lines of a paper that say what comes before the first: `h_0 = 0`, 0 in every entry of `h_t`.
        Writes them into `self.result`."""
        for line in self.statements:
            body = line.clauses[0].body
            found = split(left_of(body), self.known.letters)
            if line.rank is None or found is None or found.places or not found.name.lower[-1:] or not (
                    isinstance(body, s.Relation) and found.name.lower[-1].isdigit()):
                continue
            symbol = self.table.symbols.get(Key(replace(found.name, lower=found.name.lower[:-1]), 1))
            value = body.operands[-1]
            nothing = isinstance(value, s.Number) and value.text == "0"
            if symbol is None or any(words((value,))) or not (nothing or not symbol.sides):
                continue
            row, column = self._letters(symbol, symbol.stack)
            place = s.Number(found.name.lower[-1], body.operands[0].span)
            left = Writing(self.supply).shown(symbol, (place,), (), row, column, body.operands[0].span)
            clause = replace(line.clauses[0], body=replace(body, operands=(left, value)))
            self.result.made[id(line)] = (replace(line, clauses=(clause, *line.clauses[1:])),)

    def _multiplied(self, equations: list[s.Statement]) -> frozenset[Key]:
        """The symbols that stand nowhere but as the first matrix of a product, so that it is known what sums their
        columns and that nothing sums their rows.
        """
        uses: dict[Key, list[bool]] = {}
        bodies = (line.clauses[0].body for line in equations)
        rights = (x for body in bodies if isinstance(body, s.Relation) for x in body.operands[1:])
        for node, before, after in (x for right in rights for x in placed(right)):
            found = split(node, self.known.letters)
            if found is not None:
                first = after is not None and self._holds(after) and not any(map(self._holds, before))
                uses.setdefault(found.key, []).append(first and not found.turned)
        return frozenset(key for key, found in uses.items() if all(found))

    @property
    def either(self) -> bool:
        """Whether it is open in some equation if vectors are columns or rows."""
        return any(fault.message == EITHER for fault in self.result.faults.values())

    def lying(self, line: int) -> bool:
        """Whether a vector, or a row or column of a matrix, stands in an equation, which is told by its identity."""
        found = next(x for x in self.statements if id(x) == line)
        uses = [x for c in found.clauses for y in names(c.body) for x in reads(y, self.known.letters)]
        keys = [keyed(x, self.table.symbols) for x in uses]
        return any(x is not None and x.places and x.key != key for x, key in zip(uses, keys, strict=True)) or any(
            key is not None and len(self.table.symbols[key].sides) == 1 for key in keys)

    def _holds(self, node: s.Expression) -> bool:
        """Whether a matrix stands in an expression."""
        return any(map(self._bare, names(node))) or any(isinstance(x, s.Matrix) for x in parts(node))

    def _left(self, line: s.Statement) -> Key | None:
        found = split(left_of(line.clauses[0].body), self.known.letters)
        inside = None if found is None or line.rank is None else part(found, self.table.symbols, self.known)
        if inside is None and found is not None and any(map(open_side, found.places)):
            return Key(found.name, max(len(found.places) - 2, 0))  # `Y_{i,:}`, by which Y is defined
        return None if found is None else found.key if inside is None else inside.symbol.key

    def _try(self, line: s.Statement, unknown: frozenset[Key]) -> bool:
        """Reads an equation; False where it waits for the shape of another. Writes what it becomes, or what is wrong
        with it, into `self.result`."""
        try:
            self._own(line, unknown)
            self.result.made[id(line)] = self._equation(line, unknown)
        except Waiting:
            return False
        except Problem as problem:
            self.result.made[id(line)], self.result.faults[id(line)] = (), problem
        return True

    def _own(self, line: s.Statement, unknown: frozenset[Key]) -> None:
        """Raises NoShape for a function of a name that has a shape in other sections alone, OpenReading for one that
        reads a size of nothing that stands in it, Waiting for one of what another equation defines.
        """
        if id(line) not in self.functions:
            return
        _, function = self.functions[id(line)]
        for name in function.parameters:
            if Key(name, 0) in unknown:
                raise Waiting(Key(name, 0))
            if Key(name, 0) in self.table.elsewhere:
                raise NoShape(f"nothing in this section says which shape `{name.python}` has", line.clauses[0].span)
        given = (self.table.symbols[Key(name, 0)] for name in function.parameters if Key(name, 0) in self.table.symbols)
        sides = {x for symbol in given for side in symbol.sides for x in side}
        if strange := function.strange(self.table.symbols, sides):
            raise OpenReading(f"is `{strange}` a size of what stands in brackets?", line.clauses[0].span,
                              helps=(Help("declare them with it: `matrix NAME : ROWS × COLUMNS`"),))

    def _equation(self, line: s.Statement, unknown: frozenset[Key]) -> tuple[s.Statement, ...]:
        """The equation in index notation, with what it defines among the symbols. Raises NoShape where that is defined
        already. Writes that into `self.table`."""
        body = line.clauses[0].body
        assert isinstance(body, s.Relation)
        reader = self._reader(unknown)
        found = reader.read(line)
        before = self.table.defined.get(found.symbol.key)
        if before is not None and line.rank is None:
            raise NoShape(f"`{body.operands[0].span.text}` is defined twice", body.operands[0].span, "",
                          Label(before.span, "defined here"), helps=(Help("give one of them a label"),))
        self.table.symbols[found.symbol.key], self.table.defined[found.symbol.key] = found.symbol, line
        if found.side is not None:
            for key in replace(reader, symbols=self.table.symbols).vectors(body):
                self.table.lies[key] = found.side if self.table.lies.get(key, found.side) == found.side else None
                first = self.table.first.setdefault(key, (line, found.side))
                if first[1] != found.side:
                    self._guess(first[0], turned_over(key, first[1]))
                    self._guess(line, turned_over(key, found.side))
        if found.mask is not None:
            self.table.masks[found.symbol.key] = found.mask
        self.table.entries |= found.read
        self._guess(line, *found.guessed)
        return found.lines

    def _guess(self, line: s.Statement, *said: str) -> None:
        """Notes what an equation is read as and does not say."""
        if said:
            every = (*self.result.guessed.get(line.clauses[0].span, "").split("; "), *said)
            self.result.guessed[line.clauses[0].span] = "; ".join(dict.fromkeys(x for x in every if x))

    def lines(self, line: s.Statement) -> Iterator[s.Statement]:
        """What stands in place of a line: inputs for symbols that nothing defines, an equation, or the line itself."""
        if id(line) in self.result.made:
            yield from self.result.made[id(line)]
        elif line.keyword in _KEYWORDS:
            places = {c.span for c in line.clauses}
            clauses = [self._declared(x) for x in self.table.symbols.values() if x.span in places
                       and x.key not in {*self.table.defined, *self.table.rows} and not self._defined_by_index(x)
                       and x.key.name not in self.result.broken
                       and (line.rank is None or x.key in self.table.used)]
            if clauses:
                commas = (clauses[0], *(replace(c, after=",") for c in clauses[1:]))
                yield s.Statement("input", line.override, commas, (), line.span)
        elif line.keyword == "output":
            yield replace(line, clauses=tuple(map(self._returned, line.clauses)))
        else:
            yield line

    def _returned(self, clause: s.Clause) -> s.Clause:
        """`output Y` of a matrix, with the letters of its sides."""
        found = split(clause.body, self.known.letters)
        symbol = None if found is None else self.table.symbols.get(found.key)
        if found is None or symbol is None or found.turned or found.letters is None:
            return clause
        row, column = self._letters(symbol, found.letters)
        return replace(clause, body=Writing(self.supply).shown(symbol, found.places, (), row, column, clause.span))

    def _defined_by_index(self, symbol: Symbol) -> bool:
        """Whether an equation with indices defines a symbol: it has the letters of its sides too."""
        return any(Key(symbol.key.name, symbol.key.letters + sum(map(bool, symbol.sides))) == self._left(line)
                   for line in self.statements if line.keyword in ("", "output") and id(line) not in self.result.made)

    def _declared(self, symbol: Symbol) -> s.Clause:
        """An input as it is declared: one letter a side."""
        row, column = self._letters(symbol, symbol.stack)
        stack = places(symbol.stack, symbol.span)
        body = Writing(self.supply).shown(symbol, stack, (), row, column, symbol.span)
        return s.Clause(body, lettered(symbol, self.table.symbols), symbol.span)

    def _letters(self, symbol: Symbol, stack: tuple[str, ...]) -> tuple[Letters, Letters]:
        """A letter for each side of a symbol, that of the whole set for a composite one."""
        used = set(stack)
        found: list[Letters] = []
        for side in symbol.sides:
            whole = self.known.whole(side)
            found.append(self._composite(whole, used) if len(whole) > 1 else self.supply.fresh(whole, used))
            used |= {*found[-1]}
        row, column = (*found, (), ())[:2]
        return row, column

    def _composite(self, side: Dimension, used: Set[str]) -> Letters:
        """The letter of a composite side, with primes where another side has it."""
        letter = self.supply.composite(side)
        return (next(x for n in range(3) if (x := letter + "'" * n) not in used),)
