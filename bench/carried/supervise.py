"""What holds a run to its time: processes that fill caches, then one that measures,
started anew after the case that broke it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.carried.record import Row, read

STUCK = 110.0  # seconds without an answer: a case and what its rivals compile in it take less
START = 20.0      # seconds in which a process imports, and measures the ceilings
WARMING = 0.3     # of the budget, at most


class Child(Protocol):
    """A process."""

    def poll(self) -> int | None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True)
class Supervisor:
    """`start` makes a process of words of the command line; `now` and `wait` are the clock."""

    start: Callable[[list[str]], Child]
    now: Callable[[], float]
    wait: Callable[[float], None]
    file: Path
    budget: float

    def check(self, seconds: float) -> None:
        """Check every kernel, for so long at most; what was found is in the file."""
        child, end = self.start(["--part", "check"]), self.now() + seconds
        while child.poll() is None and self.now() < end:
            self.wait(0.2)
        self.stop(child)

    def run(self, names: Sequence[str], workers: int) -> list[str]:
        """Fill the caches, then measure; the names of the cases that were not ended."""
        begun = self.now()
        end = begun + self.budget
        if workers:
            self.warm(names, workers, begun + WARMING * self.budget)
            print(f"caches filled in {self.now() - begun:.0f} s", flush=True)
        return self.measure(names, end)

    def warm(self, names: Sequence[str], workers: int, end: float) -> None:
        words = ["--part", "warm", *_cases(names), "--budget", f"{max(1.0, end - self.now() - 5):.0f}"]
        children = [self.start([*words, "--share", f"{number}/{workers}"]) for number in range(workers)]
        while any(child.poll() is None for child in children) and self.now() < end:
            self.wait(0.2)
        for child in children:
            self.stop(child)

    def measure(self, names: Sequence[str], end: float) -> list[str]:
        """Processes one after the other until all cases were begun or the time is over."""
        before = len(read(self.file))
        left, barren = list(names), 0
        while left and self.now() < end and barren < 2:
            child = self.start(["--part", "measure", *_cases(left), "--budget", f"{end - self.now() - 3:.0f}"])
            self.watch(child, before, end)
            begun = _named(read(self.file)[before:], "gpu-begin")
            barren = 0 if begun & set(left) else barren + 1
            left = [name for name in left if name not in begun]
        ended = _named(read(self.file)[before:], "gpu-end")
        return [name for name in names if name not in ended]

    def watch(self, child: Child, before: int, end: float) -> None:
        """Until the process ends, or a case takes too long, or the time is over."""
        known, since = -1, self.now() + START
        while child.poll() is None:
            self.wait(0.5)
            count = sum(row["kind"] in ("gpu-begin", "gpu-end") for row in read(self.file)[before:])
            if count != known:
                known, since = count, max(since, self.now())
            if self.now() > end or self.now() - since > STUCK:
                print("  given up: " + ("the time is over" if self.now() > end else f"no answer for {STUCK:.0f} s"),
                      flush=True)
                self.stop(child)
                return

    def stop(self, child: Child) -> None:
        """End a process, and wait until it has left the device."""
        if child.poll() is None:
            child.kill()
        latest = self.now() + 5
        while child.poll() is None and self.now() < latest:
            self.wait(0.1)


def _cases(names: Sequence[str]) -> list[str]:
    return [word for name in names for word in ("--case", name)]


def _named(rows: Sequence[Row], kind: str) -> set[str]:
    return {row["name"] for row in rows if row["kind"] == kind}
