"""What the numbers of a tensor are: how a kernel computes with them, and how they are
stored. A row for each kind of element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from types import MappingProxyType
from typing import Literal

from einc.ir.indices import Extent, IndexSet, number, rounded
from einc.ir.narrow import NARROW, Narrow

Kind = Literal["real", "exact", "integer", "truth", "scalar"]


@dataclass(frozen=True, slots=True)
class Element:
    """`kind` is the arithmetic of the values; `storage` is the type in memory, by the
    name that torch and Triton have for it.

    Three names of storage stand for no one type: `data` is the type of the data, `wide` the same but no narrower than
    float32, `ranged` the same but of no smaller range than float32, which is float32 for float16 and no other type.
    `bytes` are those of one element, where the data is float32. `word` declares tensors of such elements in
    the language; it is empty where no declaration asks for them.
    """

    kind: Kind
    storage: str
    bytes: int
    word: str = ""

    @property
    def narrow(self) -> Narrow | None:
        """The type of few bits in which the elements are stored; None for every other element. Such numbers are real
        ones, and as constant as whole ones: no gradient reaches them.
        """
        return NARROW.get(self.word)

    @property
    def shared(self) -> bool:
        """Whether several numbers lie in one byte."""
        return self.together > 1

    @property
    def together(self) -> int:
        """How many numbers along the last axis of a tensor lie in one byte; 1 where each has a byte or more."""
        return self.narrow.together if self.narrow is not None else 1

    @property
    def apart(self) -> Element:
        """The element that holds the same numbers, each in a byte of its own; of most elements they themselves."""
        return DECLARED["int8"] if self.shared else self

    def extents(self, sets: Iterable[IndexSet]) -> tuple[Extent, ...]:
        """The extents of the array in memory of a tensor over these sets."""
        found = [over.extent for over in sets]
        if self.shared and found:
            found[-1] = rounded(found[-1] * number(Fraction(1, self.together)), up=True)
        return tuple(found)

    def room(self, sets: Iterable[IndexSet], data: int) -> Extent:
        """The bytes of a tensor over these sets in memory, where an element of the data has so many."""
        return prod(self.extents(sets), start=number(self.size(data)))

    def size(self, data: int) -> int:
        """The bytes of one element of the array in memory, where an element of the data has so many."""
        match self.storage:
            case "data":
                return data
            case "wide" | "ranged":
                return max(data, self.bytes)
            case _:
                return self.bytes


REAL = Element("real", "data", 4)
WIDE = Element("real", "wide", 4)  # one number for each row of the data takes next to no room
RANGED = Element("real", "ranged", 4)  # a sum that a later factor may bring back into range
EXACT = Element("exact", "float64", 8)  # made of sizes alone, or a running sum
INTEGER = Element("integer", "int64", 8, "int")
TRUTH = Element("truth", "bool", 1)
SCALAR = Element("scalar", "", 0)  # a number of the host
_NARROW = tuple(Element("real", row.storage, 1, row.name) for row in NARROW.values() if row.storage)
ELEMENTS = (REAL, WIDE, RANGED, EXACT, INTEGER, TRUTH, SCALAR, *_NARROW)

# The element of values of a kind that a kernel holds, and what a declaration says by its word.
OF_KIND: Mapping[Kind, Element] = MappingProxyType({element.kind: element for element in reversed(ELEMENTS)})
DECLARED: Mapping[str, Element] = MappingProxyType({element.word: element for element in ELEMENTS if element.word})
