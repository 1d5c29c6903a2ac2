"""Names for bound indices by where they stand alone: renamed and reordered, the same thing gets the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from einc.ir.indices import Index

T = TypeVar("T")
# more ties than this are broken as they come: then equal things may get different names, and no others the same
_LEAVES = 48


def ordered(items: Sequence[T], bound: Sequence[Index], moving: Callable[[T], frozenset[Index]],
            text: Callable[[T, Mapping[Index, Index]], str]) -> tuple[Index, ...]:
    """The bound indices in an order that only what the items say decides; `text` writes
    an item with other names in it."""
    if len(bound) == 1:
        return tuple(bound)
    sets = sorted({str(i.set) for i in bound})
    colours = {i: sets.index(str(i.set)) for i in bound}
    search = _Search(items, tuple(bound), moving, text)
    search.look(search.refined(colours))
    assert search.best is not None
    return search.best[1]


class _Search:
    """Colours are refined by where an index stands among the colours of the others; ties are tried one by one."""

    def __init__(self, items: Sequence[T], bound: tuple[Index, ...], moving: Callable[[T], frozenset[Index]],
                 text: Callable[[T, Mapping[Index, Index]], str]) -> None:
        self.items, self.bound, self.text = items, bound, text
        self.around = {i: [x for x in items if i in moving(x)] for i in bound}
        self.best: tuple[list[str], tuple[Index, ...]] | None = None
        self.leaves = 0

    def refined(self, colours: dict[Index, int]) -> dict[Index, int]:
        """The colours split by where indices stand in the items, until all differ or no more can be told apart."""
        while len(set(colours.values())) < len(self.bound):
            tokens = {i: Index(f"%{c}", i.set) for i, c in colours.items()}
            seen = {i: (colours[i], sorted(self.text(x, {**tokens, i: Index("%!", i.set)}) for x in self.around[i]))
                    for i in self.bound}
            ranks = sorted({(c, tuple(s)) for c, s in seen.values()})
            new = {i: ranks.index((c, tuple(s))) for i, (c, s) in seen.items()}
            if len(ranks) == len(set(colours.values())):
                return new
            colours = new
        return colours

    def look(self, colours: dict[Index, int]) -> None:
        """Tries the orders that the colours leave open; `best` keeps the one whose items, as text, sort first."""
        tied = sorted(c for c in set(colours.values()) if sum(1 for x in colours.values() if x == c) > 1)
        if not tied:
            order = tuple(sorted(self.bound, key=lambda i: colours[i]))
            names = {i: Index(f"%{n}", i.set) for n, i in enumerate(order)}
            found = sorted(self.text(x, names) for x in self.items)
            self.leaves += 1
            if self.best is None or found < self.best[0]:
                self.best = found, order
            return
        for index in [i for i in self.bound if colours[i] == tied[0]]:
            if self.leaves < _LEAVES:
                apart = {i: 2 * c for i, c in colours.items()}
                self.look(self.refined({**apart, index: apart[index] - 1}))
