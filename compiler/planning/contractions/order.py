"""In which order a contraction of several factors is done.

The best order of few factors is found by trying all, exactly as opt_einsum does it; the library itself, which imports
numpy, is loaded for many factors alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import combinations
from math import inf, prod

from einc.ir.indices import Index

FEW = 8  # from so many operands on the order is opt_einsum's "auto"

Path = tuple[tuple[int, ...], ...]


def path(operands: tuple[tuple[Index, ...], ...], out: tuple[Index, ...], sizes: Mapping[str, int]) -> Path:
    """Pairs of operands, by place in the list that shrinks as they are contracted (opt_einsum's convention).

    An index of the result that stands in no operand, but in the domain alone, has no part in it.
    """
    if len(operands) < 3:
        return (tuple(range(len(operands))),)
    numbers = {i: max(1, round(i.set.extent.at(sizes))) for o in operands for i in o}
    if len(operands) < FEW:
        search = _Search(frozenset(i for i in out if i in numbers), numbers)
        search.go(tuple(map(frozenset, operands)), set(range(len(operands))), (), 0)
        return _by_place(search.best, len(operands))
    library = import_module("opt_einsum")
    letters = {index: library.get_symbol(n) for n, index in enumerate(numbers)}
    equation = ",".join("".join(letters[i] for i in o)
                        for o in operands) + "->" + "".join(letters[i] for i in out if i in letters)
    shapes = [tuple(numbers[i] for i in o) for o in operands]
    found, _ = library.contract_path(equation, *shapes, shapes=True, optimize="auto")
    return tuple(tuple(pair) for pair in found)


@dataclass
class _Search:
    """Every order in which factors can be contracted in pairs, and the first of those that take the fewest
    operations.

    Factors are numbered, and so is what a pair makes. `known` has what a pair makes and its operations by the indices
    of the two: they are reckoned once, for the factors that are left where the pair is first met, as in opt_einsum.
    """

    out: frozenset[Index]
    numbers: Mapping[Index, int]
    best: Path = ()
    least: float = inf
    known: dict[tuple[frozenset[Index], frozenset[Index]], tuple[frozenset[Index], int]] = field(default_factory=dict)

    def go(self, factors: tuple[frozenset[Index], ...], left: set[int], taken: Path, cost: int) -> None:
        """Goes on from the pairs that are taken, with the factors that are left."""
        if len(left) == 1:
            self.best, self.least = taken, cost
            return
        for one, other in map(sorted, combinations(left, 2)):
            key = factors[one], factors[other]
            if key not in self.known:
                self.known[key] = self._made(*key, self.out.union(*(factors[n] for n in left - {one, other})))
            made, operations = self.known[key]
            if cost + operations < self.least:
                rest = left - {one, other} | {len(factors)}
                self.go((*factors, made), rest, (*taken, (one, other)), cost + operations)

    def _made(self, one: frozenset[Index], other: frozenset[Index],
              needed: frozenset[Index]) -> tuple[frozenset[Index], int]:
        """The indices of what a pair makes, and its operations: a product for each element, and a sum where an index
        goes.
        """
        both = one | other
        return both & needed, prod(self.numbers[i] for i in both) * (1 + bool((one & other) - needed))


def _by_place(numbered: Path, count: int) -> Path:
    """Pairs of numbered factors as pairs of places in the list that shrinks."""
    places, out = list(range(count)), []
    for pair in numbered:
        out.append(tuple(places.index(n) for n in pair))
        places = [n for n in places if n not in pair]
        places.append(count + len(out) - 1)
    return tuple(out)


def pairs(
    operands: tuple[tuple[Index, ...], ...], out: tuple[Index, ...], order: tuple[tuple[int, ...], ...]
) -> Iterator[tuple[tuple[frozenset[Index], ...], frozenset[Index]]]:
    """What each step of a path takes, and what it leaves."""
    left = [frozenset(o) for o in operands]
    for pair in order:
        taken = tuple(left[n] for n in pair)
        left = [o for n, o in enumerate(left) if n not in pair]
        made = frozenset().union(*taken) & frozenset(out).union(*left)
        yield taken, made
        left.append(made)
