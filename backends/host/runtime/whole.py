"""Products of matrices of numbers of 8 bits, and such whose sums have another type than the matrices."""

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
        made = _in_32_bits(a.flatten(0, -2), b).reshape(*a.shape[:-1], b.shape[-1])
        return made.to(kind) if out is None else out.copy_(made)
    if out is None:
        out = torch.empty(*a.shape[:-1], b.shape[-1], dtype=kind, device=a.device)
    for x, y, z in zip(a, b, out):
        _whole_product(x, y, kind, z)
    return out


def _in_32_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of two matrices. torch's product of 8 bits returns what was in memory before for a depth of 1 and
    for operands whose numbers share memory: it is asked for neither."""
    if a.shape[1] < 2 or not a.shape[0] or not b.shape[1]:
        return a.to(torch.int32) @ b.to(torch.int32)
    return torch._int_mm(_unshared(a), _unshared(b))


def _unshared(x: torch.Tensor) -> torch.Tensor:
    """A matrix each number of which has its own memory, with its rows or its columns without gaps: copied where it is
    not so, or where a single row or column has a stride that means nothing."""
    (rows, columns), (down, across) = x.shape, x.stride()
    if min(rows, columns) > 1 and ((across == 1 and down >= columns) or (down == 1 and across >= rows)):
        return x
    return x.clone(memory_format=torch.contiguous_format)


def _has_dots() -> bool:
    """Whether the processor adds products of numbers of 8 bits in 32 bits, without a sum of 16 bits on the way."""
    return getattr(torch.cpu, "_is_vnni_supported", bool)()


def _product_of_codes(a: torch.Tensor, b: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """a @ b of numbers of 8 bits with exponents, in another type: where the device multiplies them, in float32."""
    if kind != torch.float32 or b.ndim != 2 or a.ndim < 2 or not a.numel() or not _has_products_of_codes(a, b):
        return torch.matmul(a.to(kind), b.to(kind))
    one = torch.ones((), device=a.device)
    rows, turned = a.flatten(0, -2).contiguous(), b.mT.contiguous().mT  # the layouts that every device takes
    made = torch._scaled_mm(rows, turned, one, one, out_dtype=torch.float32, use_fast_accum=False)
    return made.reshape(*a.shape[:-1], b.shape[-1])


def _has_products_of_codes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the device has products of such types and extents: GPUs have since their capability 8.9, of tiles of 16;
    torch's own way on a CPU is not as fast as products of float32."""
    return (a.device.type == "cuda" and torch.cuda.get_device_capability(a.device) >= (8, 9)
            and torch.float8_e4m3fn in (a.dtype, b.dtype) and a.shape[-1] % 16 == 0 and b.shape[-1] % 16 == 0)


def _in_range(a: torch.Tensor, b: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """a @ b in the type `kind`, which is that of a and b or has more range: a GPU stores its sums in it."""
    if a.dtype == kind:
        return torch.matmul(a, b)
    if a.device.type == "cuda" and b.ndim == 2 and a.ndim > 1 and hasattr(torch.ops.aten.mm, "dtype"):
        return torch.mm(a.flatten(0, -2), b, out_dtype=kind).reshape(*a.shape[:-1], b.shape[-1])
    return torch.matmul(a.to(kind), b.to(kind))
