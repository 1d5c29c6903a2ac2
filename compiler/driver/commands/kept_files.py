"""`einc check FILE.py`: whether a file that einc wrote is the one that it writes now. It is read, never imported."""

from __future__ import annotations

import contextlib
import difflib
import io
from dataclasses import dataclass
from pathlib import Path

import click

from einc import __version__
from einc.driver.commands import compile as compiling
from einc.driver.commands.common import read
from einc.driver.failures import problems
from einc.driver.kept import Head, hashed
from einc.driver.kept import read as head_of
from einc.errors.report import EincError, Report, failure

SHOWN = 12  # lines of a difference
NOT_AGAIN = {"-o", "--output", "--target", "--emit", "--tuned", "--data"}  # write elsewhere, or read a machine


@dataclass(frozen=True)
class Found:
    """What a comparison says: lines, and whether the file is the one that is written now."""

    same: bool
    lines: tuple[str, ...]


def checked(path: str) -> int:
    """Says whether a kept file is the one that its command writes now; the status of the command. Raises EincError."""
    report = Report()
    source = read(path, report)
    if report.errors:
        raise EincError(report.errors)
    found = head_of(source.text)
    if found is None:
        raise failure(f"{path} has no head that einc wrote", "`einc compile FILE -o OUT.py` writes files with one; a "
                      "Python function is read by `einc from FILE.py::function`")
    made = compared(path, *found)
    click.echo("\n".join(made.lines), err=not made.same)
    return 0 if made.same else 1


def compared(path: str, head: Head, text: str) -> Found:
    """A file held against what its command writes now."""
    command = f"einc compile {' '.join(head.words)}"
    edited = hashed(text) != head.text
    told = [f"{path} is not as einc wrote it: its text was changed by hand"] if edited else []
    if (refused := _not_again(head)) is not None:
        return Found(not edited, (*told, f"{path}: {refused}, so it is not written anew; "
                                         f"its text is {'changed' if edited else 'as it was written'}"))
    now, body = _anew(path, head)
    if now.text == hashed(text):
        older = f", by einc {head.version} as by {__version__}" if head.version != __version__ else ""
        return Found(True, (f"ok: {path} is what `{command}` writes{older}",))
    if now.spec != head.spec:
        told.append("the spec means something else now than when the file was written")
    elif head.version != __version__:
        told.append(f"it was written by einc {head.version}, and this is {__version__}")
    elif not edited:
        told.append("einc writes another text now, of the same spec")
    lines = list(difflib.unified_diff(text.splitlines(), body.splitlines(), path, "written now", n=0, lineterm=""))
    more = [f"… {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    return Found(False, (f"differs: {path}", *told, *lines[:SHOWN], *more,
                         f"write it anew: {command} -o {Path(path).name}"))


def _not_again(head: Head) -> str | None:
    """Why a file cannot be written anew, if so."""
    if head.words[:1] == ("-",):
        return "it was made of standard input"
    options = [word for word in head.words if word.partition("=")[0] in NOT_AGAIN]
    return f"it was written with {options[0]}" if options else None


def _anew(path: str, head: Head) -> tuple[Head, str]:
    """What the command of a head writes now. EincError where it cannot be done."""
    try:
        ctx = compiling.command.make_context("einc compile", list(head.words))
    except click.ClickException as error:
        raise failure(f"the command in the head of {path} is none: {error.format_message()}") from None
    written, said = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(written), contextlib.redirect_stderr(said), contextlib.chdir(
                Path(path).parent), ctx:  # where the paths of its words begin
            compiling.command.invoke(ctx)
    except click.exceptions.Exit:
        raise failure(f"what {path} was made of has errors now\n{said.getvalue().rstrip()}") from None
    except Exception as error:
        if (found := problems(error)) is None:
            raise
        raise EincError(found) from None
    made = head_of(written.getvalue())
    assert made is not None
    return made
