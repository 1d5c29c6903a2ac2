"""Products of matrices in parts that stay near the processor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch


def _pieces(spans: Iterable[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """Tiles of at most this length that hold every position of the spans once, in their order."""
    done = 0
    for low, high in sorted(spans):
        for first in range(max(low, done), high, length):
            yield first, min(first + length, high)
        done = max(done, high)


def _into(memory: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A value in the type of the memory, which every tile uses again."""
    return x if x.dtype == memory.dtype else memory[: x.numel()].view(x.shape).copy_(x)


def _columns(
    memory: torch.Tensor, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """a @ b in the type of a; b in parts that stay near the processor, where they are
    widened and few rows meet many at once."""
    rows, depth, count = a.shape[-2], *b.shape[-2:]
    if out is None:
        out = a.new_empty(*a.shape[:-1], count)
    few = rows <= 16 and count >= 2048 and a.device.type == "cpu"
    if (a.dtype == b.dtype and not few) or a.device.type != "cpu":
        return torch.matmul(a, b.to(a.dtype), out=out)
    if a.ndim != 3:
        for each in [(a[None], b[None], out[None])] if a.ndim == 2 else zip(a, b, out):
            _columns(memory, *each)
        return out
    if a.dtype == torch.float32 and b.dtype == torch.bfloat16 and rows > 16 and depth >= 256 and _has_tiles():
        for each in zip(a, b, out):
            _twice(*each)
        return out
    room = (max(1, memory.numel() // max(1, depth)) if a.dtype != b.dtype else 2**14 if a.dtype == memory.dtype
            else 2**16)
    batch, length = max(1, room // max(1, count)), min(room, max(1, count))
    for n in range(0, len(a), batch):
        x = a[n : n + batch]
        for at in range(0, count, length):
            y, z = b[n : n + batch, :, at : at + length], out[n : n + batch, :, at : at + length]
            if y.dtype != x.dtype:
                y = _into(memory, y.mT).mT if y.numel() <= memory.numel() else y.to(x.dtype)
            parts = y.shape[2] // 512 if few and len(x) == 1 and x.dtype == memory.dtype else 0
            if parts > 1:
                last = parts * 512
                some = torch.bmm(x.expand(parts, -1, -1), y[0, :, :last].unflatten(1, (parts, 512)).transpose(0, 1))
                z[0, :, :last].unflatten(1, (parts, 512)).copy_(some.transpose(0, 1))
                y, z = y[:, :, last:], z[:, :, last:]
            if x.dtype != memory.dtype:
                z.copy_(torch.bmm(y.mT, x.mT).mT)
            elif z.is_contiguous():
                torch.bmm(x, y, out=z)
            else:
                z.copy_(torch.bmm(x, y))
    return out


def _has_tiles() -> bool:
    """Whether the processor multiplies tiles of bfloat16, many times as fast as float32."""
    return getattr(torch.cpu, "_is_amx_tile_supported", bool)()


def _twice(x: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """x @ b of a narrow b: a narrow product, and another of what its rounding lost, with
    what x loses as rows of its own."""
    rows, high = len(x), x.to(b.dtype)
    both = torch.cat([high, (x - high).to(b.dtype)])
    for at in range(0, b.shape[1], 4096):
        y, z = b[:, at : at + 4096], out[:, at : at + 4096]
        some = both @ y
        z.copy_(some[:rows]).add_(some[rows:]).add_(torch.addmm(some[:rows], high, y, beta=-1))


def _shares(memory: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b where b is long: few rows meet shares of it at once, and these sums are added in the wide type."""
    rows, count, width = a.shape[-2], *b.shape[-2:]
    if rows > 16 or a.device.type != "cpu" or (a.dtype == b.dtype == memory.dtype and a.ndim > 2 and len(a) > 1):
        return torch.matmul(a, b.to(a.dtype))
    if a.ndim == 2:
        return _shares(memory, a[None], b[None])[0]
    if a.ndim > 3:
        return (torch.stack([_shares(memory, *each) for each in zip(a, b)]) if len(a)
                else memory.new_zeros(*a.shape[:-1], width))
    out = memory.new_empty(len(a), rows, width)
    batch = memory.numel() // max(1, count * width)
    if batch and b.dtype != memory.dtype:
        for n in range(0, len(a), batch):
            torch.bmm(a[n : n + batch].to(memory.dtype), _into(memory, b[n : n + batch]), out=out[n : n + batch])
        return out
    parts = max(1, count // 2048)
    last, shape = parts * (count // parts), (parts, count // parts)
    for x, y, z in zip(a, b.to(a.dtype), out):
        some = torch.bmm(x[:, :last].unflatten(1, shape).transpose(0, 1), y[:last].unflatten(0, shape))
        torch.sum(some, 0, dtype=memory.dtype, out=z)
        if last < count:
            z += x[:, last:] @ y[last:]
    return out
