"""Chance as arithmetic: whole numbers mixed until nothing of their order is left. The same bits by any machine.

A round multiplies by odd numbers and folds high bits onto low ones, on 32 bits, so it is a permutation in which each
bit of the result depends on each bit given. The factors have 31 bits: no product leaves the 63 bits of a whole number.
The back ends spell the same few lines; here they serve Python's numbers and arrays of int64 alike.
"""

from __future__ import annotations

from typing import Any

_BITS = 2**32 - 1
_FACTORS = (0x21F0AAAD, 0x735A2D97)
_SHIFT = 0x5851F42D  # or 0 would stay 0
CHANCES = 2**24  # so many numbers lie in [0, 1): each is exact in float32


def _mixed(x: Any) -> Any:
    x = (x ^ (x >> 16)) * _FACTORS[0] & _BITS
    x = (x ^ (x >> 15)) * _FACTORS[1] & _BITS
    return x ^ (x >> 15)


def hashed(a: Any, b: Any) -> Any:
    """A whole number in 0 … 2**32 - 1 for two whole numbers of at most 64 bits; their order matters."""
    a, b = (a ^ (a >> 32)) & _BITS, (b ^ (b >> 32)) & _BITS
    return _mixed(a ^ _mixed(b + _SHIFT & _BITS))


def chance(a: Any, b: Any) -> Any:
    """A number in [0, 1) for two whole numbers."""
    return (hashed(a, b) >> 8) / CHANCES
