"""Whether the tests catch deliberate bugs: mutants of the compiler, one bug each, and the first test that fails for it.

`bench.mutations` is another thing: it puts slips into *specs* and judges what the checker says of
them. Here the compiler's own text is changed, in a copy of the checkout, and the tests are
judged. The mutants stand in `mutants.toml`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_suffix(".toml")
ROOT = Path(__file__).parent.parent
_PARTS = ("compiler", "backends", "grammar", "specs", "tests", "bench")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "results", ".*", "*.egg-info")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.M)


class StaleError(ValueError):
    """A mutant whose old text does not stand exactly once in its file."""


@dataclass(frozen=True)
class Mutant:
    """A deliberate bug: OLD, which stands once in the file at PATH, becomes NEW; TESTS
    are the files that should see it."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def wing(self) -> str:
        """The folder of the file, without `compiler/` or `backends/`: `planning/fusing`, `torch`."""
        return "/".join(Path(self.path).parts[1:-1])

    def applied(self, text: str) -> str:
        """The text of the file with the bug. StaleError where the old text does not stand there exactly once."""
        count = text.count(self.old)
        if count != 1:
            raise StaleError(f"{self.path}: the old text of the mutant `{self.name}` stands {count} times, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a mutant: the first test that failed, empty where none did, and the wall time in seconds.

    `doubt` says why that failure proves nothing, where it does not. `whole_suite`: more
    was run than the files that are named.
    """

    mutant: Mutant
    caught_by: str
    doubt: str
    seconds: float
    whole_suite: bool


def mutants() -> dict[str, Mutant]:
    """Every mutant of the table by its name."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: Mutant(name, row["path"], row["old"], row["new"], tuple(row["tests"])) for name, row in table.items()}


def check(chosen: Iterable[Mutant]) -> None:
    """StaleError where a mutant does not apply to this checkout."""
    for one in chosen:
        one.applied((ROOT / one.path).read_text(encoding="utf-8"))


def tried(mutant: Mutant, checkout: Path, everything: bool, workers: int) -> Outcome:
    """Puts the bug into CHECKOUT, a copy, runs the tests up to the first that fails, and takes the bug out again.

    `everything`: the whole suite runs where the files that the mutant names pass. A test that fails without the bug too
    catches nothing. RuntimeError where pytest cannot run.
    """
    file = checkout / mutant.path
    text, begun = file.read_text(encoding="utf-8"), time.monotonic()
    changed, whole = mutant.applied(text), False
    try:
        file.write_text(changed, encoding="utf-8")
        failed = ""
        for test in mutant.tests:
            failed = failed or first_failure(checkout, [f"tests/{test}"], workers)
        if everything and not failed:
            whole, failed = True, first_failure(checkout, [], workers)
    finally:
        file.write_text(text, encoding="utf-8")
    seconds = time.monotonic() - begun
    broken = bool(failed) and bool(first_failure(checkout, [failed], 0))
    return Outcome(mutant, failed, f"{failed} fails without the bug too" if broken else "", seconds, whole)


def first_failure(checkout: Path, tests: Sequence[str], workers: int) -> str:
    """The first test that fails in a checkout, of these files or of all; empty where none
    does. RuntimeError where no test runs."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-n", str(workers), "-p", "no:cacheprovider", "-rfE", *tests]
    environment = os.environ | {"PYTHONPATH": str(checkout / "import")}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    if found := _FAILED.search(done.stdout):
        return found[1]
    raise RuntimeError(f"pytest ended with status {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def copied(room: Path) -> Path:
    """Copies this checkout into the folder ROOM; the copy's folder `import` holds it as the package einc."""
    checkout = room / "checkout"
    checkout.mkdir()
    for part in _PARTS:
        shutil.copytree(ROOT / part, checkout / part, ignore=_LEFT_OUT)
    for file in ROOT.iterdir():
        if file.is_file() and file.name != ".git":
            shutil.copy(file, checkout / file.name)
    view = checkout / "import" / "einc"
    view.mkdir(parents=True)
    for entry in (*(checkout / "compiler").iterdir(), *(checkout / name for name in ("backends", "grammar", "specs"))):
        (view / entry.name).symlink_to(entry)
    return checkout
