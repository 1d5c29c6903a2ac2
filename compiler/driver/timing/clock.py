"""Times of several ways, taken in turns, so that what else a machine does falls on all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Work = Callable[[], Any]


@dataclass(frozen=True)
class Times:
    """The seconds of several rounds."""

    seconds: tuple[float, ...]

    @property
    def middle(self) -> float:
        """Their median."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """How far the slowest and the fastest round are apart, as a part of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.middle if self.middle else 0.0


def in_turns(works: Mapping[str, Work], rounds: int, settle: Work, step: Callable[[str], None] = lambda _: None,
             now: Callable[[], float] = time.perf_counter) -> dict[str, Times]:
    """Runs each work once in every round; a first run before the rounds does not count, and nor does one that fails."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for name, work in works.items():
        work()
        settle()
        step(name)
    for _ in range(rounds):
        for name, work in works.items():
            start = now()
            work()
            settle()
            taken[name].append(now() - start)
            step(name)
    return {name: Times(tuple(some)) for name, some in taken.items()}
