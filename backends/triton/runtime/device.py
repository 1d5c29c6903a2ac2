"""Functions that kernels call on the device."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _read(
    pointers: tl.tensor, near: tl.tensor, inside: tl.tensor, NEAR: tl.constexpr, INSIDE: tl.constexpr
) -> tl.tensor:
    """Elements where the masks hold, 0 elsewhere; a mask that surely holds is not asked."""
    NOTHING: tl.constexpr = 0.0 if pointers.dtype.scalar.element_ty.is_floating() else 0
    if NEAR and INSIDE:
        return tl.load(pointers, mask=near & inside, other=NOTHING)
    elif NEAR:
        return tl.load(pointers, mask=near, other=NOTHING)
    elif INSIDE:
        return tl.load(pointers, mask=inside, other=NOTHING)
    else:
        return tl.load(pointers)


@triton.jit
def _moved(pages: tl.tensor, at: tl.tensor, inside: tl.tensor, PAGE: tl.constexpr, OFFSET: tl.constexpr) -> tl.tensor:
    """How far positions lie from where they would in a row, if they lie in pages."""
    if PAGE:
        return (tl.load(pages + at // PAGE, mask=inside, other=0).to(OFFSET) - at // PAGE) * PAGE
    else:
        return tl.zeros_like(at).to(OFFSET)


@triton.jit
def _in_bands(
    program: tl.tensor, tiles: tl.tensor, others: tl.tensor, bands: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """Which tile of rows, and which of `others`, a program has. Programs go over the others band by band, of which each
    has nearly as many, and within a band over all of its others for one tile of rows before the next."""
    band = ((program // tiles + 1) * bands - 1) // others
    first = others * band // bands
    wide = others * (band + 1) // bands - first
    place = program - tiles * first
    return place // wide, first + place % wide


@triton.jit
def _deep(
    a: tl.tensor, a_step: tl.tensor, a_in: tl.tensor, b: tl.tensor, b_step: tl.tensor, b_in: tl.tensor,
    depth: tl.tensor, BLOCK: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
) -> tl.tensor:
    """The product of two stored matrices, each with the axis that is summed last, in steps along that axis."""
    out = tl.zeros((a.shape[0], b.shape[0]), WIDE)
    for start in range(0, depth, BLOCK):
        inside = (start + tl.arange(0, BLOCK) < depth)[None, :]
        x = tl.load(a + tl.cast(start, tl.int64) * a_step, mask=a_in & inside, other=0)
        y = tl.load(b + tl.cast(start, tl.int64) * b_step, mask=b_in & inside, other=0)
        out = tl.dot(x, tl.trans(y), out, input_precision=PRECISION, out_dtype=WIDE)
    return out


@triton.jit
def _of_bytes(codes: tl.tensor, at: tl.tensor, EACH: tl.constexpr) -> tl.tensor:
    """The whole numbers of 8 / EACH bits that stand at the places `at`, each of a byte that has EACH of them."""
    SIGN: tl.constexpr = 1 << (8 // EACH - 1)
    return (((codes >> tl.cast(at % EACH * (8 // EACH), tl.uint8)) & (2 * SIGN - 1)) ^ SIGN).to(tl.int8) - SIGN


@triton.jit
def _both(codes: tl.tensor, inside: tl.tensor, ODD: tl.constexpr) -> tl.tensor:
    """The whole numbers of 4 bits of bytes that have two each, side by side. Of an odd number of them the last byte has
    one that is not there."""
    made = tl.interleave(((codes & 15) ^ 8).to(tl.int8) - 8, ((codes >> 4) ^ 8).to(tl.int8) - 8)
    if ODD:
        made = tl.where(inside, made, 0)
    return made


@triton.jit
def _few_bits(
    a: tl.tensor, b: tl.tensor, DTYPE: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr
) -> tl.tensor:
    """The product of two matrices that are stored in one type of few bits, by the instruction for this type: sums of
    whole numbers are exact. For data of float64, and where a row is too short for it, by that for the data's type."""
    if tl.float64 == WIDE or a.shape[1] < 32:
        return tl.dot(a.to(DTYPE), b.to(DTYPE), input_precision=PRECISION, out_dtype=WIDE)
    elif a.dtype == tl.int8:
        return tl.dot(a, b, out_dtype=tl.int32).to(WIDE)
    else:
        return tl.dot(a, b, out_dtype=WIDE)


@triton.jit
def _tally(total: tl.tensor, at: tl.tensor, count: tl.tensor, index: tl.tensor, x: tl.tensor) -> tl.tensor:
    """Each x of a tile added to the element that its index names: a sum of the tile for
    each between the first and the last."""
    low = tl.maximum(tl.min(index), 0).to(tl.int32)
    high = tl.minimum(tl.max(index), count - 1).to(tl.int32)
    for n in range(low, high + 1):
        total += tl.where(at == n, tl.sum(tl.where(index == n, x, 0.0)), 0.0)
    return total


@triton.jit
def _tally_rows(total: tl.tensor, at: tl.tensor, count: tl.tensor, index: tl.tensor, x: tl.tensor) -> tl.tensor:
    """Sums the numbers of each row by the places that `index` gives, adds the sums to `total`, and returns it."""
    low = tl.maximum(tl.min(index), 0).to(tl.int32)
    high = tl.minimum(tl.max(index), count - 1).to(tl.int32)
    for n in range(low, high + 1):
        total += tl.where(at[None, :] == n, tl.sum(tl.where(index == n, x, 0.0), 1)[:, None], 0.0)
    return total


