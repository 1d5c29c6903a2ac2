"""Rounding to types of few bits."""

from __future__ import annotations

import torch


def _rounded(x: torch.Tensor, bits: int, least: int, low: float, high: float) -> torch.Tensor:
    """The nearest numbers with so many binary digits after the leading one, the even one of two; the step does not
    shrink below the exponent `least`. What lies beyond the ends becomes the nearer end.
    """
    x = x.clamp(low, high)
    if bits == least:
        return x.round()
    narrow = {(3, -6): torch.float8_e4m3fn, (2, -14): torch.float8_e5m2}.get((bits, least))
    if narrow is not None and x.dtype != torch.float64:  # which would be rounded to float32 on the way
        return x.to(narrow).to(x.dtype)
    exponents = torch.frexp(x if x.dtype in (torch.float32, torch.float64) else x.float())[1]
    step = torch.ldexp(torch.ones_like(x), (exponents - 1).clamp(min=least) - bits)
    return torch.round(x / step) * step
