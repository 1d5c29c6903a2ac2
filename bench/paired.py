"""One command of einc in two checkouts, run in turn: how many times as long one of them takes.

The machine's speed changes over minutes, and meets both commands of a pair alike: what is told is the ratio of a pair,
and its median and quartiles over the pairs. Process time is user and system time of the command, start of the
interpreter included.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.checkouts import Ended, ended, environment
from bench.measure import load_average

Tell = Callable[[str], None]


class FailedError(Exception):
    """A command that does not end with status 0 in one of the checkouts."""


@dataclass(frozen=True)
class Paired:
    """The process times of two checkouts, one pair for each turn, and the load of the machine before and after."""

    old: tuple[float, ...]
    new: tuple[float, ...]
    same_text: bool  # both printed the same
    loads: tuple[float | None, float | None]

    @property
    def ratios(self) -> list[float]:
        """The time of the new checkout over that of the old one, of each pair."""
        return [new / old for old, new in zip(self.old, self.new, strict=True)]

    def quartiles(self) -> tuple[float, float, float]:
        """The lower quartile of the ratios, their median, and the upper quartile."""
        if len(self.ratios) == 1:
            return (self.ratios[0],) * 3
        low, middle, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, middle, high


def run(old: Path, new: Path, words: Sequence[str], runs: int, folder: Path, tell: Tell = lambda name: None) -> Paired:
    """Runs `einc WORDS` in FOLDER with the code of one checkout and of the other, RUNS times each, in turn.

    The first pair is not timed: it warms the disk, and shows whether both end well (else FailedError) and print the
    same. The checkout that is first changes from pair to pair.
    """
    loads = [load_average()]
    times: dict[str, list[float]] = {"old": [], "new": []}
    with environment(old) as before, environment(new) as after:
        places = {"old": (old, before), "new": (new, after)}

        def once(name: str, turn: int) -> Ended:
            place, variables = places[name]
            tell(f"{name}, {turn} of {runs}")
            found = ended(words, folder, variables)
            if found.status:
                said = found.stderr.strip()[-2000:]
                raise FailedError(f"einc {' '.join(words)} ends with status {found.status} in {place}:\n{said}")
            return found

        first = {name: once(name, 0) for name in places}
        for turn in range(1, runs + 1):
            for name in (("old", "new") if turn % 2 else ("new", "old")):
                times[name].append(once(name, turn).seconds)
    same = first["old"].stdout == first["new"].stdout
    return Paired(tuple(times["old"]), tuple(times["new"]), same, (loads[0], load_average()))
