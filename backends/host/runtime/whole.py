"""Products of matrices of whole numbers of 8 bits."""

from __future__ import annotations

import torch


def _whole_product(
    a: torch.Tensor, b: torch.Tensor, kind: torch.dtype, out: torch.Tensor | None = None
) -> torch.Tensor:
    """a @ b of whole numbers of 8 bits in another type; on processors with an instruction for sums of such products
    these are formed in 32 bits, which hold them: 2^14 times fewer than 2^17 numbers are below 2^31."""
    if a.device.type != "cpu" or a.ndim < 2 or a.shape[-1] >= 2**17 or not _has_dots():
        return torch.matmul(a.to(kind), b.to(kind), out=out)
    if b.ndim == 2:
        made = torch._int_mm(a.flatten(0, -2), b).reshape(*a.shape[:-1], b.shape[-1])
        return made.to(kind) if out is None else out.copy_(made)
    if out is None:
        out = torch.empty(*a.shape[:-1], b.shape[-1], dtype=kind, device=a.device)
    for x, y, z in zip(a, b, out):
        _whole_product(x, y, kind, z)
    return out


def _has_dots() -> bool:
    """Whether the processor adds products of numbers of 8 bits in 32 bits, without a sum of 16 bits on the way."""
    return getattr(torch.cpu, "_is_vnni_supported", bool)()
