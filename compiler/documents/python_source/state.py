"""What is found out as a source is read: equal sizes, arguments and their axes, equations, and what was not read."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from fractions import Fraction

from einc.documents.python_source.terms import (
    Apply,
    Axis,
    Compare,
    Condition,
    Fold,
    Gate,
    Joined,
    Letter,
    Line,
    Place,
    Read,
    SizeOf,
    Slot,
    Term,
)
from einc.documents.python_source.values import CannotSayError, Tensor, Value
from einc.errors.report import Source
from einc.ir.indices import Extent, number, size


class ReturnedError(Exception):
    """The value of a `return`, on its way out of the statements around it."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


@dataclass(frozen=True)
class Array:
    """An argument, or a parameter of a module, with the extents of its axes."""

    name: str
    letters: tuple[Letter, ...]
    weight: bool = False
    said: str = ""  # how the Python source calls it, where that is another name


@dataclass(frozen=True)
class Equation:
    """`name = term`, with one slot for each axis."""

    name: str
    axes: tuple[Axis, ...]
    term: Term
    output: bool = False


@dataclass(frozen=True)
class Unsaid:
    """A line of the source that the language does not say, or that leaves two readings."""

    source: Source
    node: ast.AST
    message: str
    ways: tuple[str, ...] = ()


@dataclass
class State:
    """Grows while a source is read; everything else is a pure function of it."""

    sizes: dict[str, Extent] = field(default_factory=dict)  # a size that is another extent
    arrays: dict[str, Array] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)  # a number of the caller -> `dim` or `input`
    equations: list[Equation] = field(default_factory=list)
    unsaid: list[Unsaid] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    integers: set[str] = field(default_factory=set)  # arrays of whole numbers
    loose: set[str] = field(default_factory=set)  # sizes with a name that nobody chose
    words: dict[str, str] = field(default_factory=dict)  # the last part of a name with dots -> the name
    count: int = 0

    def word(self, name: str) -> str:
        """A short name for a size that stands in an object, `n_embd` for `config.n_embd`."""
        last = name.rpartition(".")[2]
        return last if self.words.setdefault(last, name) == name else name.replace(".", "_")

    def letter(self, extent: Extent, hint: str = "") -> Letter:
        """A new letter that counts to this extent; the hint is the name that it may be given. Adds to the count of
        letters."""
        self.count += 1
        return Letter(self.count, extent, hint)

    def unknown(self, hint: str) -> Extent:
        """A size of which nothing is known."""
        self.count += 1
        name = f"{hint} {self.count}"  # a space, so that it is no name of the source
        self.loose.add(name)
        return size(name)

    def note(self, text: str) -> None:
        """Adds a sentence for the reader of the spec."""
        if text not in self.notes:
            self.notes.append(text)

    def extent(self, extent: Extent) -> Extent:
        """The extent by what is known now."""
        while extent.sizes & self.sizes.keys():
            extent = extent.put(self.sizes)
        return extent

    def same(self, a: Extent, b: Extent) -> bool:
        """Whether two extents are known to be equal."""
        return self.extent(a) == self.extent(b)

    def equate(self, a: Extent, b: Extent, what: str = "") -> None:
        """Takes two extents to be equal, as Python demands here. CannotSayError where they cannot be."""
        a, b = self.extent(a), self.extent(b)
        if a == b:
            return
        for old, new in ((a, b), (b, a)) if self._rank(a) <= self._rank(b) else ((b, a), (a, b)):
            if (solved := _solved(old, new)) is not None:
                self.sizes[solved[0]] = solved[1]
                return
        raise CannotSayError(f"{what or 'two axes'} would have to be equal: `{a}` and `{b}`")

    def _rank(self, extent: Extent) -> int:
        """What is replaced first: a size without a name of its own, then one by itself, then another extent."""
        name = atom(extent)
        return 2 if name is None else 0 if name in self.loose else 1

    def array(self, name: str, extents: tuple[Extent, ...], hints: tuple[str, ...] = (), *, weight: bool = False,
              said: str = "") -> Tensor:
        """Declares an argument with its axes -> its value."""
        hints = hints or ("",) * len(extents)
        letters = tuple(self.letter(e, h) for e, h in zip(extents, hints, strict=True))
        self.arrays[name] = Array(name, letters, weight, said)
        return self.read(name)

    def read(self, name: str) -> Tensor:
        """A declared argument as a value, with letters of its own."""
        letters = tuple(self.letter(x.extent, x.hint) for x in self.arrays[name].letters)
        ones = [self.extent(x.extent).constant == Fraction(1) for x in letters]
        slots: tuple[Slot, ...] = tuple((1,) if one else (x,) for x, one in zip(letters, ones, strict=True))
        axes: tuple[Axis, ...] = tuple(() if one else (x,) for x, one in zip(letters, ones, strict=True))
        return Tensor(axes, Read(name, slots))

    def resolved(self, term: Term) -> Term:
        """The term with the extents that are known now."""
        match term:
            case SizeOf(extent):
                return SizeOf(self.extent(extent))
            case Place(letter):
                return Place(self.known(letter))
            case Read(name, slots):
                return Read(name, tuple(tuple(self.known(p) if isinstance(p, Letter) else p for p in slot)
                                        for slot in slots))
            case Apply(_, args, named):
                return replace(term, args=tuple(map(self.resolved, args)),
                               named=tuple((n, self.resolved(a)) for n, a in named))
            case Gate(condition):
                return Gate(self.condition(condition))
            case Fold(_, letters, condition, body):
                return replace(term, letters=tuple(map(self.known, letters)), body=self.resolved(body),
                               condition=None if condition is None else self.condition(condition))
            case Line(_, letters, condition, args, named):
                return replace(term, letters=tuple(map(self.known, letters)), args=tuple(map(self.resolved, args)),
                               named=tuple((n, self.resolved(a)) for n, a in named),
                               condition=None if condition is None else self.condition(condition))
            case _:
                return term

    def condition(self, condition: Condition) -> Condition:
        """The condition with the extents that are known now."""
        match condition:
            case Compare(sign, left, right):
                return Compare(sign, self.resolved(left), self.resolved(right))
            case Joined(word, parts):
                return Joined(word, tuple(map(self.condition, parts)))

    def known(self, letter: Letter) -> Letter:
        """The letter with the extent that is known now."""
        return replace(letter, extent=self.extent(letter.extent))


def atom(extent: Extent) -> str | None:
    """The name of the size that the extent is; None where it is more than one size by itself."""
    names = extent.sizes
    return next(iter(names)) if len(names) == 1 and extent == size(next(iter(names))) else None


def _solved(old: Extent, new: Extent) -> tuple[str, Extent] | None:
    """`H X = C` -> X = C / H, of an extent that is one product, for a size that stands in it once."""
    if len(old.terms) != 1 or (len(new.terms) > 1 and atom(old) is None):
        return None
    powers = old.terms[0][0]
    alone = [name for name, power in powers if power == 1 and isinstance(name, str) and name not in new.sizes]
    if not alone or len(new.terms) > 1:
        return (alone[0], new) if alone and atom(old) else None
    rest = old.over(size(alone[-1]))
    value = None if rest is None else new.over(rest)
    return None if value is None or value == number(0) else (alone[-1], value)
