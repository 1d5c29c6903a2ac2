"""How far tuning is: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Show = Callable[[str, int, int], None]  # a kernel, how many tiles of all kernels are done, how many there are


@contextmanager
def bar() -> Iterator[Show]:
    """A bar on the terminal of the error stream, taken away at the end."""
    console = Console(stderr=True)
    columns = (TextColumn("tuning {task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda name, done, count: progress.update(task, description=name, completed=done, total=count)
