"""`einc bench`: a spec of one's own against other ways to compute it."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from einc.driver import back_ends
from einc.driver.commands import data, measure
from einc.driver.commands.common import DTYPE, FILE, GRAD, SEED, SIZES, Chosen, known_sizes, typed
from einc.driver.commands.sizes import default, names
from einc.driver.options import names_of
from einc.driver.timing.contest import Result, Setting, checked_at, contest
from einc.driver.timing.rivals import AGAINST, rivals
from einc.errors.report import failure


@click.command("bench")
@FILE
@SIZES
@DTYPE
@GRAD
@click.option("--against", default=",".join(AGAINST), show_default=True, metavar="NAME,…",
              help="Other ways: torch's own statements, the same under torch.compile, a call of the library.")
@click.option("--backend", "chosen", default=None, metavar="NAME,…",
              help="The back ends; all that run here without it.")
@SEED
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1), help="Timed runs of each way.")
@click.option("--json", "as_json", is_flag=True, help="As data for programs.")
@click.pass_context
def command(ctx: click.Context, *, file: Chosen, sizes: dict[str, int], dtype: str | None, grad: bool, against: str,
            chosen: str | None, seed: int, rounds: int, as_json: bool) -> None:
    """Time the spec FILE on every back end beside other ways, each after a check against float64.

    Ways take turns, so that what else the machine does falls on all alike; a time is the median of the rounds, its
    spread how far the slowest and the fastest are apart. Status 1 where a back end of einc is wrong.
    """
    others, ours = names_of(against), names_of(chosen) or _here()
    for name, known in (*((n, AGAINST) for n in others), *((n, back_ends.names()) for n in ours)):
        if name not in known:
            raise failure(f"`{name}` is no way to compute it", f"there are {', '.join(known)}")
    program = typed(file)
    if not program.outputs:
        raise failure(f"{file.path} has no output, so there is nothing to time")
    known_sizes(sizes, names(program), program.sizes, program.idle)
    gpu = data.framework().cuda.is_available()
    setting = Setting(default(program, sizes), dtype or "float32", seed, "cuda" if gpu else "cpu", grad,
                      data.framework().cuda.synchronize if gpu else lambda: None)
    console = Console(stderr=True)
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
                  transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("checking", total=None)
        found = contest(program, rivals(program, others, ours, grad), setting, rounds,
                        lambda name: progress.update(task, description=name))
    small = checked_at(program, setting.sizes)
    if as_json:
        page = {"spec": program.name, "sizes": dict(setting.sizes), "checked_at": small, "dtype": setting.dtype,
                "gradient": grad, "place": setting.place, "ways": [one.data for one in found]}
        click.echo(json.dumps(page, ensure_ascii=False, indent=2))
    else:
        listed = ", ".join(f"{name} = {n}" for name, n in setting.sizes.items())
        click.echo(f"{program.name}, {setting.dtype} on {setting.place}{', with its gradient' * grad}: {listed}")
        if small != setting.sizes:
            click.echo("checked at " + ", ".join(f"{n} = {m}" for n, m in small.items() if setting.sizes[n] != m))
        click.echo("\n".join(map(_line, found)))
    if any(one.status == "wrong" and one.name in ours for one in found):
        ctx.exit(1)


def _here() -> tuple[str, ...]:
    """The back ends that run on this machine."""
    gpu = data.framework().cuda.is_available()
    return tuple(name for name in back_ends.names() if gpu or name != "triton")


def _line(one: Result) -> str:
    """One way in a line."""
    if one.seconds is None:
        return f"{one.name:8} {one.status:6} {one.why}"
    time, error = measure.duration([one.seconds]), "" if one.error is None else f"error {one.error:.1e}"
    return f"{one.name:8} {one.status:6} {time:>9}  ± {50 * (one.spread or 0):.0f} %  {error}  {one.memory}"
