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
