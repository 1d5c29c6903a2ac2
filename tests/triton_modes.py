"""Emitted Triton files under Triton's interpreter, in a process that compiles as well; the
interpreter's half precision made right.

Which of the two a function of Triton's own language is, is settled when triton is imported; `interpreted` exchanges
them for a while. The interpreter holds bfloat16 and fp8 as bits and computes with the bits, and has comparisons of
single numbers in the type of the numbers: for the time being that is put right too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter as inner
from triton.runtime.jit import JITFunction
from triton_pace import QUICKENED, quicken

from einc.backends.triton.load import load

Tiling = tuple[int, int, int, int]

PLACES = (tl, tl.core, tl.standard, tl.math, tl.random, tl.core.tensor, tl.core.tensor_descriptor_base,
          tl.core.tensor_descriptor,
          tl.core.dtype, tl.core.condition)


@contextmanager
def interpreted() -> Iterator[None]:
    """Within it, files that are loaded run in Triton's interpreter; outside, those loaded outside can be compiled."""
    saved = [(place, dict(place.__dict__)) for place in PLACES]
    numbers = [(place, dict(place.__dict__))
               for place in (inner.InterpreterBuilder, inner.ReduceOps, inner.GridExecutor, *QUICKENED)]
    usual, made = triton.knobs.runtime.interpret, dict[Any, Any]()
    try:
        triton.knobs.runtime.interpret = True
        for place, names in saved:
            for name, value in names.items():
                if isinstance(value, JITFunction):
                    one = made.setdefault(value, inner.InterpretedFunction(value.fn))
                    setattr(place, name, _method(one) if place is tl.core.tensor else one)
        quicken()
        _half_precision()
        inner.GridExecutor._restore_args_dev = _nothing
        with np.errstate(all="ignore"):
            yield
    finally:
        triton.knobs.runtime.interpret = usual
        inner.InterpretedFunction.rewritten_fn.clear()
        for place, names in [*saved, *numbers]:
            _restore(place, names)


def _nothing(*_: Any) -> None:
    """In place of copying each tensor, all of its storage, onto itself: they are on the CPU to begin with."""


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function, so that `x.sum()` hands x over."""

    def method(*args: Any, **named: Any) -> Any:
        return function(*args, **named)

    return method


def _restore(place: Any, names: dict[str, Any]) -> None:
    """The interpreter leaves its own changes behind as well."""
    for name in [name for name in place.__dict__ if name not in names]:
        with suppress(AttributeError, TypeError):
            delattr(place, name)
    for name, value in names.items():
        if place.__dict__.get(name) is not value:
            with suppress(AttributeError, TypeError):
                setattr(place, name, value)


def space(function: Callable[..., Any]) -> dict[str, Any]:
    """The names of the file that an emitted function comes from."""
    return inspect.unwrap(function).__globals__


def tiled(source: str, entry: str, choose: Callable[[str, int, int], Tiling] | None = None) -> Callable[..., Any]:
    """The emitted function; with `choose`, its tiles are what that gives for a kind of kernel, its rows and its
    columns; three programs share each pass."""
    function = load(source, entry)
    names = space(function)
    if choose is not None and "_tile" in names:
        kinds = {id(names[kind]): kind for kind in ("_PRODUCTS", "_SUMS", "_POINTS") if kind in names}
        kinds |= {id(names["_DEEP"]): "_PRODUCTS"} if "_DEEP" in names else {}
        names["_tile"] = lambda _, shapes, rows, columns, *rest, **named: choose(kinds[id(shapes)], rows, columns)
        names["_parts"] = lambda *_: 3
    return function


# half precision


F8 = {tl.float8e5: torch.float8_e5m2, tl.float8e4nv: torch.float8_e4m3fn}
BITS = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift)
Handle = inner.TensorHandle


def brain(handle: Any) -> bool:
    return bool(handle.dtype.scalar == tl.bfloat16)


def up(bits: Any) -> Any:
    """The bits of bfloat16 as float32."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(np.shape(bits))


def down(numbers: Any) -> Any:
    """float32 as the bits of the nearest bfloat16, the even one of two; no number stays none."""
    shape, numbers = np.shape(numbers), np.ascontiguousarray(numbers, dtype=np.float32)
    bits = numbers.view(np.uint32)
    near = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(numbers), np.uint16(0x7FC0), near).reshape(shape)


