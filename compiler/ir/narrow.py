"""Types of few bits: which numbers each holds. Rounding to one of them is a primitive of the same name.

A type holds the multiples of 2^(e - bits) among the numbers of each binade [2^e, 2^(e + 1)), down to e = `least`: below
that the step stays what it is there. A type of whole numbers is one whose step is 1 everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Narrow:
    """One type, by its name in the language.

    Rounding takes the nearest number that the type holds; of two that are equally near, the one whose last digit is
    even. What lies beyond the ends, infinite numbers too, becomes the nearer end; what is no number stays none.
    `bits`: the binary digits after the leading one. `least`: the exponent of the smallest number with all of them.
    `low` and `high`: the ends. `storage`: torch's name of the type in memory; "" where torch computes nothing with it.
    `infinite`: whether the type in memory has codes for infinite numbers. `together`: how many numbers along the last
    axis of a tensor lie in one of its bytes, the first of them in the lowest bits; where these are 2, 4 or 8, the type
    has the whole numbers of so many bits, and a number has the last ones of two's complement.
    """

    name: str
    bits: int
    least: int
    low: int
    high: int
    storage: str
    infinite: bool = False
    together: int = 1

    @property
    def whole(self) -> bool:
        """Whether the type holds whole numbers alone, as `int8` and `int4` do."""
        return self.bits == self.least

    @property
    def reach(self) -> tuple[float, float]:
        """Half a step beyond each end: up to there a number is as near to what it becomes as others are."""
        low, high = float(self.low), float(self.high)
        half = 0.5 if self.whole else 2.0 ** (math.floor(math.log2(high)) - self.bits - 1)
        return low - half, high + half

    @property
    def digits(self) -> tuple[int, int, float, float]:
        """What a function that rounds is given: bits, least exponent, and the ends."""
        return self.bits, self.least, float(self.low), float(self.high)


_ROWS = (
    Narrow("e4m3", 3, -6, -448, 448, "float8_e4m3fn"),
    Narrow("e5m2", 2, -14, -57344, 57344, "float8_e5m2", True),
    Narrow("e2m1", 1, 0, -6, 6, ""),
    Narrow("int8", 7, 7, -128, 127, "int8"),
    Narrow("int4", 3, 3, -8, 7, "uint8", together=2),
)

NARROW: dict[str, Narrow] = {row.name: row for row in _ROWS}
