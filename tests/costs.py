"""What the tests of a function cost, and which of the dear ones always run.

`costs.txt` has, for each function whose tests are dear, the CPU seconds of one of its tests. A test of such a function
runs without `--whole` where its name's hash falls on one in so many that each test costs SECONDS on average; of a
function whose tests take less than KEPT each, one runs at least. So a cheap test always runs, a dear one rarely, and
which do changes with their names and the table alone. `pytest --update-costs` writes the functions that it ran into the
table; what the table does not name runs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from zlib import crc32

TABLE = Path(__file__).with_suffix(".txt")
SECONDS = 0.1
KEPT = 1.0


def function(name: str) -> str:
    """The function of a test, from the test's name: its parameters are left out."""
    return name.partition("[")[0]


def one_of(seconds: float) -> int:
    """Of how many tests that each take so many CPU seconds one always runs."""
    return max(round(seconds / SECONDS), 1)


def left_out(names: Iterable[str], costs: Mapping[str, float]) -> set[str]:
    """Of the tests of these names those that their cost leaves to `--whole`; COSTS are those of functions."""
    functions = defaultdict[str, list[str]](list)
    for name in names:
        functions[function(name)].append(name)
    out: set[str] = set()
    for key, tests in functions.items():
        hashes = {name: crc32(name.encode()) for name in tests}
        every = one_of(costs.get(key, 0))
        late = {name for name in tests if hashes[name] % every}
        if len(late) == len(tests) and costs[key] < KEPT:
            late.remove(min(tests, key=lambda name: hashes[name]))
        out |= late
    return out


def read(table: Path = TABLE) -> dict[str, float]:
    """The CPU seconds of a test of each dear function."""
    lines = table.read_text(encoding="utf-8").splitlines()
    return {name: float(seconds) for seconds, name in map(str.split, lines)}


def updated(old: Mapping[str, float], tests: Mapping[str, float], there: Iterable[str]) -> dict[str, float]:
    """The table after a run that measured these tests: the mean of each function that ran in place of what it had, and
    no function that is not among those that are there."""
    found = defaultdict[str, list[float]](list)
    for name, seconds in tests.items():
        found[function(name)].append(seconds)
    means = {name: sum(some) / len(some) for name, some in found.items()}
    kept = set(there) | set(means)
    return {name: seconds for name, seconds in {**old, **means}.items()
            if name in kept and (one_of(seconds) > 1 or name not in means)}


def defined() -> set[str]:
    """The test functions that stand in the files of the tests, by their names with the file, and the state machines."""
    found = re.compile(r"^(?:def (test_\w+)|(Test\w+) = )", re.M)
    return {f"tests/{file.name}::{name or f'{machine}::runTest'}" for file in TABLE.parent.glob("test_*.py")
            for name, machine in found.findall(file.read_text(encoding="utf-8"))}


def write(costs: Mapping[str, float], table: Path = TABLE) -> None:
    """Writes the table, by name."""
    lines = [f"{seconds:6.2f} {name}\n" for name, seconds in sorted(costs.items())]
    table.write_text("".join(lines), encoding="utf-8")
