"""Numbers that look like chance, made of whole numbers: the same for the same numbers on every device."""

from __future__ import annotations

import torch


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """32 bits of which each depends on every bit of x; no product leaves the 63 bits of a whole number."""
    x = x ^ (x >> 16)
    x *= 0x21F0AAAD
    x &= 0xFFFFFFFF
    x ^= x >> 15
    x *= 0x735A2D97
    x &= 0xFFFFFFFF
    x ^= x >> 15
    return x


def _hash(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """32 bits made of two whole numbers."""
    a, b = (a ^ (a >> 32)) & 0xFFFFFFFF, (b ^ (b >> 32)) & 0xFFFFFFFF
    return _mixed(a ^ _mixed((b + 0x5851F42D) & 0xFFFFFFFF))


def _chance(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A number in [0, 1) made of two whole numbers: 24 bits, which every type of the kernels holds."""
    return (_hash(a, b) >> 8).to(dtype) / 0x1000000
