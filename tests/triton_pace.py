"""What makes Triton's interpreter slow for no reason, done at once: the same numbers in less time.

As it comes, the interpreter folds and scans with a function of ours one element after another, writes all functions of
the language anew for every call of a helper, and works out whether whole numbers overflow, which it does not tell.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as inner

QUICKENED = (inner, inner.ScanOps, inner.TritonSemantic, inner.InterpretedFunction)  # whose names `quicken` exchanges
Blocks = tuple[Any, ...]


def quicken() -> None:
    """Exchanges what is slow, until `triton_modes.interpreted` puts everything back."""
    inner.ReduceOps.generic_reduce = _reduced
    inner.ScanOps.generic_scan = _scanned
    inner.TritonSemantic.binary_op_sanitize_overflow_impl = _unasked
    inner.InterpretedFunction.__call__ = _called
    inner._get_np_dtype = _kinds(inner._get_np_dtype)
    inner._patch_lang = _patching(inner._patch_lang)


def _combined(ops: Any, left: Blocks, right: Blocks) -> Blocks:
    """The function of a fold on whole blocks: it works on each element by itself."""
    made = ops.combine_fn.fn(*left, *right)
    return made if isinstance(made, tuple) else (made,)


def _blocks(ops: Any, arrays: Iterable[Any], like: Blocks) -> Blocks:
    return tuple(ops.to_tensor(x, y.dtype) for x, y in zip(arrays, like, strict=True))


def _reduced(self: Any, given: Blocks) -> list[Any]:
    """Neighbours two by two, then what came of them: their order stays. Every extent is a power of two."""
    rank, whole = given[0].handle.data.ndim, self.axis is None
    blocks, axis = self.unravel(given, self.axis)
    before = (slice(None),) * axis
    while blocks[0].handle.data.shape[axis] > 1:
        halves = [_blocks(self, (x.handle.data[(*before, slice(n, None, 2))] for x in blocks), given) for n in (0, 1)]
        blocks = _combined(self, *halves)
    arrays = [np.squeeze(x.handle.data, axis) for x in blocks]
    if self.keep_dims:
        arrays = [x.reshape((1,) * rank) if whole else np.expand_dims(x, axis) for x in arrays]
    return list(_blocks(self, (x.item() if whole and not self.keep_dims else x for x in arrays), given))


def _scanned(self: Any, blocks: Blocks) -> list[Any]:
    """Each element with the one before it, then with those two, four, eight before it."""
    given, rank = blocks, blocks[0].handle.data.ndim
    count, step = blocks[0].handle.data.shape[self.axis], 1
    at = np.expand_dims(np.arange(count), tuple(n for n in range(rank) if n != self.axis))
    while step < count:
        before = _blocks(self, (np.roll(x.handle.data, step, self.axis) for x in blocks), given)
        made = zip(_combined(self, before, blocks), blocks, strict=True)
        blocks = _blocks(self, [np.where(at < step, x.handle.data, y.handle.data) for y, x in made], given)
        step *= 2
    return list(blocks)


def _unasked(*_: Any) -> None:
    """In place of whether whole numbers overflow, which is worked out and told with `debug` alone."""


def _kinds(usual: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The type of numpy for one of Triton, kept by the name of the type of an element."""
    known: dict[str, Any] = {}

    def kind(of: Any) -> Any:
        name = "pointer" if of.scalar.is_ptr() else of.scalar.name
        if name not in known:
            known[name] = usual(of)
        return known[name]

    return kind


def _called(self: Any, *args: Any, **named: Any) -> Any:
    """A helper that a kernel calls: the language is exchanged already."""
    function = self.rewrite()
    try:
        return function(*args, **named)
    except Exception as error:
        raise inner.InterpreterError(repr(error)) from error


def _patching(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Exchanges the functions of the language for those that interpret, of a kernel and of all that it may call; the
    list of them is made once."""
    known: list[tuple[Any, str, Any]] = []

    def patched(_: Any) -> Any:
        if not known:
            scope = usual(types.FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core}))
            known.extend((place, name, getattr(place, name)) for place, name, _ in scope._changes)
            return scope
        scope = inner._LangPatchScope()
        for place, name, value in known:
            scope.set_attr(place, name, value)
        return scope

    return patched