@triton.jit
def _floordiv(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """The whole number below a / b; Triton's own // goes towards 0."""
    quotient = a // b
    rest = a - quotient * b
    return quotient - tl.where((rest != 0) & ((rest < 0) != (b < 0)), 1, 0)


@triton.jit
def _mod(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """What a is beyond a multiple of b, of the sign of b."""
    return a - _floordiv(a, b) * b


@triton.jit
def _beyond(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """What a is beyond a multiple of b, of the sign of b, for real numbers, infinite ones too."""
    rest = a % b  # of the sign of a
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@triton.jit
def _power(x: tl.tensor, y: tl.tensor) -> tl.tensor:
    """x to the power of y: 1 for y = 0, signed for a negative x and a whole y."""
    size = tl.where(y == 0, 1.0, tl.exp2(y * tl.log2(tl.abs(x))))
    odd = y - 2 * tl.floor(y * 0.5) == 1
    whole = tl.floor(y) == y
    return tl.where(x < 0, tl.where(whole, tl.where(odd, -size, size), float("nan")), size)


@triton.jit
def _mixed(x: tl.tensor) -> tl.tensor:
    """32 bits of which each depends on every bit of x, which has 32 bits without a sign."""
    x = (x ^ (x >> 16)) * 0x21F0AAAD
    x = (x ^ (x >> 15)) * 0x735A2D97
    return x ^ (x >> 15)


@triton.jit
def _short(x: tl.tensor) -> tl.tensor:
    """A whole number as 32 bits without a sign, the upper half of a long one folded onto the lower."""
    x = tl.cast(x, tl.int64)
    return (x ^ (x >> 32)).to(tl.uint32)


@triton.jit
def _hash(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """32 bits made of two whole numbers."""
    return _mixed(_short(a) ^ _mixed(_short(b) + 0x5851F42D)).to(tl.int64)


@triton.jit
def _chance(a: tl.tensor, b: tl.tensor, DTYPE: tl.constexpr) -> tl.tensor:
    """A number in [0, 1) made of two whole numbers: 24 bits, which every type of the kernels holds."""
    return (_mixed(_short(a) ^ _mixed(_short(b) + 0x5851F42D)) >> 8).to(DTYPE) * (1 / 0x1000000)


@triton.jit
def _square(x: tl.tensor) -> tl.tensor:
    return x * x


@triton.jit
def _tanh(x: tl.tensor) -> tl.tensor:
    """By one exponential, which cannot overflow; near 0, where 1 - e would lose its digits, by a continued fraction."""
    size = tl.abs(x)
    e = tl.exp(-2.0 * size)
    square = x * x
    above = tl.where(size < 0.25, size * (945.0 + square * (105.0 + square)), 1.0 - e)
    y = above / tl.where(size < 0.25, 945.0 + square * (420.0 + 15.0 * square), 1.0 + e)
    return tl.where(x < 0, -y, y)


@triton.jit
def _tangent(x: tl.tensor, DTYPE: tl.constexpr) -> tl.tensor:
    """The hyperbolic tangent of x / (2 log2 e). For data of fewer bits than float32 it is right to the last digit of a
    1 in float32: 1 - 2 / (1 + e), the quotient by the reciprocal of a root, which asks for no range."""
    if DTYPE.primitive_bitwidth < 32:
        root = tl.rsqrt(1.0 + tl.exp2(x))
        return 1.0 - 2.0 * (root * root)
    else:
        return _tanh(x * 0.34657359027997264)


@triton.jit
def _times(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return a * b


@triton.jit
def _larger(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _smaller(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _count(rising: tl.tensor, step: tl.tensor, n: tl.tensor, key: tl.tensor) -> tl.tensor:
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


@triton.jit
def _counts(rising: tl.tensor, step: tl.tensor, n: tl.tensor, key: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """How many elements of each of several rising lists are below the key, halving what
    is left of every list at a time."""
    low = tl.zeros_like(inside.to(tl.int64))
    high = tl.where(inside, low + n, low)
    while tl.max(high - low, 0) > 0:
        at = (low + high) // 2
        below = tl.load(rising + at * step, mask=low < high, other=key) < key
        low, high = tl.where(below, at + 1, low), tl.where(below, high, at)
    return low


@triton.jit
def _rounded(
    x: tl.tensor, BITS: tl.constexpr, LEAST: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr
) -> tl.tensor:
    """The nearest number with so many binary digits after the leading one, the even one of two; the step does not
    shrink below the exponent LEAST. A sum with a number whose last digit is worth a step drops what is smaller."""
    x = tl.where(x > HIGH, HIGH, tl.where(x < LOW, LOW, x))
    if x.dtype == tl.float64:
        binade = (x.to(tl.int64, bitcast=True) & 0x7FF0000000000000).to(tl.float64, bitcast=True)
        anchor = tl.maximum(binade, 2.0**LEAST) * (1.5 * 2.0 ** (52 - BITS))
    else:
        binade = (x.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
        anchor = tl.maximum(binade, 2.0**LEAST) * (1.5 * 2.0 ** (23 - BITS))
    y = x + anchor - anchor
    return tl.where(y == 0, x * 0.0, y)  # of the sign of x
