"""`python -m bench.mutations`: every spec with one slip in it, before the checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.cli import HELP, wide_console
from bench.mutations.judge import Outcome, outcomes
from bench.mutations.mutators import MUTATORS
from bench.record import Row, Run, write
from einc.errors.report import Source

SPECS = Path(__file__).parent.parent.parent / "specs"
REACH = {"recall": 0.95, "one": 0.8, "span": 0.9}
SHARES = ("recall", "one", "span", "strict", "family", "offered", "restored")


def sources(names: Sequence[str] = ()) -> list[Source]:
    """The specs that come with einc, or those of the names."""
    files = [f for f in sorted(SPECS.rglob("*.ein")) if "\nsection " not in f.read_text("utf-8")]  # no side files
    found = [f for f in files if not names or f.relative_to(SPECS).with_suffix("").as_posix() in names]
    return [Source(f"specs/{f.relative_to(SPECS).as_posix()}", f.read_text(encoding="utf-8")) for f in found]


def figures(rows: Sequence[Outcome]) -> Row:
    """The figures of some mutants: counts, and shares of those that the referee says are wrong."""
    wrong = [o for o in rows if o.wrong]
    refused = [o for o in wrong if o.refused]

    def share(chosen: int, of: int) -> float | None:
        return round(chosen / of, 4) if of else None

    return {
        "mutants": len(rows), "wrong": len(wrong), "recall": share(len(refused), len(wrong)),
        "one": share(sum(len(o.codes) == 1 for o in refused), len(refused)),
        **{name: share(sum(getattr(o, field) for o in refused), len(refused)) for name, field in (
            ("span", "touched"), ("strict", "strict"), ("family", "family"), ("offered", "offered"),
            ("restored", "restored"))},
        "same": sum(o.kind == "same" for o in rows), "other": sum(o.kind == "other" for o in rows),
        "refused beside": sum(o.refused and not o.wrong for o in rows),
        "fixed": dict(sorted(Counter(o.fixed for o in rows if o.fixed).items())),
    }


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def table(rows: Sequence[Outcome]) -> Table:
    """A line for each mutator, and one for all."""
    shown = Table("mutator", "mutants", "wrong", *SHARES, "accepted: same", "other", "refused beside", box=None,
                  pad_edge=False)
    names = [m.__name__.replace("_", " ") for m in MUTATORS]
    for name in [*sorted({o.mutator for o in rows}, key=lambda x: names.index(x) if x in names else len(names)), "all"]:
        found = figures([o for o in rows if name in (o.mutator, "all")])
        shown.add_row(name, str(found["mutants"]), str(found["wrong"]), *(_percent(found[x]) for x in SHARES),
                      str(found["same"]),
                      str(found["other"]), str(found["refused beside"]))
    return shown


def by_rule(rows: Sequence[Outcome]) -> Table:
    """How many mutants break each rule of the language, and how many of these are refused."""
    shown = Table("rule", "broken by", "refused", box=None, pad_edge=False)
    broken = Counter(rule for o in rows for rule in o.rules)
    refused = Counter(rule for o in rows if o.refused for rule in o.rules)
    for rule, count in sorted(broken.items()):
        shown.add_row(rule, str(count), str(refused[rule]))
    return shown


@click.command(context_settings=HELP)
@click.option("--spec", "names", multiple=True, help="Which specs, by name; all without it.")
@click.option("--each", type=click.IntRange(min=1), default=4, show_default=True,
              help="So many mutants of every mutator for each spec, spread over its text.")
@click.option("--all", "everything", is_flag=True, help="Every mutant.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
@click.option("--misses", is_flag=True,
              help="Tell what was wrong and accepted, or told elsewhere than where it was changed.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("bench/results"),
              show_default=True,
              help="The folder of the JSON lines.")
def main(*, names: tuple[str, ...], each: int, everything: bool, workers: int, misses: bool, out: Path) -> None:
    """Mutate the specs, one slip at a time, and judge what the checker says.

    `wrong` are mutants that break a rule of the language's page, by a referee that reads the syntax tree itself; of
    these `recall` are refused. Of the refused: `one` with one error; `span` with the first error or one of its
    labels on the change (where it left nothing to point at: on what was there, see bench/mutations/mutators.py);
    `strict` with its own carets alone; `family` with a code for a rule that is broken; `offered` with an edit,
    `restored` where the first one gives the original back. `same` and `other` are accepted mutants that mean what
    the spec meant, or something else that is sound.
    """
    console = wide_console()
    here, rows = Run(), []
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    chosen = sources(names)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("specs", total=len(chosen))
        for found in outcomes(chosen, None if everything else each, workers):
            rows += found
            bar.update(task, advance=1, description=found[0].spec if found else "")
    console.print(table(rows))
    console.print(by_rule(rows))
    total = figures(rows)
    for name, least in REACH.items():
        verdict = "ok" if (total[name] or 0) >= least else "BELOW"
        console.print(f"{name}: {_percent(total[name])}, reach {_percent(least)}: {verdict}")
    console.print(f"certain fixes: {total['fixed']}")
    if misses:
        for o in rows:
            if o.wrong and not (o.refused and o.touched):
                told = f"{', '.join(o.codes)}: {o.message}" if o.codes else "accepted"
                console.print(f"{o.spec}: {o.mutator} {o.what}: {'; '.join(o.rules)}: {told}")
    if not names:
        kept = [here.row("mutations", case=name, **figures([o for o in rows if name in (o.mutator, "all")]))
                for name in [*dict.fromkeys(o.mutator for o in rows), "all"]]
        write(out / "mutations.jsonl", kept)
        console.print(f"wrote {out / 'mutations.jsonl'}")


if __name__ == "__main__":
    main(prog_name="python -m bench.mutations")
