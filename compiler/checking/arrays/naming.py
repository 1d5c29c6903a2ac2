"""The letters of axes: those of the text where they are free, else declared ones of the same set, else new ones."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from einc.checking.arrays.sets import Sets
from einc.checking.matrices.supply import Supply
from einc.errors.problems import OpenReading
from einc.errors.report import Help
from einc.syntax import tree as s


@dataclass
class Naming:
    """Gives letters to axes. `names` are the names and labels of the text, which no letter may be."""

    sets: Sets
    supply: Supply
    names: Set[str]

    def settle(self) -> None:
        """Gives a size to each set that has none, from the letter that stands for it, and takes the letters of the text
        that nothing declares as letters of their sets.
        """
        for root in self.sets.open():
            hint = self.sets.hints[root]
            taken = {*self.names, *self.supply.known.letters.values(), *self.sets.sizes.values()}
            options = [hint.upper()] if len(hint) == 1 and not hint.isupper() else []
            options += [f"n_{x}" for x in ([hint] if hint else []) + list("abcdefghijklmnopqrstuvwxyz")]
            self.sets.sizes[root] = next(x for x in options if x not in taken)
        for axis, hint in enumerate(self.sets.hints):
            size = self.sets.dimension(axis)
            if len(size) == 1 and self._free(hint):
                self.supply.new[hint] = size[0]
                self.supply.base.setdefault(size[0], []).append(hint)

    def _free(self, hint: str) -> bool:
        """Whether a word of a string may become a letter of the text."""
        return len(hint) == 1 and hint not in {*self.names, *self.supply.new, *self.supply.known.letters}

    def known_class(self, letters: Iterable[str], function: s.Word) -> None:
        """Raises OpenReading where a function runs along letters whose class nothing says."""
        for letter in letters:
            size = self.supply.new.get(letter)
            if size is not None and size not in self.supply.known.classes:
                raise OpenReading(f"is `{letter}`, along which `{function.text}` runs, time?", function.span, helps=(
                    Help(f"declare it: `index {letter} : feature({size})`, or `index {letter} : time({size})` and over "
                         "which part of it"),))

    def entry(self, axis: int, hint: str, used: Iterable[str]) -> tuple[str, ...]:
        """The letters of an axis, none of them `used`: one for each size of its set."""
        around = {*used}
        size = self.sets.dimension(axis)
        if len(size) == 1 and hint not in around and size[0] in (
                self.supply.known.letters.get(hint), self.supply.new.get(hint)):
            return (hint,)
        if len(size) > 1:
            self.supply.composite(size)
        return self.supply.fresh(size, around)

    def entries(self, axes: Iterable[int], hints: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """Letters for the axes of an array, all of them different."""
        out: list[tuple[str, ...]] = []
        for axis, hint in zip(axes, hints, strict=True):
            out.append(self.entry(axis, hint, {x for entry in out for x in entry}))
        return tuple(out)
