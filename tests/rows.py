"""What the tests of primitives and of folds share: terms of rows in numpy, random
arguments, programs by both back ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from helpers import Array, arrays, assert_close, called, cut, meaning, tensors
from triton_modes import tiled

from einc.backends.torch.load import load
from einc.driver import front
from einc.ir.primitives import PRIMITIVES, Primitive
from einc.ir.programs import TypedProgram
from einc.ir.terms import Apply, Const, Read, Term, Where
from einc.meaning.functions import function

TILES = {"_PRODUCTS": (16, 16, 4, 1), "_SUMS": (4, 4, 4, 1), "_POINTS": (32, 1, 4, 1)}


def computed(term: Term, by: Mapping[str, Array]) -> Array:
    """A term of a row at arrays for its variables."""
    match term:
        case Const(value):
            return np.asarray(float(value))
        case Read(name, ()):
            return by[name]
        case Apply(op, args):
            return applied(op, *(computed(a, by) for a in args))
        case Where(condition, then):
            return np.where(computed(condition, by), computed(then, by), 0.0)
    raise AssertionError(term)


def applied(op: str, *args: Array) -> Array:
    """A primitive at arrays; an n-ary one from left to right."""
    with np.errstate(all="ignore"):
        found = function(op)(*args[:2])
        for other in args[2:]:
            found = function(op)(found, other)
        return np.asarray(found)


def points(row: Primitive, count: int = 400, least: float = 1e-12, most: float = 1e3) -> Iterator[Array]:
    """Arguments of a row, of any magnitude and both signs, in its domain; the first are equal to each other."""
    random = np.random.default_rng(len(row.name))
    low, high = row.domain
    for n in range(row.arity or 2):
        x = np.exp(random.uniform(math.log(least), math.log(most), count)) * random.choice([-1.0, 1.0], count)
        x = np.where((x < low) | (x > high), np.abs(x), x)
        x[:4] = (1.0, 0.5, 2.0, 3.0)
        yield np.round(np.abs(x) * 10) if row.whole else x + (n if row.name == "mod" else 0)


def agrees(program: TypedProgram, sizes: Mapping[str, int], bound: float = 1e-12, backend: str = "torch") -> str:
    """The emitted file in float64 against the interpreter, in the tiles of the sizes and
    in small ones; the file's text."""
    plan, given = front.plan(program, front.choices(False, False, backend)), arrays(program, sizes, {})
    text, want = front.emit(plan, backend), meaning(program, given, sizes)
    small = (tiled(text, plan.name, lambda kind, *_: TILES[kind]) if backend == "triton"
             else load(cut(text, (2, 3)), plan.name))
    for run in (small, *([load(text, plan.name)] if backend == "torch" else ())):
        got = called(run, program, tensors(given), dict(sizes))
        assert_close({k: v.numpy() for k, v in got.items()}, want, bound)
    return text


def has_gradient(text: str, *shape: int) -> None:
    """The emitted gradient with respect to `x` of that shape, by differences of the emitted values."""
    run = front.compile(text, grad=True)
    x = torch.linspace(-1.3, 1.7, math.prod(shape), dtype=torch.float64).reshape(shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda at: run(x=at), (x,))


FUNCTIONS = [row for row in PRIMITIVES.values() if row.kind == "value" and row.meaning]
