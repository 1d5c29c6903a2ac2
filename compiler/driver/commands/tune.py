"""`einc tune`: the fastest tiles for a spec at given sizes, found by timing on the GPU and kept on disk."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from rich.table import Table

from einc.driver import back_ends, compiling
from einc.driver.commands.cache import wide_console
from einc.driver.commands.common import DATA, DTYPE, FILE, GRAD, NARROW, OWN, SEED, SIZES, Chosen, known_sizes, typed
from einc.driver.commands.run import gather
from einc.driver.commands.sizes import names
from einc.driver.options import Grad, Options
from einc.errors.report import failure
from einc.ir.programs import TypedProgram

NOTES = 8  # printed at most


@click.command("tune")
@FILE
@SIZES
@DTYPE
@DATA
@SEED
@click.option("--backend", type=click.Choice(back_ends.tuned()), default=back_ends.tuned()[0], show_default=True,
              help="Whose kernels are timed.")
@NARROW
@OWN
@GRAD
def command(*, file: Chosen, sizes: dict[str, int], dtype: str | None, data_file: str | None, seed: int, backend: str,
            narrow: bool, own: bool, grad: Grad) -> None:
    """Time the kernels of the spec FILE with several tiles on the GPU and keep the
    fastest; what is kept is not timed again.
    \f
    Raises EincError where there is no GPU, or the tiles that were found cannot be kept.
    """
    program = typed(file)
    known_sizes(sizes, names(program), program.sizes, program.idle)
    tuner = back_ends.tuner(backend)
    tuner.device()
    plan = compiling.planned(program, Options(backend, narrow=narrow, own=own, grad=grad))
    function, tensors = ready(program, back_ends.emit(plan, backend), backend, sizes, data_file, dtype, seed)
    try:
        found = tuner.tune(function, tensors)
    except (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError) as error:
        raise failure(f"the module refused or failed: {error}") from error
    console = wide_console()
    if found.found:
        console.print(_table(found.found, tuner.told))
    else:
        console.print("no kernel has a tile at these sizes: there is nothing to tune")
    for note in found.notes[:NOTES]:
        console.print(f"note   {note}")
    if len(found.notes) > NOTES:
        console.print(f"note   and {len(found.notes) - NOTES} more")
    if found.lost:
        raise failure(f"what was found could not be kept: {found.lost}",
                      "set EINC_CACHE_DIR to a folder that can be written in")
    console.print(f"cache  {import_module('einc.backends.host.cache').folder()}")
    console.print("       EINC_FORCE_AUTOTUNE=1 times again what is kept; `einc cache clear` forgets all of it")


def ready(program: TypedProgram, text: str, backend: str, sizes: Mapping[str, int], data_file: str | None,
          dtype: str | None, seed: int) -> tuple[Any, dict[str, Any]]:
    """The loaded file and what it is called with, on the GPU."""
    inputs, numbers = gather(program, sizes, data_file, dtype, seed)
    return back_ends.load(text, program.name, backend), {**back_ends.tuner(backend).placed(inputs), **numbers}


def _table(found: Any, told: Any) -> Table:
    """Kernels, the data they were timed on, and what tuning changes."""
    table = Table(box=None, pad_edge=False)
    for heading in ("kernel", "bucket", "tile", "default", "ratio", "timed"):
        table.add_column(heading, no_wrap=True)
    for one in found:
        kernel, rows, columns = one.key
        timed = "kept" if one.cached else str(one.timed)
        table.add_row(kernel, f"{rows} × {columns}", told(one.tile), "the same" if one.tile == one.default
                      else told(one.default),
                      f"{one.ratio:.2f}", timed)
    return table
