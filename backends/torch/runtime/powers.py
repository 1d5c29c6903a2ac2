"""Exponents of two whose power is no normal number."""

from __future__ import annotations

import math

import torch


def _normal(x: torch.Tensor) -> torch.Tensor:
    """An exponent of two, in place; -inf where the power is no normal number: arithmetic
    on such takes many times as long."""
    least = math.log2(torch.finfo(x.dtype).tiny)
    return torch.threshold_(x, least, -math.inf) if x.device.type == "cpu" else x
