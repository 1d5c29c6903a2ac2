"""The head of a file that is kept: who wrote it of what, the command that writes it again, and hashes that tell what
has changed since.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from einc import __version__
from einc.driver.sources import shipped
from einc.ir.programs import TypedProgram
from einc.syntax.printing.show import show

_WHO = re.compile(r"# einc (\S+) wrote this: einc compile (.*)")
_WHAT = re.compile(r"# spec ([0-9a-f]{16}), text ([0-9a-f]{16}), for (.+)")
LICENCE = "# The licence of what is einc's in it is MIT; the equations are their author's."
LINES = 3


@dataclass(frozen=True)
class Head:
    """What the first lines of a kept file say: the version of einc, the words of `einc compile`, the hashes of what the
    spec means and of the text below the head, and what it is written for.
    """

    version: str
    words: tuple[str, ...]
    spec: str
    text: str
    target: str

    @property
    def lines(self) -> str:
        """The lines of comment at the head of a written file: the command that wrote it, the spec and its digest, and
        the licence."""
        words = f"# einc {self.version} wrote this: einc compile {shlex.join(self.words)}"
        return f"{words}\n# spec {self.spec}, text {self.text}, for {self.target}\n{LICENCE}\n"


def headed(text: str, program: TypedProgram, words: tuple[str, ...], target: str) -> str:
    """A text with its head, if the words of the command can stand in a line."""
    found = Head(__version__, words, meant(program), hashed(text), target)
    return f"{found.lines}{text}"


def read(text: str) -> tuple[Head, str] | None:
    """The head of a kept text, and what stands below it; None where there is no head."""
    lines = text.split("\n", LINES)
    who, what = (_WHO.fullmatch(lines[0]), _WHAT.fullmatch(lines[1])) if len(lines) > LINES else (None, None)
    if who is None or what is None:
        return None
    try:
        words = tuple(shlex.split(who[2]))
    except ValueError:
        return None
    return Head(who[1], words, what[1], what[2], what[3]), lines[LINES]


def meant(program: TypedProgram) -> str:
    """A hash of what a spec means and of what its plans ask for: comments, spaces and names of files do not count."""
    asked = [(plan.name, str(line.record)) for plan in program.plans for line in plan.lines]
    return hashed(f"{show(program)}{asked}")


def hashed(text: str) -> str:
    """The hash of a text, short enough for a line."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def portable(path: str, output: str | None) -> str:
    """A path as a command in the folder of the output would have it, so that no folder above the two counts; the name
    of a spec that comes with einc stays.
    """
    if path == "-" or (shipped(path) is not None and not Path(path).exists()):
        return path
    folder = Path(output).parent if output is not None else Path()
    return Path(os.path.relpath(path, folder)).as_posix()
