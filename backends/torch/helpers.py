"""Helpers of emitted modules, as text."""

HELPERS = {
    "_pieces": '''
def _pieces(spans, length):
    """Tiles of at most this length that hold every position of the spans once, in their order."""
    done = 0
    for low, high in sorted(spans):
        for first in range(max(low, done), high, length):
            yield first, min(first + length, high)
        done = max(done, high)
''',
    "_into": '''
def _into(memory, x):
    """A value in the type of the memory, which every tile uses again."""
    return x if x.dtype == memory.dtype else memory[: x.numel()].view(x.shape).copy_(x)
''',
    "_columns": '''
def _columns(memory, a, b, out=None):
    """a @ b in the type of a; b in parts that stay near the processor, where they are widened and few rows meet many at once."""
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
    room = max(1, memory.numel() // max(1, depth)) if a.dtype != b.dtype else 2**14 if a.dtype == memory.dtype else 2**16
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
''',
    "_has_tiles": '''
def _has_tiles():
    """Whether the processor multiplies tiles of bfloat16, many times as fast as float32."""
    return getattr(torch.cpu, "_is_amx_tile_supported", bool)()
''',
    "_twice": '''
def _twice(x, b, out):
    """x @ b of a narrow b: a narrow product, and another of what its rounding lost, with what x loses as rows of its own."""
    rows, high = len(x), x.to(b.dtype)
    both = torch.cat([high, (x - high).to(b.dtype)])
    for at in range(0, b.shape[1], 4096):
        y, z = b[:, at : at + 4096], out[:, at : at + 4096]
        some = both @ y
        z.copy_(some[:rows]).add_(some[rows:]).add_(torch.addmm(some[:rows], high, y, beta=-1))
''',
    "_shares": '''
def _shares(memory, a, b):
    """a @ b where b is long: few rows meet shares of it at once, and these sums are added in the wide type."""
    rows, count, width = a.shape[-2], *b.shape[-2:]
    if rows > 16 or a.device.type != "cpu" or (a.dtype == b.dtype == memory.dtype and a.ndim > 2 and len(a) > 1):
        return torch.matmul(a, b.to(a.dtype))
    if a.ndim == 2:
        return _shares(memory, a[None], b[None])[0]
    if a.ndim > 3:
        return torch.stack([_shares(memory, *each) for each in zip(a, b)]) if len(a) else memory.new_zeros(*a.shape[:-1], width)
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
''',
    "_amax": '''
def _amax(x, dim):
    """The maximum over an axis that may be empty: then -inf."""
    some = math.prod(x.shape[d] for d in (dim if isinstance(dim, tuple) else (dim,)))
    return x.amax(dim) if some else x.sum(dim) - math.inf
''',
    "_amin": '''
def _amin(x, dim):
    """The minimum over an axis that may be empty: then inf."""
    some = math.prod(x.shape[d] for d in (dim if isinstance(dim, tuple) else (dim,)))
    return x.amin(dim) if some else x.sum(dim) + math.inf
''',
    "_tally": '''
def _tally(total, index, x):
    """Each x added to the element of the last axis that its index names, if any does: the same bits in every run."""
    rows, count = total.shape[:-1], total.shape[-1]
    index = torch.where((index >= 0) & (index < count), index, count)
    summed = x.new_zeros(rows.numel(), count + 1)
    if index.ndim > 1:  # rows that name other elements are one row
        first = torch.arange(rows.numel(), device=x.device).view(*rows, 1) * (count + 1)
        index, summed, x = (index + first).flatten(), summed.view(1, -1), x.flatten()
    for row, values in zip(summed, x.reshape(len(summed), -1)):
        if x.device.type == "cpu":
            row.index_add_(0, index, values)
        else:
            row.index_put_((index,), values, accumulate=True)  # which sorts first
    return total.add_(summed.view(*rows, count + 1)[..., :count])
''',
    "_upto": '''
def _upto(x, dim, shift, extent, start):
    """Running values: element n is that of n + shift; before the first one the start, past the last one the last."""
    first = x.new_full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), start)
    at = (torch.arange(extent, device=x.device) + shift + 1).clamp(0, x.shape[dim])
    return torch.cat((first, x), dim).index_select(dim, at)
''',
    "_from": '''
def _from(x, dim, shift, extent, start):
    """Values that run backwards: element n is that of n + shift; past the last one the start, before the first one the first."""
    last = x.new_full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), start)
    at = (torch.arange(extent, device=x.device) + shift).clamp(0, x.shape[dim])
    return torch.cat((x, last), dim).index_select(dim, at)
''',
    "_mixed": '''
def _mixed(x):
    """32 bits of which each depends on every bit of x; no product leaves the 63 bits of a whole number."""
    x = x ^ (x >> 16)
    x *= 0x21F0AAAD
    x &= 0xFFFFFFFF
    x ^= x >> 15
    x *= 0x735A2D97
    x &= 0xFFFFFFFF
    x ^= x >> 15
    return x
''',
    "_hash": '''
def _hash(a, b):
    """32 bits made of two whole numbers."""
    a, b = (a ^ (a >> 32)) & 0xFFFFFFFF, (b ^ (b >> 32)) & 0xFFFFFFFF
    return _mixed(a ^ _mixed((b + 0x5851F42D) & 0xFFFFFFFF))
''',
    "_chance": '''
def _chance(a, b, dtype):
    """A number in [0, 1) made of two whole numbers: 24 bits, which every type of the kernels holds."""
    return (_hash(a, b) >> 8).to(dtype) / 0x1000000
''',
}
