"""Numbers of the interpreter that no float64 holds: v · e^m, two arrays, where an exponential is far from 1.

So a quotient or a logarithm of exponentials has its value wherever that is a float64, whatever its parts are. Digits
that cancel in float64 are lost here, too. An array that is near 1 stays plain, and is computed as numpy computes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from einc.ir.indices import Index
from einc.meaning.blocks import Array, Block, Pair, Rounding, union
from einc.meaning.functions import function

_FAR = 230.0  # |log| of a number that is kept as two: the product of three others is a float64


def applied(op: str, blocks: Sequence[Block], rounded: Rounding) -> Block | None:
    """The primitive of two blocks, or of one; None where numpy's own function of their arrays is meant."""
    indices = union(blocks)
    if op == "exp" and blocks[0].array.dtype.kind == "f" and rounded.scaled:
        x = blocks[0].array
        here = np.isfinite(x) & (np.abs(x) > _FAR)
        return _kept(indices, np.where(here, 1.0, rounded(np.exp(x))), np.where(here, x, 0.0)) if here.any() else None
    if (all(block.wide is None for block in blocks)
        or op not in ("add", "sub", "neg", "mul", "div", "log", "sqrt", "pow")):
        return None
    (v, m), *others = (_pair(block, indices) for block in blocks)
    w, n = others[0] if others else (v, m)
    match op:
        case "log":
            return Block(indices, rounded(np.where(v > 0, m, 0.0) + np.log(v)))
        case "neg":
            return _kept(indices, -v, m)
        case "mul" | "div":
            return _kept(indices, rounded(function(op)(v, w)), m + n if op == "mul" else m - n)
        case "sqrt":
            return _kept(indices, rounded(np.sqrt(v)), m / 2)
        case "pow":
            return _kept(indices, rounded(function(op)(v, w)), m * w) if blocks[1].wide is None else None
    scale = _finite(np.maximum(_size(v, m), _size(w, n)))
    return _kept(indices, rounded(function(op)(_at(v, m, scale), _at(w, n, scale))), scale)


def total(body: Block, bound: tuple[Index, ...], shape: tuple[int, ...], rounded: Rounding) -> Block:
    """The sum of a block over its own indices and those of `bound` that it lacks; `shape` has the extents of both."""
    indices = union((body, Block(bound, body.array)))
    v, m = (np.broadcast_to(x, shape) for x in _pair(body, indices))
    axes = tuple(indices.index(i) for i in bound)
    scale = _finite(np.max(_size(v, m), axis=axes, keepdims=True, initial=-np.inf))
    left = tuple(i for i in indices if i not in bound)
    return _kept(left, rounded(_at(v, m, scale).sum(axis=axes)), scale.squeeze(axes))


def _pair(block: Block, indices: Sequence[Index]) -> Pair:
    if block.wide is None:
        array = block.over(indices).astype(np.float64, copy=False)
        return array, np.zeros_like(array)
    v, m = (Block(block.indices, x).over(indices) for x in block.wide)
    return v, m


def _size(v: Array, m: Array) -> Array:
    """log |v e^m|, −∞ of 0."""
    return np.where(v == 0, -np.inf, m + np.log(np.abs(v)))


def _finite(scale: Array) -> Array:
    return np.where(np.isfinite(scale), scale, 0.0)


def _at(v: Array, m: Array, scale: Array) -> Array:
    """v e^m as a multiple of e^scale: in two steps, since e^(m - scale) alone may be out of the range of a small v."""
    half = np.exp((m - scale) / 2)
    return np.where(v == 0, 0.0, v * half * half)


def _kept(indices: tuple[Index, ...], v: Array, m: Array) -> Block:
    """The number in two parts, or plain where all of it is near 1; its array is what a float64 has of it."""
    v, m = np.broadcast_arrays(v, m)
    size = _size(v, m)
    plain = np.where((v == 0) | ~np.isfinite(v), v, np.sign(v) * np.exp(size))
    near = ~np.isfinite(v) | (v == 0) | (np.abs(size) <= _FAR)
    return Block(indices, plain, None if near.all() else (v, m))
