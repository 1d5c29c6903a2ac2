"""`python -m bench.fuzz`: any input to any command, and never a traceback, a problem without a place, or a hang.

An input is told by its number: `python -m bench.fuzz --only 4711` does it again and prints it.
"""

from __future__ import annotations

import json
import math
import os
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any
from unittest.mock import patch

import click
from click.testing import CliRunner
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bench.garble import ENDINGS, PAPERS, WAYS, garbled
from bench.record import Run, write

CHUNK = 50
PATIENCE = 20.0  # seconds of the processor's time for one command
PLACELESS = {"E0114", "E0804", "E0806"}  # what is no text has no place in one, and the section is chosen in the command


class HangError(BaseException):
    """A command takes too long. No `except Exception` of einc's may stop it."""


@dataclass(frozen=True)
class Finding:
    """What went wrong: in which input, with which command, and what was seen."""

    number: int
    way: str
    command: str
    kind: str
    what: str


@dataclass
class Tally:
    """What became of the inputs that were made one way."""

    inputs: int = 0
    clean: int = 0
    commands: int = 0
    slowest: float = 0.0
    told: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.inputs += other.inputs
        self.clean += other.clean
        self.commands += other.commands
        self.slowest = max(self.slowest, other.slowest)
        self.told.update(other.told)
        self.findings += other.findings


@cache
def einc() -> click.Group:
    """The command, as it is installed."""
    (entry,) = entry_points(group="console_scripts", name="einc")
    command: click.Group = entry.load()
    return command


def _alarm(number: int, frame: FrameType | None) -> None:
    raise HangError(f"more than {PATIENCE:g} s of the processor's time")


@dataclass
class Attempt:
    """One input in a file, and the commands that are tried on it."""

    number: int
    way: str
    file: Path
    random: Random
    guarded: bool
    tally: Tally = field(default_factory=lambda: Tally(inputs=1))

    def run(self, *words: str) -> tuple[int, str]:
        """A command's exit status and output; what it must not do is noted."""
        before = time.process_time()
        if self.guarded:
            signal.signal(signal.SIGVTALRM, _alarm)
            signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
        try:
            result = CliRunner(env={"EINC_TRACEBACK": "1"}).invoke(einc(), list(words))
            error, status, said = result.exception, result.exit_code, result.stdout
        except HangError as hang:
            error, status, said = None, 1, ""
            self.note(words, "hang", str(hang))
        finally:
            if self.guarded:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if error is not None and not isinstance(error, SystemExit):
            frames = traceback.extract_tb(error.__traceback__)
            place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
            self.note(words, "traceback", f"{type(error).__name__}: {str(error)[:120]} at {place}")
        elif status not in (0, 1):
            self.note(words, "status", f"exit status {status}: {result.output[:120]}")
        self.tally.commands += 1
        self.tally.slowest = max(self.tally.slowest, time.process_time() - before)
        return status, said

    def note(self, words: tuple[str, ...], kind: str, what: str) -> None:
        command = " ".join(word if word != str(self.file) else "FILE" for word in words)
        self.tally.findings.append(Finding(self.number, self.way, command, kind, what))

    def check(self) -> bool:
        """Whether the input is sound; every problem has a place in the user's text."""
        words = ("check", str(self.file), "--format", "json")
        status, said = self.run(*words)
        try:
            page = json.loads(said)
        except ValueError:
            if not self.tally.findings:
                self.note(words, "output", f"no JSON: {said[:80]!r}")
            return False
        for problem in page["problems"]:
            self.tally.told[problem["code"]] += 1
            span = problem["span"]
            if ((span is None and problem["code"] not in PLACELESS)
                or (span is not None and span["file"] == "prelude.ein")):
                self.note(words, "place", f"{problem['code']}: {problem['message'][:100]}")
        if (status == 0) != (page["errors"] == 0):
            self.note(words, "status", f"exit status {status} with {page['errors']} errors")
        return status == 0

    def paper(self) -> None:
        """A document is accounted for, whatever it holds; of some the page is made, or the program of one section."""
        chance = self.random.random()
        style = "json" if chance < 0.2 else "html" if chance < 0.3 else "text"
        status, said = self.run("doc", str(self.file), "--format", style)
        self.tally.clean = int(status == 0)
        if style == "json" and status == 0:
            self.tally.told.update(x["status"] for x in json.loads(said)["equations"])
        self.check()

    def more(self, sound: bool) -> None:
        """The other commands: all that read it as a text, some of those that take long."""
        file, chance = str(self.file), self.random.random()
        if not sound:
            if chance < 0.1:
                self.run("show", "--stage", "syntax", file)
            elif chance < 0.2:
                self.run(self.random.choice(_others()), file)
            elif chance < 0.25:
                self.run("check", "--fix", file)
                self.check()
            return
        self.run("show", "--stage", "typed", file)
        self.run("show", "--stage", "normal", file)
        if chance < 0.1:
            self.run("show", "--stage", "source", "--backend", self.random.choice(("torch", "triton")), file)
        elif chance < 0.2:
            self.run("show", "--stage", "plan", "--sizes", "T=7", file)
        elif chance < 0.3:
            self.run(self.random.choice(_others()), file)


