"""What the host finds out before it starts a kernel: pages, element types, precision, whether the device runs it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl


def _pages(*laid: Any) -> tuple[Any, ...]:
    """The memory of rows that a kernel passes over; and, if all lie in pages, which these
    are, and how many rows are in one."""
    table = laid[0].table
    if table is not None and all(rows.table is table for rows in laid):
        return *(rows.rows for rows in laid), table.numbers(laid[0].rows.device), table.pool.page
    return *(rows.whole() for rows in laid), None, 0


def _padded(n: int, least: int = 1, most: int = 2**30) -> int:
    """A power of two that holds n elements, within bounds."""
    return min(most, max(least, 1 << max(0, n - 1).bit_length()))


@lru_cache(16)
def _tl_type(dtype: torch.dtype) -> tl.dtype:
    """The name that Triton has for an element type. Raises TypeError for one that it has not."""
    known = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32,
             torch.float64: tl.float64}
    if dtype not in known:
        raise TypeError(f"{dtype} is no element type of these kernels: give float16, bfloat16, float32 or float64")
    return known[dtype]


def _offset(*laid: tuple[Sequence[int], Sequence[int]]) -> tl.dtype:
    """The type of storage offsets, for tensors of these extents and strides: 64 bits where one may span 2**31."""
    spans = [sum(map(operator.mul, shape, strides)) for shape, strides in laid if all(shape)]
    return tl.int64 if max(spans, default=0) >= 2**31 else tl.int32


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a new tensor."""
    return tuple(math.prod(max(1, n) for n in shape[axis + 1 :]) for axis in range(len(shape)))


def _precision(device: torch.device) -> str:
    """How products of float32 are formed: in three passes of tf32, which keep 21 bits, or
    in one where torch allows that."""
    if torch.version.hip or device.type != "cuda":
        return "ieee"
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "tf32x3"


def _twofold(dtype: torch.dtype, more: float) -> float:
    """How much more room a product takes than its operands: those of float32 are formed
    of two parts beside each other."""
    return 1 if dtype.itemsize < 4 else more


def _spread(rows: int, warps: int) -> float:
    """Rows of a product's operand that all warps hold together where rows are too few for each to have its own 16, as
    compiled kernels show: every warp has them, if not all the time. From 64 rows on Hopper's products read their
    operands in shared memory, and several groups of four warps may share the rows."""
    return 5.6 * warps if rows < min(64, 16 * warps) else 0


def _multiplies(dtype: torch.dtype) -> bool:
    """Whether kernels multiply numbers of this type as they should: Triton's interpreter takes bfloat16 for whole
    numbers."""

    @triton.jit
    def square(x: Any, out: Any) -> None:
        """The square of one number."""
        tl.store(out, tl.load(x) * tl.load(x))

    x, out = (torch.full((1,), 1.5, dtype=dtype) for _ in range(2))
    square[(1,)](x, out)
    return out.item() == 2.25


@lru_cache(64)
def _ready(device: torch.device, dtype: torch.dtype) -> None:
    """Kernels run on a GPU, or on the CPU in Triton's interpreter; neither has every type. Raises RuntimeError
    elsewhere, and TypeError for such a type."""
    if device.type == "cpu" and not triton.knobs.runtime.interpret:
        raise RuntimeError(
            "the tensors are on the CPU, where these kernels do not run: move them to a GPU, set TRITON_INTERPRET=1 "
            "before "
            "triton is imported, or compile for the torch back end")
    if device.type == "cpu" and not _multiplies(dtype):
        raise TypeError(
            f"{dtype} on the CPU: Triton's interpreter, which runs these kernels without a GPU, computes wrongly in "
            f"it: give float32 or float16, move the tensors to a GPU, or compile for the torch back end")
    if device.type == "cuda" and not torch.version.hip and dtype == torch.bfloat16:
        major, minor = torch.cuda.get_device_capability(device)
        if major < 8:
            raise TypeError(f"bfloat16 needs compute capability 8.0 and this GPU has {major}.{minor}: give float16 or "
                            f"float32")


def _run(kernel: Any, start: tuple[int, tuple[Any, ...], dict[str, Any]], *tensors: torch.Tensor) -> None:
    """Starts a kernel on tensors, which stand before its numbers."""
    programs, values, constants = start
    if programs:
        kernel[(programs,)](*tensors, *values, **constants)


def _run_shared(
    kernel: Any, join: Any, start: tuple[Any, ...], wide: torch.dtype, device: torch.device,
    tensors: tuple[torch.Tensor, ...], results: tuple[torch.Tensor, ...],
) -> None:
    """Starts a kernel, and where several programs share the pass of a tile also the one that joins what they leave."""
    programs, parts, room, values, constants, joined, fixed = start
    if programs and parts == 1:
        kernel[(programs,)](*tensors, None, *values, **constants)
    elif programs:
        states = torch.empty(room, dtype=wide, device=device)
        kernel[(programs * parts,)](*tensors, states, *values, **constants)
        join[(programs,)](*results, states, *joined, **fixed)
