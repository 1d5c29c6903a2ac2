"""Whether runs of `einc bench` agree: how often the median of one lies in the interval that another one prints."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

Run = Mapping[str, Any]  # what `einc bench --json` prints


class FailedError(Exception):
    """A run of `einc bench` that printed no times."""


@dataclass(frozen=True)
class Agreement:
    """Of one way, the share of pairs of runs of which one has its median in the interval of the other, the share that
    each run claims at least, and how far the medians of all runs are apart, as a part of the least.
    """

    name: str
    times: float
    speeds: float
    claimed: float
    apart: float


def run(words: Sequence[str], runs: int, tell: Callable[[str], None] = lambda _: None) -> list[Run]:
    """`einc bench WORDS --json`, so many times, each in a process of its own."""
    found = list[Run]()
    for number in range(1, runs + 1):
        tell(f"run {number} of {runs}")
        done = subprocess.run([sys.executable, "-m", "einc", "bench", *words, "--json"], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise FailedError((done.stderr.strip() or done.stdout.strip()) + f"\nstatus {done.returncode}")
        page = json.loads(done.stdout)
        if not isinstance(page, dict):
            raise FailedError("--over and --plot time several sizes: leave them out")
        found.append(page)
    return found


def agreement(runs: Sequence[Run]) -> list[Agreement]:
    """How far the runs agree, of each way that all of them timed."""
    ways = [{way["name"]: way for way in one["ways"] if way["time"] is not None} for one in runs]
    return [_agreement(name, [one[name] for one in ways]) for name in ways[0] if all(name in one for one in ways)]


def _agreement(name: str, ways: Sequence[Mapping[str, Any]]) -> Agreement:
    """How far the runs of one way agree."""
    def share(kind: str) -> float:
        return statistics.mean(one[kind]["low"] <= other[kind]["middle"] <= one[kind]["high"]
                               for one, other in permutations(ways, 2))

    middles = [way["time"]["middle"] for way in ways]
    return Agreement(name, share("time"), share("speed"), min(way["time"]["rate"] for way in ways),
                     max(middles) / min(middles) - 1)


def lines(found: Sequence[Agreement]) -> list[str]:
    """The table, a line for each way."""
    head = f"{'way':8}  {'times':>6}  {'speeds':>6}  {'claimed':>7}  medians apart"
    return [head, *(f"{one.name:8}  {one.times:6.0%}  {one.speeds:6.0%}  {one.claimed:7.0%}  {one.apart:.1%}"
                    for one in found)]