@cache
def _others() -> tuple[str, ...]:
    """The commands that take a file and nothing else, as far as this einc has them."""
    group = einc()
    have = set(group.list_commands(click.Context(group)))
    return tuple(name for name in ("derive", "fmt", "tex", "prove") if name in have)


MENDED = 10


def attempt(seed: int, number: int, papers: bool = False, guarded: bool = False) -> Tally:
    """One input and what the commands make of it. `guarded`: a command that takes too long is stopped and noted."""
    way, data = garbled(seed, number, papers)
    # Trying edits reads a text up to sixty times, so it is done for one input in MENDED.
    tried = nullcontext() if number % MENDED == 0 else patch("einc.driver.pipeline.advise", lambda source, report: None)
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder, tried:
        file = Path(folder) / f"input{ENDINGS.get(way, '.ein')}"
        file.write_bytes(data)
        made = Attempt(number, way, file, Random(f"{seed}:{number}:commands"), guarded)
        if papers:
            made.paper()
        else:
            sound = made.check()
            made.tally.clean = int(sound)
            made.more(sound)
    return made.tally


def _chunk(seed: int, papers: bool, numbers: range) -> dict[str, Tally]:
    out: dict[str, Tally] = {}
    for number in numbers:
        out.setdefault(garbled(seed, number, papers)[0], Tally()).add(attempt(seed, number, papers, guarded=True))
    return out


def fuzz(seed: int, count: int, papers: bool, workers: int,
         until: float = math.inf) -> Iterator[tuple[range, dict[str, Tally]]]:
    """The tallies of one chunk of inputs after another, in the order in which they end.
    Past a time no new one begins."""
    chunks = iter([range(at, min(at + CHUNK, count)) for at in range(0, count, CHUNK)])
    pool = ProcessPoolExecutor(workers)
    running: dict[Future[dict[str, Tally]], range] = {}
    while True:
        for numbers in chunks if time.monotonic() < until else ():
            running[pool.submit(_chunk, seed, papers, numbers)] = numbers
            if len(running) >= 2 * workers:
                break
        if not running:
            break
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            numbers = running.pop(future)
            try:
                yield numbers, future.result()
            except BrokenProcessPool:
                died = Finding(numbers[0], "", "", "died",
                               f"a process died on one of the inputs {numbers[0]} to {numbers[-1]}")
                yield numbers, {"?": Tally(inputs=len(numbers), findings=[died])}
                pool = ProcessPoolExecutor(workers)
    pool.shutdown()


KINDS = ("traceback", "place", "hang", "status", "output", "died")


