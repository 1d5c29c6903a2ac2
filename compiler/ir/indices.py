"""Index sets and extents: over what an index runs.

An extent is a Laurent polynomial in named sizes, and in quotients of such that are rounded, with rational coefficients,
in one canonical form, so that `2 · (d_k / 2)` and `d_k` are the same extent.

sympy does not serve here: extents are multiplied and compared thousands of times for a plan, its `expand`
takes about 30 times as long for a product and a sum of them (`python -m bench algebra`), and importing it
takes half a second, as long as `einc check` may.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, lcm

from einc.ir.nodes import Node, node


@dataclass(frozen=True, slots=True)
class IndexClass:
    """What an index runs over, and what follows from that. The classes are the rows of `INDEX_CLASSES`.

    `summed`: a repeated index is summed without a Σ. `numbered`: its elements have numbers that a text may speak of.
    `sequence`: a value with two such indices is stored only where that cannot be helped. `data`: its extent is that
    of the data, not of the model. `outer`: loops over it stand outside those over positions. `width`: it is an axis
    of a matrix of weights. `before` says which elements of the same class an element may read: those that are `le`
    it, those that are `eq`, or any. `usual` is the extent to assume where the data has not said it, `place` the
    order in which axes of helper tensors stand.
    """

    name: str
    place: int
    usual: int
    summed: bool = False
    numbered: bool = True
    sequence: bool = False
    data: bool = False
    outer: bool = False
    width: bool = False
    before: str = ""


LAYER = "layer"  # the class of what counts rounds: no file declares such an index, a `for` brings it
INDEX_CLASSES = {row.name: row for row in (
    IndexClass("time", 2, 4096, sequence=True, data=True, before="le"),
    IndexClass("request", 1, 8, numbered=False, data=True, outer=True, before="eq"),
    IndexClass("batch", 0, 4, numbered=False, data=True, outer=True),
    IndexClass("feature", 6, 128, summed=True, width=True),
    IndexClass("latent", 5, 512, summed=True, width=True),
    IndexClass("head", 3, 16, summed=True, outer=True),
    IndexClass("expert", 4, 64, summed=True, outer=True),
    IndexClass("vocab", 7, 32768, summed=True, sequence=True, data=True),
    IndexClass("rank", 0, 8, outer=True),
    IndexClass(LAYER, 8, 32),
)}


def classes(holds: Callable[[IndexClass], bool]) -> frozenset[str]:
    """The names of the classes of which something holds."""
    return frozenset(row.name for row in INDEX_CLASSES.values() if holds(row))


CLASSES = tuple(name for name in INDEX_CLASSES if name != LAYER)
SUMMED = classes(lambda row: row.summed)
WITHOUT_NUMBERS = classes(lambda row: not row.numbered)
SEQUENCE = classes(lambda row: row.sequence)
DATA = classes(lambda row: row.data)
OUTER = classes(lambda row: row.outer)
WIDTH = classes(lambda row: row.width)
MODEL = classes(lambda row: not row.data and row.name != LAYER)


@node
class Rounded(Node):
    """⌈of⌉ where `up`, else ⌊of⌋: a whole number that is made of sizes. `of` is no whole number for all of them."""

    of: Extent
    up: bool

    def __str__(self) -> str:
        return f"⌈{self.of}⌉" if self.up else f"⌊{self.of}⌋"

    def __lt__(self, other: str | Rounded) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: str | Rounded) -> bool:
        return str(self) > str(other)

    @property
    def fraction(self) -> tuple[Extent, Extent]:
        """What is divided, with whole coefficients, and by what."""
        return self.of * self.of.denominator, self.of.denominator

    @property
    def signed(self) -> bool:
        """Whether the value may be below 0 at some sizes."""
        return any(c < 0 for _, c in self.of.terms) or any(x.signed for x in self.of.roundings)

    @property
    def bounds(self) -> tuple[Extent, Extent]:
        """What it is at least and at most: the quotient on the one side, and less than 1 from it on the other."""
        above, below = self.fraction
        near = (above + below - number(1) if self.up else above - below + number(1)).over(below) or self.of
        return (self.of, near) if self.up else (near, self.of)

    def at(self, sizes: Mapping[str, int]) -> int:
        """The value; KeyError where a size is not given."""
        return (ceil if self.up else floor)(self.of.at(sizes))

    def map(self, change: Callable[[Extent], Extent]) -> Extent:
        """The quotient changed by a function, and rounded as before."""
        return rounded(change(self.of), self.up)


Atom = str | Rounded
Monomial = tuple[tuple[Atom, int], ...]


@node
class Extent(Node):
    """Σ coefficient · Π size^power, sorted; the empty sum is 0."""

    terms: tuple[tuple[Monomial, Fraction], ...]

    def __add__(self, other: Extent) -> Extent:
        if not (self.terms and other.terms):
            return self if self.terms else other
        return _collect([*self.terms, *other.terms])

    def __sub__(self, other: Extent) -> Extent:
        return self + other * number(-1) if other.terms else self

    def __mul__(self, other: Extent) -> Extent:
        for one, by in ((self, other), (other, self)):
            if not one.terms or by is _ONE:
                return one
            if len(by.terms) == 1 and not by.terms[0][0]:  # a number keeps the order of the terms
                return Extent(tuple((mono, _scaled(x, by.terms[0][1])) for mono, x in one.terms))
        return _collect([(_times(a, b), _scaled(x, y)) for a, x in self.terms for b, y in other.terms])

    def over(self, other: Extent) -> Extent | None:
        """The quotient, where the divisor is a single term; None otherwise."""
        if len(other.terms) != 1:
            return None
        (mono, coefficient), = other.terms
        return _collect([(_times(a, tuple((n, -p) for n, p in mono)), x / coefficient) for a, x in self.terms])

    @property
    def constant(self) -> Fraction | None:
        """The number that the extent is; None where it depends on a size."""
        if not self.terms:
            return Fraction(0)
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def sizes(self) -> frozenset[str]:
        """The names of the sizes in it."""
        atoms = (atom for mono, _ in self.terms for atom, _ in mono)
        return frozenset(n for a in atoms for n in ((a,) if isinstance(a, str) else a.of.sizes))

    @property
    def roundings(self) -> tuple[Rounded, ...]:
        """The rounded quotients in it, in order, those inside of others too."""
        found = [a for mono, _ in self.terms for a, _ in mono if isinstance(a, Rounded)]
        return tuple(dict.fromkeys(x for a in found for x in (*a.of.roundings, a)))

    @property
    def smooth(self) -> Extent:
        """The extent with every quotient as it is before it is rounded: how it grows."""
        return self.put({}, lambda a: a.of.smooth) if self.roundings else self

    @property
    def denominator(self) -> Extent:
        """The least single product that makes it a sum of products of sizes with whole coefficients."""
        powers: dict[Atom, int] = {}
        for mono, _ in self.terms:
            powers |= {a: max(powers.get(a, 0), -p) for a, p in mono if p < 0}
        return Extent(((tuple(sorted(powers.items())), Fraction(lcm(*(c.denominator for _, c in self.terms)))),))

    def fixed(self, sizes: Mapping[str, int]) -> Extent:
        """The extent with the sizes that are known as numbers in it; a size of 0 stays a name."""
        if not any(sizes.get(name) for name in self.sizes):
            return self
        out: list[tuple[Monomial, Fraction]] = []
        for mono, coefficient in self.terms:
            known = coefficient
            for name, power in mono:
                known *= Fraction(sizes[name]) ** power if isinstance(name, str) and sizes.get(name) else 1
            out.append((tuple((n, p) for n, p in mono if not (isinstance(n, str) and sizes.get(n))), known))
        found = _collect(out)
        return found.put({}, lambda a: a.map(lambda of: of.fixed(sizes))) if found.roundings else found

    def put(self, sizes: Mapping[str, Extent], other: Callable[[Rounded], Extent] | None = None) -> Extent:
        """The extent with other extents, each a single term, in place of some sizes; `other` says what stands for a
        quotient that is rounded, by default the same quotient of the other sizes.
        """
        change = other or (lambda a: a.map(lambda of: of.put(sizes)))
        total = number(0)
        for mono, coefficient in self.terms:
            part: Extent = number(coefficient)
            for name, power in mono:
                factor = sizes.get(name, size(name)) if isinstance(name, str) else change(name)
                for _ in range(abs(power)):
                    part = part * factor if power > 0 else part.over(factor) or part
            total = total + part
        return total

    def at(self, sizes: Mapping[str, int]) -> Fraction:
        """The value; KeyError where a size is not given."""
        total, whole = Fraction(0), 0
        for mono, coefficient in self.terms:
            above, below = coefficient.numerator, coefficient.denominator
            for name, power in mono:
                value = sizes[name] if isinstance(name, str) else name.at(sizes)
                above, below = above * value ** max(power, 0), below * value ** max(-power, 0)
            if below == 1:
                whole += above
            else:
                total += Fraction(above, below)
        return total + whole

    def __str__(self) -> str:
        return _show(self)


def _times(a: Monomial, b: Monomial) -> Monomial:
    if not (a and b):
        return a or b
    powers: dict[Atom, int] = dict(a)
    for name, power in b:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted((n, p) for n, p in powers.items() if p))


# Nearly all coefficients are whole numbers, of which few are in use: one object each, and no greatest common divisors.
@lru_cache(maxsize=1 << 12)
def _whole(value: int) -> Fraction:
    return Fraction(value)


def _sum(a: Fraction, b: Fraction) -> Fraction:
    return _whole(a.numerator + b.numerator) if a.denominator == b.denominator == 1 else a + b


def _scaled(a: Fraction, b: Fraction) -> Fraction:
    return _whole(a.numerator * b.numerator) if a.denominator == b.denominator == 1 else a * b


def _collect(terms: list[tuple[Monomial, Fraction]]) -> Extent:
    total: dict[Monomial, Fraction] = {}
    for mono, coefficient in terms:
        before = total.get(mono)
        total[mono] = coefficient if before is None else _sum(before, coefficient)
    kept = [(m, c) for m, c in total.items() if c]
    return Extent(tuple(sorted(kept) if len(kept) > 1 else kept))


def of_atom(atom: Atom) -> Extent:
    """Returns the extent that is one size, or one quotient that is rounded."""
    return Extent(((((atom, 1),), _whole(1)),))


@lru_cache(maxsize=1 << 12)
def number(value: int | Fraction) -> Extent:
    """Returns the extent that is a constant."""
    return Extent((((), Fraction(value)),) if value else ())


_ONE = number(1)


def size(name: str) -> Extent:
    """Returns the extent that is one named size."""
    return of_atom(name)


def rounded(of: Extent, up: bool) -> Extent:
    """⌈of⌉ where `up`, else ⌊of⌋: what is surely a whole number stands outside."""
    whole = Extent(tuple((m, c) for m, c in of.terms if c.denominator == 1 and all(p > 0 for _, p in m)))
    rest = of - whole
    constant = rest.constant
    if constant is not None:
        return whole + number((ceil if up else floor)(constant))
    return whole + of_atom(Rounded(rest, up))


def _show(extent: Extent) -> str:
    """Writes an extent as a sum of products with `/` for negative powers; the empty sum is 0."""
    parts = []
    for mono, coefficient in reversed(extent.terms):
        above = [str(n) for n, p in mono for _ in range(p)]
        below = [str(n) for n, p in mono for _ in range(-p)]
        if abs(coefficient.numerator) != 1 or not above:
            above.insert(0, str(abs(coefficient.numerator)))
        if coefficient.denominator != 1:
            below.insert(0, str(coefficient.denominator))
        text = " * ".join(above) + "".join(f" / {b}" for b in below)
        parts.append(("- " if coefficient < 0 else "+ ") + text)
    text = " ".join(parts) or "0"
    return text[2:] if text.startswith("+ ") else "-" + text[2:] if text.startswith("- ") else text


@node
class Packed(Node):
    """What is known of one axis for the positions of all requests: tensors by their keys, and the letter of a request.

    For each element its `request` and its `offset` (its number less its position there); for each request its `start`,
    the offset of its elements.
    """

    lengths: str
    requests: IndexSet
    letter: str
    request: str
    offset: str
    start: str


@node
class IndexSet(Node):
    """One class and one extent are one set; values run from `start`.

    `by` names the request index of a ragged set; `packed` says that the elements are the
    positions of all requests, in turn.
    """

    cls: str
    extent: Extent
    start: int = 1
    by: str = ""
    packed: Packed | None = None

    def __str__(self) -> str:
        if self.start != 1:
            return f"{self.cls}({self.start}..{self.extent + number(self.start - 1)})"
        return f"{self.cls}({self.extent})"

    @property
    def summed(self) -> bool:
        """Whether an index of this set is summed where it stands once above and once below in a product."""
        return self.cls in SUMMED


@node
class Index(Node):
    """A letter that runs over a set. `s'` is a name of its own over the set of `s`."""

    name: str
    set: IndexSet

    def __str__(self) -> str:
        return self.name


def primed(name: str, taken: Container[str]) -> str:
    """The name, with as many primes as make it new."""
    while name in taken:
        name += "'"
    return name


def distinct(indices: Iterable[Index], taken: Iterable[str]) -> tuple[Index, ...]:
    """Indices over the same sets whose names are not taken and differ from each other, primed where that needs it."""
    names, out = set(taken), list[Index]()
    for index in indices:
        out.append(Index(primed(index.name, names), index.set))
        names.add(out[-1].name)
    return tuple(out)
