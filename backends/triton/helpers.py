"""Helpers of emitted modules, as text: device functions, and what the host needs to choose a tile and to start a kernel."""

HELPERS = {
    "_read": '''
@triton.jit
def _read(pointers, near, inside, NEAR: tl.constexpr, INSIDE: tl.constexpr):
    """Elements where the masks hold, 0 elsewhere; a mask that surely holds is not asked."""
    if NEAR and INSIDE:
        return tl.load(pointers, mask=near & inside, other=0)
    elif NEAR:
        return tl.load(pointers, mask=near, other=0)
    elif INSIDE:
        return tl.load(pointers, mask=inside, other=0)
    else:
        return tl.load(pointers)
''',
    "_moved": '''
@triton.jit
def _moved(pages, at, inside, PAGE: tl.constexpr, OFFSET: tl.constexpr):
    """How far positions lie from where they would in a row, if they lie in pages."""
    if PAGE:
        return (tl.load(pages + at // PAGE, mask=inside, other=0).to(OFFSET) - at // PAGE) * PAGE
    else:
        return tl.zeros_like(at).to(OFFSET)
''',
    "_deep": '''
@triton.jit
def _deep(a, a_step, a_in, b, b_step, b_in, depth, BLOCK: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr):
    """The product of two stored matrices, each with the axis that is summed last, in steps along that axis."""
    out = tl.zeros((a.shape[0], b.shape[0]), WIDE)
    for start in range(0, depth, BLOCK):
        inside = (start + tl.arange(0, BLOCK) < depth)[None, :]
        x = tl.load(a + tl.cast(start, tl.int64) * a_step, mask=a_in & inside, other=0)
        y = tl.load(b + tl.cast(start, tl.int64) * b_step, mask=b_in & inside, other=0)
        out = tl.dot(x, tl.trans(y), out, input_precision=PRECISION, out_dtype=WIDE)
    return out
''',
    "_tally": '''
@triton.jit
def _tally(total, at, count, index, x):
    """Each x of a tile added to the element that its index names: a sum of the tile for each between the first and the last."""
    low = tl.maximum(tl.min(index), 0).to(tl.int32)
    high = tl.minimum(tl.max(index), count - 1).to(tl.int32)
    for n in range(low, high + 1):
        total += tl.where(at == n, tl.sum(tl.where(index == n, x, 0.0)), 0.0)
    return total
''',
    "_tally_rows": '''
@triton.jit
def _tally_rows(total, at, count, index, x):
    """The same for each row of a tile."""
    low = tl.maximum(tl.min(index), 0).to(tl.int32)
    high = tl.minimum(tl.max(index), count - 1).to(tl.int32)
    for n in range(low, high + 1):
        total += tl.where(at[None, :] == n, tl.sum(tl.where(index == n, x, 0.0), 1)[:, None], 0.0)
    return total
''',
    "_floordiv": '''
@triton.jit
def _floordiv(a, b):
    """The whole number below a / b; Triton's own // goes towards 0."""
    quotient = a // b
    rest = a - quotient * b
    return quotient - tl.where((rest != 0) & ((rest < 0) != (b < 0)), 1, 0)
''',
    "_mod": '''
@triton.jit
def _mod(a, b):
    """What a is beyond a multiple of b, of the sign of b."""
    return a - _floordiv(a, b) * b
''',
    "_beyond": '''
@triton.jit
def _beyond(a, b):
    """What a is beyond a multiple of b, of the sign of b, for real numbers."""
    return a - tl.floor(a / b) * b
''',
    "_power": '''
@triton.jit
def _power(x, y):
    """x to the power of y: 1 for y = 0, signed for a negative x and a whole y."""
    size = tl.where(y == 0, 1.0, tl.exp2(y * tl.log2(tl.abs(x))))
    odd = y - 2 * tl.floor(y * 0.5) == 1
    whole = tl.floor(y) == y
    return tl.where(x < 0, tl.where(whole, tl.where(odd, -size, size), float("nan")), size)
''',
    "_mixed": '''
@triton.jit
def _mixed(x):
    """32 bits of which each depends on every bit of x, which has 32 bits without a sign."""
    x = (x ^ (x >> 16)) * 0x21F0AAAD
    x = (x ^ (x >> 15)) * 0x735A2D97
    return x ^ (x >> 15)
''',
    "_short": '''
@triton.jit
def _short(x):
    """A whole number as 32 bits without a sign, the upper half of a long one folded onto the lower."""
    x = tl.cast(x, tl.int64)
    return (x ^ (x >> 32)).to(tl.uint32)
''',
    "_hash": '''
@triton.jit
def _hash(a, b):
    """32 bits made of two whole numbers."""
    return _mixed(_short(a) ^ _mixed(_short(b) + 0x5851F42D)).to(tl.int64)
''',
    "_chance": '''
@triton.jit
def _chance(a, b, DTYPE: tl.constexpr):
    """A number in [0, 1) made of two whole numbers: 24 bits, which every type of the kernels holds."""
    return (_mixed(_short(a) ^ _mixed(_short(b) + 0x5851F42D)) >> 8).to(DTYPE) * (1 / 0x1000000)
''',
    "_square": '''
@triton.jit
def _square(x):
    return x * x
''',
    "_tanh": '''
@triton.jit
def _tanh(x):
    """By one exponential, which cannot overflow; near 0, where 1 - e would lose its digits, by a continued fraction."""
    size = tl.abs(x)
    e = tl.exp(-2.0 * size)
    square = x * x
    above = tl.where(size < 0.25, size * (945.0 + square * (105.0 + square)), 1.0 - e)
    y = above / tl.where(size < 0.25, 945.0 + square * (420.0 + 15.0 * square), 1.0 + e)
    return tl.where(x < 0, -y, y)
''',
    "_times": '''
@triton.jit
def _times(a, b):
    return a * b
''',
    "_larger": '''
@triton.jit
def _larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "_smaller": '''
@triton.jit
def _smaller(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "_count": '''
@triton.jit
def _count(rising, step, n, key):
    """How many of the n elements of a rising list are below the key: a search that asks 128 places at a time."""
    low = n * 0
    high = n
    while low < high:
        stride = (high - low + 127) // 128
        at = low + (tl.arange(0, 128) + 1) * stride - 1
        below = tl.load(rising + at * step, mask=at < high, other=0) < key
        passed = tl.sum((below & (at < high)).to(tl.int32), 0)
        low += passed * stride
        high = tl.minimum(high, low + stride - 1)
    return low
''',
    "_counts": '''
@triton.jit
def _counts(rising, step, n, key, inside):
    """How many elements of each of several rising lists are below the key, halving what is left of every list at a time."""
    low = tl.zeros_like(inside.to(tl.int64))
    high = tl.where(inside, low + n, low)
    while tl.max(high - low, 0) > 0:
        at = (low + high) // 2
        below = tl.load(rising + at * step, mask=low < high, other=key) < key
        low, high = tl.where(below, at + 1, low), tl.where(below, high, at)
    return low
''',
    "_pages": '''
def _pages(*laid):
    """The memory of rows that a kernel passes over; and, if all lie in pages, which these are, and how many rows are in one."""
    table = laid[0].table
    if table is not None and all(rows.table is table for rows in laid):
        return *(rows.rows for rows in laid), table.numbers(laid[0].rows.device), table.pool.page
    return *(rows.whole() for rows in laid), None, 0
''',
    "_padded": '''
def _padded(n, least=1, most=2**30):
    """A power of two that holds n elements, within bounds."""
    return min(most, max(least, 1 << max(0, n - 1).bit_length()))
''',
    "_tl_type": '''
def _tl_type(dtype):
    """The name that Triton has for an element type."""
    known = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32, torch.float64: tl.float64}
    if dtype not in known:
        raise TypeError(f"{dtype} is no element type of these kernels: give float16, bfloat16, float32 or float64")
    return known[dtype]
''',
    "_offset": '''
def _offset(*tensors):
    """The type of storage offsets: 64 bits where some tensor spans 2**31 elements."""
    spans = (sum((n - 1) * step for n, step in zip(x.shape, x.stride())) for x in tensors if x.numel())
    return tl.int64 if max(spans, default=0) >= 2**31 - 1 else tl.int32
''',
    "_precision": '''
def _precision(device):
    """How products of float32 are formed: in three passes of tf32, which keep 21 bits, or in one where torch allows that."""
    if torch.version.hip or device.type != "cuda":
        return "ieee"
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "tf32x3"
''',
    "_twofold": '''
def _twofold(dtype, more):
    """How much more room a product takes than its operands: those of float32 are formed of two parts beside each other."""
    return 1 if dtype.itemsize < 4 else more
''',
    "_spread": '''
def _spread(rows, warps):
    """Rows of a product's operand that all warps hold together where rows are too few for each to have its own 16, as compiled
    kernels show: every warp has them, if not all the time."""
    return 5.6 * warps if rows < 16 * warps else 0
''',
    "_ready": '''
def _ready(device, dtype):
    """Kernels run on a GPU, or on the CPU in Triton's interpreter; not every GPU has every type."""
    if device.type == "cpu" and not triton.knobs.runtime.interpret:
        raise RuntimeError(
            "the tensors are on the CPU, where these kernels do not run: move them to a GPU, set TRITON_INTERPRET=1 before "
            "triton is imported, or compile for the torch back end")
    if device.type == "cuda" and not torch.version.hip and dtype == torch.bfloat16:
        major, minor = torch.cuda.get_device_capability(device)
        if major < 8:
            raise TypeError(f"bfloat16 needs compute capability 8.0 and this GPU has {major}.{minor}: give float16 or float32")
''',
    "_PRODUCTS": '''
# Tiles in the order in which they are tried: rows, columns, warps, stages.
_PRODUCTS = (
    (128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 3), (64, 64, 4, 2), (128, 32, 8, 3), (128, 32, 8, 2),
    (64, 32, 4, 2), (64, 32, 8, 2), (32, 64, 4, 2), (32, 32, 4, 2), (32, 32, 8, 2), (16, 64, 4, 3), (16, 64, 4, 2), (16, 32, 4, 2),
    (16, 16, 4, 2), (16, 16, 8, 1),
)
''',
    "_SUMS": '''
# Tiles of kernels without products of matrices: rows, columns, warps, stages.
_SUMS = (
    (32, 64, 4, 2), (16, 128, 4, 2), (8, 256, 4, 2), (4, 512, 4, 2), (1, 2048, 8, 2), (1, 1024, 4, 2), (1, 256, 4, 2),
    (1, 64, 4, 1), (1, 16, 4, 1),
)
''',
    "_POINTS": '''
# Tiles of kernels that compute point by point: elements, 1, warps, stages.
_POINTS = ((1024, 1, 4, 1), (256, 1, 4, 1), (64, 1, 4, 1), (16, 1, 4, 1), (1, 1, 4, 1))
''',
    "_tile": '''
TILES = {}  # (kernel, rows, columns: powers of two) -> rows, columns, warps, stages of a tile: what tuning found


def _fitting(shapes, rows, columns, device, registers, shared):
    """The tiles that are not much larger than the data and fit the registers and the shared memory of the device."""
    room, least = _room(device), shapes[-1]
    for r, c, warps, stages in shapes:
        c = min(c, _padded(columns, least[1]))
        numbers = _numbers(device) - (c // 4 if c > 32 else 0)  # longer columns have more addresses and masks
        if r <= _padded(rows, least[0]) and registers(r, c, warps) <= warps * 32 * numbers and shared(r, c, stages) <= room:
            yield r, c, warps, stages


def _tile(name, shapes, rows, columns, device, registers, shared):
    """Rows and columns of a program's tile, its warps and the stages of its pipeline."""
    tuned = TILES.get((name, _padded(rows), _padded(columns)))
    if tuned or (tuned := next(_fitting(shapes, rows, columns, device, registers, shared), None)):
        return tuned
    for least in reversed(shapes):  # slow, for some registers find no place
        if shared(least[0], least[1], least[3]) <= _room(device) and registers(*least[:3]) < 2**20:
            return least
    r, c, warps, stages = shapes[-1]
    raise ValueError(
        f"no tile of {name} fits: {r} x {c} holds {registers(r, c, warps):.0f} numbers and {shared(r, c, stages):.0f} bytes of "
        f"shared memory; a program may hold {2**20} and {_room(device)}. An axis that a tile holds whole is too long: compile for "
        f"the torch back end, or cut the axis")


def _numbers(device):
    """What a thread's 255 registers hold beside addresses and masks, as compiled kernels show. Before Hopper the operands of
    a product stand in registers, too."""
    before = device.type == "cuda" and not torch.version.hip and torch.cuda.get_device_capability(device)[0] < 9
    return 120 if before else 178


def _room(device):
    """Bytes of shared memory that a program may have."""
    if device.type != "cuda":
        return 2**40  # Triton's interpreter has no bound
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin
''',
    "_parts": '''
def _parts(programs, tiles, device, uneven=False):
    """How many programs share the pass of one tile over so many tiles: the fewest of those that are done first.

    Processors take programs in rounds. A program takes the time of its share of the tiles, and of 2 to begin and to end; joining
    shares takes that of 4, and of half a tile for each. Rounds of uneven programs run into each other.
    """
    if device.type != "cuda":
        return 1
    processors = torch.cuda.get_device_properties(device).multi_processor_count

    def time(n):
        rounds = max(1, programs * n / processors) if uneven else -(-programs * n // processors)
        return rounds * (-(-tiles // n) + 2) + (4 + n / 2 if n > 1 else 0)

    return min(range(1, max(1, min(tiles, 64, 8 * processors // programs)) + 1), key=time)
''',
}
