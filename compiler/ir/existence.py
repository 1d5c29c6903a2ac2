"""Whether each value that an equation reads exists: an equation has values on its domain alone, and what stands
elsewhere in its array no reader may count on.

A read is *proved* where what holds on its way implies the domain of the equation that it reads, *outside* where a point
is found at which it does not, and *open* otherwise: a domain that compares data may hold wherever it is read, and no
proof could know. A domain that reads values is asked in the order of its conditions: what stands earlier holds already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from math import floor

from einc.ir.domains import negation, proves
from einc.ir.indices import Index
from einc.ir.programs import Equation, Program
from einc.ir.reading import Seen, seen
from einc.ir.terms import (
    TRUE,
    Position,
    Size,
    Term,
    both,
    conjuncts,
    const,
    free_indices,
    reads,
    substitute,
    transform,
    walk,
)

_MOST = 4  # sizes that are tried are 1 to so many, each name with another one
_POINTS = 200


@dataclass(frozen=True)
class Point:
    """A number for each letter and for each size of a condition."""

    letters: Mapping[Index, int]
    sizes: Mapping[str, int]

    def of(self, term: Term) -> Term:
        """The term at the point."""
        def number(part: Term) -> Term:
            match part:
                case Position(index):
                    return const(self.letters[index])
                case Size(extent):
                    return const(extent.at(self.sizes))
            return part

        return transform(term, number)

    def __str__(self) -> str:
        return ", ".join(f"{name} = {number}" for name, number in
                         [*((i.name, n) for i, n in self.letters.items()), *self.sizes.items()])


@dataclass(frozen=True)
class Outside:
    """A read of a value at a point where its equation has none."""

    reader: Equation
    of: Equation
    point: Point

    def __str__(self) -> str:
        """One line about the read."""
        return f"`{self.reader.target}` reads `{self.of.target}` where it has no value, at {self.point}"


@dataclass
class Existence:
    """What was found of the reads of equations that have a domain."""

    proved: int = 0
    open: list[tuple[Equation, Seen]] = field(default_factory=list)
    outside: list[Outside] = field(default_factory=list)


def existence(program: Program) -> Existence:
    """What is found of every read of an equation that has a domain."""
    found, known = Existence(), program.by_target
    for reader in program.equations:
        if not any(key in known and known[key].domain != TRUE for key in reader.reads):
            continue
        for one in _reads(reader):
            of = known.get(one.read.tensor)
            if of is not None and of.domain != TRUE:
                _judge(found, reader, one, of)
    return found


def _reads(reader: Equation) -> Iterator[Seen]:
    """Every read of an equation: in its body where its domain holds, in a condition of its domain where those before it
    do, of which the conditions that read nothing are the first.
    """
    yield from seen(reader.body, reader.domain)
    atoms = sorted(conjuncts(reader.domain), key=lambda atom: any(True for _ in reads(atom)))
    for n, atom in enumerate(atoms):
        yield from seen(atom, both(*atoms[:n]))


def _judge(found: Existence, reader: Equation, one: Seen, of: Equation) -> None:
    """Adds to `found` what one read is."""
    asked = None if not of.has_letters else substitute(of.domain, dict(zip(of.indices, one.read.subs, strict=True)))
    if asked is not None and proves(one.given, asked):
        found.proved += 1
    elif asked is not None and (point := _missing(one.given, asked)) is not None:
        found.outside.append(Outside(reader, of, point))
    else:
        found.open.append((reader, one))


def _missing(given: Term, asked: Term) -> Point | None:
    """A point at which `given` holds and something of what is asked does not; None where none is found, or where data
    would say what holds.
    """
    if any(True for _ in reads(given)):
        return None
    for atom in conjuncts(asked):
        if not any(True for _ in reads(atom)):
            for point in islice(_points(both(given, atom)), _POINTS):
                if proves(TRUE, both(point.of(given), negation(point.of(atom)))):
                    return point
    return None


def _points(condition: Term) -> Iterator[Point]:
    """Points of a condition, of few elements."""
    letters = sorted(free_indices(condition), key=lambda index: index.name)
    extents = [t.extent for t in walk(condition) if isinstance(t, Size)] + [index.set.extent for index in letters]
    names = sorted({name for extent in extents for name in extent.sizes})
    for turn in range(_MOST):
        sizes = {name: 1 + (turn + 2 * n) % _MOST for n, name in enumerate(names)}
        ranges = [range(i.set.start, i.set.start + floor(i.set.extent.at(sizes))) for i in letters]
        for numbers in product(*ranges):
            yield Point(dict(zip(letters, numbers, strict=True)), sizes)
