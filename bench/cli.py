"""The command. The parts are elsewhere: cases, rivals, run, report; here is what a person may ask."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import (
    algebra,
    batching,
    cases,
    decode,
    editor,
    equal,
    footprint,
    fuzz,
    gradients,
    house,
    launch,
    mutants,
    paged,
    paired,
    programs,
    recurrences,
    repeat,
    report,
    rivals,
    same,
    shares,
    soak,
    starting,
    train,
)
from bench.case import CannotError
from bench.record import Row, Run, read, write
from bench.run import Plan, Tell, run
from bench.signatures import drawn

OUT = click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("bench/results"),
                   show_default=True,
                   help="The folder of the JSON lines and the plots.")
ROUNDS = click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True,
                      help="Timed rounds after a warm-up.")
THREADS = click.option("--threads", type=click.IntRange(min=1),
                       help="Threads of torch; as many as it takes without it. One thread suffers least from other "
                            "processes.")
HELP = {"help_option_names": ["-h", "--help"]}


@click.group(invoke_without_command=True, context_settings=HELP)
@click.option("--case", "case_names", multiple=True, type=click.Choice(list(cases.BY_NAME)),
              help="Which cases; all without it.")
@click.option("--rival", "rival_names", multiple=True, type=click.Choice(list(rivals.BY_NAME)),
              help="Which rivals; all without it.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(["float32", "bfloat16"]),
              help="Which types; both without it.")
@click.option("--quick/--full", default=True,
              help="The main sizes, or the large ones too and growth to T = 16384.  [default: quick]")
@click.option("--spread", default=1.0, show_default=True, type=click.FloatRange(min=0),
              help="Standard deviation of the logits.")
@click.option("--memory/--no-memory", default=True,
              help="Measure peak memory, in a process per rival.  [default: memory]")
@THREADS
@click.option("--patience", default=10.0, show_default=True, type=click.FloatRange(min=0),
              help="Seconds to wait, for each case, until other processes leave the machine alone.")
@ROUNDS
@OUT
@click.pass_context
def main(ctx: click.Context, *, case_names: tuple[str, ...], rival_names: tuple[str, ...], dtypes: tuple[str, ...],
         quick: bool,
         spread: float, memory: bool, patience: float, threads: int | None,
         rounds: int, out: Path) -> None:
    """Run the cases against the rivals side by side in one process.

    Every result is checked against float64 before it is timed. Times are medians of interleaved rounds; `speed` is the
    median over rounds of the reference's time over the rival's. Growth is fitted for the cases over many T and drawn as
    OUT/growth-*.png. Figures replace those of the same case, rival and machine in OUT/kernels.jsonl, so a run of a few
    cases brings only these up to date. The first rival that compiles pays for its compiler's own start in `first call`:
    the command `first-call` measures that properly.
    """
    if ctx.invoked_subcommand is not None:
        return
    use_threads(threads)
    console = wide_console()
    plan = Plan([cases.BY_NAME[name] for name in case_names or cases.BY_NAME],
                [rivals.BY_NAME[name] for name in rival_names or rivals.BY_NAME],
                dtypes or ("float32", "bfloat16"), not quick, rounds, spread, memory, patience)
    here, file = Run(), out / "kernels.jsonl"
    rows: list[Row] = []
    with cold_caches(), progress(console, len(plan.steps())) as (tell, step):
        for found in run(plan, tell):
            new = [here.row("kernel", **one.shown(), spread=spread) for one in found]
            rows += new
            write(file, new)
            step()
    console.print(report.table(rows, report.caption(rows)))
    tell_growth(console, rows)
    for picture in report.plots(read(file), out):
        console.print(f"drew {picture}")
    console.print(f"wrote {file}")


@main.command("report", context_settings=HELP)
@OUT
def report_command(out: Path) -> None:
    """Print the figures that are there and draw them anew."""
    console = wide_console()
    rows = read(out / "kernels.jsonl")
    if not rows:
        raise click.ClickException(f"there is no figure in {out / 'kernels.jsonl'}")
    console.print(report.table(rows, report.caption(rows)))
    tell_growth(console, rows)
    for picture in report.plots(rows, out):
        console.print(f"drew {picture}")


@main.command("editor", context_settings=HELP)
@ROUNDS
@click.pass_context
def editor_command(ctx: click.Context, rounds: int) -> None:
    """How long an editor waits for a check after a change, over the process of `einc lsp`, beside `einc.check` in this
    process; status 1 where that is over its budget."""
    console = wide_console()
    with progress(console, len(editor.SPECS) * (rounds + 1)) as (tell, step):
        def told(what: str) -> None:
            tell(what)
            step()

        rows = editor.run(rounds, told)
    shown = Table("spec", "check", "change", "times as long", box=None, pad_edge=False)
    for row in rows:
        shown.add_row(row.spec, report.duration(row.check), report.duration(row.change),
                      f"{row.ratio:.2f}{f' OVER {editor.BUDGET}' if row.over else ''}")
    console.print(shown)
    if any(row.over for row in rows):
        ctx.exit(1)


@main.command("algebra", context_settings=HELP)
@ROUNDS
def algebra_command(rounds: int) -> None:
    """The compiler's own algebra against sympy's on the same expressions: how many times longer sympy takes."""
    shown = Table("", "in", "einc", "sympy", "sympy takes", box=None, pad_edge=False)
    for row in algebra.run(rounds=rounds):
        shown.add_row(row.case.name, row.case.place, *(report.duration(x) for x in (row.ours, row.theirs)),
                      f"{row.ratio:.0f}×")
    wide_console().print(shown)


@main.command("fuzz", context_settings=HELP)
@click.option("--seed", default=0, show_default=True, help="Which programs.")
@click.option("--from", "begin", type=click.IntRange(min=0),
              help="The first program's number; without it a run goes on where the record of the seed ends.")
@click.option("--count", default=20_000, show_default=True, type=click.IntRange(min=1),
              help="The number before which a run ends.")
@click.option("--workers", default=os.cpu_count() or 1, show_default=True, type=click.IntRange(min=1),
              help="Processes.")
@click.option("--only", type=click.IntRange(min=0), help="Do this one again, and print it.")
@click.option("--texts", is_flag=True, help="Texts that are no specs in place of programs: `python -m bench.fuzz`.")
@click.option("--apart", is_flag=True, help="Programs of the other generator, against torch, and their gradients.")
@OUT
def fuzz_command(seed: int, begin: int | None, count: int, workers: int, only: int | None, texts: bool, apart: bool,
                 out: Path) -> None:
    """Random programs by the emitted files and by the interpreter; status 1 where a
    number differs or something falls."""
    console = wide_console()
    if texts:
        fuzz.main.callback(inputs=count, seed=seed, papers=False, workers=workers, minutes=float("inf"), only=only,
                           out=out)
        return
    file = out / "programs.jsonl"
    fine = (programs.run(seed, begin, count, workers, file, console, apart) if only is None
            else programs.again(seed, only, console, apart))
    raise SystemExit(0 if fine else 1)


@main.command("parse", context_settings=HELP)
@ROUNDS
@OUT
def parse_command(rounds: int, out: Path) -> None:
    """Process time of `einc check` and `einc compile` against their budgets, and how parsing grows with the spec."""
    console = wide_console()
    here = Run()
    with progress(console, None) as (tell, _):
        timed = starting.commands(rounds, tell)
        grown = starting.parsing(rounds, tell)
    counts = [row["equations"] for row in grown]
    series = {name: [row[name] for row in grown] for name in ("parse", "check")}
    slopes = {name: report.exponent(counts, each) for name, each in series.items()}
    last = {name: report.exponent(counts[-2:], each[-2:]) for name, each in series.items()}
    shown = Table("", "process time", "", box=None, pad_edge=False)
    for row in timed:
        shown.add_row(row["case"], report.duration(row["seconds"]),
                      f"budget {row['budget']} s: {'ok' if row['seconds'] <= row['budget'] else 'OVER'}")
    for row in grown:
        shown.add_row(f"{row['equations']} equations", report.duration(row["parse"]),
                      f"{report.duration(row['check'])} to check")
    console.print(shown)
    for name in series:
        steep = max(slopes[name] or 0.0, last[name] or 0.0)
        verdict = f"OVER {starting.GROWTH}" if steep > starting.GROWTH else "ok"
        console.print(f"{name}: seconds ~ equations^{slopes[name] or 0:.2f}, over the last step "
                      f"^{last[name] or 0:.2f}: {verdict}")
    growth = here.row("growth", case="generated", points=grown, exponents=_rounded(slopes), last_step=_rounded(last))
    write(out / "parse.jsonl", [*(here.row("command", **row) for row in timed), growth])


@main.command("first-call", context_settings=HELP)
@click.option("--rival", "names", multiple=True, type=click.Choice(list(rivals.BY_NAME)), default=("einc", "flex"),
              show_default=True, help="Which rivals.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Fresh processes for each.")
@THREADS
@OUT
def first_command(names: tuple[str, ...], rounds: int, threads: int | None, out: Path) -> None:
    """Seconds to the first result in a fresh process with empty caches, torch imported: compiling, loading, calling."""
    use_threads(threads)
    console = wide_console()
    here = Run()
    quiet_compilers()
    with progress(console, None) as (tell, _):
        rows = starting.first_calls(names, rounds, tell)
    shown = Table("rival", "first call", "first at another T", "a later call", box=None, pad_edge=False)
    for row in rows:
        shown.add_row(row["rival"], *(report.duration(row[name]) for name in ("first", "other_size", "later")))
    console.print(shown)
    write(out / "first_call.jsonl", [here.row("first-call", **row) for row in rows])


@main.command("shares", context_settings=HELP)
@click.option("--case", "name", type=click.Choice(list(cases.BY_NAME)), default="causal", show_default=True,
              help="Which case.")
@click.option("--rival", type=click.Choice(list(rivals.BY_NAME)), default="einc", show_default=True,
              help="Which rival.")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True,
              help="Which type.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of torch; as many as it takes without it.")
def shares_command(name: str, rival: str, dtype: str, threads: int | None) -> None:
    """Where the time of a call goes: the share of each operation of torch."""
    use_threads(threads)
    try:
        wide_console().print(shares.table(name, dtype, rival))
    except CannotError as why:
        raise click.ClickException(f"{rival} cannot do {name} in {dtype}: it {why}") from None


@main.command("gradients", context_settings=HELP)
@click.option("--case", "case_names", multiple=True, type=click.Choice(list(gradients.CASES)),
              help="Which cases; all without it.")
@click.option("--rival", "rival_names", multiple=True, type=click.Choice(list(gradients.WAYS)),
              help="Which rivals; all without it.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(["float32", "bfloat16"]),
              help="Which types; both without it.")
@click.option("--memory/--no-memory", default=True,
              help="Measure peak memory, in a process per rival.  [default: memory]")
@THREADS
@click.option("--patience", default=10.0, show_default=True, type=click.FloatRange(min=0),
              help="Seconds to wait, for each case, until other processes leave the machine alone.")
@ROUNDS
@OUT
def gradients_command(*, case_names: tuple[str, ...], rival_names: tuple[str, ...], dtypes: tuple[str, ...],
                      memory: bool,
                      threads: int | None, patience: float, rounds: int, out: Path) -> None:
    """Forward and backward of kernels, some with learned parts, against torch's own, plain torch compiled, and eager.

    The result and every gradient are judged by what float64 gives, then what is right is timed in interleaved rounds.
    Rates count two products forward and five backward over visible pairs, for every rival alike.
    """
    use_threads(threads)
    console = wide_console()
    plan = gradients.Plan([gradients.CASES[name] for name in case_names or gradients.CASES], rival_names
                          or list(gradients.WAYS),
                          dtypes or ("float32", "bfloat16"), rounds, memory, patience)
    here, rows = Run(), list[Row]()
    with cold_caches(), progress(console, len(plan.steps())) as (tell, step):
        for found in gradients.run(plan, tell):
            rows += (new := [here.row("gradient", **one.shown()) for one in found])
            write(out / "gradients.jsonl", new)
            step()
    console.print(report.table(rows, report.caption(rows)))
    tell_growth(console, rows)
    console.print(f"wrote {out / 'gradients.jsonl'}")


@main.command("decode", context_settings=HELP)
@click.option("--case", "case_names", multiple=True, type=click.Choice(list(decode.CASES)),
              help="Which cases; all without it.")
@click.option("--way", "ways", multiple=True, help="Which ways; all of each case without it.")
@click.option("--length", "lengths", multiple=True, type=click.IntRange(min=2), default=(1024, 4096, 16384, 65536),
              show_default=True, help="Positions in the cache, the new one among them.")
@click.option("--batch", "batches", multiple=True, type=click.IntRange(min=1), default=(1, 8), show_default=True,
              help="Batches.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(["float32", "bfloat16"]),
              help="Which types; both without it.")
@THREADS
@click.option("--patience", default=10.0, show_default=True, type=click.FloatRange(min=0),
              help="Seconds to wait, for each case, until other processes leave the machine alone.")
@ROUNDS
@OUT
def decode_command(*, case_names: tuple[str, ...], ways: tuple[str, ...], lengths: tuple[int, ...],
                   batches: tuple[int, ...],
                   dtypes: tuple[str, ...], threads: int | None, patience: float, rounds: int, out: Path) -> None:
    """One new position over a cache, against torch's own kernel over a contiguous one,
    and against what the memory gives.

    Every result is judged by float64 before it is timed. The last column names what a step spends most of its time in.
    """
    use_threads(threads)
    console, here, rows = wide_console(), Run(), list[Row]()
    plan = decode.Plan([decode.CASES[name] for name in case_names or decode.CASES], ways, lengths, batches,
                       dtypes or ("float32", "bfloat16"), rounds, patience)
    with progress(console, len(plan.steps())) as (tell, step):
        for found in decode.run(plan, tell):
            rows += (new := [here.row("decode", **one.shown()) for one in found])
            write(out / "decode.jsonl", new)
            step()
    console.print(decode.table(rows))
    console.print(f"wrote {out / 'decode.jsonl'}")


@main.command("launch", context_settings=HELP)
@click.option("--case", "names", multiple=True, type=click.Choice(list(launch.BY_NAME)),
              help="Which calls; all without it.")
@click.option("--rounds", type=click.IntRange(min=0), default=0, show_default=True,
              help="Rounds that are timed, on a quiet machine; 0 counts and times nothing.")
@OUT
def launch_command(*, names: tuple[str, ...], rounds: int, out: Path) -> None:
    """What a repeated call of a Triton file costs the host, beside Triton's own launches of the same kernels.

    There is no device: Triton's code runs up to the launcher in C. Counted are functions that are called and
    instructions of Python, which are the same in every run.
    """
    console, here, rows = wide_console(), Run(), list[Row]()
    with progress(console, len(names or launch.BY_NAME)) as (tell, step):
        for row in launch.measured(names or tuple(launch.BY_NAME), rounds):
            tell(row["case"])
            rows.append(here.row("launch", **row))
            step()
    write(out / "launch.jsonl", rows)
    console.print(launch.table(rows))
    console.print(f"wrote {out / 'launch.jsonl'}")


@main.command("batching", context_settings=HELP)
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(["float32", "bfloat16"]),
              help="Which types; both without it.")
@THREADS
@click.option("--patience", default=10.0, show_default=True, type=click.FloatRange(min=0),
              help="Seconds to wait, for each case, until other processes leave the machine alone.")
@ROUNDS
@OUT
def batching_command(*, dtypes: tuple[str, ...], threads: int | None, patience: float, rounds: int, out: Path) -> None:
    """Sixteen texts of 10 to 4,000 positions in one step: what of the work is useful, and
    the time beside a padded batch.

    `useful` are the operations of products for new positions and for pairs that are seen, `done` those that ran.
    """
    use_threads(threads)
    console, here, rows = wide_console(), Run(), list[Row]()
    with progress(console, 3 * len(dtypes or "two")) as (tell, step):
        for found in batching.run(dtypes or ("float32", "bfloat16"), rounds, patience, tell):
            rows.append(here.row("batching", **found))
            step()
    shown = Table("step", "type", "new positions", "pairs", "useful", "done", "share", "pairs if padded",
                  "beside eager", "speed",
                  box=None, pad_edge=False)
    for row in rows:
        shown.add_row(row["case"], row["dtype"], f"{row['rows']:,}", f"{row['pairs']:,}",
                      f"{row['useful'] / 1e9:.4g} G",
                      f"{row['done'] / 1e9:.4g} G", f"{row['share']:.1%}", f"{row['padded_pairs']:,}",
                      f"{row['beside']:.2f} {row['status']}", f"{row['speed']:.2f}")
    console.print(shown)
    write(out / "batching.jsonl", rows)
    console.print(f"wrote {out / 'batching.jsonl'}")


@main.command("recurrences", context_settings=HELP)
@click.option("--case", "--cases", "case_names", multiple=True, type=click.Choice(list(recurrences.CASES)),
              help="Which cases; all without it.")
@click.option("--rival", "ways", multiple=True, type=click.Choice(list(recurrences.WAYS)),
              help="Which contenders; all without it.")
@click.option("--sizes", "given", default="", help="Other sizes, as in `T=8192,H=2,d=128`.")
@click.option("--length", "lengths", multiple=True, type=click.IntRange(min=1),
              help="Positions in place of T; several give the exponent of time over T.")
@click.option("--growth", is_flag=True, help="The lengths 1,024 to 16,384.")
@THREADS
@click.option("--patience", default=10.0, show_default=True, type=click.FloatRange(min=0),
              help="Seconds to wait, in all, until other processes leave the machine alone.")
@ROUNDS
@OUT
def recurrences_command(*, case_names: tuple[str, ...], ways: tuple[str, ...], given: str, lengths: tuple[int, ...],
                        growth: bool, threads: int | None, patience: float, rounds: int, out: Path) -> None:
    """Rounds over positions against loops and chunks that are written by hand in plain torch, and these compiled.

    Everything is judged by a loop in float64, then what is right is timed in interleaved rounds, in float32.
    """
    use_threads(threads)
    usual = _sizes(given, recurrences.USUAL)
    spans = lengths or (recurrences.GROWTH if growth else (usual["T"],))
    plan = recurrences.Plan([recurrences.CASES[name] for name in case_names or recurrences.CASES],
                            ways or list(recurrences.WAYS), [{**usual, "T": T} for T in spans], rounds, patience)
    console, here, rows = wide_console(), Run(), list[Row]()
    with cold_caches(), progress(console, len(plan.steps())) as (tell, step):
        for found in recurrences.run(plan, tell):
            rows += (new := [here.row("recurrence", **one.shown()) for one in found])
            write(out / "recurrences.jsonl", new)
            step()
    for shown in filter(None, (recurrences.table(rows), recurrences.growth(rows))):
        console.print(shown)
    console.print(f"wrote {out / 'recurrences.jsonl'}")


@main.command("equal", context_settings=HELP)
@click.option("--case", "--cases", "names", multiple=True, type=click.Choice(list(equal.PAIRS)),
              help="Which pairs; all without it.")
@click.option("--sizes", "given", default="", help="Other sizes, as in `T=2048,H=2`.")
@THREADS
@click.option("--patience", default=10.0, show_default=True, type=click.FloatRange(min=0),
              help="Seconds to wait, in all, until other processes leave the machine alone.")
@ROUNDS
@OUT
def equal_command(*, names: tuple[str, ...], given: str, threads: int | None, patience: float, rounds: int,
                  out: Path) -> None:
    """Equal formulas, as papers write them and as products of matrices by hand: how many times as long the first takes.

    Both are judged by the text as written in float64, then timed in interleaved rounds, in float32.
    """
    use_threads(threads)
    console, here, rows = wide_console(), Run(), list[Row]()
    pairs = [equal.PAIRS[name] for name in names or equal.PAIRS]
    with progress(console, len(pairs)) as (tell, step):
        for found in equal.run(pairs, _sizes(given, equal.USUAL), rounds, patience, tell):
            rows += (new := [here.row("equal", **one.shown()) for one in found])
            write(out / "equal.jsonl", new)
            step()
    console.print(equal.table(rows))
    console.print(f"wrote {out / 'equal.jsonl'}")


@main.command("memory", context_settings=HELP)
@click.option("--case", "names", multiple=True, type=click.Choice(footprint.CASES), help="Which cases; all without it.")
@click.option("--rival", "ways", multiple=True, type=click.Choice(list(gradients.WAYS)),
              default=("einc", "library", "eager"),
              show_default=True, help="Which rivals.")
@click.option("--longest", type=click.IntRange(min=2048), default=8192, show_default=True,
              help="The last T; the first is 1024.")
@OUT
def memory_command(names: tuple[str, ...], ways: tuple[str, ...], longest: int, out: Path) -> None:
    """The peak memory of forward and backward over T, and its exponent; the exit status
    is 1 where einc's is not linear.

    What stores all pairs of positions is measured up to T = 2048.
    """
    console, here = wide_console(), Run()
    lengths = [length for length in (1024 * 2**n for n in range(12)) if length <= longest]
    with progress(console, None) as (tell, _):
        rows = [here.row("memory", **row) for row in footprint.figures(names or footprint.CASES, ways, lengths, tell)]
    console.print(report.memories(rows))
    write(out / "memory.jsonl", rows)
    console.print(f"wrote {out / 'memory.jsonl'}")
    if found := [row["case"] for row in rows if footprint.steep(row)]:
        raise click.ClickException(f"memory is not linear in T: {', '.join(found)}")


@main.command("train", context_settings=HELP)
@click.option("--steps", type=click.IntRange(min=1), default=300, show_default=True, help="Steps of AdamW.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Of the first weights and of the batches.")
@click.option("--sizes", "given", default="", help="Other sizes of the model, as in `N=2,d_model=64`.")
@click.option("--way", "ways", type=click.Choice(train.WAYS), multiple=True, default=("einc", "torch"),
              show_default=True, help="What is trained: einc's file, with compiled kernels (einc-cpp), plain torch, "
              "and that under torch.compile. The last is what the others are held against.")
@THREADS
@OUT
def train_command(steps: int, seed: int, given: str, ways: tuple[str, ...], threads: int | None, out: Path) -> None:
    """Train specs/decoder_lm.ein on Python's own sources, side by side with the same model in plain torch.

    Both begin with the same weights and read the same batches. OUT/train.png shows both curves, OUT/train.jsonl keeps
    them. The exit status is 1 where they part by more than 1e-3 or do not fall.
    """
    use_threads(threads)
    console = wide_console()
    setup = train.Setup(steps, seed, sizes=_sizes(given, train.Setup().sizes))
    here = Run()
    with progress(console, steps) as (tell, step):
        tell("compiling")
        def tick(losses: Mapping[str, float]) -> None:
            step()
            tell(", ".join(f"{name} {loss:.4f}" for name, loss in losses.items()))

        found = train.train({name: train.loss_of(name) for name in ways}, train.corpus(), setup, tick)
    rows = [here.row("train", **row) for row in train.rows(found, setup)]
    write(out / "train.jsonl", rows)
    console.print(report.training(rows))
    console.print(f"drew {report.curves(rows, out / 'train.png')}")
    console.print(f"wrote {out / 'train.jsonl'}")
    wrong = train.wrong(found)
    if wrong:
        raise click.ClickException(wrong)


@main.command("soak", context_settings=HELP)
@click.option("--operations", type=click.IntRange(min=1), default=10000, show_default=True, help="In all.")
@click.option("--kills", type=click.IntRange(min=0), default=8, show_default=True,
              help="How often a child is killed on its way.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of what is drawn.")
@OUT
def soak_command(operations: int, kills: int, seed: int, out: Path) -> None:
    """Requests that join, go on, fork and leave at random over pools of pages, each operation against a plain model.

    Pages are of 1, 3, 16 and 256 positions; what no request has is no number. A child that saves its pool on the way is
    killed and begun again. The exit status is 1 where a page or a row is lost, or an output differs.
    """
    use_threads(1)
    console, here = wide_console(), Run()
    each = -(-operations // (len(soak.POOLS) * len(soak.RANGES)))
    try:
        with progress(console,
                      len(soak.POOLS) * len(soak.RANGES)) as (tell, step), tempfile.TemporaryDirectory() as folder:
            rows = []
            for kind in soak.RANGES:
                for pages, page in soak.POOLS:
                    tell(f"{pages} pages of {page}")
                    rows.append(here.row("soak", case=kind, sizes={"pages": pages, "page": page}, seed=seed,
                                         drawn=soak.soaked(kind, pages, page, seed, each, Path(folder))))
                    step()
            tell("killing")
            done = soak.killed(Path(folder) / "killed", "few", 24, 16, seed, kills, 5, 0.1) if kills else 0
    except soak.LostError as why:
        raise click.ClickException(str(why)) from None
    for row in rows:
        drawn = ", ".join(f"{count} {name}" for name, count in sorted(row["drawn"].items()))
        console.print(f"{row['sizes']['pages']} pages of {row['sizes']['page']}, {row['case']} positions read: {drawn}")
    total = sum(sum(row["drawn"].values()) for row in rows)
    console.print(f"{total} operations: no row differs, no page is lost; after {kills} kills {done} saved operations "
                  f"were there")
    write(out / "soak.jsonl", [*rows, here.row("soak", case="killed", kills=kills, operations=done, seed=seed)])


@main.command("paged", context_settings=HELP)
@click.option("--length", "lengths", type=click.IntRange(min=1), multiple=True, default=(1024, 4096, 16384, 65536),
              show_default=True, help="Positions in the cache.")
@click.option("--page", "pages", type=click.IntRange(min=1), multiple=True, default=(16,), show_default=True,
              help="Positions in a page.")
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, help="Texts that share a table.")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(["float32", "bfloat16"]),
              default=("float32", "bfloat16"),
              show_default=True, help="Which types.")
@click.option("--rounds", type=click.IntRange(min=1), default=20, show_default=True,
              help="Timed rounds after a warm-up.")
@THREADS
@OUT
def paged_command(*, lengths: tuple[int, ...], pages: tuple[int, ...], batch: int, dtypes: tuple[str, ...], rounds: int,
                  threads: int | None, out: Path) -> None:
    """One new position over a cache in pages against rows: 32 heads of 128 that share 8, pages that grew beside
    others', and pages of which no two neighbours lie side by side."""
    use_threads(threads)
    console, here, rows = wide_console(), Run(), list[Row]()
    every = [paged.Sizes(batch, length, page, getattr(torch, dtype)) for dtype in dtypes for length in lengths
             for page in pages]
    with progress(console, len(every)) as (tell, step):
        for sizes in every:
            tell(f"{sizes.length} positions")
            rows += (new := [here.row("paged", **row) for row in paged.figures(sizes, rounds)])
            write(out / "paged.jsonl", new)
            step()
    shown = Table("pages", "", "positions", "runs", "rows", "pages", "pages / rows", box=None, pad_edge=False)
    for row in rows:
        shown.add_row(f"{row['case']}, {row['sizes']['page']}", row["dtype"], str(row["sizes"]["S"]), str(row["runs"]),
                      report.duration(row["rows_seconds"]), report.duration(row["seconds"]), f"{row['ratio']:.2f}")
    console.print(shown)
    console.print(f"wrote {out / 'paged.jsonl'}")


