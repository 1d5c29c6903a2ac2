"""Whole numbers of 4 bits as tensors that are declared `: int4` hold them, two in a byte."""

from __future__ import annotations

from typing import Any

from einc.driver.commands.data import framework
from einc.errors.report import EincError, Help, Problem, failure
from einc.ir.narrow import NARROW
from einc.meaning import bytes as packing


def in_bytes(numbers: Any) -> Any:
    """A tensor of torch with numbers from -8 to 7 as bytes, two numbers along the last axis in each: the first in the
    lower half. Where they are odd in number the last half is 0. EincError where a number is no `int4`.
    """
    torch = framework()
    _demand(isinstance(numbers, torch.Tensor) and numbers.dtype not in (torch.bool, torch.uint64)
            and not numbers.is_complex(), "a tensor of whole numbers is put in bytes")
    row, plain = NARROW["int4"], numbers.detach().cpu()
    plain = plain if plain.is_floating_point() else plain.long()
    if plain.ndim == 0 or bool(((plain < row.low) | (plain > row.high) | (plain != plain.round())).any()):
        raise EincError([Problem("two numbers lie in a byte where an axis has whole numbers from -8 to 7 alone", helps=(
            Help("divide by a scale and round first, as `int4(x / σ)` does in a spec"),))])
    return _like(packing.in_bytes(plain.double().numpy()), numbers)


def from_bytes(data: Any, count: int) -> Any:
    """The first `count` numbers along the last axis of what `in_bytes` makes, as a tensor of `int8`. EincError where
    there are not so many.
    """
    torch = framework()
    _demand(isinstance(data, torch.Tensor) and data.dtype == torch.uint8, "numbers lie in bytes of the type `uint8`")
    if data.ndim == 0 or not 0 <= count <= 2 * data.shape[-1]:
        raise EincError([Problem(f"{count} numbers do not lie in bytes of the shape {tuple(data.shape)}", helps=(
            Help("two lie in each byte of the last axis: give as many as were put there"),))])
    return _like(packing.from_bytes(data.cpu().numpy(), count).astype("int8"), data)


def _demand(holds: bool, said: str) -> None:
    """Raises EincError with a sentence unless it holds."""
    if not holds:
        raise failure(said, "give what `einc.in_bytes` takes or makes, a tensor of torch")


def _like(found: Any, data: Any) -> Any:
    """An array as a tensor of torch beside another one."""
    return framework().from_numpy(found).to(data.device)
