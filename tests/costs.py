"""What the tests of a function cost, and which of the dear ones always run.

`costs.txt` has, for each function whose tests are dear, the CPU seconds of one of its tests. A test of such a function
runs without `--whole` where its name's hash, as a share of the largest, is below SECONDS by that cost: so each test
costs SECONDS on average, and a lower number leaves tests out and draws no others. Of a function whose tests take less
than KEPT each, one runs at least. What caught a bug of `bench/mutants.toml` when `python -m bench mutants` ran last
(`catchers`) always runs. So a cheap test always runs, a dear one rarely, and which do changes with their names and
these two tables alone. `pytest --update-costs` writes the functions that it ran into the table; what the table does not
name runs. What several tests share is paid for by the first of them that runs, so each of them has it in its row.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from zlib import crc32

TABLE = Path(__file__).with_suffix(".txt")
MUTANTS = Path(__file__).parents[1] / "bench" / "results" / "mutants.jsonl"
DEAR = 0.15  # a function has a row from so many seconds
SECONDS = 0.045
KEPT = 0.5


def function(name: str) -> str:
    """The function of a test, from the test's name: its parameters are left out."""
    return name.partition("[")[0]


def left_out(names: Iterable[str], costs: Mapping[str, float], always: Container[str] = ()) -> set[str]:
    """Of the tests of these names those that their cost leaves to `--whole`; COSTS are those of functions, and
    the tests of ALWAYS run whatever they cost."""
    functions = defaultdict[str, list[str]](list)
    for name in names:
        functions[function(name)].append(name)
    out: set[str] = set()
    for key, tests in functions.items():
        hashes = {name: crc32(name.encode()) for name in tests}
        below = 2**32 * SECONDS / max(costs.get(key, 0), SECONDS)
        late = {name for name in tests if hashes[name] >= below and name not in always}
        if len(late) == len(tests) and costs[key] < KEPT:
            late.remove(min(tests, key=hashes.__getitem__))
        out |= late
    return out


def catchers(record: Path = MUTANTS) -> frozenset[str]:
    """The tests that caught a bug when the mutants ran last; none where there is no record."""
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    return frozenset(row["caught_by"] for row in map(json.loads, lines))


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
            if name in kept and (seconds >= DEAR or name not in means)}


def defined() -> set[str]:
    """The test functions that stand in the files of the tests, by their names with the file, and the state machines."""
    found = re.compile(r"^(?:def (test_\w+)|(Test\w+) = )", re.M)
    return {f"tests/{file.name}::{name or f'{machine}::runTest'}" for file in TABLE.parent.glob("test_*.py")
            for name, machine in found.findall(file.read_text(encoding="utf-8"))}


def write(costs: Mapping[str, float], table: Path = TABLE) -> None:
    """Writes the table, by name."""
    lines = [f"{seconds:6.2f} {name}\n" for name, seconds in sorted(costs.items())]
    table.write_text("".join(lines), encoding="utf-8")
