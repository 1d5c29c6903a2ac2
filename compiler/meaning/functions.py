"""The meaning of each primitive and of each fold as a function of float64 numpy arrays,
found by the name that its row gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from einc.ir.folds import FOLDS
from einc.ir.mixing import chance, hashed
from einc.ir.narrow import NARROW, Narrow
from einc.ir.primitives import PRIMITIVES
from einc.meaning.blocks import Array

Function = Callable[..., Array]


def _divide(a: Array, b: Array) -> Array:
    return np.where((a == 0) & (b == 0), 0.0, np.true_divide(a, b)) if np.any(b == 0) else np.true_divide(a, b)


def _power(a: Array, b: Array) -> Array:
    return np.power(a, b, dtype=np.float64)


def rounded(x: Array, to: Narrow) -> Array:
    """The nearest numbers of a narrow type: see `ir.narrow`."""
    inside = np.clip(x, to.low, to.high)
    _, exponents = np.frexp(inside)  # of a significand in [1/2, 1)
    step = np.ldexp(1.0, np.maximum(exponents - 1, to.least) - to.bits)
    nearest: Array = np.rint(inside / step) * step
    return nearest


# Where the language differs from numpy, or numpy has no such function.
_OWN: dict[str, Function] = {"divide": _divide, "power": _power, "hashed": hashed, "chance": chance}
_OWN |= {name: np.vectorize(getattr(math, name), otypes=[np.float64]) for name in ("erf", "erfc")}

_OWN |= {row.name: partial(rounded, to=row) for row in NARROW.values()}


@cache
def function(op: str) -> Function:
    """The function of a primitive. An n-ary one takes two arguments: what it gives for more follows from that."""
    meaning = PRIMITIVES[op].meaning
    found: Function = _OWN[meaning] if meaning in _OWN else getattr(np, meaning)
    return found


def folded(op: str, x: Array, axes: tuple[int, ...]) -> Array:
    """The fold of an array over some axes; the start of the fold's row where there is nothing."""
    row = FOLDS[op]
    if row.meaning:
        return np.asarray(getattr(np, row.meaning)(x, axis=axes, initial=row.start))
    step, kept = function(row.step), [n for n in range(x.ndim) if n not in axes]
    values = x.transpose([*kept, *axes]).reshape([*(x.shape[n] for n in kept), math.prod(x.shape[n] for n in axes)])
    if not values.shape[-1]:
        return np.full(values.shape[:-1], row.start)
    while (count := values.shape[-1]) > 1:  # in pairs: the errors of a step grow with the logarithm of their number
        pairs = step(values[..., : count - 1 : 2], values[..., 1::2])
        values = np.concatenate([pairs, values[..., count - 1 :]], axis=-1) if count % 2 else pairs
    return values[..., 0]
