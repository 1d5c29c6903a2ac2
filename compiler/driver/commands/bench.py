"""`einc bench`: a spec of one's own against other ways to compute it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from einc.driver import back_ends
from einc.driver.commands import data, measure
from einc.driver.commands.common import DTYPE, FILE, GRAD, SEED, SIZES, Chosen, known_sizes, typed
from einc.driver.commands.sizes import default, names
from einc.driver.drawing.pictures import curves, curves_for
from einc.driver.options import names_of
from einc.driver.timing import growth
from einc.driver.timing.contest import Result, Setting, checked_at, contest
from einc.driver.timing.rivals import AGAINST, Rival, rivals
from einc.errors.report import failure
from einc.ir.programs import TypedProgram
from einc.syntax.spelling import nearest


@click.command("bench")
@FILE
@SIZES
@DTYPE
@GRAD
@click.option("--against", default=",".join(AGAINST), show_default=True, metavar="NAME,…",
              help="Other ways: torch's own statements, the same under torch.compile, the plan that calls a kernel of "
                   "the library, and calls of the library for whole passes by their names.")
@click.option("--backend", "chosen", default=None, metavar="NAME,…",
              help="The back ends; all that run here without it.")
@SEED
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(min=1), help="Timed runs of each way.")
@click.option("--json", "as_json", is_flag=True, help="As data for programs.")
@click.option("--over", default="", metavar="NAME=NUMBER,…", help="Time it at several numbers of one size.")
@click.option("--plot", type=click.Path(), metavar="OUT.png",
              help="Draw the times over --over, or over the number of positions, doubled up to what it is.")
@click.pass_context
def command(ctx: click.Context, *, file: Chosen, sizes: dict[str, int], dtype: str | None, grad: bool, against: str,
            chosen: str | None, seed: int, rounds: int, as_json: bool, over: str, plot: str | None) -> None:
    """Time the spec FILE on every back end beside other ways, each after a check against float64.

    Ways take turns, so that what else the machine does falls on all alike. A time is the median of the rounds, with the
    interval in which that of another run lies; a speed is how many times as fast it is as the first way, over the same
    rounds. Status 1 where a back end of einc is wrong.
    \f
    Raises EincError where a way that --against names is not known, or the spec has no output.
    """
    others, ours = names_of(against), names_of(chosen) or _here()
    for name, known in (*((n, AGAINST) for n in others), *((n, back_ends.names()) for n in ours)):
        if name not in known:
            near = nearest(name, known)
            raise failure(f"`{name}` is no way to compute it" + (f"; did you mean `{near}`?" if near else ""),
                          f"there are {', '.join(known)}")
    if plot is not None:
        curves_for(plot)
    program = typed(file)
    if not program.outputs:
        raise failure(f"{file.path} has no output, so there is nothing to time",
                      "write `output` in front of the equation that is to be timed")
    given = default(program, sizes)
    size, steps = growth.lengths(program, over, given) if over or plot else ("", [0])
    known_sizes({**sizes, **({size: steps[0]} if size else {})}, names(program), program.sizes, program.idle)
    gpu = data.framework().cuda.is_available()
    setting = Setting(given, dtype or "float32", seed, "cuda" if gpu else "cpu", grad,
                      data.framework().cuda.synchronize if gpu else lambda: None)
    settings = [replace(setting, sizes={**given, size: n} if size else given) for n in steps]
    ways, pages = rivals(program, others, ours, grad), list[dict[str, Any]]()
    found = [_contest(program, ways, one, rounds) for one in settings]
    for one, results in zip(settings, found, strict=True):
        if as_json:
            pages.append(_page(program, one, results))
        else:
            _tell(program, one, results, rounds)
    if as_json:
        click.echo(json.dumps(pages if size else pages[0], ensure_ascii=False, indent=2))
    if size:
        _growth(program, setting, plot, size, growth.lines(zip(steps, found, strict=True)))
    if any(one.status == "wrong" and one.name in ours for results in found for one in results):
        ctx.exit(1)


def _contest(program: TypedProgram, ways: list[Rival], setting: Setting, rounds: int) -> list[Result]:
    """What became of each way, with what is being done told on a terminal."""
    console = Console(stderr=True)
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
                  transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("checking", total=None)
        return contest(program, ways, setting, rounds, lambda name: progress.update(task, description=name))


def _page(program: TypedProgram, setting: Setting, found: list[Result]) -> dict[str, Any]:
    """The times at one setting, for programs."""
    return {"spec": program.name, "sizes": dict(setting.sizes), "checked_at": checked_at(program, setting.sizes),
            "dtype": setting.dtype, "gradient": setting.grad, "place": setting.place,
            "ways": [one.data for one in found]}


def _tell(program: TypedProgram, setting: Setting, found: list[Result], rounds: int) -> None:
    """Prints the times of all rivals at one setting, how sure they are, and the sizes at which the results were
    compared."""
    listed = ", ".join(f"{name} = {n}" for name, n in setting.sizes.items()) or "the spec has no size"
    click.echo(f"{program.name}, {setting.dtype} on {setting.place}{', with its gradient' * setting.grad}: {listed}")
    small = checked_at(program, setting.sizes)
    if small != setting.sizes:
        click.echo("checked at " + ", ".join(f"{n} = {m}" for n, m in small.items() if setting.sizes[n] != m))
    click.echo("\n".join(map(_line, found)))
    rates = [one.time.rate for one in found if one.time is not None]
    if rates and (share := math.floor(100 * rates[0])):
        click.echo(f"an interval holds the median of {share} of 100 other runs of {rounds} such rounds, or of more")
    elif rates:
        click.echo(f"{rounds} round{'s' * (rounds > 1)} say{'s' * (rounds == 1)} nothing of other runs: "
                   "give --rounds 9, or more", err=True)
    if disturbed := max((one.disturbed for one in found), default=0):
        click.echo(f"other processes were busy in {disturbed} of {rounds} rounds", err=True)


def _growth(program: TypedProgram, setting: Setting, plot: str | None, size: str,
            lines: dict[str, list[tuple[float, float]]]) -> None:
    """Tells with which power of a size each way grows, and draws it where a file is given for that."""
    powers = {name: growth.exponent(points) for name, points in lines.items()}
    told = ", ".join(f"{name} {size}^{power:.2f}" for name, power in powers.items() if power is not None)
    click.echo(f"time grows as {told}" if told else "no way was timed at two sizes", err=True)
    if plot is not None:
        title = f"{program.name}, {setting.dtype} on {setting.place}{', with its gradient' * setting.grad}"
        curves(plot, title, (size, "seconds"), lines)
        click.echo(f"wrote {plot}", err=True)


def _here() -> tuple[str, ...]:
    """The back ends that run on this machine."""
    gpu = data.framework().cuda.is_available()
    return tuple(name for name in back_ends.names() if gpu or name != "triton")


def _line(one: Result) -> str:
    """One way in a line."""
    if one.time is None or one.speed is None:
        return f"{one.name:8} {one.status:6} {one.why}"
    time, low, high = (measure.duration([x]) for x in (one.time.middle, one.time.low, one.time.high))
    speed = f"{one.speed.middle:.2f} x ({one.speed.low:.2f} to {one.speed.high:.2f})"
    error = "" if one.error is None else f"error {one.error:.1e}"
    return f"{one.name:8} {one.status:6} {time:>9}  {f'{low} to {high}':20}  {speed:24}  {error}  {one.memory}"
