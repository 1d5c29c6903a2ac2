"""`python -m bench fuzz`: random programs, each by the emitted files and by the interpreter, and never another number.

A program is told by its number: `python -m bench fuzz --only 4711` does it again and prints it. The programs and the
judge are those of the tests, which a run finds beside the bench. `--apart` takes those of the other generator, which
has the values that torch gives beside each text, and gradients.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.record import ROOT, Run, read, write

CHUNK = 20
TRITON = 20  # one of so many programs is tried in Triton's interpreter too
KINDS = ("sound", "refused", "wrong", "crash", "died")


@dataclass(frozen=True)
class Verdict:
    """What became of a program: one of KINDS, and what was seen where it is no sound one."""

    number: int
    kind: str
    what: str = ""


def _tests(name: str) -> Any:
    """A module of the tests' own, which are no package."""
    folder = str(ROOT / "tests")
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(name)


def program(seed: int, number: int) -> Any:
    """The program of a number: its text, its sizes, and what its whole numbers may be."""
    return _tests("random_programs").numbered(seed, number)


def apart(seed: int, number: int) -> int:
    """The number under which the other generator has a program of a seed."""
    return seed * 10**7 + number


def judged(seed: int, number: int, other: bool = False) -> Verdict:
    """The emitted files of a program against the interpreter, of the `other` generator both against torch."""
    if other:
        return Verdict(number, *_tests("judged_apart").verdict(apart(seed, number), triton=number % TRITON == 0))
    with _tests("triton_modes").interpreted():
        kind, what = _tests("judged").verdict(program(seed, number), triton=number % TRITON == 0)
    return Verdict(number, kind, what)


def _chunk(seed: int, numbers: range, other: bool) -> list[Verdict]:
    torch.set_num_threads(1)
    return [judged(seed, number, other) for number in numbers]


def fuzz(seed: int, numbers: range, workers: int, other: bool = False) -> Iterator[list[Verdict]]:
    """The verdicts of one chunk of programs after another, in the order of their numbers."""
    chunks = iter([numbers[at:at + CHUNK] for at in range(0, len(numbers), CHUNK)])
    pool = ProcessPoolExecutor(workers)
    running: dict[Future[list[Verdict]], range] = {}
    done: dict[int, list[Verdict]] = {}
    following = numbers.start
    while True:
        for chunk in chunks if len(running) < 2 * workers else ():
            running[pool.submit(_chunk, seed, chunk, other)] = chunk
            if len(running) >= 2 * workers:
                break
        if not running:
            break
        for future in wait(running, return_when=FIRST_COMPLETED)[0]:
            chunk = running.pop(future)
            try:
                done[chunk.start] = future.result()
            except BrokenProcessPool:
                done[chunk.start] = [Verdict(chunk.start, "died",
                                             f"a process died on one of {chunk.start} to {chunk[-1]}")]
                pool = ProcessPoolExecutor(workers)
        while following in done:
            yield done.pop(following)
            following += CHUNK
    pool.shutdown()


def _case(seed: int, other: bool) -> str:
    """The name of a run in the record."""
    return f"apart, seed {seed}" if other else f"seed {seed}"


def resumed(file: Path, seed: int, other: bool = False) -> int:
    """The first number that no run of a seed has come to, by its record."""
    return max((row["upto"] for row in read(file) if row["case"] == _case(seed, other)), default=0)


def run(seed: int, begin: int | None, count: int, workers: int, file: Path, console: Console,
        other: bool = False) -> bool:
    """Judges programs, tells what is wrong as it is found, and keeps the record; whether all is well.

    With `begin` None a run goes on where the record of the seed ends, and what it found is added to that.
    """
    case = _case(seed, other)
    old = next((row for row in read(file) if row["case"] == case), {}) if begin is None else {}
    first = begin if begin is not None else resumed(file, seed, other)
    numbers, here, start = range(first, max(first, count)), Run(), time.monotonic()
    tally, findings = Counter({kind: old.get(kind, 0) for kind in KINDS}), list(old.get("findings", []))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("programs", total=len(numbers))
        upto = first
        for verdicts in fuzz(seed, numbers, workers, other):
            upto = min(upto + CHUNK, numbers.stop)
            tally.update(x.kind for x in verdicts)
            for x in (x for x in verdicts if x.kind not in ("sound", "refused")):
                findings.append([x.number, x.kind, x.what[:300]])
                console.print(f"{x.number}: {x.kind}: {x.what}", markup=False, highlight=False)
            progress.update(task, completed=upto - first, description=f"programs, {len(findings)} findings")
            seconds = round(old.get("seconds", 0) + time.monotonic() - start)
            write(file, [here.row("programs", case=case, begin=old.get("begin", first), upto=upto,
                                  **{kind: tally[kind] for kind in KINDS}, findings=findings, seconds=seconds)])
    console.print(", ".join(f"{tally[kind]:,} {kind}" for kind in KINDS))
    return not findings


def again(seed: int, number: int, console: Console, other: bool = False) -> bool:
    """One program once more, printed; whether all is well."""
    case = _tests("programs_apart").Apart(apart(seed, number)) if other else program(seed, number)
    console.print(f"program {number}, {dict(case.sizes)}\n{case.text}", markup=False, highlight=False)
    found = judged(seed, number, other)
    console.print(f"{found.kind} {found.what}", markup=False, highlight=False)
    return found.kind in ("sound", "refused")