def of_eight(handle: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(handle.data)).view(F8[handle.dtype.scalar]).float().numpy()


def value(handle: Any) -> Any:
    return up(handle.data) if brain(handle) else handle.data


def boxed(numbers: Any) -> Any:
    return Handle(numbers if numbers.dtype == np.bool_ else down(numbers), tl.bfloat16)


def plain(handle: Any) -> Any:
    """An operand of a product in a type that numpy multiplies."""
    if brain(handle):
        return Handle(up(handle.data), tl.float32)
    return Handle(of_eight(handle), tl.float32) if handle.dtype.scalar in F8 else handle


def _half_precision() -> None:
    builder = inner.InterpreterBuilder
    kept = ("binary_op", "unary_op", "ternary_op", "cast_impl", "create_dot", "create_fabs")
    usual = {name: getattr(builder, name) for name in kept}

    def binary_op(self: Any, a: Any, b: Any, op: Any) -> Any:
        if (brain(a) or brain(b)) and op not in BITS:
            return boxed(op(value(a), value(b)))
        made = usual["binary_op"](self, a, b, op)
        if made.data.dtype == np.bool_:
            made.dtype = tl.int1  # a comparison of single numbers would count as one of them
        return made

    def unary_op(self: Any, a: Any, op: Any) -> Any:
        return boxed(op(value(a))) if brain(a) else usual["unary_op"](self, a, op)

    def ternary_op(self: Any, a: Any, b: Any, c: Any, op: Any) -> Any:
        if brain(c) and op is not np.where:
            return boxed(op(value(a), value(b), value(c)))
        return usual["ternary_op"](self, a, b, c, op)

    def create_fabs(self: Any, a: Any) -> Any:
        return boxed(np.abs(value(a))) if brain(a) else usual["create_fabs"](self, a)

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        of, to = source.dtype.scalar, target.scalar
        if of == to:
            return source
        if of == tl.bfloat16:
            wide = Handle(up(source.data), tl.float32)
            return wide if to == tl.float32 else usual["cast_impl"](self, wide, target)
        return boxed(source.data.astype(np.float32)) if to == tl.bfloat16 else usual["cast_impl"](self, source, target)

    def create_fp_to_fp(self: Any, source: Any, target: Any, rounding: Any) -> Any:
        del rounding
        of, to = source.dtype.scalar, target.scalar
        if of not in F8 and to not in F8:
            return cast_impl(self, source, target)
        wide = of_eight(source) if of in F8 else value(source).astype(np.float32)
        if to in F8:
            return Handle(torch.from_numpy(np.ascontiguousarray(wide)).to(F8[to]).view(torch.uint8).numpy(), to)
        return Handle(down(wide) if to == tl.bfloat16 else wide.astype(inner._get_np_dtype(to)), to)

    def create_dot(self: Any, a: Any, b: Any, into: Any, precision: Any, imprecise: Any) -> Any:
        return usual["create_dot"](self, plain(a), plain(b), into, precision, imprecise)

    for function in (binary_op, unary_op, ternary_op, create_fabs, cast_impl, create_fp_to_fp, create_dot):
        setattr(builder, function.__name__, function)
    _half_precision_folds()


def _half_precision_folds() -> None:
    total, extreme = inner.ReduceOps.sum, inner.ReduceOps.min_max

    def sum_(self: Any, x: Any) -> Any:
        if not brain(x.handle):
            return total(self, x)
        return self.to_tensor(down(np.sum(up(x.handle.data), axis=self.axis, keepdims=self.keep_dims)), x.dtype)

    def min_max(self: Any, x: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        x = x[0] if isinstance(x, tuple) else x
        if not brain(x.handle):
            return extreme(self, x, val_reduce_op, idx_reduce_op)
        wide = tl.core.tensor(Handle(up(x.handle.data), tl.float32), tl.block_type(tl.float32, list(x.shape)))
        found = extreme(self, wide, val_reduce_op, idx_reduce_op)
        if isinstance(found, tuple):
            return self.to_tensor(down(found[0].handle.data), tl.bfloat16), found[1]
        return self.to_tensor(down(found.handle.data), tl.bfloat16) if val_reduce_op else found

    inner.ReduceOps.sum, inner.ReduceOps.min_max = sum_, min_max
