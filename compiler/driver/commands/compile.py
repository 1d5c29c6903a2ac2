"""`einc compile`: a spec to a plain Python file."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click
from click.core import ParameterSource

from einc.driver import back_ends, compiling
from einc.driver.commands.binaries import EMIT, TARGET, check_place, write, write_beside
from einc.driver.commands.common import (
    BACKEND,
    DATA,
    DTYPE,
    FILE,
    GRAD,
    KEEP,
    MESH,
    NARROW,
    OWN,
    PLAN,
    SEED,
    SIZES,
    STRICT,
    Chosen,
    known_sizes,
    typed,
)
from einc.driver.commands.sizes import default, names
from einc.driver.files import same
from einc.driver.kept import headed, portable
from einc.driver.layout import laid_out
from einc.driver.options import Grad, Options, names_of
from einc.driver.reports.growth import growth_of
from einc.errors.report import failure
from einc.ir.backend import Target
from einc.ir.plan import Module, PerRank

TUNED = "einc.driver.commands.tuned"  # loaded with --tuned: other files need no tensors


@click.command("compile")
@FILE
@click.option("-o", "--output", type=click.Path(), metavar="OUT.py",
              help="The file to write, instead of standard output.")
@BACKEND
@STRICT
@NARROW
@OWN
@GRAD
@PLAN
@MESH
@KEEP
@click.option("--module", is_flag=True, help="Add a torch.nn.Module class whose parameters are the weights.")
@click.option("--tuned", is_flag=True,
              help="Write in the tiles that `einc tune` found for --sizes, --dtype and this device.")
@TARGET
@EMIT
@SIZES
@DTYPE
@DATA
@SEED
def command(*, file: Chosen, output: str | None, backend: str, strict: bool, narrow: bool, own: bool, grad: Grad,
            module: bool, plan: str, mesh: dict[str, int], keep: str | None, tuned: bool, target: str | None,
            kind: str | None, sizes: dict[str, int], dtype: str | None, data_file: str | None, seed: int) -> None:
    """Write the Python file that computes the spec FILE; it needs no einc to run.
    \f
    Raises EincError where OUTPUT is the spec itself, or options exclude each other.
    """
    if output is not None and same(output, file.path):
        raise failure(f"{output} is the spec itself; it is not overwritten")
    options = Options(backend, narrow=narrow, own=own, grad=grad, module=module, plan=plan, keep=names_of(keep))
    rows: tuple[Target, ...] = ()
    if target is not None:
        by_default = click.get_current_context().get_parameter_source("backend") is ParameterSource.DEFAULT
        backend, rows = back_ends.chosen(target, None if by_default else backend)
        options = replace(options, backend=backend)
    beside = bool(rows) and bool(back_ends.record(backend).beside)  # the target has libraries beside a file
    _together(options, keep is not None, tuned, bool(rows) and not beside, kind is not None and not rows)
    for option, value in {"--sizes": sizes, "--dtype": dtype, "--data": data_file}.items():
        able = "--dtype" if beside else "--dtype --sizes" if rows else ""
        if value and not tuned and option not in able.split():
            raise failure(f"{option} is for --tuned and --target: without them one file works on any sizes and types"
                          if not beside else f"{option} is for kernels of one call: libraries work on any sizes")
    kind = check_place(rows, kind, output) if rows else None
    program = typed(file, strict)
    if program.source == file.path:  # as the words of the head have it, whoever reads that on which machine
        program = replace(program, source=portable(file.path, output))
    program, options = compiling.parted(program, options)
    made = compiling.on_ranks(program, replace(options, tune=tuned), mesh)
    if isinstance(made, PerRank) and rows:
        raise failure("--target writes the kernels of one device", "leave out --target, or --mesh and the plan with it")
    for line in () if isinstance(made, PerRank) else growth_of(made):
        click.echo(f"warning: {line}", err=True)
    text = back_ends.emit(made, options.backend, compiling.class_of(program) if module else None)
    if beside and output is not None:
        write_beside(text, "step" if options.serves else program.name, program.name, backend, rows, dtype, output)
        return
    if kind is not None and isinstance(made, Module):
        known_sizes(sizes, names(program), program.sizes, program.idle)
        write(made, text, rows[0].name, kind, default(program, sizes), dtype or "bfloat16", output)
        return
    if tuned:
        known_sizes(sizes, names(program), program.sizes, program.idle)
        text = import_module(TUNED).with_tiles(file.path, program, text, options.backend, sizes, data_file, dtype, seed)
    text = headed(laid_out(text), program, _words(click.get_current_context(), file, output), options.backend)
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        Path(output).write_text(text, encoding="utf-8", newline="\n")


def _words(ctx: click.Context, file: Chosen, output: str | None) -> tuple[str, ...]:
    """The words of the command, but for where it writes: FILE and options that were given, with paths as the folder of
    the output has them.
    """
    side = portable(file.side, output) if file.side else ""
    given = {"section": file.section, "equation": file.equation, "side": side}
    words = [portable(file.path, output)]
    for option in ctx.command.params:
        name = str(option.name)
        if isinstance(option, click.Option) and name != "output" and (
                given.get(name) or ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE):
            value = given.get(name) or ctx.params[name]
            told = ",".join(f"{n}={v}" for n, v in value.items()) if isinstance(value, dict) else str(value)
            long = max(option.opts, key=len)
            words += [long] if option.is_flag or value is True else [long, told]
    return tuple(words)


def _together(options: Options, keeps: bool, tuned: bool, codes: bool, lacks_target: bool) -> None:
    """Refuses options that exclude each other, before the file is read; `codes`: machine code of a call is written."""
    if lacks_target:
        raise failure("--emit is for --target", "give the device to compile for, such as --target sm_90")
    if keeps and not options.serves:
        raise failure("--keep is for --plan serve: nothing else has a cache")
    for option, wanted in {"--module": options.module, "--grad": options.grad, "--target": codes,
                           "--tuned": tuned}.items():
        if wanted and options.serves:
            raise failure(f"{option} is not for --plan serve", "leave out one of them")
    for option, wanted in {"--module": options.module, "--grad": options.grad}.items():
        if wanted and codes:
            raise failure(f"{option} is for a Python file, and --target writes machine code: one of them at a time")
    if codes and tuned:
        raise failure("--tuned writes a file and --target machine code: one of them at a time",
                      "without --tuned the code is made for the tiles that are good for most sizes")