@main.command("mutants", context_settings=HELP)
@click.option("--only", "wanted", multiple=True, metavar="NAME", help="Only these mutants; every one without it.")
@click.option("--list", "listed", is_flag=True, help="Print the table and run nothing.")
@click.option("--whole", is_flag=True, help="Where the tests of a mutant's files pass, run what they leave to `pytest "
                                            "--whole`, too.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True,
              help="Mutants that are tried side by side.")
@OUT
def mutants_command(wanted: tuple[str, ...], listed: bool, whole: bool, workers: int, out: Path) -> None:
    """Put one deliberate bug after another into a copy of the compiler, and see which test fails first.

    The mutants stand in bench/mutants.toml, each with the test files that should see it; the test that caught it in the
    last run, which the JSON lines tell, runs first. (`python -m bench.mutations` is about slips in specs instead.) The
    exit status is 1 where a mutant survives the tests that run by default, or no longer applies.
    """
    console, here, table = wide_console(), Run(), mutants.mutants()
    if unknown := [name for name in wanted if name not in table]:
        raise click.UsageError(f"there is no mutant `{unknown[0]}`: --list prints their names")
    chosen = [table[name] for name in wanted or table]
    try:
        mutants.check(chosen)
    except mutants.StaleError as why:
        raise click.ClickException(str(why)) from None
    if listed:
        console.print(_columns(["mutant", "wing", "tests"],
                               [(one.name, one.wing, ", ".join(one.tests)) for one in chosen]))
        return
    file, rows = out / "mutants.jsonl", dict[str, Row]()
    likely = {row["case"]: row["caught_by"] for row in read(file)}
    with progress(console, len(chosen)) as (tell, step), tempfile.TemporaryDirectory() as room:
        checkouts = mutants.copied(Path(room), workers)
        for found in mutants.all_tried(chosen, checkouts, whole, likely):
            name = found.mutant.name
            rows[name] = here.row("mutant", case=name, wing=found.mutant.wing, caught_by=found.caught_by,
                                  doubt="not yet run without the bug" if found.caught_by else "",
                                  seconds=round(found.seconds, 1), left_out=found.left_out)
            write(file, [rows[name]])
            tell(name)
            step()
        tell("the tests that failed, without a bug")
        unsound = mutants.unsound({row["caught_by"] for row in rows.values()}, checkouts[0])
    for row in rows.values():
        row["doubt"] = unsound.get(row["caught_by"], "")
    write(file, rows.values())
    console.print(_columns(["mutant", "wing", "caught by", "seconds", ""], [
        (name, row["wing"], row["caught_by"] or "SURVIVED", f"{row['seconds']:.0f}",
         row["doubt"] or ("left to --whole" if row["left_out"] else "")) for name, row in rows.items()]))
    if survivors := [name for name, row in rows.items() if row["doubt"] or row["left_out"] or not row["caught_by"]]:
        raise click.ClickException(f"no test that runs by default sees {', '.join(survivors)}")


