"""Times of several ways, taken in turns, so that what else a machine does falls on all alike."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

Call = Callable[[], Any]
SAMPLE = 0.01  # a call shorter than this is repeated within one sample
CLAIMED = 0.95  # how often the interval of a run is to hold the median of another one


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, and an interval for the median of as many rounds of another run."""

    middle: float
    low: float
    high: float
    rate: float  # the share of other runs whose median lies in the interval, at least, where rounds are alike


def spread(rounds: Sequence[float]) -> Spread:
    """The median of some rounds, with the narrowest interval from their n-th least to their n-th greatest that holds
    the median of another run in `CLAIMED` of all cases; n is 1 where there are too few rounds for that.

    The rate supposes that the rounds of both runs are independent and from one distribution, and nothing of that.
    """
    ordered, count = sorted(rounds), len(rounds)
    rates = [1 - 2 * _below(count, place) for place in range(1, (count + 1) // 2 + 1)]
    place = max((n for n, rate in enumerate(rates) if rate >= CLAIMED), default=0)
    return Spread(statistics.median(ordered), ordered[place], ordered[count - 1 - place], max(0.0, rates[place]))


def _below(count: int, place: int) -> float:
    """How often the median of so many rounds is below the round at a place, from 1, of as many others in order.

    All orders of the rounds of both are equally likely; of two in the middle, the lower is taken.
    """
    ways = sum(math.comb(place - 1 + n, n) * math.comb(2 * count - place - n, count - n)
               for n in range((count + 1) // 2, count + 1))
    return ways / math.comb(2 * count, count)


def seconds(call: Call, repeat: int = 1) -> float:
    """Seconds of a call, as the mean of so many in a row."""
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat


def busy_seconds() -> float | None:
    """Processor seconds that the machine has spent so far, what its host took from it
    included; None where it does not say."""
    try:
        fields = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, _, _, hard, soft, steal = fields
    return (user + nice + system + hard + soft + steal) / os.sysconf("SC_CLK_TCK")


class Quiet:
    """Whether this process has the machine to itself. A second busy process does not cost a tenth: parallel sections
    wait for the thread that lost its core, and what has many short ones becomes many times slower."""

    def __init__(self, patience: float) -> None:
        """`patience` is how many seconds are waited for a quiet machine, in all."""
        self.patience = patience

    def disturbance(self, work: Call) -> float:
        """Do the work; the processor seconds that others took meanwhile, beyond a tenth
        of the time and what clocks err."""
        before, own, start = busy_seconds(), time.process_time(), time.perf_counter()
        work()
        after = busy_seconds()
        if before is None or after is None:
            return 0.0
        others = after - before - (time.process_time() - own)
        return max(0.0, others - 0.03 - 0.1 * (time.perf_counter() - start))

    def wait(self) -> None:
        """Until the machine is quiet, as long as the patience lasts. Changes `self.patience`."""
        while self.patience > 0 and self.disturbance(lambda: time.sleep(0.2)) > 0:
            self.patience -= 0.2


@dataclass(frozen=True)
class Series:
    """Seconds by name, a round per place, and how many of these rounds other processes disturbed."""

    times: dict[str, list[float]]
    disturbed: int


def interleaved(calls: Mapping[str, Call], rounds: int, patience: float = 0.0,
                tick: Callable[[str], None] = lambda name: None) -> Series:
    """Seconds of each call in each round. Every round runs all of them, each time starting with another one.

    A round that others disturbed is run again, up to twice as many rounds in all; the least disturbed ones count.
    """
    names = list(calls)
    repeats = {name: max(1, math.ceil(SAMPLE / max(seconds(call), 1e-7))) for name, call in calls.items()}
    quiet = Quiet(patience)
    found: list[tuple[float, dict[str, float]]] = []

    def once(order: list[str], into: dict[str, float]) -> None:
        for name in order:
            tick(name)
            into[name] = seconds(calls[name], repeats[name])

    while names and len(found) < 2 * rounds and sum(far == 0 for far, _ in found) < rounds:
        quiet.wait()
        first, taken = len(found) % len(names), dict[str, float]()
        found.append((quiet.disturbance(partial(once, names[first:] + names[:first], taken)), taken))
    best = sorted(found, key=lambda pair: pair[0])[:rounds]
    return Series({name: [taken[name] for _, taken in best] for name in names}, sum(far > 0 for far, _ in best))
