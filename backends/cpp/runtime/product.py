"""Products of few rows with a matrix by compiled kernels; torch computes where these cannot run or are not faster."""

from __future__ import annotations

import torch

from einc.backends.cpp.runtime.native import _NATIVE_TYPES, _RAN, _native, _native_plain, _native_traced
from einc.backends.cpp.runtime.recurrent import _native_vectors
from einc.backends.host.runtime.affine import _apart, _arranged

_FEW_ROWS = 32  # of a matrix of few bits: with more, matrices that torch multiplies are the faster way
_ROWS_OF_PLAIN = 4  # of a matrix in the type of the data
_PLAIN_NUMBERS = 2**17  # of such a matrix: with fewer a call of torch takes less time than this one needs to begin


def _native_product(
    text: str, name: str, work: int, dtype: torch.dtype, x: tuple[torch.Tensor, str], matrix: tuple[torch.Tensor, str],
    scale: tuple[torch.Tensor, str] | None, groups: tuple[str, ...], sizes: dict[str, int], axes: str,
) -> torch.Tensor | None:
    """A product of data x with a matrix, summed over terms of a block, times scales, summed over blocks, by the
    compiled kernel of this name, which has so many operations. Each tensor comes with the letters of its axes; `groups`
    are those that all have, those of rows, blocks, terms and columns, and `axes` those of the result, which has the
    wide type.

    None where the kernel has not run.
    """
    given = [x[0], matrix[0], *([scale[0]] if scale else [])]
    if (torch.compiler.is_compiling() or dtype not in _NATIVE_TYPES or _native_traced()
            or not all(map(_native_plain, given))):
        return None
    few = matrix[0].element_size() == 1
    _RAN.pop(name, None)
    outer, rows, blocks, terms, columns = groups
    counts = [_native_count(letters, sizes) for letters in groups]
    inside = _native_rows(matrix[0], counts[1], counts[0])
    if few or inside:  # a matrix in the type of the data is as well torch's, and no loss is told
        _RAN[name] = False
    if not inside:
        return None
    steps = _native_strides(*matrix, sizes)
    beside = _native_strides(*scale, sizes) if scale else {}
    strides = [*(_native_stride(letters, steps, sizes) for letters in (blocks, terms, columns)),
               *(_native_stride(letters, beside, sizes) for letters in (blocks, columns))]
    if min(counts) == 0 or min(strides) < 0:
        return None
    own = "".join(letter for letter in outer if letter in x[1])
    many = _arranged(*x, (*own, rows, blocks + terms), sizes).contiguous()
    each = dict(zip(own, many.stride()))
    of = [n for letter in outer for n in (sizes[letter], each.get(letter, 0), steps.get(letter, 0),
                                          beside.get(letter, 0))]
    made = torch.empty(counts[0], counts[1], counts[4], dtype=torch.float32, device="cpu")
    tensors = [many.view(-1), matrix[0], scale[0] if scale else many.view(-1), made.view(-1)]
    if not _native(text, name, tensors, [*counts[1:], *strides, int(scale is not None), len(outer), *of], [], work,
                   dtype, _native_vectors(text, dtype)):
        return None
    return _apart(made, (outer, rows, columns), axes, sizes)


def _native_rows(matrix: torch.Tensor, rows: int, places: int) -> bool:
    """Whether so many rows, with a matrix at each of so many places, are better multiplied here than by torch, whose
    product of one row with one matrix of float32 reads as fast as memory gives.
    """
    if matrix.element_size() == 1:
        return 0 < rows <= _FEW_ROWS
    least = 1 if places > 1 or matrix.dtype != torch.float32 else 2
    return least <= rows <= _ROWS_OF_PLAIN and matrix.numel() >= _PLAIN_NUMBERS


def _native_count(letters: str, sizes: dict[str, int]) -> int:
    """The number of places of some axes."""
    count = 1
    for letter in letters:
        count *= sizes[letter]
    return count


def _native_strides(x: torch.Tensor, axes: str, sizes: dict[str, int]) -> dict[str, int]:
    """The distance of two numbers along each axis. Of numbers that lie two in a byte the last axis of the tensor may
    be several letters; where its bytes do not lie side by side, there are no such distances."""
    if x.dtype != torch.uint8:
        return dict(zip(axes, x.stride()))
    found = dict(zip(axes, (2 * n for n in x.stride()[:-1])))
    each = 1 if x.stride(-1) == 1 or x.shape[-1] == 1 else -1
    for letter in reversed(axes[x.ndim - 1:]):
        found[letter] = each
        each *= sizes[letter]
    return found


def _native_stride(letters: str, strides: dict[str, int], sizes: dict[str, int]) -> int:
    """The distance of two numbers along axes that are walked as one, 0 where none of them is there; negative where it
    is not the same everywhere."""
    each, count, last = 0, 1, True
    for letter in reversed(letters):
        if sizes[letter] == 1:
            continue
        if last:
            each, last = strides.get(letter, 0), False
        elif strides.get(letter, 0) != each * count:
            return -1
        count *= sizes[letter]
    return each
