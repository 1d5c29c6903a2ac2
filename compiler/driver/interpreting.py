"""Running a spec by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from einc.driver.checking import typed
from einc.errors.report import EincError, Problem
from einc.meaning import interpret as meaning


def interpret(path_or_text: str | Path, arrays: Mapping[str, Any],
              sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
    """What a spec means: its outputs in float64, by the interpreter. EincError where data and spec do not fit."""
    program = typed(path_or_text)
    try:
        return meaning.interpret(program, arrays, sizes)
    except Problem as problem:
        raise EincError([problem]) from None
