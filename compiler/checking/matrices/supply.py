"""The letters of sizes: those that a text declares, and new ones where it declares none."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass, field

from einc.checking.matrices.known import Known
from einc.checking.matrices.lines import index
from einc.checking.matrices.shapes import Dimension, summands
from einc.checking.matrices.slots import Letters
from einc.errors.report import Source, Span
from einc.ir.indices import INDEX_CLASSES
from einc.syntax import tree as s


@dataclass
class Supply:
    """The letters of the sizes: those that the text declares, and new ones, which `new` keeps for index lines.

    `taken` are the names of the text, which no new letter may be.
    """

    known: Known
    taken: Set[str]
    base: dict[str, list[str]] = field(default_factory=dict)
    new: dict[str, str] = field(default_factory=dict)  # letter -> size
    made: dict[Dimension, str] = field(default_factory=dict)  # of composite dimensions
    beside: Set[str] = frozenset()  # the sizes whose letters another file declares

    def __post_init__(self) -> None:
        for letter, size in self.known.letters.items():
            if size not in self.known.parts:
                self.base.setdefault(size, []).append(letter)

    def fresh(self, dimension: Dimension, used: Set[str]) -> Letters:
        """Letters of a dimension that nothing around has: the declared ones, then the first of them with primes."""
        out: Letters = ()
        for size in dimension:
            out = (*out, self._one(size, {*used, *out}))
        return out

    def _one(self, size: str, used: Collection[str]) -> str:
        if size not in self.base:
            self.base[size] = [self._named(size)]
            self.new[self.base[size][0]] = size
        letters = self.base[size]
        primes = (letters[0] + "'" * n for n in range(1, len(used) + 2))
        return next(x for x in (*letters, *primes) if x not in used)

    def _named(self, size: str) -> str:
        """A new letter: the end of the size's name, `k` for d_k, else the first that is free."""
        end = size.rpartition("_")[2].lower()
        options = ([end[0]] if end[:1].isalpha() else []) + list("defkabcmpquvwxyzgijlnorh")
        names = {*self.taken, *self.new, *self.made.values(), *self.known.letters}
        return next(x for x in (*options, *(a + b for a in options for b in options)) if x not in names)

    def composite(self, dimension: Dimension) -> str:
        """The letter of the set whose elements are the tuples of a dimension."""
        if dimension in self.made:
            return self.made[dimension]
        if dimension in self.known.composites:
            return self.known.composites[dimension]
        self.made[dimension] = self._named("_".join(dimension))
        return self.made[dimension]

    def parts(self, size: str) -> Letters:
        """The letters of the parts of a direct sum, `d_c+d_r`."""
        return tuple(self._one(x, ()) for x in summands(size))

    def summed(self, dimension: Dimension) -> bool:
        """Whether the letter of a dimension hangs above as that of columns: its class is summed without a Σ."""
        return INDEX_CLASSES[self.known.kind(dimension[0])].summed

    def lines(self, source: Source) -> list[s.Statement]:
        """The index lines of letters that the text does not declare, and of composite sides."""
        span = Span(source, 0, 0)
        made = [index(letter, "feature", sizes, self.fresh(sizes, set()), span)  # which may need new letters
                for sizes, letter in self.made.items()]
        for size in [x for x in self.new.values() if summands(x)]:
            self.parts(size)
        new = sorted(self.new.items(), key=lambda x: bool(summands(x[1])))  # after the parts
        return [index(letter, self.known.kind(size), (size,), self.parts(size) if summands(size) else (), span)
                for letter, size in new] + made
