"""Whether the tests catch deliberate bugs: mutants of the compiler, one bug each, and the first test that fails for it.

`bench.mutations` is another thing: it puts slips into *specs* and judges what the checker says of
them. Here the compiler's own text is changed, in copies of the checkout, and the tests are
judged. The mutants stand in `mutants.toml`; `bench.failing` runs the tests of a copy.
"""

from __future__ import annotations

import compileall
import os
import shutil
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue

from bench.failing import failing

TABLE = Path(__file__).with_suffix(".toml")
ROOT = Path(__file__).parent.parent
_PARTS = ("compiler", "backends", "grammar", "specs", "tests", "bench")
RECORD = Path("bench/results/mutants.jsonl")  # what it says of which test caught a bug decides which tests run
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "results", ".*", "*.egg-info")


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

    `left_out`: it is one of those that run with `--whole` alone.
    """

    mutant: Mutant
    caught_by: str
    left_out: bool
    seconds: float


def mutants() -> dict[str, Mutant]:
    """Every mutant of the table by its name."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: Mutant(name, row["path"], row["old"], row["new"], tuple(row["tests"])) for name, row in table.items()}


def check(chosen: Iterable[Mutant]) -> None:
    """StaleError where a mutant does not apply to this checkout."""
    for one in chosen:
        one.applied((ROOT / one.path).read_text(encoding="utf-8"))


def tried(mutant: Mutant, checkout: Path, whole: bool, likely: str = "") -> Outcome:
    """Puts the bug into CHECKOUT, a copy, runs the tests up to the first that fails, and takes the bug out again.

    The file of the test LIKELY, and that test in it, run first. `whole`: where all pass, the tests that these files
    leave to `--whole` run too.
    """
    file, begun = checkout / mutant.path, time.monotonic()
    files = sorted((f"tests/{name}" for name in mutant.tests), key=lambda name: not likely.startswith(name))
    rounds = [[name, *more] for more in ([], ["--whole", "1/1"])[:1 + whole] for name in files]
    text, caught = file.read_text(encoding="utf-8"), ""
    try:
        file.write_text(mutant.applied(text), encoding="utf-8")
        for words in rounds:
            if found := failing(checkout, ["-x", *words], likely):
                caught = found[0]
                break
    finally:
        file.write_text(text, encoding="utf-8")
    return Outcome(mutant, caught, bool(caught) and "--whole" in words, time.monotonic() - begun)


def all_tried(chosen: Iterable[Mutant], checkouts: Sequence[Path], whole: bool,
              likely: Mapping[str, str]) -> Iterator[Outcome]:
    """The outcome of each mutant as it comes, one mutant at a time in each copy. LIKELY has the test that caught a
    mutant before, by the mutant's name."""
    free = SimpleQueue[Path]()
    for checkout in checkouts:
        free.put(checkout)

    def outcome(one: Mutant) -> Outcome:
        checkout = free.get()
        try:
            return tried(one, checkout, whole, likely.get(one.name, ""))
        finally:
            free.put(checkout)

    with ThreadPoolExecutor(len(checkouts)) as pool:
        for future in as_completed([pool.submit(outcome, one) for one in chosen]):
            yield future.result()


def unsound(failures: Iterable[str], checkout: Path) -> dict[str, str]:
    """Why those of the failures that prove nothing do not: no test failed, or it fails in a copy without a bug too."""
    named = {name: name.startswith("tests/") for name in failures if name}
    tests = sorted(name for name, test in named.items() if test)
    broken = failing(checkout, [*tests, "--whole"]) if tests else []
    return {name: "no test failed" for name, test in named.items() if not test} | dict.fromkeys(
        broken, "fails without the bug too")


def copied(room: Path, count: int) -> list[Path]:
    """Copies this checkout so many times into the folder ROOM; the folder `import` of each copy holds it as the package
    einc."""
    checkout, *others = copies = [room / f"checkout{n}" for n in range(count)]
    checkout.mkdir()
    for part in _PARTS:
        shutil.copytree(ROOT / part, checkout / part, ignore=_LEFT_OUT)
    (checkout / RECORD.parent).mkdir()
    shutil.copy(ROOT / RECORD, checkout / RECORD)
    for file in ROOT.iterdir():
        if file.is_file() and file.name != ".git":
            shutil.copy(file, checkout / file.name)
    view = checkout / "import" / "einc"
    view.mkdir(parents=True)
    for entry in (*(checkout / "compiler").iterdir(), *(checkout / name for name in ("backends", "grammar", "specs"))):
        (view / entry.name).symlink_to(os.path.relpath(entry, view))
    # A bug may come and go within the second to which a file's time is kept: compiled files go by what a text is
    compileall.compile_dir(checkout, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    for other in others:
        shutil.copytree(checkout, other, symlinks=True)
    return copies
