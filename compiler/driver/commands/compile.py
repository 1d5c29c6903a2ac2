"""`einc compile`: a spec to a plain Python file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
from click.core import ParameterSource

from einc.driver import back_ends, front
from einc.driver.commands.binaries import EMIT, TARGET, check_place, write
from einc.driver.commands.common import BACKEND, FILE, GRAD, NARROW, OWN, SIZES, STRICT, failure, known_sizes, noted, typed
from einc.driver.commands.run import DATA, DTYPE, SEED
from einc.driver.commands.sizes import default, names
from einc.driver.commands.tune import ready
from einc.ir.plan import Module
from einc.ir.terms import TypedProgram


@click.command("compile")
@FILE
@click.option("-o", "--output", type=click.Path(), metavar="OUT.py", help="The file to write, instead of standard output.")
@BACKEND
@STRICT
@NARROW
@OWN
@GRAD
@click.option("--plan", "kind_of_plan", type=click.Choice(["call", "serve"]), default="call",
              help="serve: prefill and step, which add positions to a cache.")
@click.option("--keep", metavar="K,V", help="What the cache of --plan serve keeps of each position, instead of what is cheapest.")
@click.option("--module", is_flag=True, help="Add a torch.nn.Module class whose parameters are the weights.")
@click.option("--tuned", is_flag=True, help="Write in the tiles that `einc tune` found for --sizes, --dtype and this device.")
@TARGET
@EMIT
@SIZES
@DTYPE
@DATA
@SEED
def command(*, file: str, output: str | None, backend: str, strict: bool, narrow: bool, own: bool, grad: bool, module: bool,
            kind_of_plan: str, keep: str | None, tuned: bool, target: str | None, kind: str | None, sizes: dict[str, int],
            dtype: str | None, data_file: str | None, seed: int) -> None:
    """Write the Python file that computes the spec FILE; it needs no einc to run."""
    if output is not None and Path(output).resolve() == Path(file).resolve():
        raise failure(f"{output} is the spec itself; it is not overwritten")
    for option, value in {"--sizes": sizes, "--dtype": dtype, "--data": data_file}.items():
        if value and not tuned and not (target and option != "--data"):
            raise failure(f"{option} is for --tuned and --target: without them one file works on any sizes and types")
    if kind is not None and target is None:
        raise failure("--emit is for --target", "give the device to compile for, such as --target sm_90")
    serve = kind_of_plan == "serve"
    if keep is not None and not serve:
        raise failure("--keep is for --plan serve: nothing else has a cache")
    for option, wanted in {"--module": module, "--grad": grad, "--target": target is not None, "--tuned": tuned}.items():
        if wanted and serve:
            raise failure(f"{option} is not for --plan serve", "leave out one of them")
    for option, wanted in {"--module": module, "--grad": grad}.items():
        if wanted and target is not None:
            raise failure(f"{option} is for a Python file, and --target writes machine code: one of them at a time")
    if target is not None and tuned:
        raise failure("--tuned writes a file and --target machine code: one of them at a time",
                      "without --tuned the code is made for the tiles that are good for most sizes")
    if target is not None:
        chosen_by_default = click.get_current_context().get_parameter_source("backend") is ParameterSource.DEFAULT
        backend, row = back_ends.targeted(target, None if chosen_by_default else backend)
        kind = check_place(row, kind, output)
    program = typed(file, strict)
    chosen = front.choices(narrow, own, backend)
    kept = [name.strip() for name in (keep or "").split(",") if name.strip()]
    plan = front.generation(program, chosen, kept) if serve else front.cut(program, chosen, grad)
    if serve:
        noted(program)
    text = back_ends.emit(plan, backend, front.shell(program) if module else None)
    if target is not None and kind is not None and isinstance(plan, Module):
        known_sizes(sizes, names(program), program.sizes, program.idle)
        write(plan, text, target, kind, default(program, sizes), dtype or "bfloat16", output)
        return
    if tuned:
        known_sizes(sizes, names(program), program.sizes, program.idle)
        text = _tuned(file, program, text, backend, sizes, data_file, dtype, seed)
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        Path(output).write_text(text, encoding="utf-8", newline="\n")


def _tuned(file: str, program: TypedProgram, text: str, backend: str, sizes: Mapping[str, int],
           data_file: str | None, dtype: str | None, seed: int) -> str:
    """The file with the kept tiles in it."""
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
