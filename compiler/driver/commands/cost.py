"""`einc cost`: flops, bytes and memory of a spec as formulas of its sizes."""

from __future__ import annotations

import json
from dataclasses import replace

import click

from einc.driver import compiling
from einc.driver.commands.common import BACKEND, FILE, GRAD, PLAN, SIZES, Chosen, known_sizes, typed
from einc.driver.commands.sizes import names
from einc.driver.options import Grad, Options
from einc.driver.reports.costing import BYTES, Account, account, modules
from einc.driver.reports.priced import Told
from einc.errors.report import failure
from einc.ir.plan import Module
from einc.ir.programs import TypedProgram


@click.command("cost")
@FILE
@click.option("--against", type=click.Path(), metavar="FILE2",
              help="Another spec: where its cost and that of FILE are equal.")
@SIZES
@GRAD
@PLAN
@BACKEND
@click.option("--dtype", type=click.Choice(list(BYTES)), default="float32", show_default=True,
              help="Elements of the data.")
@click.option("--format", "style", type=click.Choice(["text", "json", "tex"]), default="text", show_default=True,
              help="How it is printed.")
def command(*, file: Chosen, against: str | None, sizes: dict[str, int], grad: Grad, plan: str, backend: str,
            dtype: str,
            style: str) -> None:
    """Print what each step of the spec FILE costs, and the whole: flops, bytes read and written, memory and flops per
    byte, as formulas of the sizes, with numbers where sizes are given; which size they grow with; and where two ways
    cost the same.

    Inputs are not counted as memory. A multiply-add is two flops. Bytes are those that each step reads and writes once.
    """
    options = Options(backend, grad=grad, plan=plan)
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


def _accounts(program: TypedProgram, options: Options, sizes: dict[str, int],
              dtype: str) -> tuple[list[Account], list[Module]]:
    """What each module of a plan costs, and the modules."""
    found = list(modules(compiling.planned(program, options)))
    return [account(title, m, count, sizes, BYTES[dtype]) for title, m, count in found], [m for _, m, _ in found]


def _refuse(sizes: dict[str, int], programs: list[TypedProgram], every: list[Module]) -> None:
    """Refuses a size that no spec has, or that each fixes at another value."""
    listed = sorted({n for p in programs for n in names(p)} | {n for m in every for n in m.sizes})
    fixed = {n: v for p in programs for n, v in p.sizes.items()}
    known_sizes(sizes, listed, fixed, frozenset.intersection(*(p.idle for p in programs)))
