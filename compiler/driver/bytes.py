"""Whole numbers of few bits as tensors that are declared `: int4` hold them, several in a byte."""

from __future__ import annotations

from typing import Any

from einc.driver.commands.data import framework
from einc.errors.report import EincError, Help, Problem, failure
from einc.ir.narrow import NARROW, Narrow
from einc.meaning import bytes as packing


def in_bytes(numbers: Any, word: str = "int4") -> Any:
    """A tensor of torch with whole numbers of a type as bytes, several numbers along the last axis in each: the first
    in the lowest bits. What lacks in the last byte is 0. EincError where a number is none of the type, or the type is
    none of which several numbers lie in a byte.
    """
    torch, row = framework(), _row(word)
    _demand(isinstance(numbers, torch.Tensor) and numbers.dtype not in (torch.bool, torch.uint64)
            and not numbers.is_complex(), "a tensor of whole numbers is put in bytes")
    _demand(numbers.layout == torch.strided and not numbers.is_meta, "numbers in bytes are those of a dense tensor")
    plain = numbers.detach().cpu()
    plain = plain.double() if plain.is_floating_point() else plain.long()
    if plain.ndim == 0 or bool(((plain < row.low) | (plain > row.high) | (plain != plain.round())).any()):
        raise EincError([Problem(f"{row.together} numbers lie in a byte where an axis has whole numbers from {row.low} "
                                 f"to {row.high} alone", helps=(
            Help(f"divide by a scale and round first, as `{word}(x / σ)` does in a spec"),))])
    return _like(packing.in_bytes(plain.double().numpy(), row), numbers)


def from_bytes(data: Any, count: int, word: str = "int4") -> Any:
    """The first `count` numbers along the last axis of what `in_bytes` makes, as a tensor of `int8`. EincError where
    there are not so many.
    """
    torch, row = framework(), _row(word)
    _demand(isinstance(data, torch.Tensor) and data.dtype == torch.uint8, "numbers lie in bytes of the type `uint8`")
    _demand(isinstance(count, int), f"{count!r} is no number of numbers")
    if data.ndim == 0 or not 0 <= count <= row.together * data.shape[-1]:
        raise EincError([Problem(f"{count} numbers do not lie in bytes of the shape {tuple(data.shape)}", helps=(
            Help(f"{row.together} lie in each byte of the last axis: give as many as were put there"),))])
    return _like(packing.from_bytes(data.cpu().numpy(), count, row).astype("int8"), data)


def _row(word: str) -> Narrow:
    """The type of a word of the language. EincError where it is none of which several numbers lie in a byte."""
    known = [row.name for row in NARROW.values() if row.together > 1]
    if word not in known:
        raise failure(f"`{word}` is no type of which several numbers lie in a byte", f"give {' or '.join(known)}")
    return NARROW[word]


def _demand(holds: bool, said: str) -> None:
    """Raises EincError with a sentence unless it holds."""
    if not holds:
        raise failure(said, "give what `einc.in_bytes` takes or makes, a tensor of torch")


def _like(found: Any, data: Any) -> Any:
    """An array as a tensor of torch beside another one."""
    return framework().from_numpy(found).to(data.device)
