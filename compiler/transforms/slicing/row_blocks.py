"""A program whose values have two positions each -> what one block of rows makes of them, and what comes before and
after.

A value of pairs, x_{t s}, is made for a few t at a time where all that makes and reads it does so at one t, or sums
over t. In the program of a block t is `before` + r, with r the number of the row in the block; an input that is read at
t has the rows of the block alone. Non-goals: whether that pays; how long a block is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from einc.ir.dependence import reached
from einc.ir.draft import unused
from einc.ir.indices import INDEX_CLASSES, Index, IndexSet, size
from einc.ir.programs import Equation, NormalProgram, Tensor
from einc.ir.terms import Apply, Fold, Position, Read, Size, Term, substitute, transform
from einc.transforms.slicing.repeats import part


@dataclass(frozen=True)
class Blocks:
    """A program in three. `body` is that of a block of the elements of `over`, whose sizes `count` and `before` say how
    many it has and how many come before it. `taken` are for each input of it the tensor and the slot of which a block
    has a part, `made` its outputs with the slot along which the parts lie, or None where they are shares of a sum.
    """

    first: NormalProgram
    body: NormalProgram
    rest: NormalProgram
    over: IndexSet
    count: str
    before: str
    taken: Mapping[str, tuple[str, int | None]]
    made: Mapping[str, int | None]


def in_blocks(program: NormalProgram, stored: Container[str]) -> Blocks | None:
    """The program cut so that a value of pairs that is `stored`, and no output, is one of a block of rows; of several
    ways the one with the fewest sums over rows, none of which are pairs, to all of which each block would add. None
    where no value can be."""
    outputs = {key for _, key in program.outputs}
    for seed in program.equations:
        if seed.target in stored and seed.target not in outputs and _pairs(seed):
            found = [rows for letter in _growing(seed) if (rows := _grown(program, seed, letter, stored)) is not None]
            if found:
                return _Cut(program, min(found, key=lambda rows: len(rows.shares))).made()
    return None


def _growing(equation: Equation) -> list[Index]:
    """The letters of its axes that count positions of one sequence."""
    letters = [axis.index for axis in equation.axes if isinstance(axis, Position)]
    return [i for i in letters if INDEX_CLASSES[i.set.cls].before == "le" and not (i.set.packed or i.set.by)]


def _pairs(equation: Equation) -> bool:
    return sum(INDEX_CLASSES[i.set.cls].before == "le" for i in equation.indices) > 1


@dataclass
class _Rows:
    """What a block makes: for each of its values the letter that is the row. Those in `shares` sum over it."""

    program: NormalProgram
    stored: Container[str]
    over: IndexSet
    letters: dict[str, Index] = field(default_factory=dict)
    shares: set[str] = field(default_factory=set)

    def slot(self, key: str) -> int:
        """The axis of a value along which its rows stand."""
        return self.program.by_target[key].axes.index(Position(self.letters[key]))

    def add(self, key: str, letter: Index) -> bool:
        """Adds a value with its row, and all values of pairs that it reads, or that read it. False where some of them
        has no such row."""
        if key in self.letters:
            return self.letters[key] == letter
        equation = self.program.by_target[key]
        if letter.set != self.over:
            return False
        self.letters[key] = letter
        if letter not in equation.indices:
            self.shares.add(key)
            return self._sums(equation, letter) and self._below(equation, letter)
        return Position(letter) in equation.axes and self._below(equation, letter) and self._above(equation)

    def _sums(self, equation: Equation, letter: Index) -> bool:
        return isinstance(equation.body, Fold) and equation.body.op == "sum" and letter in equation.body.bound

    def _below(self, equation: Equation, letter: Index) -> bool:
        """Adds the values of pairs that an equation reads; those that stand before it as a whole stay there."""
        for read in equation.elements:
            inner = self.program.by_target.get(read.tensor)
            if inner is None or not _pairs(inner):
                continue
            at = [n for n, sub in enumerate(read.subs) if sub == Position(letter)]
            axis = inner.axes[at[0]] if len(at) == 1 else None
            if isinstance(axis, Position) and axis.index.set == self.over:
                if not self.add(inner.target, axis.index):
                    return False
            elif inner.target not in self.stored or inner.target in self.letters:
                return False
        return True

    def _above(self, equation: Equation) -> bool:
        """Adds all that read a value of pairs."""
        readers = (e for e in self.program.equations if equation.target in e.reads)
        return not _pairs(equation) or all(self.read_by(reader, equation.target) for reader in readers)

    def read_by(self, reader: Equation, key: str) -> bool:
        """Adds an equation that reads a value of the block."""
        at = self.slot(key)
        subs = {read.subs[at] for read in reader.elements if read.tensor == key}
        sub = subs.pop()
        return not subs and isinstance(sub, Position) and self.add(reader.target, sub.index)

    def closed(self) -> bool:
        """Adds what stands between values of the block, which are then all that wait for each other. False where some
        of it needs a sum over all rows."""
        by = self.program.by_target
        while between := self._between():
            for key in between:
                read = [r for r in by[key].reads if r in self.letters]
                if self.shares & {*read} or (read and not self.read_by(by[key], read[0])):
                    return False
        return all(self._one_row(by[key]) for key in self.letters) and not any(_pairs(by[key]) for key in self.shares)

    def _between(self) -> list[str]:
        by, found = self.program.by_target, [*self.letters]
        readers: dict[str, list[str]] = {}
        for equation in self.program.equations:
            for key in equation.reads:
                readers.setdefault(key, []).append(equation.target)
        above = {*reached(found, lambda key: readers.get(key, ()))}
        below = {*reached(found, lambda key: by[key].reads & by.keys())}
        return [key for key in by if key in above & below and key not in self.letters]

    def _one_row(self, equation: Equation) -> bool:
        """Whether an equation reads values of the block at its own row, and no sums over rows."""
        here = Position(self.letters[equation.target])
        mine = [read for read in equation.elements if read.tensor in self.letters]
        return all(r.tensor not in self.shares and r.subs[self.slot(r.tensor)] == here for r in mine)


def _grown(program: NormalProgram, seed: Equation, letter: Index, stored: Container[str]) -> _Rows | None:
    rows = _Rows(program, stored, letter.set)
    return rows if rows.add(seed.target, letter) and rows.closed() else None


@dataclass
class _Cut:
    """A program of which some values are those of a block of rows."""

    program: NormalProgram
    rows: _Rows
    taken: dict[str, tuple[str, int | None]] = field(default_factory=dict)  # inputs of a block

    def __post_init__(self) -> None:
        names = {*self.program.sizes, *self.program.tensors}
        names |= {n for t in self.program.tensors.values() for s in t.slots for n in s.set.extent.sizes}
        names |= {n for t in self.program.terms if isinstance(t, Size) for n in t.extent.sizes}
        self.count = unused("rows", names)
        self.before = unused("before", {*names, self.count})
        self.set = replace(self.rows.over, extent=size(self.count))
        self.tensors = dict(self.program.tensors)

    def made(self) -> Blocks:
        """The program in three: what is computed before the blocks, the body that is run for a block of rows, and what
        is computed after them."""
        mine, outputs = self.rows.letters.keys(), {key for _, key in self.program.outputs}
        after = self._after(mine)
        block = [e for e in self.program.equations if e.target in mine]
        first = [e for e in self.program.equations if e.target not in (mine | after)]
        rest = [e for e in self.program.equations if e.target in after]
        later = outputs.union(*(e.reads for e in rest))
        made = {e.target: None if e.target in self.rows.shares else self.rows.slot(e.target)
                for e in block if e.target in later}
        later = later.union(*(e.reads for e in block))
        for key in mine - self.rows.shares:
            self._narrow(key, key, self.rows.slot(key))
        body = part(self.program, [self._rewritten(e) for e in block], made, self.tensors)
        taken = {t.key: self.taken.get(t.key, (t.key, None)) for t in body.inputs()}
        return Blocks(self._piece(first, later), body, self._piece(rest, outputs), self.rows.over, self.count,
                      self.before, taken, made)

    def _after(self, mine: Set[str]) -> set[str]:
        """What reads values of the block and is none."""
        after: set[str] = set()
        for equation in self.program.equations:
            if equation.target not in mine and equation.reads & (mine | after):
                after.add(equation.target)
        return after

    def _piece(self, equations: Iterable[Equation], later: Container[str]) -> NormalProgram:
        made = tuple(equations)
        return part(self.program, made, [e.target for e in made if e.target in later], self.program.tensors)

    def _narrow(self, key: str, name: str, at: int) -> None:
        """Adds a tensor with the rows of a block along a slot, under a name."""
        tensor = self.program.tensors[key]
        slots = tuple(replace(s, set=self.set) if n == at else s for n, s in enumerate(tensor.slots))
        self.tensors[name] = replace(tensor, key=name, text=tensor.text if name == key else name, slots=slots)

    def _rewritten(self, equation: Equation) -> Equation:
        """An equation of the whole as one of a block."""
        letter = self.rows.letters[equation.target]
        row = Index(letter.name, self.set)
        by: dict[Index, Term] = {letter: Apply("add", (Position(row), Size(size(self.before))))}

        def change(term: Term) -> Term:
            return self._read(term, Position(letter), Position(row)) if isinstance(term, Read) else term

        axes = tuple(Position(row) if axis == Position(letter) else axis for axis in equation.axes)
        domain, body = transform(equation.domain, change), transform(equation.body, change)
        if isinstance(body, Fold) and letter in body.bound:
            bound = tuple(row if b == letter else b for b in body.bound)
            made: Term = Fold(body.op, bound, substitute(body.domain, by), substitute(body.body, by))
        else:
            made = substitute(body, by)
        return replace(equation, axes=axes, domain=substitute(domain, by), body=made)

    def _read(self, read: Read, here: Term, row: Term) -> Read:
        """An element of a value of the block, or of a tensor that the block has its rows of; any other as it is."""
        if read.tensor in self.rows.letters:
            at: int | None = self.rows.slot(read.tensor)
            name = read.tensor
        else:
            tensor = self.program.tensors[read.tensor]
            at = next((n for n, sub in enumerate(read.subs)
                       if sub == here and tensor.slots[n].set == self.rows.over and _sliced(tensor)), None)
            name = read.tensor if at is None else self._part(read.tensor, at)
        return read if at is None else Read(name, (*read.subs[:at], row, *read.subs[at + 1:]))

    def _part(self, key: str, at: int) -> str:
        """The name of the rows of a tensor that a block has; adds it where it is new."""
        for name, found in self.taken.items():
            if found == (key, at):
                return name
        name = unused(f"{key}_{self.count}", self.tensors)
        self.taken[name] = (key, at)
        self._narrow(key, name, at)
        self.tensors[name] = replace(self.tensors[name], role="input")
        return name


def _sliced(tensor: Tensor) -> bool:
    """Whether a tensor lies in one piece, of which a block can be given a part."""
    return tensor.role in ("input", "weight", "local") and not tensor.each
