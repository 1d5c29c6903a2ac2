"""Whole numbers of 4 bits, two in a byte along the last axis: the first of each two in the lower half."""

from __future__ import annotations

import numpy as np

from einc.meaning.blocks import Array


def in_bytes(numbers: Array) -> Array:
    """Numbers from -8 to 7 as bytes, half as many along the last axis; where they are odd in number the last half is 0.
    """
    codes = np.asarray(numbers).astype(np.int64)
    codes = np.concatenate([codes, np.zeros_like(codes[..., :1])], -1) if codes.shape[-1] % 2 else codes
    return ((codes[..., ::2] & 15) | ((codes[..., 1::2] & 15) << 4)).astype(np.uint8)


def from_bytes(data: Array, count: int) -> Array:
    """The first `count` numbers along the last axis of what `in_bytes` makes."""
    wide = data.astype(np.int64)
    both = np.stack([wide & 15, wide >> 4], -1)
    return ((both ^ 8) - 8).reshape(*data.shape[:-1], 2 * data.shape[-1])[..., :count]
