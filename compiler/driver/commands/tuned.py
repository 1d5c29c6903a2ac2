"""What `einc compile --tuned` writes: the file with the tiles that were found by tuning."""

from __future__ import annotations

from collections.abc import Mapping

from einc.driver import back_ends
from einc.driver.commands.tune import ready
from einc.errors.report import failure
from einc.ir.programs import TypedProgram


def with_tiles(file: str, program: TypedProgram, text: str, backend: str, sizes: Mapping[str, int],
               data_file: str | None, dtype: str | None, seed: int) -> str:
    """The file with the kept tiles in it. Raises EincError where none is kept, or the file refuses the data."""
    tuner = back_ends.tuner(backend)
    tuner.device()
    try:
        found = tuner.kept(*ready(program, text, backend, sizes, data_file, dtype, seed))
    except (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError) as error:
        raise failure(f"the module refused or failed: {error}") from error
    if found.missing:
        kernels = ", ".join(f"`{name}`" for name in found.missing)
        raise failure(f"no tile is kept for {kernels} at these sizes, with this type, on this device",
                      f"run `einc tune {file}` with the same --sizes, --dtype and other options first")
    baked: str = tuner.baked(text, found.tiles)
    return baked
