"""What goes wrong in a command and is told in a line: what the user can mend, and what is a fault of einc."""

from __future__ import annotations

import errno
import os
import shlex
import traceback
from collections.abc import Sequence
from pathlib import Path

from einc.errors.report import EincError, FaultError, Help, Problem

STATUS_OF_FAULTS = 70  # EX_SOFTWARE of sysexits.h
TRACEBACK = "EINC_TRACEBACK"
ISSUES = "https://github.com/einc-lang/einc/issues"
_HERE = Path(__file__).parents[1]
_LONGEST = 200  # characters of what an error says


def problems(error: Exception) -> list[Problem] | None:
    """What is told of an error; None of one that is a fault of einc, or a broken pipe."""
    match error:
        case FaultError():
            return None
        case EincError():
            return list(error.problems)
        case Problem():
            return [error]
        case OSError() if error.errno != errno.EPIPE:
            said = f"{error.filename or 'input or output'}: {(error.strerror or str(error)).lower()}"
            folder = os.path.dirname(str(error.filename or ""))
            lacks = error.errno == errno.ENOENT and folder and not os.path.isdir(folder)
            ways = (Help(f"there is no folder {folder}: make it, or name another"),) if lacks else ()
            return [Problem(said, helps=ways or ((Help("name a file in it"),) if error.errno == errno.EISDIR else ()))]
        case RecursionError():
            return [Problem("an expression is nested too deeply to compile", helps=(
                Help("give its parts names, each by an equation of its own"),))]
        case MemoryError():
            return [Problem("there is not enough memory", helps=(Help("give smaller sizes: --sizes T=256"),))]
        case _:
            return None


def fault(error: Exception, words: Sequence[str]) -> Problem:
    """What is told of an error that nobody foresaw, in a command of these words: what it was, where in einc, and how to
    report it.
    """
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(_HERE)]
    place = "".join(f" at line {f.lineno} of {Path(f.filename).relative_to(_HERE).as_posix()}" for f in frames[-1:])
    said = error.problems[0].message if isinstance(error, FaultError) else " ".join(str(error).split())
    said = f"{said[:_LONGEST]}…" if len(said) > _LONGEST else said
    command, files = shlex.join(["einc", *words]), [word for word in words if os.path.isfile(word)]
    sent = ["this command", *files, "what `einc doctor` prints"]
    return Problem(
        f"a fault of einc, not of the text: {type(error).__name__}{place}{f': {said}' if said else ''}",
        notes=(f"the command was `{command}`",),
        helps=(Help(f"report it at {ISSUES} with {', '.join(sent[:-1])} and {sent[-1]}"),
               Help(f"`{TRACEBACK}=1 {command}` shows the traceback, which says more")))
