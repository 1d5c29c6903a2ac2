"""What goes wrong in a command and is told in a line."""

from __future__ import annotations

import errno
import os

from einc.errors.report import EincError, Help, Problem


def problems(error: Exception) -> list[Problem] | None:
    """What is told of an error; None of one that is a fault of einc, or a broken pipe, which are raised."""
    match error:
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