def _table(tallies: dict[str, Tally]) -> Table:
    table = Table(title="inputs by how they were made")
    for name in ("made by", "inputs", "sound", "commands", "slowest", *KINDS):
        table.add_column(name, justify="left" if name == "made by" else "right")
    total = Tally()
    for way in sorted(tallies, key=[*WAYS, *PAPERS, "?"].index):
        total.add(tallies[way])
    for way, tally in [*sorted(tallies.items()), ("all", total)]:
        found = Counter(x.kind for x in tally.findings)
        table.add_row(way, f"{tally.inputs:,}", f"{tally.clean:,}", f"{tally.commands:,}", f"{tally.slowest:.1f} s",
                      *(str(found[kind]) for kind in KINDS))
    return table


def _distinct(findings: list[Finding]) -> list[tuple[int, Finding]]:
    """Findings of one kind at one place are one, with how often it was seen."""
    seen: dict[tuple[str, str], list[Finding]] = {}
    for x in findings:
        seen.setdefault((x.kind, x.what.split(" at ")[-1]), []).append(x)
    return sorted(((len(xs), min(xs, key=lambda x: x.number)) for xs in seen.values()), key=lambda x: -x[0])


def _row(tallies: dict[str, Tally], seed: int, papers: bool, seconds: float) -> dict[str, Any]:
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    found = Counter(x.kind for x in total.findings)
    return {"case": f"{'papers' if papers else 'specs'}, seed {seed}", "seed": seed, "inputs": total.inputs,
            "sound": total.clean,
            "commands": total.commands, "kinds_of_problem": len(total.told), "slowest": round(total.slowest, 2),
            "seconds": round(seconds), **{kind: found[kind] for kind in KINDS}}


def _again(console: Console, seed: int, number: int, papers: bool) -> None:
    way, data = garbled(seed, number, papers)
    console.print(f"input {number}, {way}, {len(data)} bytes")
    console.print(data.decode("utf-8", errors="backslashreplace"), markup=False, highlight=False)
    for x in attempt(seed, number, papers, guarded=True).findings:
        console.print(f"{x.kind}: einc {x.command}: {x.what}", markup=False)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--inputs", default=100_000, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option("--seed", default=0, show_default=True, help="Which ones.")
@click.option("--papers", is_flag=True, help="Documents, for `einc doc`, and not specs.")
@click.option("--workers", default=os.cpu_count() or 1, show_default=True, type=click.IntRange(min=1),
              help="Processes.")
@click.option("--minutes", default=math.inf, help="No new input begins after that.", show_default=True)
@click.option("--only", type=click.IntRange(min=0), help="Do this one input again, and print it.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("bench/results"),
              show_default=True,
              help="The folder of the JSON lines.")
def main(*, inputs: int, seed: int, papers: bool, workers: int, minutes: float, only: int | None, out: Path) -> None:
    """Feed texts and bytes that are no specs, and some that are, to every command that
    reads one; status 1 if one of them fails."""
    console = Console() if Console().is_terminal else Console(width=140)
    if only is not None:
        _again(console, seed, only, papers)
        return
    here, tallies, start = Run(), {}, time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("inputs", total=inputs)
        for numbers, found in fuzz(seed, inputs, papers, workers, start + 60 * minutes):
            for way, tally in found.items():
                tallies.setdefault(way, Tally()).add(tally)
                for x in tally.findings:
                    console.print(f"{x.number}: {x.kind}: einc {x.command}: {x.what}", markup=False, highlight=False)
            so_far = sum(len(tally.findings) for tally in tallies.values())
            progress.update(task, advance=len(numbers), description=f"inputs, {so_far} findings")
    console.print(_table(tallies))
    findings = [x for tally in tallies.values() for x in tally.findings]
    for times, x in _distinct(findings):
        said = f"{times} times, first in input {x.number}: {x.kind}: einc {x.command}: {x.what}"
        console.print(said, markup=False, highlight=False)
    write(out / "fuzz.jsonl", [here.row("fuzz", **_row(tallies, seed, papers, time.monotonic() - start))])
    raise SystemExit(1 if findings else 0)


if __name__ == "__main__":
    main(prog_name="python -m bench.fuzz")
