"""`einc cost`: flops, bytes and memory of a spec as formulas of its sizes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import import_module

import click

from einc.driver import compiling
from einc.driver.commands.common import BACKEND, FILE, GRAD, PLAN, SIZES, Chosen, known_sizes, typed
from einc.driver.commands.sizes import names
from einc.driver.options import Grad, Options
from einc.driver.reports.costing import BYTES, ModuleCost, account, modules
from einc.driver.reports.priced import Told
from einc.errors.report import failure
from einc.ir.plan import Module
from einc.ir.programs import TypedProgram

DEVICES = "einc.driver.reports.devices"  # loaded where plans for devices are asked for


@click.command("cost")
@FILE
@click.option("--against", type=click.Path(), metavar="FILE2",
              help="Another spec: where its cost and that of FILE are equal.")
@SIZES
@GRAD
@PLAN
@BACKEND
@click.option("--devices", type=click.IntRange(2, 4096), metavar="N",
              help="Instead, the five best plans for so many devices, with what each costs and why; needs --sizes.")
@click.option("--memory", metavar="BYTES", help="With --devices: what one device may hold, such as 80G or 80GiB.")
@click.option("--dtype", type=click.Choice(list(BYTES)), default="float32", show_default=True,
              help="Elements of the data.")
@click.option("--format", "style", type=click.Choice(["text", "json", "tex"]), default="text", show_default=True,
              help="How it is printed.")
def command(*, file: Chosen, against: str | None, sizes: dict[str, int], grad: Grad, plan: str, backend: str,
            dtype: str, devices: int | None, memory: str | None, style: str) -> None:
    """Print what each step of the spec FILE costs, and the whole: flops, bytes read and written, memory and flops per
    byte, as formulas of the sizes, with numbers where sizes are given; which size they grow with; and where two ways
    cost the same.

    Inputs are not counted as memory. A multiply-add is two flops. Bytes are those that each step reads and writes once.
    \f
    Raises EincError where options exclude each other, or --memory is no number of bytes.
    """
    options = Options(backend, grad=grad, plan=plan)
    if memory is not None and devices is None:
        raise failure("--memory is for --devices: it says what one device may hold", "give --devices 8, for instance")
    if devices is not None:
        _plans(file, options, against, devices, memory, sizes, dtype, style)
        return
    if grad and options.serves:
        raise failure("what serves has no gradient", "leave out --grad, or --plan serve")
    programs = [typed(one) for one in (file, *([replace(file, path=against)] if against else []))]
    found = [_accounts(program, options, sizes, dtype) for program in programs]
    every = [module for _, some in found for module in some]
    _refuse(sizes, programs, every)
    told = Told(every, sizes, dtype)
    costs = [accounts for accounts, _ in found]
    if style == "json":
        data = told.data([p.name for p in programs], costs)
        click.echo(json.dumps(data, ensure_ascii=False, indent=2))
    else:
        click.echo((told.text if style == "text" else told.tex)([p.name for p in programs], costs), nl=False)


def _plans(file: Chosen, options: Options, against: str | None, devices: int, memory: str | None, sizes: dict[str, int],
           dtype: str, style: str) -> None:
    """Prints the best plans for so many devices. Raises EincError for options of which that has no use, and for sizes
    that are not given."""
    if against is not None or style == "tex" or options.plans != ("call",):
        raise failure("--devices finds plans of one spec, as text or json", "leave out --against, --plan, --format tex")
    program, room = typed(file), None if memory is None else _bytes(memory)
    known_sizes(sizes, names(program), program.sizes, program.idle)
    known = {**program.sizes, **sizes}
    lacking = [name for name in names(program) if name not in known and name not in program.idle]
    if lacking:
        raise failure(f"the price of a plan needs a number for each size: {', '.join(lacking)}",
                      f"give --sizes {','.join(f'{name}=64' for name in lacking)}, with numbers of your own")
    if nothing := [name for name, number in known.items() if number == 0]:
        raise failure(f"nothing is computed where {nothing[0]} is 0, so no plan takes less time than another",
                      f"give --sizes {nothing[0]}=64, for instance")
    devices_ = import_module(DEVICES)
    told = devices_.found(program, devices, room, bool(options.grad), known, BYTES[dtype])
    click.echo(json.dumps(told, ensure_ascii=False, indent=2) if style == "json" else devices_.as_text(told, room),
               nl=style == "json")


def _bytes(memory: str) -> int:
    """A number of bytes, `80G` or `80GiB`. Raises EincError for any other text, and for 0."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d+)?)\s*([kKMGT]?)(i?)[bB]?", memory.strip(), re.ASCII)
    if found is None or not float(found[1]):
        raise failure(f"`{memory}` is no number of bytes", "say it as 80G, or 80GiB for 80 · 2³⁰")
    power = " KMGT".index(found[2].upper() or " ")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def _accounts(program: TypedProgram, options: Options, sizes: dict[str, int],
              dtype: str) -> tuple[list[ModuleCost], list[Module]]:
    """What each module of a plan costs, and the modules."""
    found = list(modules(compiling.planned(program, options)))
    return [account(title, m, count, sizes, BYTES[dtype]) for title, m, count in found], [m for _, m, _ in found]


def _refuse(sizes: dict[str, int], programs: list[TypedProgram], every: list[Module]) -> None:
    """Refuses a size that no spec has, or that each fixes at another value."""
    listed = sorted({n for p in programs for n in names(p)} | {n for m in every for n in m.sizes})
    fixed = {n: v for p in programs for n, v in p.sizes.items()}
    known_sizes(sizes, listed, fixed, frozenset.intersection(*(p.idle for p in programs)))
