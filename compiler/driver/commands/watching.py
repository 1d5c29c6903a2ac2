"""`--watch`: a command that is done again whenever a file that it read is saved."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

import click

from einc.driver.commands.common import Chosen
from einc.driver.failures import problems
from einc.driver.files import Stamp, noting, stamp
from einc.errors.report import failure, render

F = TypeVar("F", bound=Callable[..., Any])
PAUSE = 0.3  # seconds between two looks at the files


def WATCH(command: F) -> F:
    """The option `--watch` of a command that is given its file as a `Chosen`, `file`."""

    @wraps(command)
    def called(*args: Any, file: Chosen, watch: bool, **others: Any) -> Any:
        if not watch:
            return command(*args, file=file, **others)
        if file.path == "-":
            raise failure("--watch looks at a file, and standard input is none", "give the file by its name")
        return watched(lambda: command(*args, file=file, **others))

    return cast(F, click.option("--watch", is_flag=True, help=(
        "Do it again whenever the file, or one that it uses, is saved; Ctrl-C ends it."))(called))


def watched(work: Callable[[], Any], pause: Callable[[], None] | None = None) -> None:
    """Does the work, and again when a file that it asked for has changed, until Ctrl-C. What goes wrong is told."""
    pause = pause or (lambda: time.sleep(PAUSE))
    try:
        while True:
            seen = _done(work)
            click.echo("watching; Ctrl-C ends it", err=True)
            while not (changed := changes(seen)):
                pause()
            click.clear()  # does nothing where there is no terminal
            click.echo(f"changed: {', '.join(map(os.path.basename, changed))}", err=True)
    except KeyboardInterrupt:
        return


def changes(seen: Mapping[str, Stamp]) -> list[str]:
    """The files that are no longer as they were."""
    return [path for path, before in seen.items() if stamp(path) != before]


def _done(work: Callable[[], Any]) -> dict[str, Stamp]:
    """Does the work once, whatever becomes of it; the files that it asked for, as they were before."""
    with noting() as seen:
        try:
            work()
        except click.exceptions.Exit:
            pass
        except Exception as error:
            if (found := problems(error)) is None:
                raise
            click.echo("\n".join(map(render, found)), err=True, nl=False)
    return seen
