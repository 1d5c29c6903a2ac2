"""Checks of the inputs of an emitted function: each raises where an input is not what the function was compiled for."""

from __future__ import annotations

from typing import Any

import torch


def _shape(name: str, x: object, said: str, axes: int) -> torch.Size:
    """The shape of an input; its rank is checked. Raises TypeError where it is no tensor, ValueError for another rank.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, a tensor is expected")
    if x.ndim != axes:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, {axes} axes are expected: {said}")
    return x.shape


def _expect(
    device: torch.device, rows: tuple[tuple[str, Any, str, tuple[int, ...], torch.dtype | None], ...]
) -> None:
    """Equal extents, one element type (integers where it is None), one device; nothing is stretched or converted. A
    row has the name of an input, the input, its axes as they are written, and what its shape and type have to be.
    Raises TypeError or ValueError where a row is otherwise.
    """
    for _, x, _, shape, dtype in rows:
        if not (isinstance(x, torch.Tensor) and x.shape == shape and x.dtype == (dtype or torch.int64)
                and x.device == device and (dtype is None or dtype.is_floating_point)):
            break
    else:
        return
    for name, x, *_ in rows:
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}, a tensor is expected")
    _sizes_agree([(name, x, axes) for name, x, axes, *_ in rows])
    data = next((dtype for *_, dtype in rows if dtype is not None), None)
    kind = _most([x.dtype for _, x, _, _, dtype in rows if dtype == data and data is not None], data)
    place = _most([x.device for _, x, *_ in rows], device)
    for name, x, axes, shape, dtype in rows:
        _one(name, x, shape, axes, kind if dtype == data else dtype, place)
    for name, x, axes, shape, dtype in rows:  # all agree, and on what they are not to be
        _one(name, x, shape, axes, dtype, device)


def _most(values: list[Any], otherwise: Any) -> Any:
    """What most of them are, the first of those that are as many."""
    return max(values, key=values.count) if values else otherwise


def _one(
    name: str, x: torch.Tensor, shape: tuple[int, ...], axes: str, dtype: torch.dtype | None, device: torch.device
) -> None:
    """Raises where one input is not as it is expected."""
    if tuple(x.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, {axes} = {shape} is expected")
    if dtype is None and (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool):
        raise TypeError(f"{name} holds {x.dtype}, whole numbers are expected")
    if dtype is not None and (x.dtype != dtype or not dtype.is_floating_point):
        raise TypeError(f"{name} holds {x.dtype}, {f'{dtype} is' if dtype.is_floating_point else 'real numbers are'} "
                        f"expected")
    if x.device != device:
        raise ValueError(f"{name} is on {x.device}, the others are on {device}")


def _sizes_agree(given: list[tuple[str, torch.Tensor, str]]) -> None:
    """Raises where a size is one number in most inputs and another in one: it is that one which does not fit."""
    read = []
    for name, x, axes in given:
        names = [axis.strip() for axis in axes[1:-1].split(",") if axis.strip()]
        read += [(axis, n, name, x, axes) for axis, n in zip(names, x.shape)
                 if axis.isidentifier() and len(names) == x.ndim]
    for axis, n, name, x, axes in read:
        have = {m: [of for other, k, of, *_ in read if (other, k) == (axis, m)] for m in
                dict.fromkeys(k for other, k, *_ in read if other == axis)}
        usual = max(have, key=lambda m: len(have[m]))
        if n != usual and len(have[usual]) > len(have[n]):
            raise ValueError(f"{name} has shape {tuple(x.shape)}, {axes} with {axis} = {usual} is expected, as "
                             f"{' and '.join(dict.fromkeys(have[usual]))} have it")


def _stored(
    device: torch.device, rows: tuple[tuple[str, Any, str, tuple[int, ...], torch.dtype], ...]
) -> None:
    """Equal extents, the types of few bits in which tensors are declared to be stored, one device; a row is as in
    `_expect`. Raises TypeError or ValueError where a row is otherwise."""
    for name, x, axes, shape, dtype in rows:
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}, a tensor is expected")
        if x.dtype != dtype:
            told = "bytes, as einc.in_bytes makes them" if dtype == torch.uint8 else "round to it before"
            raise TypeError(f"{name} holds {x.dtype}, {dtype} is expected: {told}")
        if x.shape != shape or x.device != device:
            _one(name, x, shape, axes, dtype if dtype.is_floating_point else None, device)


def _whole(name: str, value: object, least: int) -> None:
    """A size that no tensor fixes. Raises ValueError where it is no whole number or less than `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, torch.SymInt)) or value < least:
        raise ValueError(f"{name} = {value!r}, a whole number from {least} is expected")


def _told_later(x: torch.Tensor) -> bool:
    """Whether checks of elements are left to the device, which tells once it is waited for, or to a compiled graph: to
    look at them would be to wait. Those of a CPU are looked at."""
    return x.device.type != "cpu" or torch.compiler.is_compiling()


def _later(right: torch.Tensor, told: str) -> None:
    """A check of the device's own; tensors without data have none."""
    if right.device.type != "meta":
        torch._assert_async(right, told)


def _within(name: str, x: torch.Tensor, low: int, high: int) -> None:
    """Elements that stand as positions must be positions. Raises IndexError where one is not from `low` to `high`."""
    if _told_later(x):
        _later(((x >= low) & (x <= high)).all(), f"{name} holds values that are not from {low} to {high}")
    elif x.numel() and not (low <= int(x.min()) and int(x.max()) <= high):
        raise IndexError(f"{name} holds values from {int(x.min())} to {int(x.max())}, {low} to {high} are expected")


def _reached(told: str, at: torch.Tensor, extent: int, start: int = 0, reads: torch.Tensor | None = None
             ) -> torch.Tensor:
    """Places in memory that were computed of data. Where one is none, and `reads` holds, it is an error: at once on a
    CPU, on another device and in a compiled graph once that is waited for. `told` is the read as the spec writes it."""
    outside = (at < 0) | (at >= extent)
    if reads is not None:
        outside &= reads
    if _told_later(at):
        _later(~outside.any(), f"{told} is read out of range: {start} to {extent - 1 + start} are expected")
        return at.clamp(0, extent - 1)
    if outside.any():
        found = int(at[outside][0])
        beyond = found <= -(2**63) + start or found + start >= 2**63  # a start that is taken away may wrap around
        value = "what is no whole number of 64 bits" if beyond else found + start
        raise IndexError(f"{told} is read at {value}, {start} to {extent - 1 + start} are expected")
    return at


def _add_up(name: str, lengths: torch.Tensor, total: int) -> None:
    """The lengths of the pieces of an axis. Raises ValueError where one is negative, or their sum is not `total`."""
    if _told_later(lengths):
        _later((lengths >= 0).all() & (lengths.sum() == total),
               f"{name} holds lengths that do not add up to the {total} elements of the axes that it divides")
        return
    if lengths.numel() and int(lengths.min()) < 0:
        raise ValueError(f"{name} holds {int(lengths.min())}, lengths from 0 are expected")
    if int(lengths.sum()) != total:
        raise ValueError(f"{name} adds up to {int(lengths.sum())}, but the axes that it divides have {total} elements")
