"""Checks of the inputs of an emitted function: each raises where an input is not what the function was compiled for."""

from __future__ import annotations

import torch


def _shape(name: str, x: object, axes: int) -> torch.Size:
    """The shape of an input; its rank is checked."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, a tensor is expected")
    if x.ndim != axes:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, {axes} axes are expected")
    return x.shape


def _expect(
    name: str, x: object, shape: tuple[int, ...], axes: str, dtype: torch.dtype | None, device: torch.device
) -> None:
    """Equal extents, one element type (integers where dtype is None), one device; nothing is stretched or converted."""
    if (isinstance(x, torch.Tensor) and x.shape == shape and x.dtype == (dtype or torch.int64) and x.device == device
            and (dtype is None or dtype.is_floating_point)):
        return
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, a tensor is expected")
    if tuple(x.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, {axes} = {shape} is expected")
    if dtype is None and (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool):
        raise TypeError(f"{name} holds {x.dtype}, whole numbers are expected")
    if dtype is not None and (x.dtype != dtype or not dtype.is_floating_point):
        raise TypeError(f"{name} holds {x.dtype}, {f'{dtype} is' if dtype.is_floating_point else 'real numbers are'} "
                        f"expected")
    if x.device != device:
        raise ValueError(f"{name} is on {x.device}, the others are on {device}")


def _stored(
    name: str, x: object, shape: tuple[int, ...], axes: str, dtype: torch.dtype, device: torch.device
) -> None:
    """Equal extents, the type in which a tensor is declared to be stored, one device."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, a tensor is expected")
    if x.dtype != dtype:
        raise TypeError(f"{name} holds {x.dtype}, {dtype} is expected: round to it before")
    _expect(name, x, shape, axes, None if dtype == torch.int8 else dtype, device)


def _whole(name: str, value: object, least: int) -> None:
    """A size that no tensor fixes."""
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
    """Elements that stand as positions must be positions."""
    if _told_later(x):
        _later(((x >= low) & (x <= high)).all(), f"{name} holds values that are not from {low} to {high}")
    elif x.numel() and not (low <= int(x.min()) and int(x.max()) <= high):
        raise IndexError(f"{name} holds values from {int(x.min())} to {int(x.max())}, {low} to {high} are expected")


def _reached(told: str, at: torch.Tensor, extent: int, start: int = 0) -> torch.Tensor:
    """Places in memory that were computed of data. Where one is none it is an error: at once on a CPU, on another
    device and in a compiled graph once that is waited for. `told` is the read as the spec writes it."""
    outside = (at < 0) | (at >= extent)
    if _told_later(at):
        _later(~outside.any(), f"{told} is read out of range: {start} to {extent - 1 + start} are expected")
        return at.clamp(0, extent - 1)
    if outside.any():
        found = int(at[outside][0])
        value = "what is no whole number of 64 bits" if found <= -(2**63) + start else found + start
        raise IndexError(f"{told} is read at {value}, {start} to {extent - 1 + start} are expected")
    return at


def _add_up(name: str, lengths: torch.Tensor, total: int) -> None:
    """The lengths of the pieces of an axis."""
    if _told_later(lengths):
        _later((lengths >= 0).all() & (lengths.sum() == total),
               f"{name} holds lengths that do not add up to the {total} elements of the axes that it divides")
        return
    if lengths.numel() and int(lengths.min()) < 0:
        raise ValueError(f"{name} holds {int(lengths.min())}, lengths from 0 are expected")
    if int(lengths.sum()) != total:
        raise ValueError(f"{name} adds up to {int(lengths.sum())}, but the axes that it divides have {total} elements")