def _columns(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table without lines."""
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


@main.command("same", context_settings=HELP)
@click.argument("old", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("new", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path())
@click.option("--spec", "wanted", multiple=True, metavar="PATTERN",
              help="Only specs whose path matches; all without it.")
@click.option("--text", "texts", multiple=True, type=click.Choice(list(same.COMMANDS)),
              help="Only these texts; all without it.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the texts of NEW in this folder.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes for one checkout.")
def same_command(old: Path, new: Path, *, wanted: tuple[str, ...], texts: tuple[str, ...], keep: Path | None,
                 workers: int) -> None:
    """Compare what two checkouts of einc print: emitted files, gradients, plans,
    recurrences. Status 1 where a text differs.

    OLD and NEW are checkouts (NEW: this one by default), or folders of texts that --keep wrote.
    """
    console = wide_console()
    places = [place for place in (old, new) if (place / "compiler").is_dir()]
    found = sorted({spec.as_posix() for place in places for spec in same.specs(place)})
    cases = {spec: texts or tuple(same.COMMANDS) for spec in found if not wanted or any(map(Path(spec).match, wanted))}
    with tempfile.TemporaryDirectory() as room, progress(console, len(cases) * len(places)) as (tell, step):
        def told(spec: str) -> None:
            step()
            tell(spec)

        written = [place if place not in places else keep if keep and place is new else Path(room, name)
                   for name, place in (("old", old), ("new", new))]
        for place, folder in zip((old, new), written, strict=True):
            if place in places:
                same.write(place, cases, folder, workers, told)
        different = list(same.differences(*written, cases))
    for one in different:
        console.print(f"{one.case}: {len(one.lines)} lines of difference", markup=False)
        for line in one.lines[:20]:
            console.print(f"    {line}", markup=False)
    console.print(f"{len(cases)} specs, {len(cases) * len(texts or same.COMMANDS)} texts: {len(different)} differ")
    if different:
        raise SystemExit(1)


@main.command("house", context_settings=HELP)
@click.argument("old", type=click.Path(path_type=Path, exists=True, file_okay=False), required=False)
def house_command(old: Path | None) -> None:
    """How large the compiler is and how it hangs together, beside another checkout OLD where one is given.

    An entry is a folder or a file of compiler/; an arrow says that one entry imports another; floors are the entries of
    the longest chain of arrows; a circle is a set of modules that import each other. Statements are those of compiler/
    and backends/ without docstrings. The runtime modules of back ends count among the lines and files alone.
    """
    try:
        tables = [dict(house.measure(place).rows()) for place in ((old, house.ROOT) if old else (house.ROOT,))]
    except (ValueError, SyntaxError) as why:
        raise click.ClickException(str(why)) from None
    shown = Table("", *(("OLD", "this checkout") if old else ("this checkout",)), box=None, pad_edge=False)
    for name in tables[0]:
        shown.add_row(name, *(table[name] for table in tables))
    wide_console().print(shown)


@main.command("signatures", context_settings=HELP)
@click.option("--count", type=click.IntRange(min=1), default=30, show_default=True, help="How many are drawn.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same functions.")
@click.option("--bodies", is_flag=True, help="Print what they do, too.")
def signatures_command(*, count: int, seed: int, bodies: bool) -> None:
    """Drawn signatures with their docstrings and without bodies, for a reader who is to say what each function does and
    what it mutates; with --bodies the same functions whole.
    """
    click.echo("\n\n".join(f"{n}. {one.text(bodies)}" for n, one in enumerate(drawn(house.ROOT, count, seed), 1)))


@main.command("repeat", context_settings={**HELP, "ignore_unknown_options": True})
@click.option("--runs", type=click.IntRange(min=2), default=6, show_default=True,
              help="Runs, each a process of its own.")
@click.argument("words", metavar="FILE [OPTIONS]...", nargs=-1, required=True, type=click.UNPROCESSED)
def repeat_command(*, runs: int, words: tuple[str, ...]) -> None:
    """How often runs of `einc bench FILE` agree: of all pairs, in how many one has its median in the other's interval.

    The interval claims a share of other runs; times of processes that differ, or of a machine that others use, do not
    keep to it, and the speeds beside the first way nearly do: `python -m bench repeat attention --backend torch`.
    """
    console = wide_console()
    try:
        with progress(console, runs) as (tell, step):
            def told(text: str) -> None:
                tell(text)
                step()

            found = repeat.agreement(repeat.run(words, runs, told))
    except repeat.FailedError as why:
        raise click.ClickException(str(why)) from None
    click.echo("\n".join(repeat.lines(found)) if found else "no way was timed in every run")


@main.command("paired", context_settings=HELP)
@click.argument("old", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--runs", type=click.IntRange(min=1), default=11, show_default=True,
              help="Pairs that are timed, after one that is not.")
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True)
def paired_command(old: Path, *, runs: int, words: tuple[str, ...]) -> None:
    """How many times as long `einc COMMAND...` takes with this code as with that of the checkout OLD: process time.

    Both run in this folder, in turn: `python -m bench paired ../old -- check specs/attention.ein`. Both must end well;
    where they print different texts, that is said, since then they may not do the same work.
    """
    console = wide_console()
    try:
        with progress(console, 2 * (runs + 1)) as (tell, step):
            def told(text: str) -> None:
                tell(text)
                step()

            found = paired.run(old, house.ROOT, words, runs, Path(), told)
    except paired.FailedError as why:
        raise click.ClickException(str(why)) from None
    low, middle, high = found.quartiles()
    console.print(f"new over old: {middle:.3f} times the process time, quartiles {low:.3f} and {high:.3f}; {runs} "
                  f"pairs")
    console.print(f"old: {report.duration(min(found.old))} at best, new: {report.duration(min(found.new))}")
    console.print("both print the same" if found.same_text else "they print DIFFERENT texts, maybe of different work")
    loads = ["unknown" if load is None else f"{load:.2f}" for load in found.loads]
    console.print(f"load of the machine: {loads[0]} before, {loads[1]} after")


def _sizes(given: str, usual: Mapping[str, int]) -> dict[str, int]:
    """The usual sizes, with those that are given in their place."""
    usual = dict(usual)
    for word in filter(None, given.split(",")):
        name, _, value = word.strip().partition("=")
        if name not in usual or not value.isdigit() or int(value) < 1:
            raise click.ClickException(f"`{word.strip()}` is no size: the sizes are {', '.join(usual)}, as in "
                                       f"N=2,d_model=64")
        usual[name] = int(value)
    return usual


def _rounded(slopes: dict[str, float | None]) -> dict[str, float | None]:
    return {name: None if slope is None else round(slope, 3) for name, slope in slopes.items()}


def tell_growth(console: Console, rows: list[Row]) -> None:
    grown = report.growth_table(rows)
    if grown is not None:
        console.print(grown)


def use_threads(threads: int | None) -> None:
    if threads is not None:
        torch.set_num_threads(threads)


def wide_console() -> Console:
    """The terminal, or a page wide enough for the tables."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=150)


def quiet_compilers() -> None:
    """One thread for the compilers of this process and its children, and no silent fall
    to eager code after a few sizes."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    dynamo: Any = torch._dynamo
    dynamo.config.recompile_limit = 256


@contextmanager
def cold_caches() -> Iterator[None]:
    """An empty cache for this run: first calls in this process compile, those in the processes for memory find it."""
    quiet_compilers()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        yield


@contextmanager
def progress(console: Console, total: int | None) -> Iterator[tuple[Tell, Any]]:
    """A bar on a terminal. It is drawn between measurements only: a thread that draws would disturb them."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)
    with bar:
        task = bar.add_task("starting", total=total)

        def tell(text: str) -> None:
            bar.update(task, description=text, refresh=True)

        yield tell, lambda: bar.advance(task)
