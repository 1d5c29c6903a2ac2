"""The kernels of torch that a plan may call, as `specs/library/rows.toml` has them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache, partial
from importlib.resources import files
from typing import Any

from einc.driver import pipeline
from einc.driver.checking import typed
from einc.ir.choices import LibraryKernel, LibraryRow
from einc.ir.programs import Program, TypedProgram
from einc.planning import row


@cache
def library() -> tuple[LibraryRow, ...]:
    """The rows whose kernels compute a spec: its one output."""
    return tuple(LibraryRow(1, partial(plain_row, one["spec"], n)) for n, one in enumerate(rows_as_written())
                 if "half" not in one)


@cache
def program(spec: str) -> TypedProgram:
    """The program of a spec that comes with einc, checked once."""
    return typed(spec)


@cache
def plain_row(spec: str, number: int) -> LibraryKernel:
    """The row with this number in `rows_as_written()`, which computes `spec` without a gradient."""
    return made_row(rows_as_written()[number], program(spec))


@cache
def rows_as_written() -> tuple[Mapping[str, Any], ...]:
    """Every row as it is written; a row with a `half` computes a spec with what its gradient needs, or the gradient."""
    text = files("einc.specs").joinpath("library", "rows.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["row"])


def made_row(told: Mapping[str, Any], program: Program, words: Mapping[str, str] | None = None,
             results: tuple[str, ...] | None = None) -> LibraryKernel:
    """A row for plans: `words` are those of the call for the keys of the program, `results` the keys that the call
    gives, in order.
    """
    return row(told["spec"], pipeline.normal(program), told["call"], told["where"], told.get("shared", ""),
               tuple(told.get("shares", ())), told.get("flat", False), told.get("repeats", False), words, results,
               told.get("pieces", False))
