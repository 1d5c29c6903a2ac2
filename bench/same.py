"""Whether two checkouts of the compiler write the same texts: every spec by every command
that prints what the compiler made.

A restructuring must not change one byte of an emitted file. Each checkout runs in processes of its own and writes one
text per spec and command; the texts are compared afterwards.
"""

from __future__ import annotations

import difflib
import json
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from bench.checkouts import environment

# The commands, by the name under which their text is kept. None of them reads anything but the spec.
COMMANDS = {
    "torch": ("compile", "--backend", "torch"),
    "triton": ("compile", "--backend", "triton"),
    "cpp": ("compile", "--backend", "cpp"),
    "torch-own": ("compile", "--own"),
    "torch-grad": ("compile", "--grad"),
    "triton-grad": ("compile", "--grad", "--backend", "triton"),
    "cpp-grad": ("compile", "--grad", "--backend", "cpp"),
    "torch-serve": ("compile", "--plan", "serve"),
    "triton-serve": ("compile", "--plan", "serve", "--backend", "triton"),
    "module": ("compile", "--module"),
    "module-grad": ("compile", "--module", "--grad"),
    "check": ("check",),
    "derive": ("derive",),
    "derive-grad": ("derive", "--grad"),
    "derive-tex": ("derive", "--tex"),
    "typed": ("show", "--stage", "typed"),
    "explicit": ("show", "--stage", "typed", "--explicit"),
    "normal": ("show", "--stage", "normal"),
    "plan": ("show", "--stage", "plan"),
    "plan-full": ("show", "--stage", "plan", "--full"),
    "plan-grad": ("show", "--stage", "plan", "--grad"),
    "plan-serve": ("show", "--stage", "plan", "--plan", "serve"),
    "tex": ("tex",),
    "fmt": ("fmt",),
    "prove": ("prove",),
}


@dataclass(frozen=True)
class Difference:
    """A text that two checkouts write differently, or that one of them alone writes."""

    case: str
    lines: tuple[str, ...]  # of a unified diff


def specs(checkout: Path) -> list[Path]:
    """The specs of a checkout, by their paths in it."""
    return sorted(file.relative_to(checkout) for file in (checkout / "specs").rglob("*.ein"))


def write(checkout: Path, cases: Mapping[str, Iterable[str]], folder: Path, workers: int = 1,
          tell: Callable[[str], None] = lambda name: None) -> None:
    """Writes into FOLDER the texts of a checkout; `cases` are its specs with the names of the commands.

    It takes as many processes as WORKERS. `tell` is given the name of each spec when it is done. RuntimeError where the
    checkout cannot be run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with environment(checkout) as variables:
        todo = list(cases)
        shares = [{spec: list(cases[spec]) for spec in todo[worker::workers]} for worker in range(workers)]
        started = [_start(checkout, share, folder, variables) for share in shares if share]
        for process in started:
            for line in process.stdout or ():
                tell(line.strip())
        for process in started:
            _, wrong = process.communicate()
            if process.returncode:
                raise RuntimeError(wrong)


def _start(checkout: Path, cases: Mapping[str, list[str]], folder: Path,
           variables: Mapping[str, str]) -> subprocess.Popen[str]:
    """A process that writes some texts of one checkout."""
    asked = json.dumps({"folder": str(folder.resolve()), "cases": cases})
    return subprocess.Popen([sys.executable, "-P", "-m", "bench.same", asked], cwd=checkout, env=variables, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def file_name(spec: str, text: str) -> str:
    """The name of the file that holds one text of a spec."""
    return f"{spec.replace('/', '.').removesuffix('.ein')}.{text}.txt"


def differences(old: Path, new: Path, cases: Mapping[str, Iterable[str]]) -> Iterator[Difference]:
    """The texts of these cases that differ between two folders, where a text that is absent is empty."""
    for name in (file_name(spec, text) for spec, texts in cases.items() for text in texts):
        before, after = ([*(folder / name).read_text(encoding="utf-8").splitlines()] if (folder / name).is_file()
                         else []
                         for folder in (old, new))
        if before != after:
            yield Difference(name.removesuffix(".txt"),
                             tuple(difflib.unified_diff(before, after, "old", "new", lineterm="", n=1)))


def _worker(asked: str) -> None:
    """Writes the texts of the checkout that is imported here as einc."""
    told = json.loads(asked)
    main = runpy.run_module("einc", run_name="einc.__main__")["main"]
    for spec, names in told["cases"].items():
        for name in names:
            done = CliRunner().invoke(main, [*COMMANDS[name], spec])
            crashed = done.exception is not None and not isinstance(done.exception, SystemExit)
            ended = type(done.exception).__name__ if crashed else f"status {done.exit_code}"
            text = f"{done.stdout}\n-- {ended}\n{done.stderr}"
            Path(told["folder"], file_name(spec, name)).write_text(text, encoding="utf-8")
        print(spec, flush=True)


if __name__ == "__main__":
    _worker(sys.argv[1])
