"""What is known of an extent for all sizes: its sign, and whether it is at least 0."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence, Set
from fractions import Fraction

from einc.ir.indices import Atom, Extent, Rounded, number, size


def direction(extent: Extent) -> int:
    """1 or −1 where the sign is the same for all sizes, else 0."""
    if any(x.signed for x in extent.roundings):
        return 0
    signs = {1 if c > 0 else -1 for _, c in extent.terms}
    return signs.pop() if len(signs) == 1 else 0


def positive(extent: Extent, strict: bool, some: Set[str] | None = None) -> bool:
    """Whether the extent is ≥ 0 (> 0) for all sizes ≥ 0, those of `some` (None: all) and all divisors ≥ 1."""
    return any(_signed(option, strict, some) for option in _unrounded(extent))


def _unrounded(extent: Extent) -> Iterator[Extent]:
    """The extent, where its quotients are no less than 0; what it is at least, without quotients that are rounded."""
    if not any(x.signed for x in extent.roundings):
        yield extent
    if extent.roundings:
        total = number(0)
        for mono, c in extent.terms:
            found = [a for a, _ in mono if isinstance(a, Rounded)]
            rest = Extent(((tuple((a, p) for a, p in mono if isinstance(a, str)), c),))
            if len(found) > 1 or any(p != 1 for a, p in mono if isinstance(a, Rounded)):
                return
            total = total + (rest * found[0].bounds[c < 0] if found else rest)
        yield from _unrounded(total)


def _signed(extent: Extent, strict: bool, some: Set[str] | None) -> bool:
    """Whether an extent is 0 or more, `strict`: more than 0, where a quotient that is rounded is no less than 0."""
    least = [(m, c) for m, c in extent.terms if c < 0 or all(_some_of(a, some) or p < 0 for a, p in m)]
    negative = [c for m, c in least if c < 0]
    if not negative:
        return bool(least) or not strict
    if any(c < 0 and m for m, c in least) or any(p < 0 for m, _ in least for _, p in m):
        return False
    total = sum((c for _, c in least), Fraction(0))
    return total > 0 or (total == 0 and not strict)


def _some_of(atom: Atom, some: Set[str] | None) -> bool:
    """Whether a size, or a quotient that is rounded, is at least 1."""
    if isinstance(atom, str):
        return some is None or atom in some
    return atom.up and all(c > 0 and all(_some_of(a, some) or p < 0 for a, p in m) for m, c in atom.of.terms)


def solved(extent: Extent, known: Container[str], of: str) -> tuple[str, Extent] | None:
    """The one size of an extent that is not known, and what it is where there are `of` elements; None where there is no
    such size, or where it stands in a product, a quotient or a power.
    """
    unknown = [name for name in extent.sizes if name not in known]
    if len(unknown) != 1:
        return None
    (name,) = unknown
    coefficient = next((c for m, c in extent.terms if m == ((name, 1),)), None)
    rest = Extent(tuple((m, c) for m, c in extent.terms if m != ((name, 1),)))
    return None if coefficient is None or name in rest.sizes else (name, (size(of) - rest) * number(1 / coefficient))


def told(extents: Sequence[Extent], known: Iterable[str]) -> set[str]:
    """The sizes that shapes with these extents tell an emitted file, beside those that are known: each that stands
    alone, and then those that are the only one not known in an extent, in order.
    """
    found = {*known} | {name for e in extents for name in e.sizes if e == size(name)}
    for extent in extents:
        if (one := solved(extent, found, "#")) is not None:
            found.add(one[0])
    return found
