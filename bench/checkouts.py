"""Another checkout of einc beside this one: its package laid out by import names, and its commands run and measured."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("backends", "grammar", "specs")


@dataclass(frozen=True)
class Ended:
    """A command that has ended: its status, what it printed, and its user and system time in seconds."""

    status: int
    stdout: str
    stderr: str
    seconds: float


@contextmanager
def environment(checkout: Path) -> Iterator[dict[str, str]]:
    """The environment in which a process imports einc from this checkout, wherever that keeps its folders.

    A temporary folder has the package by its import names, as links; the bench is that of this checkout. Texts are as
    wide everywhere, and sets in the same order. The first process leaves its bytecode in that folder, as an installed
    package has it, whatever the caller's environment says of bytecode.
    """
    with tempfile.TemporaryDirectory() as room:
        view = Path(room, "einc")
        view.mkdir()
        for entry in (*(checkout / "compiler").iterdir(), *(checkout / name for name in ROOMS)):
            (view / entry.name).symlink_to(entry.resolve())
        bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(room, "bytecode"))}
        yield os.environ | bytecode | {"PYTHONPATH": os.pathsep.join((room, str(ROOT))), "PYTHONHASHSEED": "0",
                                       "COLUMNS": "160"}


def ended(words: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Ended:
    """Runs `einc WORDS` in a process of its own and in this folder, and waits for its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        command = [sys.executable, "-P", "-m", "einc", *words]
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=err)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Ended(child.returncode, texts[0], texts[1], used.ru_utime + used.ru_stime)
