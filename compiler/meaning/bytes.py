"""Whole numbers of few bits, several in a byte along the last axis: the first of them in its lowest bits."""

from __future__ import annotations

import numpy as np

from einc.ir.narrow import Narrow
from einc.meaning.blocks import Array


def in_bytes(numbers: Array, row: Narrow) -> Array:
    """Numbers of a type of which several lie in a byte as these bytes along the last axis; what lacks in the last one
    is 0."""
    codes, bits = np.asarray(numbers).astype(np.int64), 8 // row.together
    codes = np.concatenate([codes, np.zeros((*codes.shape[:-1], -codes.shape[-1] % row.together), np.int64)], -1)
    parts = [(codes[..., n :: row.together] & 2**bits - 1) << n * bits for n in range(row.together)]
    return np.asarray(sum(parts), dtype=np.uint8)


def from_bytes(data: Array, count: int, row: Narrow) -> Array:
    """The first `count` numbers along the last axis of what `in_bytes` makes."""
    wide, bits, sign = data.astype(np.int64), 8 // row.together, 2 ** (8 // row.together - 1)
    codes = np.stack([wide >> n * bits & 2**bits - 1 for n in range(row.together)], -1)
    made: Array = ((codes ^ sign) - sign).reshape(*data.shape[:-1], row.together * data.shape[-1])
    return made[..., :count]
